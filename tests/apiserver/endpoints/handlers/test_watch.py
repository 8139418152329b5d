"""Watches that are refused, end by themselves, or have more to send than is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
import pytest

from tests.front_door import front_door
from tests.http import send
from tests.releases import NEWEST, every_release, since
from understudy import Server
from understudy.apiserver.endpoints.negotiation import Output
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.tables import table
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Director
from understudy.apiserver.serving.release import Release
from understudy.machinery.options import Query
from understudy.machinery.releases.version import V1_32, V1_34, Version
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"


def test_refused_watch_is_answered_in_yaml(server: Server) -> None:
    """A watch with a wrong version is refused in YAML if that is accepted, though no watch is served in YAML."""
    answer = send(server, "GET", f"{MAPS}?watch=true&resourceVersion=x", accept="application/yaml")
    assert (answer.status, answer.headers["Content-Type"]) == (500, "application/yaml")
    assert b"code: 500" in answer.body


def watched(server: Server, query: str, form: str) -> tuple[int, list[Any]]:
    """Return the status and the events of a watch that ends by itself."""
    answer = send(server, "GET", f"{MAPS}?watch=true{query}", accept=form)
    lines = answer.body.splitlines() if answer.status == 200 else []
    return answer.status, [json.loads(line) for line in lines]


TABLE, METADATA_LIST = (
    f"application/json;as={name};g=meta.k8s.io;v=v1" for name in ("Table", "PartialObjectMetadataList")
)
ENDED = "&timeoutSeconds=-1"  # after what is there


def test_table_watch_with_initial_events_is_refused(server: Server) -> None:
    """Up to 1.32 a watch from the start with bookmarks cannot be a table: the next accepted form is taken, or 406."""
    assert watched(server, ENDED, TABLE)[1][0]["object"]["kind"] == "Table"
    if server.state.release.version > V1_32:
        assert watched(server, f"{ENDED}&allowWatchBookmarks=true", TABLE)[0] == 200
        return
    assert watched(server, "&allowWatchBookmarks=true", TABLE)[0] == 406
    events = watched(server, f"{ENDED}&allowWatchBookmarks=true", f"{TABLE},application/json")[1]
    assert [(event["type"], event["object"]["kind"]) for event in events][:2] == [
        ("ADDED", "ConfigMap"),
        ("BOOKMARK", "ConfigMap"),
    ]


def test_watch_of_metadata_lists_is_empty(server: Server) -> None:
    """An event cannot be a PartialObjectMetadataList, so such a watch ends before its first event."""
    assert watched(server, "", METADATA_LIST) == (200, [])


def test_long_backlog_is_sent_before_the_end(server: Server) -> None:
    """A watch whose time is up sends everything that was written before, also what takes several chunks."""
    version = json.loads(send(server, "GET", MAPS).body)["metadata"]["resourceVersion"]
    names = [f"map-{number}" for number in range(8)]
    for name in names:
        send(server, "POST", MAPS, {"metadata": {"name": name}, "data": {"key": "x" * 100_000}})
    events = watched(server, f"{ENDED}&resourceVersion={version}", "application/json")[1]
    assert [event["object"]["metadata"]["name"] for event in events] == names


@pytest.fixture
async def director() -> Director:
    """Return the front door of a server that listens nowhere, with a config map."""
    director = front_door()
    await fill.fill(director.state, 0)
    await ask(director, "POST", MAPS, {"metadata": {"name": "map"}}, media="application/json")
    return director


async def ask(director: Director, method: str, path: str, body: Any = None, query: str = "", media: str = "") -> Any:
    """Send a request in this process; return the answer."""
    raw = b"" if body is None else orjson.dumps(body)
    headers = {"Accept": "application/json", "Content-Type": media}
    return await director(Request(method, path, headers, raw, Query(query), V1_32))


async def update_map(director: Director, number: int) -> None:
    """Write 100 kB to a config map."""
    data = {"n": str(number), "key": "x" * 100_000}
    answer = await ask(director, "PATCH", f"{MAPS}/map", {"data": data}, media="application/merge-patch+json")
    assert answer.status == 200, answer.body


async def test_watch_takes_what_can_be_sent_soon(director: Director) -> None:
    """A slow reader's events wait in the store, where their bytes are counted, and are all sent in order."""
    source = (await ask(director, "GET", MAPS, query="watch=true&resourceVersion=0")).source
    source.take()
    for number in range(10):
        await update_map(director, number)
    taken = []
    while frames := source.take():
        assert len(frames) <= 3
        taken += [json.loads(frame)["object"]["data"]["n"] for frame in frames]
    assert taken == [str(number) for number in range(10)]
    assert not source.ended


async def test_watch_that_is_never_read_ends(director: Director) -> None:
    """A watcher that reads nothing is cut off before its events take more than 16 MiB."""
    source = (await ask(director, "GET", MAPS, query="watch=true&resourceVersion=0")).source
    for number in range(200):
        await update_map(director, number)
    source.take()
    assert source.ended


