"""Requests that take long are answered in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.apiserver.server.worker.stop import SECONDS, Stop
from tests.http import Response, send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.endpoints.handlers import delete, patch, request_body, reviews
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters import writers
from understudy.apiserver.endpoints.subresources import scale
from understudy.apiserver.registry import rest, store
from understudy.apiserver.registry.rest import before_create
from understudy.apiserver.server import director
from understudy.apiserver.server.worker.executor import LARGE, LARGE_YAML
from understudy.apiserver.server.worker.loop_from_thread import LoopFromThread
from understudy.apiserver.server.worker.store_on_loop import StoreOnLoop
from understudy.apiserver.server.worker.worker import TRIES
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.options import Query
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import FRAMES, run_to_end

MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
TEXT = "x" * LARGE


def create(server: Server, name: str, text: str) -> Response:
    return send(server, "POST", MAPS, {"metadata": {"name": name}, "data": {"text": text}})


@pytest.mark.parametrize(("media", "size"), [("application/json", LARGE), ("application/yaml", LARGE_YAML)])
def test_others_are_answered_while_a_large_body_is_read(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, media: str, size: int
) -> None:
    """Health checks, reads and small writes are answered while a large object is created, and do not see it yet."""
    stop = Stop(request_body.read_object)
    monkeypatch.setattr(request_body, "read_object", stop)
    body = {"metadata": {"name": "large"}, "data": {"text": "x" * size}}
    large = beside.submit(send, server, "POST", MAPS, body, media)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    assert create(server, "small", "").status == 201
    assert [item["metadata"]["name"] for item in send(server, "GET", MAPS).json()["items"] if "data" in item] == [
        "small"
    ]
    stop.released.set()
    assert large.result().status == 201
    assert send(server, "GET", f"{MAPS}/large").json()["data"] == body["data"]


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


def test_large_object_that_others_outdate_is_stored(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large patch of an object that changes all the time is stored in the end: those who change it wait for it, and
    nobody else."""
    create(server, "busy", "")
    create(server, "idle", "")
    patch_live, calls, waiting = patch.patch_live, count(1), list[Future[Any]]()

    def patch_beside_another(write: WriteRequest, media: str, live: Obj) -> Any:
        if len(write.request.body) > LARGE:  # the small patches run in the thread too, once the object is large
            change = {"data": {"small": str(number := next(calls))}}
            if number <= TRIES:
                assert send(server, "PATCH", f"{MAPS}/busy", change).status == 200
            else:
                waiting.append(beside.submit(send, server, "PATCH", f"{MAPS}/busy", change))
                assert send(server, "PATCH", f"{MAPS}/idle", change).status == 200
                assert not waiting[0].done()
        return patch_live(write, media, live)

    monkeypatch.setattr(patch, "patch_live", patch_beside_another)
    response = send(server, "PATCH", f"{MAPS}/busy", {"data": {"text": TEXT}})
    assert response.json()["data"] == {"text": TEXT, "small": str(TRIES)}
    assert next(calls) == TRIES + 2
    assert waiting[0].result().json()["data"] == {"text": TEXT, "small": str(TRIES + 1)}


