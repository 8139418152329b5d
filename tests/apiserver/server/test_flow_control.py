"""Each answer names the flow schema and priority level of its request, by their uids, as kube-apiserver 1.32 does.

recorded/flow_control.jsonl: flow schemas and levels that are stored beside those of a new server; requests as [method,
path, impersonated user or "", its groups, flow schema or null, priority level or null].
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from multidict import CIMultiDict

from tests.front_door import front_door
from tests.http import send
from tests.releases import NEWEST
from understudy import Server
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.storage.interface import NOTHING_STORED
from understudy.machinery.options import Query
from understudy.machinery.releases.version import V1_32, Version

FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{FLOW}/flowschemas", f"{FLOW}/prioritylevelconfigurations"
SCHEMA_UID, LEVEL_UID = "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"
RECORDED = [
    json.loads(line) for line in (Path(__file__).parent / "recorded/flow_control.jsonl").read_text().splitlines()
]


class FrontDoor:
    """A server without HTTP, where everybody may do everything."""

    def __init__(self) -> None:
        self.director = front_door()
        self.state = self.director.state

    async def send(
        self, method: str, path: str, body: Any = None, user: str = "", groups: list[str] | None = None
    ) -> Any:
        """Return the headers of the answer."""
        names = [("Impersonate-User", user)] if user else []
        names += [("Impersonate-Group", group) for group in groups or []]
        headers = CIMultiDict([("Accept", "application/json"), ("Content-Type", "application/json"), *names])
        path, _, query = path.partition("?")
        raw = b"" if body is None else orjson.dumps(body)
        answer = await self.director(Request(method, path, headers, raw, Query(query), V1_32))
        return dict(answer.headers)

    async def matched(self, *request: Any, **more: Any) -> tuple[str | None, str | None]:
        """Return the names of the flow schema and priority level of a request; None without the header."""
        headers = await self.send(*request, **more)
        listing = self.state.registry.listing
        objects = [*listing("flowcontrol.apiserver.k8s.io", "flowschemas")]
        objects += listing("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
        names = {None: None, "": "", **{o["metadata"]["uid"]: o["metadata"]["name"] for o in objects}}
        return names[headers.get(SCHEMA_UID)], names[headers.get(LEVEL_UID)]


def schema(name: str, precedence: int, level: str, user: str = "*") -> dict[str, Any]:
    """Return a flow schema for every request of a user to a resource."""
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    rules = [{"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [rule]}]
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": rules}
    return {"metadata": {"name": name}, "spec": spec}


async def new_door() -> FrontDoor:
    door = FrontDoor()
    await fill.fill(door.state, 0)
    return door


@pytest.mark.parametrize("recorded", RECORDED)
async def test_requests_are_classified_as_recorded(recorded: Any) -> None:
    """Rules, subjects and precedence decide, of stored flow schemas whose level exists."""
    door = await new_door()
    limited = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    for name in recorded["levels"]:
        await door.send("POST", LEVELS, {"metadata": {"name": name}, "spec": limited})
    for flow_schema in recorded["schemas"]:
        await door.send("POST", SCHEMAS, {"metadata": {"name": flow_schema["name"]}, "spec": flow_schema["spec"]})
    different = []
    for request in recorded["requests"]:
        method, path, user, groups, *expected = request
        if await door.matched(method, path, user=user, groups=groups) != tuple(expected):
            different.append(request)
    assert different == []


async def test_a_change_takes_effect() -> None:
    """Flow schemas and levels that are written or deleted count from the next request on."""
    door = await new_door()
    claims = ("GET", "/api/v1/pods")
    assert await door.matched(*claims, user="ann") == ("global-default", "global-default")
    await door.send("POST", SCHEMAS, schema("mine", 50, "late", "ann"))
    assert await door.matched(*claims, user="ann") == ("global-default", "global-default")
    level = {
        "metadata": {"name": "late"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    await door.send("POST", LEVELS, level)
    assert await door.matched(*claims, user="ann") == ("mine", "late")
    assert await door.matched(*claims, user="bob") == ("global-default", "global-default")
    await door.send("DELETE", f"{SCHEMAS}/mine")
    assert await door.matched(*claims, user="ann") == ("global-default", "global-default")
    await door.state.registry.store.rewind(NOTHING_STORED)
    await fill.fill(door.state, 0)
    assert await door.matched(*claims, user="ann") == ("global-default", "global-default")


async def test_a_mandatory_schema_that_is_missing_has_no_uid() -> None:
    """The server classifies as if `exempt` and `catch-all` were there; a level that is gone keeps its uid."""
    door = await new_door()
    masters: dict[str, Any] = {"user": "ann", "groups": ["system:masters"]}
    assert await door.matched("GET", "/api/v1/pods", **masters) == ("exempt", "exempt")
    await door.send("DELETE", f"{SCHEMAS}/exempt")
    assert await door.matched("GET", "/api/v1/pods", **masters) == ("", "exempt")
    uid = (await door.send("GET", "/api/v1/pods", **masters))[LEVEL_UID]
    await door.send("DELETE", f"{LEVELS}/exempt")
    headers = await door.send("GET", "/api/v1/pods", **masters)
    assert (headers[SCHEMA_UID], headers[LEVEL_UID]) == ("", uid)


def test_the_uids_are_headers_of_errors_and_watches_too(apiserver: Server) -> None:
    """Requests that last have no uids, but watches have them; nor has what was refused before it was classified."""
    for path in ("/api/v1/pods", "/healthz", "/nope", "/apis/nope/v1/x", "/api/v1/pods?watch=1&timeoutSeconds=1"):
        headers = send(apiserver, "GET", path).headers
        assert headers[SCHEMA_UID], path
        assert headers[LEVEL_UID], path
    for path in ("/api/v1/namespaces/default/pods/a/log", "/api/v1/pods?timeout=bad", "/api/v1/watch"):
        assert SCHEMA_UID not in send(apiserver, "GET", path).headers, path


# --- /metrics


SEATS = [json.loads(line) for line in (Path(__file__).parent / "recorded/seats.jsonl").read_text().splitlines()]
# The changes of priority levels after which recorded/seats.jsonl has the seats that kube-apiserver tells, of 1.32 and
# of 1.36: the same. The first line is that of a new server.
CHANGES: list[tuple[str, str, Any]] = [
    ("POST", "mine", {"nominalConcurrencyShares": 55, "lendablePercent": 33, "borrowingLimitPercent": 47}),
    ("POST", "zero", {"nominalConcurrencyShares": 0}),
    ("POST", "half", {"nominalConcurrencyShares": 5, "lendablePercent": 50, "borrowingLimitPercent": 0}),
    ("PATCH", "mine", {"spec": {"limited": {"nominalConcurrencyShares": 7}}}),
    ("PATCH", "exempt", {"spec": {"exempt": {"nominalConcurrencyShares": 10, "lendablePercent": 50}}}),
    ("DELETE", "mine", None),
    ("DELETE", "catch-all", None),
]


def told_seats(server: Server) -> dict[str, list[int]]:
    """Return the nominal, lower and upper limits of seats that /metrics tells, by priority level."""
    text = send(server, "GET", "/metrics").body.decode()
    seats: dict[str, list[int]] = {}
    for bound in ("nominal", "lower", "upper"):
        pattern = rf'^apiserver_flowcontrol_{bound}_limit_seats\{{priority_level="(.*)"\}} (\d+)$'
        for level, number in re.findall(pattern, text, re.MULTILINE):
            seats.setdefault(level, []).append(int(number))
    return seats


@pytest.mark.parametrize("release", [V1_32, NEWEST], ids=str)
def test_seats_follow_priority_levels(release: Version) -> None:
    """The seats of all priority levels change with each of them; one that is gone keeps those that it had."""
    with Server(emulated_version=str(release)) as server:
        assert told_seats(server) == SEATS[0]["seats"]
        for (method, name, body), recorded in zip(CHANGES, SEATS[1:], strict=True):
            if method == "POST":
                spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, **body}}
                answer = send(server, method, LEVELS, {"metadata": {"name": name}, "spec": spec})
            else:
                answer = send(server, method, f"{LEVELS}/{name}", body)
            assert answer.status < 300, answer.body
            assert told_seats(server) == recorded["seats"], recorded["step"]
        server.reset()
        assert told_seats(server) == SEATS[0]["seats"]


def test_dispatched_requests(apiserver: Server) -> None:
    """Requests are counted by their flow schema and priority level, also after these have changed."""

    def dispatched() -> dict[tuple[str, str], int]:
        text = send(apiserver, "GET", "/metrics").body.decode()
        labels = r'\{flow_schema="(.*)",priority_level="(.*)"\} (\d+)'
        found = re.findall(f"^apiserver_flowcontrol_dispatched_requests_total{labels}$", text, re.MULTILINE)
        return {(flow_schema, level): int(count) for flow_schema, level, count in found}

    ann = {"Impersonate-User": "ann"}
    before = dispatched()
    send(apiserver, "GET", "/api/v1/pods", headers=ann)
    apiserver.apply({"apiVersion": f"{FLOW[6:]}", "kind": "FlowSchema", **schema("mine", 50, "workload-low", "ann")})
    for _ in range(2):
        send(apiserver, "GET", "/api/v1/pods", headers=ann)
    after = dispatched()
    default = ("global-default", "global-default")
    assert after[default] - before.get(default, 0) == 1
    assert after["mine", "workload-low"] == 2
    assert after["exempt", "exempt"] > before["exempt", "exempt"]