async def test_writes_wake_watches_that_see_them(director: Director, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write wakes the watches whose selector matches before or after it; equal selectors are tried once."""
    tried = []
    known = Selector.matches_labels

    def matches_labels(self: Selector, labels: Mapping[str, str]) -> bool:
        tried.append(labels)
        return known(self, labels)

    sources, woken = [], list[int]()
    for number, selector in enumerate(
        ["labelSelector=a%3Db", "labelSelector=a%3Db", "fieldSelector=metadata.name%3Dmap"]
    ):
        source = (await ask(director, "GET", MAPS, query=f"watch=true&{selector}")).source
        source.take()
        source.wake = partial(woken.append, number)
        sources.append(source)
    monkeypatch.setattr(Selector, "matches_labels", matches_labels)
    written = []
    for labels in ({"c": "d"}, {"a": "b"}, {"a": "c"}, {"a": "d"}):
        await ask(
            director, "PATCH", f"{MAPS}/map", {"metadata": {"labels": labels}}, media="application/merge-patch+json"
        )
        written.append(sorted(woken))
        woken.clear()
    assert written == [[2], [0, 1, 2], [0, 1, 2], [2]]
    assert tried.count({"c": "d"}) == 2  # by that of the name: an index knows that it is not of the labels
    assert tried.count({"a": "b", "c": "d"}) == 4  # by that of the name, and that of labels as the newer and the older
    types = [[json.loads(frame)["type"] for frame in source.take()] for source in sources]
    assert types == [["ADDED", "DELETED"], ["ADDED", "DELETED"], ["MODIFIED"] * 4]


def bookmarks(release: Version, path: str, include: str = "", accept: str = TABLE) -> list[Any]:
    """Return the bookmarks of a watch from the start that has no objects, a Table watch if nothing else is said."""
    query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=-1"
    with Server(emulated_version=str(release)) as server:
        answer = send(server, "GET", f"{path}?watch=1{query}{include}", accept=accept)
    events = [json.loads(line) for line in answer.body.splitlines()]
    return [event["object"] for event in events if event["type"] == "BOOKMARK"]


NO_KIND = {
    "/apis/storage.k8s.io/v1/storageclasses": "no kind is registered for the type v1.StorageClassList in scheme",
    "/apis/example.com/v1/gears": 'no kind "GearList" is registered for version "example.com/v1" in scheme',
}


@pytest.mark.parametrize("path", NO_KIND)
@pytest.mark.parametrize("release", [V1_32, NEWEST], ids=str)
def test_bookmarks_of_metadata(release: Version, path: str) -> None:
    """A bookmark of metadata is written as Go writes the type. Where bookmarks hold an empty list, a watch of lists of
    metadata ends with an error instead, since such a list is of no known kind."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition: Obj = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    with Server(emulated_version=str(release)) as server:
        server.apply({**definition, "metadata": {"name": "gears.example.com"}})
        watch = f"{path}?watch=1&allowWatchBookmarks=true{ENDED}"
        one = send(server, "GET", watch, accept=METADATA_LIST.replace("MetadataList", "Metadata")).json()
        many = send(server, "GET", watch, accept=METADATA_LIST).body
    assert (one["type"], "creationTimestamp" in one["object"]["metadata"]) == ("BOOKMARK", release == V1_32)
    error = json.loads(many)["object"]["message"] if many else ""
    assert error.partition(' "k8s.io')[0] == (NO_KIND[path] if release == V1_32 else "")


@pytest.mark.parametrize("release", since(V1_34), ids=str)
@pytest.mark.parametrize(
    ("path", "cells"),
    [
        ("/api/v1/configmaps", ["", 0, "<unknown>"]),
        ("/api/v1/resourcequotas", ["", "", "", "<unknown>"]),
        ("/api/v1/persistentvolumeclaims", ["", "", "", "", "", "", "<unset>", "<unknown>", "<unset>"]),
        ("/apis/autoscaling/v1/horizontalpodautoscalers", ["", "/", "<none>", "<unset>", 0, 0, "<unknown>"]),
    ],
)
def test_bookmark_of_a_table_watch_is_a_table(release: Version, path: str, cells: list[Any]) -> None:
    """Bookmarks in tables have the row of an empty object, whose metadata say where the initial events end."""
    (shown,) = bookmarks(release, path, "&includeObject=None")
    (row,) = shown["rows"]
    assert (shown["kind"], row["cells"]) == ("Table", cells)
    metadata = {"resourceVersion": shown["metadata"]["resourceVersion"]}
    notes = {"annotations": {"k8s.io/initial-events-end": "true"}}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {**metadata, **notes}}
    assert row["object"] == partial


@pytest.mark.parametrize(
    ("resource", "replicas", "annotation"),
    [
        ("deployments", 0, None),
        ("replicasets", 0, None),
        ("statefulsets", 0, None),
        ("daemonsets", None, "0"),
    ],
)
def test_bookmark_of_workload_has_zero(resource: str, replicas: int | None, annotation: str | None) -> None:
    """Counts that are no pointers inside the real server are shown as zero."""
    (obj,) = bookmarks(NEWEST, f"/apis/apps/v1/{resource}", accept="application/json")
    annotations = {"k8s.io/initial-events-end": "true"}
    if annotation is not None:
        annotations["deprecated.daemonset.template.generation"] = annotation
    assert (obj["spec"].get("replicas"), obj["metadata"]["annotations"]) == (replicas, annotations)


@every_release
def test_every_kind_has_a_row_for_bookmarks(release: Version) -> None:
    """A row can be made of an object that has nothing but metadata."""
    request = Request("GET", "/", {}, b"", Query(""), release)
    for kind in Release.of(release).kinds:
        if not kind.virtual:
            for version in kind.versions:
                empty: Any = {"metadata": {}}
                form = Output(target="Table", target_version="v1")
                (row,) = table(kind, version, [empty], versioned=[empty], request=request, form=form)["rows"]
                assert row["cells"]
