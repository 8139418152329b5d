"""Requests that take long are answered in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.apiserver.server.worker.stop import SECONDS, Stop
from tests.http import Response, send
from understudy import Server
from understudy.apiserver.endpoints.handlers import patch, request_body
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.registry import store
from understudy.apiserver.registry.rest import before_create
from understudy.apiserver.server.worker.executor import LARGE
from understudy.apiserver.server.worker.loop_from_thread import LoopFromThread
from understudy.apiserver.server.worker.store_on_loop import StoreOnLoop
from understudy.apiserver.server.worker.worker import TRIES
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.options import Query
from understudy.machinery.releases.version import V1_34
from understudy.machinery.util.deep_recursion import FRAMES, run_to_end

MAPS = "/api/v1/namespaces/default/configmaps"
TEXT = "x" * LARGE


def create(server: Server, name: str, text: str) -> Response:
    return send(server, "POST", MAPS, {"metadata": {"name": name}, "data": {"text": text}})


def test_others_are_answered_while_a_large_body_is_read(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health checks, reads and small writes are answered while a large object is created, and do not see it yet."""
    stop = Stop(request_body.read_object)
    monkeypatch.setattr(request_body, "read_object", stop)
    large = beside.submit(create, server, "large", TEXT)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    assert create(server, "small", "").status == 201
    assert [item["metadata"]["name"] for item in send(server, "GET", MAPS).json()["items"] if "data" in item] == [
        "small"
    ]
    stop.released.set()
    assert large.result().status == 201
    assert send(server, "GET", f"{MAPS}/large").json()["data"] == {"text": TEXT}


