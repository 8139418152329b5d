"""What requests ask of the storage, as kube-apiserver 1.32 and 1.37 count it in /metrics for the same requests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.apiserver.serving.release import Release
from understudy.apiserver.storage.metrics import GET, StorageMetrics
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, V1_37

SECRETS, EVENTS = ("/api/v1/namespaces/default/" + resource for resource in ("secrets", "events"))
SECRET: dict[str, Any] = {"metadata": {"name": "a"}, "data": {"x": "eA=="}}
OF_X = {"namespace": "default", "kind": "Pod", "name": "x"}
EVENT = {"metadata": {"name": "e"}, "involvedObject": OF_X, "reason": "r", "message": "m", "type": "Normal"}
APPLIED = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}
APPLY = "application/apply-patch+yaml"
NEWEST = "newest"  # reads the newest revision for the watch cache, which then answers

# Requests in their order, and what each adds: to requests of etcd by operation, and in lists of etcd and of the watch
# cache to the objects that are fetched and returned.
FLOW: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    (("POST", SECRETS, SECRET), {"create": 1}),
    (("POST", SECRETS, SECRET), {"create": 1, "get": 1}),
    (("GET", f"{SECRETS}/a"), {"get": 1}),
    (("GET", f"{SECRETS}/none"), {"get": 1}),
    (("GET", f"{SECRETS}/a?resourceVersion=0"), {}),
    (("GET", SECRETS), {NEWEST: 1, "cache": (1, 1)}),
    (("GET", f"{SECRETS}?labelSelector=a%3Db"), {NEWEST: 1, "cache": (1, 0)}),
    (("GET", f"{SECRETS}?resourceVersion=0"), {"cache": (1, 1)}),
    (("PUT", f"{SECRETS}/a", {**SECRET, "data": {"x": "eQ=="}}), {"update": 1}),
    (("PUT", f"{SECRETS}/a", {**SECRET, "data": {"x": "eQ=="}}), {"get": 1}),
    (("PUT", f"{SECRETS}/a", {**SECRET, "metadata": {"name": "a", "resourceVersion": "1"}}), {"get": 1}),
    (("PUT", f"{SECRETS}/a?dryRun=All", SECRET), {"get": 1}),
    (("PATCH", f"{SECRETS}/a", {"data": {"x": "eg=="}}), {"update": 1}),
    (("PATCH", f"{SECRETS}/none", {"data": {"x": "eg=="}}), {"get": 1}),
    (("PATCH", f"{SECRETS}/b?fieldManager=m&dryRun=All", APPLIED, APPLY), {"get": 1}),
    (("PATCH", f"{SECRETS}/b?fieldManager=m", APPLIED, APPLY), {"get": 1, "update": 1}),
    (("POST", f"{SECRETS}?dryRun=All", {"metadata": {"name": "c"}}), {"get": 1}),
    (("GET", f"{SECRETS}?limit=1"), {NEWEST: 1, "cache": (2, 1)}),
    (("DELETE", f"{SECRETS}/a"), {"get": 1, "delete": 1}),
    (("DELETE", f"{SECRETS}/a"), {"get": 1}),
    (("POST", EVENTS, EVENT), {"create": 1}),
    (("GET", EVENTS), {"list": 1, "etcd": (1, 1)}),
    (("GET", f"{EVENTS}?labelSelector=a%3Db"), {"list": 1, "etcd": (1, 0)}),
    (("PATCH", f"{EVENTS}/e", {"message": "n"}), {"get": 1, "update": 1}),
)


def expected(release: str, added: dict[str, Any], resource: str) -> dict[str, int]:
    """Return the series to which a request adds, in the form of a release."""
    old, series, cached, lists = release == "1.32", dict[str, int](), added.get("cache"), added.get("etcd")
    names = f'type="{resource}"' if old else f'resource="{resource}"'
    operations = {name: count for name, count in added.items() if name not in ("cache", "etcd")}
    if operations.pop(NEWEST, 0):
        operations["get" if old else "getCurrentResourceVersion"] = 1
        if old:  # which is a list of nothing
            series[f'apiserver_storage_list_total{{resource="{resource}"}}'] = 1
    for name, count in operations.items():
        labels = f'operation="{name}",{names}' if old else f'group="",operation="{name}",{names}'
        series |= {f"etcd_{each}{{{labels}}}": count for each in ("requests_total", "request_duration_seconds_count")}
    for source, counts in (("watchcache", cached), ("etcd", lists)):
        if counts is None:
            continue
        fetched, returned = counts
        numbers = {"": 1, "_fetched_objects": fetched, "_returned_objects": returned}
        numbers |= {"_evaluated_objects": fetched} if source == "etcd" else {}
        for name, count in numbers.items():
            index = 'index="",' if name in ("", "_fetched_objects") else ""
            if not old:
                labels = f'group="",{index}resource="{resource}",storage="{source}"'
            else:
                labels = f'resource="{resource}"' if source == "etcd" else f'{index}resource_prefix="/{resource}"'
            family = "cache" if old and source == "watchcache" else "storage"
            series[f"apiserver_{family}_list{name}_total{{{labels}}}"] = count
    if lists is not None and not old:
        labels = f'group="",resource="{resource}",streamed="false"'
        series[f"apiserver_storage_list_duration_seconds_count{{{labels}}}"] = 1
    return {name: count for name, count in series.items() if count}


def counted(server: Server) -> dict[str, int]:
    """Return the series of secrets and events."""
    page = send(server, "GET", "/metrics").body.decode()
    pattern = (
        r'^((?:etcd_|apiserver_(?:storage|cache)_list_)\w+(?<!_bucket)(?<!_sum)\{.*"/?(?:secrets|events)".*\}) (\d+)$'
    )
    return {name: int(count) for name, count in re.findall(pattern, page, re.MULTILINE)}


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_requests_of_the_storage_are_counted(release: str) -> None:
    """Each request adds what it adds at kube-apiserver."""
    with Server(emulated_version=release) as server:
        before = counted(server)
        for asked, added in FLOW:
            send(server, *asked)
            after = counted(server)
            resource = "events" if asked[1].startswith(EVENTS) else "secrets"
            more = {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}
            assert (asked, more) == (asked, expected(release, added, resource))
            before = after


@pytest.fixture
def claims() -> Kind:
    kind = Release.of(V1_37).of_resource("resource.k8s.io", "resourceclaims")
    assert kind is not None
    return kind


async def test_failures_of_the_storage_are_counted(claims: Kind) -> None:
    """A request that the storage cannot answer is counted, and its error too: 1.34 divides the name of the resource."""
    metrics = StorageMetrics()

    async def fail() -> None:
        raise errors.internal_error("etcd is gone")

    with pytest.raises(errors.StatusError):
        await metrics.timed(GET, claims, fail())
    for version, labels in (
        (V1_33, {"operation": "get", "type": "resourceclaims.resource.k8s.io"}),
        (V1_34, {"operation": "get", "group": "resource.k8s.io", "resource": "resourceclaims"}),
    ):
        families = {family.name: family for family in metrics.families(version)}
        for name in ("etcd_requests_total", "etcd_request_errors_total"):
            family = families[name]
            assert [(dict(zip(family.labels, key, strict=True)), count) for key, count in family.series.items()] == [
                (labels, 1)
            ]


def test_families_of_lists_by_release(claims: Kind) -> None:
    """1.34 names groups, and 1.37 has no families of the watch cache any more."""
    metrics = StorageMetrics()
    metrics.observe_list(claims, "/registry/resourceclaims/", 3, 2, is_cached=True)
    labels = {
        version: {family.name: family.labels for family in metrics.families(version) if family.series}
        for version in (V1_31, V1_34, V1_37)
    }
    named = ("group", "resource")
    assert labels == {
        V1_31: {
            "apiserver_cache_list_total": ("resource_prefix", "index"),
            "apiserver_cache_list_fetched_objects_total": ("resource_prefix", "index"),
            "apiserver_cache_list_returned_objects_total": ("resource_prefix",),
        },
        V1_34: {
            "apiserver_cache_list_total": (*named, "index"),
            "apiserver_cache_list_fetched_objects_total": (*named, "index"),
            "apiserver_cache_list_returned_objects_total": named,
        },
        V1_37: {
            "apiserver_storage_list_total": (*named, "storage", "index"),
            "apiserver_storage_list_fetched_objects_total": (*named, "storage", "index"),
            "apiserver_storage_list_evaluated_objects_total": (*named, "storage"),
            "apiserver_storage_list_returned_objects_total": (*named, "storage"),
        },
    }
