"""Objects that are too large for etcd: the answers are those of kube-apiserver 1.32.5 and 1.36.4 on etcd 3.5.21."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.extensions.test_custom_resources import DEFINITIONS, is_true, wait_for
from tests.http import exchange
from tests.releases import every_release
from understudy import Server
from understudy.apiserver.serving.release import Release
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

CONFIG_MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
APPLY, JSON_PATCH = "application/apply-patch+yaml", "application/json-patch+json"
TOO_LARGE = "etcdserver: request is too large"


def unsent(size: int) -> str:
    """Return the error of a message that is too large for the client of etcd."""
    text = f"trying to send message larger than max ({size} vs. 2097152)"
    return f"rpc error: code = ResourceExhausted desc = {text}"


def keys(number: int, length: int = 240) -> dict[str, str]:
    return {f"{index:06d}".ljust(length, "k"): "" for index in range(number)}


def config_map(data: dict[str, str], name: str = "large") -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(size: int) -> Obj:
    container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "x" * size}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": {"containers": [container]}}


def definition(group: str, size: int, versions: int = 1) -> Obj:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "description": "<" * 10 + "d" * size}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": f"v{number}", "served": True, "storage": number == 1, "schema": {"openAPIV3Schema": schema}}
                for number in range(1, versions + 1)
            ],
        },
    }


EVENT: Obj = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"namespace": "default"},
    "message": "x",
    "reason": "r" * 100,
    "source": {"component": "y" * 2_200_000},
}
NEW_EVENT: Obj = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "eventTime": "2026-11-22T23:25:51.000000Z",
    "reportingController": "a/b",
    "reportingInstance": "c",
    "action": "a",
    "reason": "b",
    "type": "Normal",
    "note": "n",
    "regarding": {"namespace": "default", "name": "z" * 2_300_000},
}
API_SERVICE: Obj = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.big.io", "labels": {f"l{number:06d}": "v" * 63 for number in range(28000)}},
    "spec": {
        "group": "big.io",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "a", "namespace": "b"},
    },
}


@pytest.fixture(params=["1.32", "1.36"])
def server(request: pytest.FixtureRequest) -> Any:
    with Server(emulated_version=request.param) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "obj", "message"),
    [
        (PODS, pod(1_600_000), TOO_LARGE),
        (CONFIG_MAPS, config_map(keys(6500)), TOO_LARGE),
        (CONFIG_MAPS, config_map(keys(9000), "l3"), unsent(2232188)),
        ("/api/v1/namespaces/default/events", EVENT, unsent(2200339)),
        ("/apis/events.k8s.io/v1/namespaces/default/events", NEW_EVENT, unsent(2300259)),
        (DEFINITIONS, definition("big.io", 2_000_000), TOO_LARGE),
        (DEFINITIONS, definition("big.io", 2_200_000), unsent(2200922)),
        ("/apis/apiregistration.k8s.io/v1/apiservices", API_SERVICE, unsent(2128479)),
    ],
    ids=["pod", "config map", "more", "event", "new event", "definition", "larger definition", "API service"],
)
def test_large_objects_are_not_created(server: Server, path: str, obj: Obj, message: str) -> None:
    """A stored object may take 1.5 MiB; one of 2 MiB is not even sent to etcd, and the error says its size."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": 500}
    assert exchange(server, "POST", path, obj) == (500, body)
    assert exchange(server, "POST", f"{path}?dryRun=All", obj)[0] == 201
    assert exchange(server, "GET", f"{path}/{obj['metadata']['name']}")[0] == 404