def test_update_sees_what_was_written_meanwhile(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large patch is computed again if another write has changed the object before it is stored."""
    create(server, "shared", "")
    stop = Stop(patch.patch_live)
    monkeypatch.setattr(patch, "patch_live", stop)
    large = beside.submit(send, server, "PATCH", f"{MAPS}/shared", {"data": {"text": TEXT}})
    assert stop.reached.wait(SECONDS)
    assert send(server, "PATCH", f"{MAPS}/shared", {"data": {"small": "1"}}).status == 200
    stop.released.set()
    assert large.result().json()["data"] == {"text": TEXT, "small": "1"}
    assert stop.calls == 3


def test_others_are_answered_while_a_large_object_is_changed(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small patch of a large object is computed in the thread as well."""
    create(server, "large", TEXT)
    stop = Stop(patch.patch_live)
    monkeypatch.setattr(patch, "patch_live", stop)
    changed = beside.submit(send, server, "PATCH", f"{MAPS}/large", {"data": {"small": "1"}})
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert changed.result().status == 200


def test_client_that_goes_away_leaves_the_thread_to_the_next(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large request ends although its client has gone, and the next one has its turn."""
    stop = Stop(request_body.read_object)
    monkeypatch.setattr(request_body, "read_object", stop)
    body = json.dumps({"metadata": {"name": "left"}, "data": {"text": TEXT}})
    with closing(HTTPConnection(urlsplit(server.url).netloc)) as connection:
        connection.request("POST", MAPS, body)
        assert stop.reached.wait(SECONDS)
    stop.released.set()
    assert create(server, "next", TEXT).status == 201
    assert send(server, "GET", f"{MAPS}/left").status == 200


def test_large_object_is_not_created_in_a_namespace_deleted_meanwhile(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large object begins anew if what it was checked against has changed before it is stored."""
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gone"}})
    stop = Stop(before_create)
    monkeypatch.setattr(store, "before_create", stop)
    body = {"metadata": {"name": "large"}, "data": {"text": TEXT}}
    large = beside.submit(send, server, "POST", "/api/v1/namespaces/gone/configmaps", body)
    assert stop.reached.wait(SECONDS)
    server.delete("Namespace", "gone", "")
    stop.released.set()
    assert large.result().status in (403, 404)


def test_large_object_that_others_outdate_is_stored(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large patch of an object that changes all the time is stored in the end, while the loop stands still."""
    create(server, "busy", "")
    patch_live, calls = patch.patch_live, count(1)

    def patch_beside_another(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread().name == "understudy-deep" and (number := next(calls)) <= TRIES:
            assert send(server, "PATCH", f"{MAPS}/busy", {"data": {"small": str(number)}}).status == 200
        return patch_live(*args, **kwargs)

    monkeypatch.setattr(patch, "patch_live", patch_beside_another)
    response = send(server, "PATCH", f"{MAPS}/busy", {"data": {"text": TEXT}})
    assert response.json()["data"] == {"text": TEXT, "small": str(TRIES)}
    assert next(calls) == TRIES + 2


def test_large_objects_are_shown_to_webhooks(server: Server) -> None:
    """A large object that a webhook is asked about is answered on the event loop, which can wait for the webhook."""

    @server.webhook("configmaps")
    def sees_large(request: Any) -> str:
        return f"{len(request['object']['data']['text'])} characters"

    response = create(server, "large", TEXT)
    assert response.status == 403
    assert response.json()["message"].endswith(f"{LARGE} characters")


class Deep:
    """Recurses too deep wherever the limit is the ordinary one; then it looks whether the event loop goes on."""

    def __init__(self, server: Server, function: Callable[..., Any], seconds: float) -> None:
        self._function = function
        self._server = server
        self._seconds = seconds
        self.loop_went_on: list[bool] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if sys.getrecursionlimit() < FRAMES:
            raise RecursionError
        turned = threading.Event()
        assert self._server._thread is not None
        self._server._thread._loop.call_soon_threadsafe(turned.set)
        self.loop_went_on.append(turned.wait(self._seconds))
        return self._function(*args, **kwargs)


def test_others_are_answered_while_a_request_recurses_deep(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health checks and reads are answered while a request recurses deep; writes wait, as they may be deep too."""
    deep = Deep(server, request_body.read_object, SECONDS)
    stop = Stop(deep._function)
    deep._function = stop
    monkeypatch.setattr(request_body, "read_object", deep)
    first = beside.submit(create, server, "deep", "")
    assert stop.reached.wait(SECONDS)
    assert sys.getrecursionlimit() == FRAMES
    assert send(server, "GET", "/healthz").body == b"ok"
    assert send(server, "GET", f"{MAPS}/deep").status == 404
    second = beside.submit(create, server, "other", "")
    time.sleep(0.1)
    assert not second.done()
    stop.released.set()
    assert (first.result().status, second.result().status) == (201, 201)
    assert deep.loop_went_on == [True, True]
    assert sys.getrecursionlimit() < FRAMES


def test_loop_stands_still_while_several_objects_are_written_deep(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Service and its addresses are written together: nothing comes between, however deep the request recurses."""
    deep = Deep(server, request_body.read_object, 0.2)
    monkeypatch.setattr(request_body, "read_object", deep)
    body = {"metadata": {"name": "deep"}, "spec": {"ports": [{"port": 80}]}}
    assert send(server, "POST", "/api/v1/namespaces/default/services", body).status == 201
    assert deep.loop_went_on == [False]


async def test_loop_with_an_ordinary_stack_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is not the server's own may have a stack that ends before the raised limit: it stands still."""
    server = Server()
    await server.start()
    try:
        loop, turned = asyncio.get_running_loop(), threading.Event()
        read_object = request_body.read_object

        def recurse(*args: Any, **kwargs: Any) -> Any:
            if sys.getrecursionlimit() < FRAMES:
                raise RecursionError
            loop.call_soon_threadsafe(turned.set)
            went_on.append(turned.wait(0.2))
            return read_object(*args, **kwargs)

        went_on: list[bool] = []
        monkeypatch.setattr(request_body, "read_object", recurse)
        assert (await asyncio.to_thread(create, server, "deep", "")).status == 201
        assert went_on == [False]
    finally:
        await server.stop()


def test_nothing_stays_behind(server: Server) -> None:
    """A request in the thread leaves no watch of the store behind: every later write would wake it."""
    state = server.state
    assert create(server, "first", TEXT).status == 201
    watching = state.registry.store.watching("/registry/")
    for number in range(5):
        assert create(server, f"map-{number}", TEXT).status == 201
    assert state.registry.store.watching("/registry/") == watching
    assert create(server, "later", TEXT).status == 201


def test_closed_loop_ends_a_request(beside: ThreadPoolExecutor) -> None:
    """A thread whose loop is closed gets an error, and leaves no coroutine behind that nobody has awaited."""
    loop = asyncio.new_event_loop()
    asked = Request("GET", MAPS, {}, b"", Query(""), V1_34)
    on_loop = StoreOnLoop(MemoryStore(), LoopFromThread(loop), asked)
    loop.close()
    for work in (on_loop.get("/a"), on_loop.create("/a", {})):
        with pytest.raises(RuntimeError, match="closed"):
            beside.submit(run_to_end, work).result(SECONDS)
    gc.collect()
