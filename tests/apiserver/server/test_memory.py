"""The parts of a server take less memory when they are asked to, and answer as before."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.http import send
from tests.releases import NEWEST
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.controllers.framework.workqueue import WorkQueue
from understudy.apiserver.encoding.encoded import lookup
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.bootstrap import flow_control
from understudy.apiserver.serving.release import Release
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.releases.features import Gates
from understudy.machinery.selectors.selector import Condition, Selector
from understudy.machinery.types import Obj
from understudy.machinery.util.memory import SMALL, give_back

MANY = 10_000
MAPS = "/api/v1/namespaces/default/configmaps"
LARGE: Obj = {"metadata": {"name": "a"}, "data": {"a": "x" * 100_000}}


async def test_store_gives_back() -> None:
    """A store drops what was read again and again, and the room of what was deleted; it answers as before."""
    store = MemoryStore()
    for number in range(MANY):
        await store.create(f"/registry/things/{number:05d}", {"metadata": {"name": f"{number:05d}"}})
    for number in range(10, MANY):
        await store.delete(f"/registry/things/{number:05d}", 2 + number)
    await store.compact(store.revision)
    kept = await store.range("/registry/things/")
    for entry in kept.entries * 2:
        assert entry.value["metadata"]["name"]
    before = sys.getsizeof(store._live), sys.getsizeof(store._past)
    assert min(before) > SMALL
    store.give_back()
    assert max(sys.getsizeof(store._live), sys.getsizeof(store._past)) < SMALL
    assert not any(entry.is_unpacked for entry in kept.entries)
    again = await store.range("/registry/things/")
    assert [entry.value for entry in again.entries] == [{"metadata": {"name": f"{n:05d}"}} for n in range(10)]


async def test_index_of_a_field_keeps_no_values() -> None:
    """Objects do not stay unpacked when an index reads a field of them, even if they were read before."""
    store, kind = MemoryStore(), Release.of(NEWEST).kind("", "Pod")
    assert kind is not None
    await store.create("/registry/pods/default/a", {"metadata": {"name": "a"}, "spec": {"nodeName": "n"}})
    [entry] = store.scan("/registry/pods/")
    for _ in range(2):
        entry.drop_unpacked()
        condition, selector = (
            Condition(False, "spec.nodeName", frozenset("n")),
            Selector(values=kind.behavior.selectable),
        )
        assert lookup(condition, selector, kind).read(entry) == "n"
        assert not entry.is_unpacked
        assert entry.value["spec"] == {"nodeName": "n"}


async def test_waiting_worker_waits_on() -> None:
    """A worker that waits for a key gets the next one after its queue has given back."""
    queue = WorkQueue[str]()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.give_back()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not worker.done()
    queue.add("key")
    assert await worker == "key"


def test_server_gives_back() -> None:
    """A server answers as before, and counts on, after all of its parts have given back."""

    def counted() -> float:
        text = send(server, "GET", "/metrics").body.decode()
        return sum(
            float(line.split()[-1])
            for line in text.splitlines()
            if line.startswith("apiserver_request_total") and 'resource="flowschemas"' in line
        )

    with Server() as server:
        path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/probes"
        before = send(server, "GET", path)
        assert counted() == 1
        given = threading.Event()
        assert server._thread is not None
        server._thread._loop.call_soon_threadsafe(give_back)
        server._thread._loop.call_soon_threadsafe(given.set)
        assert given.wait(60)
        after = send(server, "GET", path)
        assert counted() == 2
        assert after.json() == before.json()
        flow = "X-Kubernetes-Pf-Flowschema-Uid"
        assert after.headers[flow] == before.headers[flow]


def test_wanted_flow_schemas_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flow schemas as they have to be are made anew each minute, and gone while nothing happens."""

    def alive() -> int:
        return sum(type(obj) is dict and obj.get("creationTimestamp") == made for obj in gc.get_objects())

    async def sleep(seconds: float) -> None:
        found.append(alive())
        if len(found) == 2:
            raise InterruptedError

    async def ensure(client: object, state: object, bootstrap: list[Obj]) -> None:
        found_meanwhile.append(alive())

    found, found_meanwhile, made = list[int](), list[int](), "2001-02-03T04:05:06Z"
    monkeypatch.setattr(flow_control, "_ensure", ensure)
    state = SimpleNamespace(release=Release.of(NEWEST), gates=Gates.of(NEWEST, {}), timestamp=lambda: made)
    with pytest.raises(InterruptedError):
        asyncio.run(flow_control.ensure_periodically(cast(Any, None), cast(Any, state), sleep))
    assert found_meanwhile[0] > 10
    assert found == [0, 0]


@pytest.mark.usefixtures("little_garbage")
@pytest.mark.parametrize(
    ("method", "path", "body", "media_type", "status"),
    [
        ("POST", MAPS, {"metadata": {"name": "A B"}}, "application/json", 422),
        ("POST", MAPS, {"metadata": {"name": 1}}, "application/json", 400),
        ("POST", MAPS, b"\xa1Hmetadata\xa1Dname\x01", "application/cbor", 415),
        ("POST", MAPS, b"a: [", "application/yaml", 400),
        ("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"": ""}}, "application/json", 422),
        ("PUT", f"{MAPS}/a", {"metadata": {"name": "a", "resourceVersion": "1"}}, "application/json", 409),
        ("PATCH", f"{MAPS}/a", [{"op": "test", "path": "/data", "value": 1}], "application/json-patch+json", 422),
        ("PATCH", f"{MAPS}/a", [{"op": "remove", "path": "/data"}], "application/json-patch+json", 422),
        ("PATCH", f"{MAPS}/a", {"data": 1}, "application/merge-patch+json", 422),
        ("GET", f"{MAPS}/b", None, None, 404),
        ("GET", f"{MAPS}?labelSelector=%21", None, None, 400),
        ("PATCH", MAPS, {}, "application/json", 405),
        ("POST", f"{MAPS}?dryRun=All", {**LARGE, "metadata": {"name": "b"}}, "application/json", 201),
        ("PUT", f"{MAPS}/a?dryRun=All", LARGE, "application/json", 200),
        ("PATCH", f"{MAPS}/a?dryRun=All", LARGE, "application/merge-patch+json", 200),
    ],
)
def test_requests_are_freed_at_once(
    apiserver: Server, method: str, path: str, body: Any, media_type: str | None, status: int
) -> None:
    """A request that is refused, or so large that a thread answers it, is freed with its body when it is answered.

    No search for cycles has to find it: what is frozen after one would be kept for good.
    """
    apiserver.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    send(apiserver, method, path, body, media_type)  # what is needed for the first time is there now
    gc.collect()
    gc.disable()
    try:
        assert send(apiserver, method, path, body, media_type).status == status
        wait_until(lambda: [obj for obj in gc.get_objects() if isinstance(obj, Request)], lambda kept: not kept)
    finally:
        gc.enable()
