"""How much work requests are: the calls of functions of understudy, from the filters to the answer, without HTTP.

Times differ from machine to machine, calls do not. A change that makes a path longer is noticed here; if that is what
it has to cost, its number is changed with it, and `scripts.measure micro` says what it means in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import understudy
from tests.apiserver.server.test_watch_stream import Client
from tests.clock import FixedDate
from tests.counting import counted_calls
from tests.front_door import front_door
from tests.waiting import until
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.http.watch_stream import Pump, Pumps
from understudy.apiserver.storage.turns import endless_turns
from understudy.machinery.options import parse_query
from understudy.machinery.releases.version import V1_37

SOURCES = str(Path(understudy.__file__).parent)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
OBJECTS = 50  # in a list
TIMES = 6  # of which the shortest counts: the first ones fill caches
MORE, FEWER = 1.04, 0.85  # times the calls below may be made: their number depends a little on the order of sets

names = count()


def labelled(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "labels": {"app": "a"}}


def claim(name: str) -> dict[str, Any]:
    exactly = {
        "deviceClassName": "gpu.example.com",
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
    }
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": labelled(name),
        "spec": spec,
    }


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": labelled(name), "spec": {"containers": containers}}


def deployment(name: str) -> dict[str, Any]:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod("")["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": labelled(name), "spec": spec}


def new_label() -> dict[str, Any]:
    return {"metadata": {"labels": {"changed": f"v{next(names)}"}}}


def changed(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a label that it never had."""
    return {**obj, "metadata": {**obj["metadata"], **new_label()["metadata"]}}


class Asked(NamedTuple):
    """A request, made anew each time, and its path."""

    method: str
    path: str
    body: Callable[[], Any] = lambda: None
    media: str = JSON
    query: str = ""


# The request, and how many calls it is on Python 3.11, and from 3.12 on, where comprehensions are none. Each that
# changes an object has one of its own, so that they may run in any order.
PATHS: dict[str, tuple[Asked, int, int]] = {
    "get": (Asked("GET", f"{CLAIMS}/one"), 53, 53),
    "get nothing": (Asked("GET", f"{CLAIMS}/none"), 58, 58),
    "list": (Asked("GET", PODS, query="limit=500"), 132, 129),
    "list by label": (Asked("GET", PODS, query="labelSelector=app%3Da"), 537, 532),
    "create claim": (Asked("POST", CLAIMS, lambda: claim(f"claim-{next(names)}")), 549, 499),
    "create pod": (Asked("POST", PODS, lambda: pod(f"new-{next(names)}"), query="dryRun=All"), 826, 760),
    "update claim": (Asked("PUT", f"{CLAIMS}/updated", lambda: changed(claim("updated"))), 540, 499),
    "patch claim": (Asked("PATCH", f"{CLAIMS}/patched", new_label, MERGE_PATCH), 550, 507),
    "patch deployment": (Asked("PATCH", f"{DEPLOYMENTS}/one", new_label, STRATEGIC_PATCH), 856, 782),
    "apply claim": (
        Asked("PATCH", f"{CLAIMS}/applied", lambda: changed(claim("applied")), APPLY_PATCH, "fieldManager=a"),
        741,
        686,
    ),
    "delete": (Asked("DELETE", f"{CLAIMS}/one", query="dryRun=All"), 124, 123),
}


async def answer(director: Director, asked: Asked) -> int:
    """Answer a request; return how many calls that was."""
    body = asked.body()
    raw = b"" if body is None else json.dumps(body).encode()
    headers = {"Accept": JSON, "Content-Type": asked.media, "User-Agent": "test"}
    request = Request(asked.method, asked.path, headers, raw, parse_query(asked.query), V1_37)
    with counted_calls(SOURCES) as calls:
        response = await director(request)
    assert isinstance(response, Response)
    assert response.status < 300 or asked.path.endswith("/none"), response.body
    return calls.count


@pytest.fixture(scope="module")
def director() -> Director:
    director = front_door(V1_37, FixedDate())

    async def fill_store() -> None:
        await fill.fill(director.state, 0)
        new = [(CLAIMS, claim(name)) for name in ("one", "updated", "patched")]
        new += [(DEPLOYMENTS, deployment("one")), *((PODS, pod(f"pod-{number}")) for number in range(OBJECTS))]
        for path, obj in new:
            await answer(director, Asked("POST", path, partial(dict, obj)))

    asyncio.run(fill_store())
    return director


@pytest.mark.parametrize("name", PATHS)
def test_path_has_not_become_longer(director: Director, name: str) -> None:
    """A request is not more calls than it was when its number was written down, and not much less."""
    asked, *numbers = PATHS[name]

    async def calls() -> list[int]:
        return [await answer(director, asked) for _ in range(TIMES)]

    made, known = min(asyncio.run(calls())), numbers[sys.version_info >= (3, 12)]
    assert known * FEWER <= made <= known * MORE


WATCHED = "/api/v1/namespaces/default/configmaps"
CALLS_PER_WATCHER = 9


async def calls_of_a_write(director: Director, watchers: int) -> int:
    """Return the number of calls that a write is, with the events that watchers are sent."""
    pumps, clients = Pumps(director.state.clock), [Client() for _ in range(watchers)]
    query = parse_query(f"watch=true&resourceVersion={director.state.registry.store.revision}")
    tasks = []
    for client in clients:
        response = await director(Request("GET", WATCHED, {"Accept": JSON}, b"", query, V1_37))
        assert isinstance(response, WatchResponse)
        tasks.append(asyncio.create_task(Pump(response.source, client, pumps).run()))
    await until(lambda: all(client.got for client in clients))
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map-{next(names)}"}}
    calls = await answer(director, Asked("POST", WATCHED, lambda: new))
    with endless_turns(), counted_calls(SOURCES) as sending:
        pumps.deliver()
    assert all(b"ADDED" in client.got[-1][1] for client in clients)
    pumps.close()
    await asyncio.wait(tasks)
    return calls + sending.count


def test_event_is_little_work_for_each_watcher(director: Director) -> None:
    """A watcher more is a few calls more for each write that it sees."""

    async def calls() -> float:
        await calls_of_a_write(director, 1)
        few, many = [await calls_of_a_write(director, number) for number in (10, 60)]
        return (many - few) / 50

    assert CALLS_PER_WATCHER * FEWER <= asyncio.run(calls()) <= CALLS_PER_WATCHER * MORE
