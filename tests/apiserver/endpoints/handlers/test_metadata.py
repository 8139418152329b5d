"""Metadata of objects that are written: names in errors, resource versions, and objects with peculiar metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from understudy import Server
from understudy.machinery.releases.version import V1_31, V1_32

CORE, GOING = "/api/v1/namespaces/default", "/api/v1/namespaces/going"
PODS, LEASES = f"{CORE}/pods", "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
TERMINATING = "is forbidden: unable to create new content in namespace going because it is being terminated"
UNNAMED = "metadata.name: Required value: name or generateName is required"


@pytest.fixture(scope="module", params=[V1_31, V1_32], ids=str)
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
        PODS,
        pod({"name": "a"}, runtimeClassName="../x"),
        500,
        """invalid resource name "../x": [may not contain '/']""",
        id="name that no client can ask for",
    ),
    pytest.param(PODS, pod({"name": "a"}, runtimeClassName=""), 500, "resource name may not be empty", id="no name"),
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
def test_refusals_use_the_name_known_so_far(server: Server, path: str, body: Any, status: int, message: str) -> None:
    """Admission, of subresources too, refuses an object under the name that it has at that point."""
    code, answer = exchange(server, "POST", path, body)
    assert (code, answer["message"]) == (status, message)


def test_validating_admission_knows_the_generated_name(server: Server) -> None:
    """A refusal of validating admission holds the generated name."""
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
def test_put_needs_a_numeric_resource_version(
    server: Server, name: str, version: str, status: int, message: str
) -> None:
    """A PUT is refused if its resourceVersion is no number; of a lease, also if it has none."""
    body = {"metadata": {"name": name, "resourceVersion": version}}
    code, answer = exchange(server, "PUT", f"{LEASES}/{name}", body)
    assert (code, answer["message"].rpartition("is invalid: ")[2]) == (status, message)


@pytest.mark.parametrize(
    ("version", "status"), [("0", 201), ("1", 500), ("x", 201), ("18446744073709551616", 201), ("9" * 5000, 201)]
)
def test_post_ignores_a_resource_version_that_is_no_number(server: Server, version: str, status: int) -> None:
    """A new object must not have a resourceVersion; text that is not a number is ignored."""
    body = {"metadata": {"generateName": "posted-", "resourceVersion": version}}
    assert send(server, "POST", LEASES, body).status == status


def test_create_by_put_keeps_deletion_fields(server: Server) -> None:
    """Only POST clears the deletion fields of a new object; a PUT that creates keeps them."""
    deleted = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    body = {"metadata": {"name": "created", "resourceVersion": "1", "selfLink": "/x", **deleted}}
    code, answer = exchange(server, "PUT", f"{LEASES}/created", body)
    assert (code, answer["metadata"].get("selfLink")) == (201, None)
    assert {name: answer["metadata"][name] for name in deleted} == deleted


def test_errors_of_events_name_the_core_kind(server: Server) -> None:
    """An invalid event of events.k8s.io is refused as a core Event, since both groups share their objects."""
    code, answer = exchange(
        server, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", {"metadata": {"name": "e"}}
    )
    assert (code, answer["details"]["kind"], answer["details"].get("group")) == (422, "Event", None)


def test_generated_job_does_not_share_labels_with_its_template(server: Server) -> None:
    """The server's labels of a job's template become the job's own only if the job was sent with a name."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**CONTAINERS, "restartPolicy": "Never"}}
    for metadata, own in (({"generateName": "g-"}, True), ({"name": "named"}, False)):
        body = {"metadata": metadata, "spec": {"template": template}}
        answer = send(server, "POST", "/apis/batch/v1/namespaces/default/jobs", body).json()
        assert (answer["metadata"]["labels"] == {"a": "b"}) is own


