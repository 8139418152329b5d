"""Reads with `--watch-cache=false`, as kube-apiserver 1.37.2 with that flag answered them, from its etcd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.http import send
from understudy import Server

PATH = "/api/v1/namespaces/default/configmaps"
FUTURE = 99999
ALL = ["a0", "a1", "a2", "a3"]
TOO_LARGE = f"Timeout: Too large resource version: {FUTURE}, current: {{new}}"


class Versions(NamedTuple):
    """A server, the resourceVersion at which it had five ConfigMaps, and that at which it has four."""

    server: Server
    old: int
    new: int


@pytest.fixture(scope="module")
def versions() -> Iterator[Versions]:
    with Server(watch_cache=False) as server:
        for index in range(5):
            labels = {"x": str(index % 2)}
            send(server, "POST", PATH, {"metadata": {"name": f"a{index}", "labels": labels}})
        old = server.state.registry.store.revision
        send(server, "DELETE", f"{PATH}/a4")
        yield Versions(server, old, server.state.registry.store.revision)


@pytest.mark.parametrize(
    ("query", "names", "at", "remaining"),
    [
        ("", ALL, "new", None),
        ("limit=2", ALL[:2], "new", 2),
        ("limit=2&resourceVersion=0", ALL[:2], "new", 2),
        ("resourceVersion=0", ALL, "new", None),
        ("limit=2&resourceVersion=0&resourceVersionMatch=NotOlderThan", ALL[:2], "new", 2),
        ("resourceVersion={old}", ALL, "new", None),
        ("limit=2&resourceVersion={old}&resourceVersionMatch=NotOlderThan", ALL[:2], "new", 2),
        ("resourceVersion={old}&resourceVersionMatch=Exact", [*ALL, "a4"], "old", None),
        ("limit=2&resourceVersion={old}", ALL[:2], "old", 3),
        ("labelSelector=x%3D1&limit=1&resourceVersion=0", ["a1"], "new", None),
    ],
)
def test_lists_are_those_of_etcd(
    versions: Versions, query: str, names: list[str], at: str, remaining: int | None
) -> None:
    """A limit cuts any list, and each is of the newest revision unless it asks for an older one."""
    listed = send(versions.server, "GET", f"{PATH}?{query.format(old=versions.old)}").json()
    metadata = listed["metadata"]
    assert [item["metadata"]["name"] for item in listed["items"]] == names
    assert metadata["resourceVersion"] == str({"old": versions.old, "new": versions.new}[at])
    assert metadata.get("remainingItemCount") == remaining
    assert ("continue" in metadata) is ("limit" in query)


@pytest.mark.parametrize(
    "query",
    [
        f"?resourceVersion={FUTURE}",
        f"?limit=2&resourceVersion={FUTURE}",
        f"?resourceVersion={FUTURE}&resourceVersionMatch=NotOlderThan",
        f"?resourceVersion={FUTURE}&resourceVersionMatch=Exact",
        f"?fieldSelector=metadata.name%3Da1&resourceVersion={FUTURE}",
        f"/a0?resourceVersion={FUTURE}",
    ],
)
def test_version_to_come_is_not_waited_for(versions: Versions, query: str) -> None:
    """The error says so at once, and that there is no use in trying again."""
    answer = send(versions.server, "GET", PATH + query)
    assert (answer.status, answer.json()["message"]) == (504, TOO_LARGE.format(new=versions.new))
    assert answer.headers["Retry-After"] is None


@pytest.mark.parametrize(("release", "status"), [("1.33", 500), ("1.34", 504)])
def test_events_of_a_version_to_come(release: str, status: int) -> None:
    """Events have no cache in any case. Before 1.34 etcd's error was answered."""
    query = f"limit=2&resourceVersion={FUTURE}"
    with Server(emulated_version=release) as server:
        assert send(server, "GET", f"/api/v1/namespaces/default/events?{query}").status == status