def noting_threads(function: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """Return a function that notes the name of the thread in which it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        names.append(threading.current_thread().name)
        return function(*args, **kwargs)

    return call


def test_large_objects_are_shown_to_webhooks(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Webhooks are asked once about a large object, which is not read and validated on the event loop for their sake.

    Others write meanwhile what the object was checked against, also large objects.
    """
    seen: list[str] = []
    monkeypatch.setattr(request_body, "read_object", noting_threads(request_body.read_object, seen))

    @server.webhook("configmaps", mutating=True)
    def label(request: Any) -> list[Obj]:
        asked.append(request["name"])
        if request["name"] == "large":
            server.patch("Namespace", "default", {"metadata": {"labels": {"changed": "meanwhile"}}})
            assert create(server, "other", TEXT).status == 201
        return [
            {"op": "add", "path": "/metadata/labels", "value": {"seen": str(len(request["object"]["data"]["text"]))}}
        ]

    @server.webhook("configmaps")
    def refuse(request: Any) -> str | None:
        seen = request["object"]["metadata"]["labels"]["seen"]
        return f"seen: {seen}" if request["name"] == "refused" else None

    asked: list[str] = []
    assert create(server, "large", TEXT).json()["metadata"]["labels"] == {"seen": str(LARGE)}
    assert create(server, "refused", TEXT).json()["message"].endswith(f"seen: {LARGE}")
    assert asked == ["large", "other", "refused"]
    assert seen == ["understudy-deep"] * 3


PODS = "/api/v1/namespaces/default/pods"
REVIEWS: dict[str, dict[str, Obj]] = {
    "authorization.k8s.io": {
        "subjectaccessreviews": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}},
        "selfsubjectaccessreviews": {"nonResourceAttributes": {"path": "/", "verb": "get"}},
        "selfsubjectrulesreviews": {"namespace": "default"},
    },
    "authentication.k8s.io": {"tokenreviews": {"token": "none"}, "selfsubjectreviews": {}},
}
NOTED = {"name": "p", "annotations": {"text": TEXT}}
PARTS = {
    "delete": ("DELETE", f"{PODS}/p", {"unknown": TEXT}, 200),
    "deletecollection": ("DELETE", MAPS, {"unknown": TEXT}, 200),
    "eviction": ("POST", f"{PODS}/p/eviction", {"metadata": NOTED}, 201),
    "binding": ("POST", f"{PODS}/p/binding", {"metadata": NOTED, "target": {"name": "n"}}, 201),
    "bindings": (
        "POST",
        "/api/v1/namespaces/default/bindings",
        {"metadata": NOTED, "target": {"name": "n"}},
        201,
    ),
    "token": ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}, "unknown": TEXT}, 201),
    "scale": (
        "PUT",
        "/api/v1/namespaces/default/replicationcontrollers/c/scale",
        {"metadata": {"name": "c"}, "unknown": TEXT},
        200,
    ),
    "patched scale": (
        "PATCH",
        "/api/v1/namespaces/default/replicationcontrollers/c/scale",
        {"spec": {"replicas": 2}, "unknown": TEXT},
        200,
    ),
    **{
        name: ("POST", f"/apis/{group}/v1/{name}", {"spec": spec, "unknown": TEXT}, 201)
        for group, specs in REVIEWS.items()
        for name, spec in specs.items()
    },
}


@pytest.mark.parametrize(("method", "path", "body", "status"), PARTS.values(), ids=PARTS)
def test_large_bodies_are_read_beside_the_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Obj, status: int
) -> None:
    """Large bodies of what is no object to be stored are parsed, and their managed fields made, beside the loop."""
    containers = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": containers}
    server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    server.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": containers})
    server.apply(
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "c"},
            "spec": {"replicas": 1, "template": template},
        }
    )
    seen: list[str] = []
    for module, name in ((request_body, "parse_json"), (scale, "patch_live")):
        monkeypatch.setattr(module, name, noting_threads(getattr(module, name), seen))
    monkeypatch.setattr(FieldManager, "update", noting_threads(FieldManager.update, seen))
    response = send(server, method, path, body)
    assert response.status == status, response.body
    assert set(seen[:2]) == {"understudy-deep"}  # those of a token are made once more, of what is left


