"""Resource quotas that are charged for what is stored, through the server."""

from __future__ import annotations

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def limited(apiserver: Server) -> Server:
    """Return a server whose default namespace may have two more configmaps and node ports."""
    hard = {"configmaps": "2", "services.nodeports": "2"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    apiserver.apply(quota)
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    assert (
        send(apiserver, "PATCH", "/api/v1/namespaces/default/resourcequotas/q/status", {"status": status}).status == 200
    )
    return apiserver


def used(server: Server) -> tuple[str, ...]:
    return tuple(server.get("resourcequotas", "q")["status"]["used"].values())


def named(name: str) -> Obj:
    return {"metadata": {"name": name}}


def test_new_objects_are_charged_until_nothing_is_left(limited: Server) -> None:
    """Each new object adds to the used amount until the quota is used up; a deletion gives nothing back."""
    assert [send(limited, "POST", MAPS, named(name)).status for name in "abc"] == [201, 201, 403]
    assert used(limited) == ("2", "0")
    limited.delete("configmaps", "a")
    assert used(limited) == ("2", "0")


def test_quota_status_is_owned_by_the_server(limited: Server) -> None:
    """The status that the server writes is owned by kube-apiserver."""
    send(limited, "POST", MAPS, named("a"))
    owners = {entry["manager"]: entry for entry in limited.get("resourcequotas", "q")["metadata"]["managedFields"]}
    assert owners["kube-apiserver"]["fieldsV1"] == {"f:status": {"f:used": {"f:configmaps": {}}}}
    assert owners["kube-apiserver"]["subresource"] == "status"


def test_dry_run_charges_nothing(limited: Server) -> None:
    """A dry run is refused by a used-up quota, but adds nothing to the used amount."""
    answers = [send(limited, "POST", MAPS + "?dryRun=All", named(name)).status for name in "abc"]
    assert (answers, used(limited)) == ([201] * 3, ("0", "0"))


def test_existing_name_is_charged(limited: Server) -> None:
    """A create whose name exists is charged, because quotas come before the store."""
    assert [send(limited, "POST", MAPS, named("a")).status for _ in range(2)] == [201, 409]
    assert used(limited) == ("2", "0")


@pytest.mark.parametrize(("ports", "status", "after"), [((1,), 200, "1"), ((1, 2), 200, "2"), ((1, 2, 3), 403, "1")])
def test_update_is_charged_for_the_increase(limited: Server, ports: tuple[int, ...], status: int, after: str) -> None:
    """An update of a service is charged for the node ports that it adds."""
    path = "/api/v1/namespaces/default/services"

    def spec(numbers: tuple[int, ...]) -> Obj:
        return {"type": "NodePort", "ports": [{"name": f"p{number}", "port": number} for number in numbers]}

    assert send(limited, "POST", path, {**named("s"), "spec": spec((1,))}).status == 201
    assert send(limited, "PATCH", f"{path}/s", {"spec": spec(ports)}).status == status
    assert used(limited) == ("0", after)
