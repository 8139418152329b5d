"""Evictions: the disruption budgets and preconditions that allow or refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from understudy import Server

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
READY = [{"type": "Ready", "status": "True"}]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
        running.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec}
        )
        yield running


def run_pod(server: Server, conditions: Any) -> Any:
    pod = send(server, "GET", f"{PODS}/p").json()
    pod["status"] |= {"phase": "Running", "conditions": conditions}
    return send(server, "PUT", f"{PODS}/p/status", pod).json()


def evict(server: Server, name: str = "p", **options: Any) -> Any:
    """Evict the pod; return (status, object)."""
    metadata = {"name": name} if name else {}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
    status, answer = exchange(server, "POST", f"{PODS}/p/eviction", body)
    return status, answer


@pytest.mark.parametrize("name", ["", "other"])
def test_eviction_names_its_pod(server: Server, name: str) -> None:
    """An eviction whose name is not the pod's is refused."""
    status, answer = evict(server, name)
    assert (status, answer["message"]) == (400, "name in URL does not match name in Eviction object")


@pytest.mark.parametrize(
    ("version", "status"), [("policy/v1", 201), ("policy/v1beta1", 201), ("policy/v2", 400), ("v1", 400)]
)
def test_versions_of_a_body(server: Server, version: str, status: int) -> None:
    """The scheme knows policy/v1beta1, which no release here serves."""
    body = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": "p"}}
    assert send(server, "POST", f"{PODS}/p/eviction", body).status == status


@pytest.mark.parametrize("condition", [{"resourceVersion": "1"}, {"uid": "other"}])
def test_failed_precondition_keeps_the_pod(server: Server, condition: dict[str, str]) -> None:
    """An eviction with a precondition that the pod does not meet changes nothing."""
    pod = run_pod(server, READY)
    status, answer = evict(server, preconditions=condition)
    assert (status, answer["details"]) == (409, {"name": "p", "kind": "Pod"})
    assert send(server, "GET", f"{PODS}/p").json() == pod


def test_precondition_is_the_version_before_the_eviction(server: Server) -> None:
    """The precondition is compared with the pod's version from before the eviction is noted in its status."""
    pod = run_pod(server, READY)
    assert evict(server, preconditions={"resourceVersion": pod["metadata"]["resourceVersion"]})[0] == 201
    assert send(server, "GET", f"{PODS}/p").status == 404


@pytest.mark.parametrize(
    ("conditions", "policy", "healthy", "status"),
    [
        (READY, None, 1, 429),
        (READY, "AlwaysAllow", 1, 429),
        ([], None, 1, 201),
        ([], None, 0, 429),
        ([], "IfHealthyBudget", 0, 429),
        ([], "AlwaysAllow", 0, 201),
    ],
)
def test_budget_of_an_unready_pod(
    server: Server, conditions: Any, policy: str | None, healthy: int, status: int
) -> None:
    """A pod that is not ready may go if enough others are healthy, or if its budget always allows it."""
    run_pod(server, conditions)
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}, "unhealthyPodEvictionPolicy": policy}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    budget = send(server, "POST", BUDGETS, budget).json()
    counted = {"currentHealthy": healthy, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1}
    budget["status"] = {**counted, "observedGeneration": 1}
    send(server, "PUT", f"{BUDGETS}/b/status", budget)
    assert evict(server)[0] == status


def test_two_budgets_are_an_error(server: Server) -> None:
    """A pod that two budgets select cannot be evicted."""
    run_pod(server, READY)
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    for name in ("b", "c"):
        made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        send(server, "POST", BUDGETS, made)
    status, answer = evict(server)
    assert (status, answer.get("reason")) == (500, None)
    assert answer["message"].startswith("This pod has more than one PodDisruptionBudget")
