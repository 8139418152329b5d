"""Other forms of lists: tables, metadata only, and discovery in protobuf."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clock import FixedClock
from tests.http import send
from understudy import Server
from understudy.machinery.releases.version import V1_32
from understudy.machinery.serializer.protobuf_wire import BYTES, open_envelope, read_fields

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
META = "g=meta.k8s.io"


@pytest.fixture(scope="module", params=[V1_32], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        yield running


def test_flow_schema_table_is_sorted_by_precedence(server: Server) -> None:
    """The rows of flow schemas stand in the order in which requests are matched; the list itself is sorted by name."""
    table = send(server, "GET", FLOWS, accept=f"application/json;as=Table;v=v1;{META}").json()
    rows = [row["cells"][0] for row in table["rows"]]
    assert rows[:5] == [
        "exempt",
        "probes",
        "system-leader-election",
        "endpoint-controller",
        "workload-leader-election",
    ]
    assert rows[-2:] == ["global-default", "catch-all"]
    assert [row["object"]["metadata"]["name"] for row in table["rows"]] == rows
    names = [item["metadata"]["name"] for item in send(server, "GET", FLOWS).json()["items"]]
    assert names == sorted(rows)


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("/api/v1/limitranges", None),
        ("/apis/storage.k8s.io/v1/csistoragecapacities", None),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None),
        ("/api/v1/namespaces/kube-system/pods", []),
        ("/apis/resource.k8s.io/v1beta1/deviceclasses", []),
    ],
)
def test_empty_tables(server: Server, path: str, rows: list[object] | None) -> None:
    """A table without rows has null where the kind has no printer of its own, else an empty list."""
    assert send(server, "GET", path, accept=f"application/json;as=Table;v=v1;{META}").json()["rows"] == rows


@pytest.mark.parametrize(("release", "listed", "alone"), [("1.37", ["b"], []), ("1.36", ["a", "b", "c"], ["b"])])
def test_default_storage_classes(release: str, listed: list[str], alone: list[str]) -> None:
    """A list marks the default class that counts, the first by name of the newest, since 1.37; before, each marked one.

    A class by itself is marked before 1.37 only.
    """
    classes, default = "/apis/storage.k8s.io/v1/storageclasses", "storageclass.kubernetes.io/is-default-class"
    clock = FixedClock.at("2026-11-21T12:00:00Z")
    with Server(emulated_version=release, clock=clock) as server:
        for name in ("a", "c", "b", "d"):
            metadata = {"name": name, "annotations": {default: str(name != "d").lower()}}
            assert send(server, "POST", classes, {"metadata": metadata, "provisioner": "p"}).status == 201
            clock.seconds += 60 if name == "a" else 0
        for path, expected in ((classes, listed), (f"{classes}/b", alone)):
            rows = send(server, "GET", path, accept=f"application/json;as=Table;v=v1;{META}").json()["rows"]
            names = [row["cells"][0].partition(" ") for row in rows]
            assert [name for name, _, mark in names if mark == "(default)"] == expected


@pytest.mark.parametrize(
    ("phase", "message"),
    [("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed."), ("Running", None)],
)
def test_finished_pod_row_has_a_condition(server: Server, phase: str, message: str | None) -> None:
    """The row of a finished pod has a Completed condition between its cells and its object."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": phase.lower()}, "spec": spec})
    path = f"/api/v1/namespaces/default/pods/{phase.lower()}"
    pod = send(server, "GET", path).json()
    send(server, "PUT", f"{path}/status", {**pod, "status": {**pod["status"], "phase": phase}})
    (row,) = send(server, "GET", path, accept=f"application/json;as=Table;v=v1;{META}").json()["rows"]
    condition = {"type": "Completed", "status": "True", "reason": phase, "message": message}
    assert row.get("conditions") == ([condition] if message else None)
    assert list(row) == (["cells", "conditions", "object"] if message else ["cells", "object"])


@pytest.mark.parametrize(("version", "numbers"), [("v1", {1: 1, 2: 2}), ("v1beta1", {1: 2, 2: 1})])
def test_metadata_lists_in_protobuf(server: Server, version: str, numbers: dict[int, int]) -> None:
    """A PartialObjectMetadataList of v1beta1 has its field numbers the other way round than v1."""
    form = f"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v={version};{META}"
    message = open_envelope(send(server, "GET", "/api/v1/namespaces", accept=form).body)[2]
    listed = len(send(server, "GET", "/api/v1/namespaces").json()["items"])
    known = dict.fromkeys((1, 2), ("", (BYTES,)))
    result = [numbers[number] for number, _, _ in read_fields(message, known, "PartialObjectMetadataList")]
    assert (result.count(1), result.count(2)) == (1, listed)
    assert result == sorted(result, reverse=version == "v1beta1")


@pytest.mark.parametrize(
    ("path", "form", "api_version", "kind"),
    [
        ("/api", "", "", "APIVersions"),
        ("/apis", "", "v1", "APIGroupList"),
        ("/apis/apps", "", "v1", "APIGroup"),
        ("/api/v1", "", "", "APIResourceList"),
        ("/apis/apps/v1", "", "v1", "APIResourceList"),
        ("/apis", "v2", "apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"),
        ("/api", "v2beta1", "apidiscovery.k8s.io/v2beta1", "APIGroupDiscoveryList"),
    ],
)
def test_discovery_in_protobuf(server: Server, path: str, form: str, api_version: str, kind: str) -> None:
    """Each discovery document is a protobuf message whose envelope has the document's apiVersion."""
    asked = f";as=APIGroupDiscoveryList;v={form};g=apidiscovery.k8s.io" if form else ""
    answer = send(server, "GET", path, accept=f"application/vnd.kubernetes.protobuf{asked}")
    assert answer.headers["Content-Type"].startswith("application/vnd.kubernetes.protobuf")
    result = open_envelope(answer.body)
    assert result[:2] == (api_version, kind)
    known = dict.fromkeys(range(1, 10), ("", (BYTES,)))
    assert list(read_fields(result[2], known, kind))
