"""Objects that cannot be deleted, limits of budgets, and labels and selectors of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from tests.releases import RELEASES
from understudy import Server

NAMESPACES, CLASSES = "/api/v1/namespaces", "/apis/scheduling.k8s.io/v1/priorityclasses"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
LONG = "j" * 63 + "x"
TOO_LONG = "must be no more than 63 characters"


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        yield running


@pytest.mark.parametrize(
    "path", [f"{NAMESPACES}/default", f"{NAMESPACES}/kube-public", f"{CLASSES}/system-node-critical"]
)
def test_system_objects_cannot_be_deleted(server: Server, path: str) -> None:
    """Namespaces and priority classes of the system cannot be deleted, whatever the preconditions."""
    status, answer = exchange(server, "DELETE", path, {"preconditions": {"uid": "other"}})
    assert (status, answer["reason"], answer["details"]["name"]) == (403, "Forbidden", path.rpartition("/")[2])
    assert send(server, "GET", path).status == 200


def test_system_priority_class_goes_with_its_collection(server: Server) -> None:
    """A priority class of the system is protected from deletion by name only."""
    query = "?fieldSelector=metadata.name=system-cluster-critical"
    assert send(server, "DELETE", CLASSES + query).status == 200
    assert send(server, "GET", f"{CLASSES}/system-cluster-critical").status == 404


@pytest.mark.parametrize("digits", ["101", "1" * 5000])
def test_percentage_above_100_is_refused(server: Server, digits: str) -> None:
    """A percentage must not exceed 100 %, with any number of digits."""
    budget = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": f"{digits}%"}}
    status, answer = exchange(server, "POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert (status, answer["message"].rpartition(": ")[2]) == (422, "must not be greater than 100%")


def job(name: str, labels: dict[str, str] | None = None) -> Any:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": labels}, "spec": spec} if labels else {"spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("labels", "fields"),
    [(None, ["spec.template.labels"]), ({"a": "b"}, ["metadata.labels", "spec.template.labels"])],
)
def test_new_job_takes_the_labels_of_its_template(
    server: Server, labels: dict[str, str] | None, fields: list[str]
) -> None:
    """A valid job without labels gets the labels of its template."""
    status, answer = exchange(server, "POST", JOBS, job(LONG, labels))
    assert status == 422
    assert list(dict.fromkeys(c["field"] for c in answer["details"]["causes"] if TOO_LONG in c["message"])) == fields
    status, made = exchange(server, "POST", f"{JOBS}?dryRun=All", job("j", labels))
    assert (status, made["metadata"]["labels"]) == (201, made["spec"]["template"]["metadata"]["labels"])


def test_removed_selector_is_shown_as_null(server: Server) -> None:
    """The error of a job whose selector was removed shows null."""
    send(server, "POST", JOBS, job("kept"))
    status, answer = exchange(server, "PUT", f"{JOBS}/kept", job("kept"))
    messages = [cause["message"] for cause in answer["details"]["causes"] if cause["field"] == "spec.selector"]
    assert (status, messages[-1]) == (422, 'Invalid value: "null": field is immutable')