def test_warnings_without_room_stay_beside_the_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings that an answer has no room for are dropped where the body is read."""
    counts: list[int] = []

    def noting(warnings: list[str]) -> list[tuple[str, str]]:
        counts.append(len(warnings))
        return writers.warning_headers(warnings)

    monkeypatch.setattr(director, "warning_headers", noting)
    unknown = {f"unknown-{'x' * 33}-{number:04}": TEXT[:9] for number in range(2000)}
    response = send(server, "POST", f"{MAPS}?fieldValidation=Warn", {"metadata": {"name": "warned"}, **unknown})
    assert response.status == 201
    # Each has 62 characters, and 67 of them exceed 4,096.
    assert counts == [len(response.headers.get_all("Warning") or [])] == [67]


def test_authorizers_are_asked_on_the_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A review whose body is read beside the event loop is answered on it."""
    seen: list[str] = []
    monkeypatch.setattr(reviews, "_attributes", noting_threads(reviews._attributes, seen))
    method, path, body, status = PARTS["subjectaccessreviews"]
    assert send(server, method, path, body).status == status
    assert seen == ["understudy"]


def service(name: str, **spec: Any) -> Obj:
    """Return a Service that is large."""
    return {"metadata": {"name": name, "annotations": {"text": TEXT}}, "spec": {"ports": [{"port": 80}], **spec}}


def addresses(server: Server) -> dict[str, str]:
    """Return the names of the Services that have an IPAddress, by address."""
    names = {obj["metadata"]["name"]: obj["spec"]["parentRef"]["name"] for obj in server.list("ipaddresses")}
    return {address: name for address, name in names.items() if name != "kubernetes"}


def test_others_are_answered_while_a_large_service_is_validated(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large Service holds its address and port while it is validated; another one does not make it begin anew."""
    stop = Stop(rest.validate)
    monkeypatch.setattr(rest, "validate", stop)
    large = beside.submit(send, server, "POST", SERVICES, service("large", type="NodePort"))
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    small = {"metadata": {"name": "small"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    other = send(server, "POST", SERVICES, small).json()["spec"]
    stop.released.set()
    response = large.result()
    assert response.status == 201, response.body
    spec = response.json()["spec"]
    assert spec["clusterIP"] != other["clusterIP"]
    assert spec["ports"][0]["nodePort"] != other["ports"][0]["nodePort"]
    assert addresses(server) == {spec["clusterIP"]: "large", other["clusterIP"]: "small"}
    assert stop.calls == 2


def test_refused_large_service_leaves_nothing_allocated(server: Server) -> None:
    """A large Service that is invalid, or that a webhook refuses when its address is there, gives all of it back."""

    @server.webhook("services")
    def refuse(request: Any) -> str:
        assert addresses(server) == {"10.0.0.9": "refused"}
        return "no"

    wanted = {"clusterIP": "10.0.0.9", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30009}]}
    invalid = service("invalid", **wanted, externalTrafficPolicy="x")
    assert send(server, "POST", SERVICES, invalid).status == 422
    assert send(server, "POST", SERVICES, service("refused", **wanted)).status == 403
    assert addresses(server) == {}
    server.delete("ValidatingWebhookConfiguration", "refuse", "")
    assert send(server, "POST", SERVICES, service("stored", **wanted)).status == 201
    assert addresses(server) == {"10.0.0.9": "stored"}


def test_late_large_service_leaves_no_address(server: Server) -> None:
    """A large Service whose time is over before it is stored has no IPAddress any more."""
    released = threading.Event()

    @server.webhook("services")
    def wait(request: Any) -> None:
        released.wait(SECONDS)

    assert send(server, "POST", f"{SERVICES}?timeout=1s", service("late")).status == 504
    assert list(addresses(server).values()) == ["late"]
    released.set()
    wait_until(partial(addresses, server), lambda found: not found)
    assert send(server, "GET", f"{SERVICES}/late").status == 404


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
    """A collection is deleted together: nothing comes between, however deep the request recurses."""
    deep = Deep(server, delete.delete_options, 0.2)
    monkeypatch.setattr(delete, "delete_options", deep)
    assert send(server, "DELETE", MAPS, {"propagationPolicy": "Background"}).status == 200
    assert set(deep.loop_went_on) == {False}  # twice if the body came later than the head


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
