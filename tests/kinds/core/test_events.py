"""Events: what is different since they are served in two groups and have no dependents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import send
from understudy import Server

CORE, NEW = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
EVENT = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R"}


def owners(obj: Any) -> list[str]:
    """Return the API versions of an object's managed fields."""
    return [entry["apiVersion"] for entry in obj["metadata"].get("managedFields", ())]


def test_owners_of_the_other_group_are_dropped(apiserver: Server) -> None:
    """A write in one group forgets who owns fields in the form of the other one, even a write that changes nothing."""
    assert owners(send(apiserver, "POST", CORE, EVENT).json()) == ["v1"]
    assert owners(send(apiserver, "PATCH", f"{NEW}/e", {"metadata": {"labels": {"a": "b"}}}).json()) == [
        "events.k8s.io/v1"
    ]
    assert owners(send(apiserver, "PATCH", f"{CORE}/e", {}).json()) == []


@pytest.mark.parametrize("query", ["orphanDependents=true", "propagationPolicy=Orphan", "propagationPolicy=Foreground"])
def test_events_are_deleted_at_once(apiserver: Server, query: str) -> None:
    """A deletion waits for no garbage collector, whatever it asks for."""
    send(apiserver, "POST", CORE, EVENT)
    assert send(apiserver, "DELETE", f"{CORE}/e?{query}").json()["status"] == "Success"
    assert send(apiserver, "GET", f"{CORE}/e").status == 404
