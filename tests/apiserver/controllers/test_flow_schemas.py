"""Conditions of flow schemas about which others disagree are written six times in a minute, as by kube-apiserver."""

from __future__ import annotations

import pytest

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.controllers.flow_schemas import MANAGER
from understudy.machinery.types import Obj

SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


def condition(server: Server, name: str) -> Obj:
    """Return the condition of a flow schema."""
    conditions = send(server, "GET", f"{SCHEMAS}/{name}").json()["status"].get("conditions")
    return conditions[0] if conditions else {"status": "missing"}


def disagree(server: Server, name: str) -> None:
    """Say of a flow schema that its priority level is missing."""
    body = {"status": {"conditions": [{"type": "Dangling", "status": "True"}]}}
    answer = send(server, "PATCH", f"{SCHEMAS}/{name}/status", body, "application/strategic-merge-patch+json")
    assert answer.status == 200, answer.body


def until_found(server: Server, name: str) -> None:
    """Wait until a flow schema's condition is right."""
    wait_until(lambda: condition(server, name)["status"], lambda status: status == "False")


@pytest.mark.parametrize("first", ["fought", "probes"])
def test_limit_of_writes(first: str) -> None:
    """A flow schema is written six times in a minute, then after pauses of 30 to 75 seconds; others go on meanwhile.

    The first of the six is the one with which the flow schema gets its condition, also of those that a server makes.
    """
    with Server() as server:
        for name in first, "other":
            spec = {"priorityLevelConfiguration": {"name": "exempt"}}
            answer = send(server, "POST", SCHEMAS, {"metadata": {"name": name}, "spec": spec})
            assert answer.status == (409 if name == "probes" else 201)
            until_found(server, name)
        for _ in range(5):
            disagree(server, first)
            until_found(server, first)
        disagree(server, first)
        disagree(server, "other")  # which the server looks at after the first, or with it
        until_found(server, "other")
        assert condition(server, first)["status"] == "True"
        server.clock.advance(seconds=29)
        disagree(server, "other")
        until_found(server, "other")
        assert condition(server, first)["status"] == "True"
        server.clock.advance(seconds=110)  # a pause that ends within the minute is followed by another
        until_found(server, first)
        managers = send(server, "GET", f"{SCHEMAS}/{first}").json()["metadata"]["managedFields"]
        assert MANAGER in [each["manager"] for each in managers]
