"""Evictions: the disruption budgets and preconditions that allow or refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from tests.releases import RELEASES
from understudy import Server
from understudy.machinery.releases.version import V1_35, Version

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


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        ({"propagationPolicy": "Nix"}, 422, 'propagationPolicy: Unsupported value: "Nix"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422, "cannot be both set"),
        ({"preconditions": {"uid": ""}}, 409, "the UID in the precondition () does not match"),
    ],
)
def test_options_are_validated_after_the_note(server: Server, options: Any, status: int, text: str) -> None:
    """Options that a deletion refuses keep the pod, whose status has noted the eviction already."""
    run_pod(server, READY)
    refused, answer = evict(server, **options)
    assert refused == status
    assert text in answer["message"]
    conditions = send(server, "GET", f"{PODS}/p").json()["status"]["conditions"]
    assert "DisruptionTarget" in [condition["type"] for condition in conditions]


def test_invalid_dry_run_of_the_options(server: Server) -> None:
    """An unknown `dryRun` is a dry run first and is refused then: it changes nothing."""
    pod = run_pod(server, READY)
    status, answer = evict(server, dryRun=["x"])
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "dryRun")
    assert send(server, "GET", f"{PODS}/p").json() == pod


def test_orphan_dependents_of_an_eviction(server: Server) -> None:
    """An eviction with `orphanDependents` leaves the pod to the garbage collector."""
    assert evict(server, orphanDependents=True)[0] == 201
    assert send(server, "GET", f"{PODS}/p").json()["metadata"]["finalizers"] == ["orphan"]


@pytest.mark.parametrize(("content", "status"), [(["All"], 201), ([], 201), (["All", "All"], 500), (["x"], 500)])
def test_dry_run_in_query_and_options(server: Server, content: list[str], status: int) -> None:
    """`dryRun` of the query and of the options must be the same if both are there."""
    body = {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": content}}
    answer = send(server, "POST", f"{PODS}/p/eviction?dryRun=All", body)
    assert answer.status == status
    if status == 500:
        expected = f"Non-matching dry-run options in request and content: [All] and [{' '.join(content)}]"
        assert answer.json()["message"] == expected
    assert send(server, "GET", f"{PODS}/p").status == 200


def test_unsafe_deletion_is_no_eviction(server: Server) -> None:
    """An eviction must not ignore errors of the store, whatever else is wrong with its options."""
    status, answer = evict(server, ignoreStoreReadErrorWithClusterBreakingPotential=True, propagationPolicy="Nix")
    assert (status, answer["details"]["kind"]) == (422, "Eviction")
    assert answer["message"].endswith("can not be set for pod eviction, try after removing the option")


def test_empty_version_precondition_counts_for_nothing(server: Server) -> None:
    """An empty resourceVersion in the preconditions of an eviction counts for nothing."""
    run_pod(server, READY)
    assert evict(server, preconditions={"resourceVersion": ""})[0] == 201


@pytest.mark.parametrize(
    ("preconditions", "status"),
    [({"resourceVersion": "1"}, 201), ({"uid": "other"}, 429), ({"uid": "other", "resourceVersion": "1"}, 409)],
)
def test_preconditions_of_an_unready_pod_with_a_budget(server: Server, preconditions: Any, status: int) -> None:
    """For a pod that may go because it is not ready, the version looked at replaces the one of the preconditions.

    A conflict is then 429, unless the client had named a version.
    """
    run_pod(server, [])
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    made = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    send(server, "POST", BUDGETS, made)
    assert evict(server, preconditions=preconditions)[0] == status


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


def budget(server: Server, **status: Any) -> None:
    """Make a budget for the ready pod, as its controller has left it."""
    run_pod(server, READY)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    server.apply({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}, "spec": spec})
    numbers = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 1}
    body = {"status": {**numbers, "expectedPods": 3, **status}}
    assert send(server, "PATCH", f"{BUDGETS}/x/status", body).status == 200


def test_last_disruption_shows_in_the_condition(server: Server) -> None:
    """The server itself says that a budget allows no more, in the condition that its controller keeps."""
    budget(server, disruptionsAllowed=1)
    assert evict(server)[0] == 201
    (condition,) = send(server, "GET", f"{BUDGETS}/x").json()["status"]["conditions"]
    del condition["lastTransitionTime"]
    assert condition == {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": 1,
        "reason": "InsufficientPods",
        "message": "",
    }


def test_too_many_disrupted_pods(server: Server) -> None:
    """A budget whose controller does not follow lets no pod go."""
    pods = {f"p{number}": "2026-01-01T00:00:00Z" for number in range(2001)}
    budget(server, disruptionsAllowed=1, disruptedPods=pods)
    status, answer = evict(server)
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].endswith("too many evictions not confirmed by PDB controller")


REFUSAL = "does not allow evicting pods currently"


@pytest.mark.parametrize("release", RELEASES, ids=str)
@pytest.mark.parametrize(
    ("reason", "message", "status", "text"),
    [
        ("SyncFailed", "no", {"currentHealthy": 1}, f"{REFUSAL} because it failed sync: no"),
        ("Other", "no", {"currentHealthy": 1}, "needs 1 healthy pods and has 1 currently"),
        ("Other", "no", {}, f"{REFUSAL} (Other): no"),
        ("Other", "", {}, REFUSAL),
    ],
)
def test_reason_of_a_refused_eviction(
    release: Version, reason: str, message: str, status: dict[str, int], text: str
) -> None:
    """Since 1.35 the numbers are only named where they are the reason."""
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}
    with Server(emulated_version=str(release)) as server:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec})
        budget(server, conditions=[{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}], **status)
        code, answer = evict(server)
        expected = (
            text if release >= V1_35 else f"needs 1 healthy pods and has {status.get('currentHealthy', 3)} currently"
        )
        assert (code, answer["details"]["causes"][0]["message"]) == (429, f"The disruption budget x {expected}")
