"""A server with the gate StorageVersionAPI writes the StorageVersions that kube-apiserver 1.32 and 1.37 write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.controllers.replicas import storage_versions
from understudy.apiserver.controllers.replicas.storage_versions import with_common_version
from understudy.machinery.types import Obj

RECORDED = Path(__file__).parent / "recorded" / "storage_versions.json"
PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
GATE = {"StorageVersionAPI": True}
READY = "/readyz/poststarthook/built-in-resources-storage-version-updater"


def versions_of(server: Server) -> dict[str, list[Any]]:
    """Return the versions in which the server says that it stores and reads each resource, and serves it."""
    items = send(server, "GET", PATH).json()["items"]
    servers = {item["metadata"]["name"]: item["status"]["storageVersions"] for item in items}
    return {
        name: [only["encodingVersion"], only["decodableVersions"], sorted(only["servedVersions"])]
        for name, (only,) in servers.items()
    }


@pytest.mark.parametrize("release", sorted(json.loads(RECORDED.read_text())))
def test_versions_of_all_resources(release: str) -> None:
    """Each resource that is stored has a StorageVersion, before anything else can be written."""
    with Server(emulated_version=release, feature_gates=GATE, runtime_config={"api/all": True}) as server:
        assert versions_of(server) == json.loads(RECORDED.read_text())[release]
        assert send(server, "GET", READY).body == b"ok"
        (lease,) = server.list("leases", namespace="kube-system")
        one = send(server, "GET", f"{PATH}/core.pods").json()
    assert one["spec"] == {}
    assert "managedFields" not in one["metadata"]
    (condition,) = one["status"].pop("conditions")
    assert one["status"].pop("storageVersions")[0]["apiServerID"] == lease["metadata"]["name"]
    assert one["status"] == {"commonEncodingVersion": "v1"}
    assert condition.pop("lastTransitionTime") == one["metadata"]["creationTimestamp"]
    assert condition == {
        "type": "AllEncodingVersionsEqual",
        "status": "True",
        "reason": "CommonEncodingVersionSet",
        "message": "Common encoding version set",
    }


def test_no_versions_without_the_gate() -> None:
    """Without the gate no StorageVersion is written, and no health check waits for one."""
    with Server(runtime_config={"internal.apiserver.k8s.io/v1alpha1": True}) as server:
        assert send(server, "GET", PATH).json()["items"] == []
        assert send(server, "GET", READY).status == 404


MISSING = "the server could not find the requested resource (post storageversions.internal.apiserver.k8s.io)"
OBJECT: Obj = {"metadata": {"name": "x"}}


@pytest.fixture(scope="module")
def blocked() -> Iterator[Server]:
    """Run a server that writes no StorageVersions, since they are not served."""
    off = {"internal.apiserver.k8s.io/v1alpha1": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage_versions, "AGAIN", 0.0)
        patch.setattr(storage_versions, "TRIES", 1)
        with Server(emulated_version="1.32", feature_gates=GATE, runtime_config=off) as server:
            yield server


@pytest.mark.parametrize(
    ("method", "path", "resource"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps", "configmaps"),
        ("DELETE", "/api/v1/namespaces/default/configmaps/x", "configmaps"),
        ("POST", "/apis/apps/v1/namespaces/default/deployments", "deployments.apps"),
        ("POST", "/api/v1/namespaces", "namespaces"),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", "leases.coordination.k8s.io"),
        ("POST", "/apis/events.k8s.io/v1/namespaces/default/events", "events.events.k8s.io"),
    ],
)
def test_writes_wait_for_versions(blocked: Server, method: str, path: str, resource: str) -> None:
    """A write of a resource whose StorageVersion is missing is a 503, with the last error."""
    said = f"wait for storage version registration to complete for resource: {resource}, last seen error: {MISSING}"
    answer = wait_until(lambda: send(blocked, method, path, OBJECT), lambda answer: b"<nil>" not in answer.body)
    status = answer.json()
    assert (answer.status, status["reason"], status["message"]) == (503, "ServiceUnavailable", said)
    assert "details" not in status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/namespaces/default/configmaps", 200),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", 201),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 422),
        ("POST", "/apis/nosuch/v1/x", 404),
        ("GET", "/version", 200),
    ],
)
def test_what_does_not_wait_for_versions(blocked: Server, method: str, path: str, status: int) -> None:
    """Reads, leases of the system and what is not stored wait for nothing."""
    assert send(blocked, method, path, None if method == "GET" else OBJECT).status == status


def test_server_whose_writes_wait_is_not_ready(blocked: Server) -> None:
    """The health checks say which hook is not finished."""
    assert send(blocked, "GET", READY).body == b"internal server error: not finished\n"
    lines = send(blocked, "GET", "/livez").body.decode().splitlines()
    failing = [line for line in lines if not line.startswith("[+]")]
    hook = "poststarthook/built-in-resources-storage-version-updater"
    assert failing == [f"[-]{hook} failed: reason withheld", "livez check failed"]


def server_version(name: str, encoding: str) -> Obj:
    return {"apiServerID": name, "encodingVersion": encoding}


def test_servers_that_disagree() -> None:
    """The condition says since when the servers of a store encode alike, or do not."""
    one, other = server_version("one", "v1"), server_version("other", "v2")
    first = with_common_version({}, [one], "1")
    assert (first["commonEncodingVersion"], first["conditions"][0]["lastTransitionTime"]) == ("v1", "1")
    again = with_common_version(first, [one, server_version("other", "v1")], "2")
    assert again["conditions"] == first["conditions"]
    both = with_common_version(again, [one, other], "3")
    assert "commonEncodingVersion" not in both
    assert both["conditions"][0] == {
        "type": "AllEncodingVersionsEqual",
        "status": "False",
        "lastTransitionTime": "3",
        "reason": "CommonEncodingVersionUnset",
        "message": "Common encoding version unset",
    }
    changed = with_common_version(first, [server_version("one", "v2")], "4")
    assert (changed["commonEncodingVersion"], changed["conditions"][0]["lastTransitionTime"]) == ("v2", "4")