def test_pod_status_cannot_set_deletion(server: Server) -> None:
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
def test_scale_metadata_is_checked(server: Server, fields: Any, status: int, message: str) -> None:
    """A Scale has metadata of its own that is validated and compared with the object's."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": CONTAINERS}
    workload = {"metadata": {"name": "w"}, "spec": {"template": template}}
    send(server, "POST", f"{CORE}/replicationcontrollers", workload)
    scale = {"metadata": {"name": "w", **fields}, "spec": {"replicas": 2}}
    code, answer = exchange(server, "PUT", f"{CORE}/replicationcontrollers/w/scale", scale)
    assert (code, message in answer["message"]) == (status, True)


APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
ROLE = {"metadata": {"name": "cleared"}, "rules": []}
EVENT = {
    "metadata": {"name": "cleared"},
    "involvedObject": {"namespace": "default", "name": "x"},
    "reason": "a",
}


@pytest.mark.parametrize("version", ["/api/v1", "/apis/events.k8s.io/v1"])
def test_empty_managed_fields_clear_the_stored_ones(apiserver: Server, version: str) -> None:
    """An empty list of managed fields clears the stored ones, in the version that is stored and in any other."""
    send(apiserver, "POST", f"{CORE}/events", EVENT)
    path = f"{version}/namespaces/default/events/cleared"
    answer = send(apiserver, "PATCH", path, {"metadata": {"managedFields": []}}, MERGE).json()
    assert answer["metadata"]["name"] == "cleared"
    assert "managedFields" not in answer["metadata"]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (f"{CORE}/events", {}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"namespace": "x"}),
    ],
)
def test_empty_managed_fields_clear_them_with_any_namespace(apiserver: Server, path: str, sent: dict[str, str]) -> None:
    """An empty list clears the stored ones also where a body gets a namespace, or loses one."""
    body = {**EVENT, "metadata": {"name": "cleared"}} if path.endswith("events") else ROLE
    stored = send(apiserver, "POST", path, body).json()
    metadata = {**stored["metadata"], **sent, "managedFields": []}
    if not sent:
        del metadata["namespace"]
    answer = send(apiserver, "PUT", f"{path}/cleared", {**stored, "metadata": metadata}).json()
    assert "managedFields" not in answer["metadata"]


@pytest.mark.apiserver(emulated_version="1.36")  # later releases refuse the name
def test_apply_that_changes_nothing_warns_again(apiserver: Server) -> None:
    """An apply that changes nothing is checked as any other, and so warns."""
    group, name = "admissionregistration.k8s.io/v1", "a.static.k8s.io"
    webhooks = {"apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}}
    path = f"/apis/{group}/validatingwebhookconfigurations/{name}?fieldManager=m"
    first, second = (send(apiserver, "PATCH", path, webhooks, APPLY) for _ in range(2))
    assert (first.status, second.status) == (201, 200)
    assert first.json() == second.json()
    assert first.warnings == second.warnings != []


@pytest.mark.parametrize(("method", "when"), [("PUT", ""), ("PATCH", " after mutating admission happens")])
def test_repeated_owners_are_removed_with_a_warning(apiserver: Server, method: str, when: str) -> None:
    """Repeated owner references are removed: by a PUT at once, by a patch only after mutating admission."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}
    owned = {"metadata": {"name": "owned", "ownerReferences": [owner, owner]}}
    send(apiserver, "POST", f"{CORE}/configmaps", {"metadata": {"name": "owned"}})
    media = "application/json" if method == "PUT" else MERGE
    response = send(apiserver, method, f"{CORE}/configmaps/owned", owned, media)
    assert response.json()["metadata"]["ownerReferences"] == [owner]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", **owned}
    reviewed = send(apiserver, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    begin = ".metadata.ownerReferences contains duplicate entries"
    assert [text.startswith(f"{begin}{when}; ") for text in response.warnings] == [True]
    assert [text.startswith(f"{begin}; ") for text in reviewed.warnings] == [True]


@pytest.mark.apiserver(runtime_config={"api/all": True})
def test_apply_owns_anything_in_a_struct_without_fields(apiserver: Server) -> None:
    """A struct without fields is a map of anything to an apply: its manager owns what is not stored."""
    path = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions/a.b?fieldManager=m"
    applied = {
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "kind": "StorageVersion",
        "metadata": {"name": "a.b"},
        "spec": {"x": {"y": [1]}, "z": "q"},
    }
    answer = send(apiserver, "PATCH", path, applied, "application/apply-patch+yaml").json()
    assert answer["spec"] == {}
    [entry] = answer["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:x": {".": {}, "f:y": {}}, "f:z": {}}}
