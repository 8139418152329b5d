"""Objects that cannot be deleted, and what is said of jobs whose labels and selectors are the server's."""

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
def test_what_stays(server: Server, path: str) -> None:
    """Namespaces and priority classes of the system are not deleted, whatever the preconditions."""
    status, answer = exchange(server, "DELETE", path, {"preconditions": {"uid": "other"}})
    assert (status, answer["reason"], answer["details"]["name"]) == (403, "Forbidden", path.rpartition("/")[2])
    assert send(server, "GET", path).status == 200


def test_classes_go_with_their_collection(server: Server) -> None:
    """Only a deletion by name is refused."""
    query = "?fieldSelector=metadata.name=system-cluster-critical"
    assert send(server, "DELETE", CLASSES + query).status == 200
    assert send(server, "GET", f"{CLASSES}/system-cluster-critical").status == 404


@pytest.mark.parametrize("digits", ["101", "1" * 5000])
def test_more_than_all(server: Server, digits: str) -> None:
    """A share is not more than 100 %, however long it is written."""
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
def test_labels_of_new_jobs(server: Server, labels: dict[str, str] | None, fields: list[str]) -> None:
    """A job gets its template's labels once it is valid, but for those that it was sent with."""
    status, answer = exchange(server, "POST", JOBS, job(LONG, labels))
    assert status == 422
    assert list(dict.fromkeys(c["field"] for c in answer["details"]["causes"] if TOO_LONG in c["message"])) == fields
    status, made = exchange(server, "POST", f"{JOBS}?dryRun=All", job("j", labels))
    assert (status, made["metadata"]["labels"]) == (201, made["spec"]["template"]["metadata"]["labels"])


def test_job_without_its_selector(server: Server) -> None:
    """A selector that is gone is shown as null."""
    send(server, "POST", JOBS, job("kept"))
    status, answer = exchange(server, "PUT", f"{JOBS}/kept", job("kept"))
    said = [cause["message"] for cause in answer["details"]["causes"] if cause["field"] == "spec.selector"]
    assert (status, said[-1]) == (422, 'Invalid value: "null": field is immutable')