def test_managed_fields_are_dropped_if_that_helps(server: Server) -> None:
    """An object that is too large for its managed fields only is stored without them, but not by server-side apply."""

    def written(method: str, name: str, body: Any, media: str | None = None) -> tuple[int, bool | str]:
        path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/{name}?fieldManager=a"
        code, answer = exchange(server, method, path, body, media)
        return code, answer["message"] if code == 500 else "managedFields" in answer["metadata"]

    assert written("POST", "l1", config_map(keys(2000), "l1")) == (201, True)
    assert written("POST", "l2", config_map(keys(4200), "l2")) == (201, False)
    assert written("POST", "l1", config_map(keys(6500), "l1")) == (500, TOO_LARGE)  # it is not said that it exists
    assert written("PUT", "l1", config_map(keys(4200), "l1")) == (200, False)
    assert written("PUT", "l1", config_map(keys(6500), "l1")) == (500, TOO_LARGE)
    assert written("PATCH", "l3", config_map(keys(9999, 115), "l3"), APPLY) == (500, unsent(2440044))
    assert written("PATCH", "l3", config_map(keys(6000, 115), "l3"), APPLY) == (201, True)
    assert written("PATCH", "l3", config_map(keys(6500, 115), "l3"), APPLY) == (500, TOO_LARGE)
    assert written("POST", "l4", config_map({"a": "b"}, "l4")) == (201, True)
    assert written("PATCH", "l4", {"data": keys(4200)}) == (200, False)
    assert written("PATCH", "l4", {"metadata": {"labels": {"a": "b"}}}) == (200, False)
    grown = [{"op": "add", "path": "/data/z", "value": "z" * 900_000}]
    assert written("PATCH", "l4", grown, JSON_PATCH) == (500, TOO_LARGE)


def test_small_changes_of_large_objects(server: Server) -> None:
    """A small request is refused as well if the object has no room for its change."""
    assert exchange(server, "POST", PODS, pod(1_550_000))[0] == 201
    code, body = exchange(server, "PATCH", f"{PODS}/large/status", {"status": {"message": "x" * 25_000}})
    assert (code, body["message"]) == (500, TOO_LARGE)
    assert exchange(server, "PATCH", f"{PODS}/large/status", {"status": {"message": "x" * 10_000}})[0] == 200


def test_custom_resources_are_measured_as_json(server: Server) -> None:
    """Custom resources are stored as JSON, and their definition says what its versions share only once."""
    assert exchange(server, "POST", DEFINITIONS, definition("two.io", 1_400_000, versions=2))[0] == 201
    assert exchange(server, "POST", DEFINITIONS, definition("w.io", 10))[0] == 201
    widgets = "/apis/w.io/v1/namespaces/default/widgets"
    wait_for(server, f"{DEFINITIONS}/widgets.w.io", lambda code, body: is_true(body, "Established"))

    def widget(size: int, **metadata: str) -> Obj:
        return {"apiVersion": "w.io/v1", "kind": "Widget", "metadata": metadata, "spec": {"x": "&" + "x" * size}}

    code, stored = exchange(server, "POST", widgets, widget(1_500_000, name="w"))
    assert code == 201
    version = stored["metadata"]["resourceVersion"]
    code, body = exchange(server, "PUT", f"{widgets}/w", widget(1_600_000, name="w", resourceVersion=version))
    assert (code, body["message"]) == (500, TOO_LARGE)
    code, body = exchange(server, "POST", widgets, widget(2_600_000, generateName="foo-"))
    assert (code, body["message"]) == (500, unsent(2600347))


def test_what_webhooks_add_counts(apiserver: Server) -> None:
    """A webhook cannot make a small object too large to be stored."""

    @apiserver.webhook("configmaps", mutating=True)
    def fill(request: Obj) -> list[Obj]:
        return [{"op": "add", "path": "/data", "value": keys(6500)}]

    code, body = exchange(apiserver, "POST", CONFIG_MAPS, config_map({"a": "b"}))
    assert (code, body["message"]) == (500, TOO_LARGE)


@every_release
def test_every_kind_can_be_measured(release: Version) -> None:
    """The types of a release include those as which its objects are stored."""
    for kind in Release.of(release).kinds:
        if not kind.virtual and kind.behavior.stored_as_json is None:
            assert Schemas.of(kind.release).has_kind(*kind.stored), kind.stored
