"""Flow schemas and priority levels that every server holds come back, as kube-apiserver makes them every minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.client.loopback import Client
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.bootstrap import flow_control
from understudy.machinery.types import Obj

BASE = "/apis/flowcontrol.apiserver.k8s.io/v1"
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"


class Rounds:
    """Counts how often one server has looked at all its flow schemas and priority levels."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self._count = 0
        self._ensure = flow_control._ensure

    async def ensure(self, client: Client, state: ServerState, bootstrap: list[Obj]) -> None:
        """Do what the server does, and count it."""
        await self._ensure(client, state, bootstrap)
        if self.server is not None and state is self.server.state:
            self._count += 1

    def wait(self) -> None:
        """Wait until a round that has begun after this call is over."""
        before = self._count
        wait_until(lambda: self._count > before + 1)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    rounds = Rounds()
    monkeypatch.setattr(flow_control, "_ensure", rounds.ensure)
    return rounds


@pytest.fixture
def ensuring(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start a server whose minute is short."""
    monkeypatch.setattr(flow_control, "INTERVAL", 0.05)
    with Server() as server:
        rounds.server = server
        yield server


def stored(server: Server, path: str) -> Obj:
    body: Obj = send(server, "GET", f"{BASE}/{path}").json()
    return body


def lasting(obj: Obj) -> Obj:
    """Return the fields that are the same when an object is made again."""
    metadata = {key: obj["metadata"][key] for key in ("name", "generation", "annotations")}
    managers = [(entry["manager"], entry["fieldsV1"]) for entry in obj["metadata"]["managedFields"]]
    return {**obj, "metadata": metadata, "status": None, "managers": sorted(managers, key=str)}


@pytest.mark.parametrize(
    "path",
    ["flowschemas/probes", "flowschemas/catch-all", "prioritylevelconfigurations/system"],
)
def test_deleted_object_is_made_again(ensuring: Server, path: str) -> None:
    """Suggested objects come back like mandatory ones, as they were at first but for uid and times."""
    before = stored(ensuring, path)
    send(ensuring, "DELETE", f"{BASE}/{path}")
    conditions = len(before["status"].get("conditions", ()))
    again = wait_until(
        lambda: stored(ensuring, path),
        lambda obj: "uid" in obj["metadata"] and len(obj["status"].get("conditions", ())) == conditions,
    )
    assert again["metadata"]["uid"] != before["metadata"]["uid"]
    assert lasting(again) == lasting(before)


@pytest.mark.parametrize(
    ("path", "annotation", "spec", "expected"),
    [
        ("flowschemas/system-nodes", "true", {"matchingPrecedence": 501}, ("true", 500)),
        ("flowschemas/system-nodes", "F", {"matchingPrecedence": 501}, ("F", 501)),
        ("flowschemas/system-nodes", None, {"matchingPrecedence": 501}, ("false", 501)),
        ("flowschemas/system-nodes", "maybe", {}, ("true", 500)),
        ("flowschemas/catch-all", "false", {}, ("true", 10000)),
    ],
)
def test_changed_object_is_set_back(
    ensuring: Server, rounds: Rounds, path: str, annotation: str | None, spec: Obj, expected: tuple[str, int]
) -> None:
    """Mandatory specs are always set back, suggested ones as the annotation or the generation says."""
    changes = {"spec": spec, "metadata": {"annotations": {AUTO_UPDATE: annotation}}}
    assert send(ensuring, "PATCH", f"{BASE}/{path}", changes).status == 200
    rounds.wait()
    obj = stored(ensuring, path)
    assert (obj["metadata"]["annotations"][AUTO_UPDATE], obj["spec"]["matchingPrecedence"]) == expected


def test_shares_of_exempt_level_stay(ensuring: Server, rounds: Rounds) -> None:
    """Users may set the shares of the level `exempt`, the only part of a mandatory object that is theirs."""
    path = "prioritylevelconfigurations/exempt"
    send(ensuring, "PATCH", f"{BASE}/{path}", {"spec": {"exempt": {"nominalConcurrencyShares": 7}}})
    rounds.wait()
    assert stored(ensuring, path)["spec"]["exempt"]["nominalConcurrencyShares"] == 7


def test_unknown_object_with_annotation_is_deleted(ensuring: Server, rounds: Rounds) -> None:
    """An object that says that it belongs to the server, and does not, is deleted; others stay."""
    spec = {"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": "system"}}
    for name, value in (("gone", "true"), ("mine", "false")):
        metadata = {"name": name, "annotations": {AUTO_UPDATE: value}}
        head = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema"}
        assert send(ensuring, "POST", f"{BASE}/flowschemas", {**head, "metadata": metadata, "spec": spec}).status == 201
    rounds.wait()
    assert stored(ensuring, "flowschemas/gone")["kind"] == "Status"
    assert stored(ensuring, "flowschemas/mine")["kind"] == "FlowSchema"
