"""What comparisons of bad metadata in every kind have found; how often a rule reports is in `kinds/test_metadata`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from tests.releases import RELEASES
from understudy import Server

CORE, GOING = "/api/v1/namespaces/default", "/api/v1/namespaces/going"
PODS, LEASES = f"{CORE}/pods", "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
TERMINATING = "is forbidden: unable to create new content in namespace going because it is being terminated"
UNNAMED = "metadata.name: Required value: name or generateName is required"


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        running.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "there"}, "spec": CONTAINERS})
        running.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "there"}})
        send(running, "POST", "/api/v1/namespaces", {"metadata": {"name": "going", "finalizers": ["e.io/x"]}})
        send(running, "DELETE", GOING)
        yield running


def pod(metadata: Any, **spec: Any) -> Any:
    return {"metadata": metadata, "spec": {**CONTAINERS, **spec}}


MISSING = "no PriorityClass with name no was found"
OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
BINDING = {"target": {"name": "n"}}
REFUSED = [
    pytest.param(PODS, pod({}, priorityClassName="no"), 403, f'pods "Unknown" is forbidden: {MISSING}', id="unknown"),
    pytest.param(
        PODS,
        pod({"generateName": "g-"}, priorityClassName="no"),
        403,
        f'pods "g-" is forbidden: {MISSING}',
        id="a class is looked for before there is a name",
    ),
    pytest.param(
        PODS,
        pod({}, overhead={"cpu": "1"}),
        422,
        f'Pod "" is invalid: {UNNAMED}',
        id="overhead is judged after validation",
    ),
    pytest.param(
        PODS, pod({"name": "a"}, overhead={"cpu": "1"}), 403, f'pods "a" is forbidden: {OVERHEAD}', id="overhead"
    ),
    pytest.param(
        f"{GOING}/bindings", {"metadata": {}, **BINDING}, 403, f'bindings "Unknown" {TERMINATING}', id="binding"
    ),
    pytest.param(f"{GOING}/pods/x/binding", BINDING, 403, f'pods "x" {TERMINATING}', id="binding of a pod"),
    pytest.param(f"{GOING}/pods/x/eviction", {}, 403, f'pods "x" {TERMINATING}', id="eviction"),
    pytest.param(f"{GOING}/serviceaccounts/x/token", {}, 403, f'serviceaccounts "x" {TERMINATING}', id="token"),
    pytest.param("/api/v1/namespaces/no/pods/x/eviction", {}, 404, 'namespaces "no" not found', id="missing namespace"),
    pytest.param(
        f"{CORE}/bindings", {"metadata": {}, **BINDING}, 400, "Name parameter required.", id="binding of no pod"
    ),
]


@pytest.mark.parametrize(("path", "body", "status", "message"), REFUSED)
def test_names_of_what_is_refused(server: Server, path: str, body: Any, status: int, message: str) -> None:
    """Admission is asked in its turn, of subresources too, and calls things by the names that they have by then."""
    code, answer = exchange(server, "POST", path, body)
    assert (code, answer["message"]) == (status, message)


def test_overhead_of_a_pod_whose_name_is_generated(server: Server) -> None:
    """What validating admission refuses has its generated name."""
    answer = send(server, "POST", PODS, pod({"generateName": "g-"}, overhead={"cpu": "1"})).json()
    assert len(answer["details"]["name"]) == len("g-12345")


VERSIONS = [
    pytest.param(
        "there", "", 422, "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update", id="none"
    ),
    pytest.param(
        "there",
        "18446744073709551616",
        500,
        'strconv.ParseUint: parsing "18446744073709551616": value out of range',
        id="a number too large",
    ),
    pytest.param("there", "x", 500, 'strconv.ParseUint: parsing "x": invalid syntax', id="no number"),
    pytest.param("new", "x", 500, 'strconv.ParseUint: parsing "x": invalid syntax', id="no number, of a new object"),
]


@pytest.mark.parametrize(("name", "version", "status", "message"), VERSIONS)
def test_versions_that_are_put(server: Server, name: str, version: str, status: int, message: str) -> None:
    """A version has to be a number; an update of a lease has to have one."""
    body = {"metadata": {"name": name, "resourceVersion": version}}
    code, answer = exchange(server, "PUT", f"{LEASES}/{name}", body)
    assert (code, answer["message"].rpartition("is invalid: ")[2]) == (status, message)


@pytest.mark.parametrize(
    ("version", "status"), [("0", 201), ("1", 500), ("x", 201), ("18446744073709551616", 201), ("9" * 5000, 201)]
)
def test_versions_that_are_posted(server: Server, version: str, status: int) -> None:
    """A new object has none; what is no number is not looked at."""
    body = {"metadata": {"generateName": "posted-", "resourceVersion": version}}
    assert send(server, "POST", LEASES, body).status == status


def test_what_a_put_creates_keeps_its_deletion(server: Server) -> None:
    """Only POST takes out what clients do not say of new objects."""
    deleted = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    body = {"metadata": {"name": "created", "resourceVersion": "1", "selfLink": "/x", **deleted}}
    code, answer = exchange(server, "PUT", f"{LEASES}/created", body)
    assert (code, answer["metadata"].get("selfLink")) == (201, None)
    assert {name: answer["metadata"][name] for name in deleted} == deleted


def test_errors_of_events_name_the_core_kind(server: Server) -> None:
    """Events of both groups are the same objects."""
    code, answer = exchange(
        server, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", {"metadata": {"name": "e"}}
    )
    assert (code, answer["details"]["kind"], answer["details"].get("group")) == (422, "Event", None)


def test_a_job_whose_name_is_generated_keeps_its_labels_apart(server: Server) -> None:
    """The labels that the template is given are not the job's, as they are where the job has a name."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**CONTAINERS, "restartPolicy": "Never"}}
    for metadata, own in (({"generateName": "g-"}, True), ({"name": "named"}, False)):
        body = {"metadata": metadata, "spec": {"template": template}}
        answer = send(server, "POST", "/apis/batch/v1/namespaces/default/jobs", body).json()
        assert (answer["metadata"]["labels"] == {"a": "b"}) is own


def test_a_pods_status_does_not_delete_it(server: Server) -> None:
    """The status subresource leaves deletionTimestamp as it is."""
    body = {"metadata": {"name": "there", "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    code, answer = exchange(server, "PUT", f"{PODS}/there/status", body)
    assert (code, "deletionTimestamp" in answer["metadata"]) == (200, False)


SCALES = [
    pytest.param({"finalizers": ["plain"]}, 422, "metadata.finalizers[0]", id="metadata is validated"),
    pytest.param({"name": None}, 400, "name must be provided", id="without a name"),
    pytest.param({"namespace": "other"}, 400, "does not match the namespace", id="another namespace"),
    pytest.param({"uid": "made-up"}, 409, "UID in precondition: made-up", id="another uid"),
]


@pytest.mark.parametrize(("fields", "status", "message"), SCALES)
def test_the_metadata_of_a_scale(server: Server, fields: Any, status: int, message: str) -> None:
    """A Scale is checked like an object of its own."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": CONTAINERS}
    workload = {"metadata": {"name": "w"}, "spec": {"template": template}}
    send(server, "POST", f"{CORE}/replicationcontrollers", workload)
    scale = {"metadata": {"name": "w", **fields}, "spec": {"replicas": 2}}
    code, answer = exchange(server, "PUT", f"{CORE}/replicationcontrollers/w/scale", scale)
    assert (code, message in answer["message"]) == (status, True)
