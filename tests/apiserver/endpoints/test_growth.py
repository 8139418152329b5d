"""Bodies, patches and headers of thousands of parts: the work that they cause grows as they do, not as their square.

Each case is measured at one size and at four times that size, in CPU seconds of the process, so that what else the
machine does matters little. What is linear takes four times as long, what is quadratic sixteen times.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.front_door import front_door
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.worker import executor
from understudy.machinery.options import Query
from understudy.machinery.releases.version import V1_32

JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
CONFIG_MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
CLASSES = "/apis/resource.k8s.io/v1beta1/deviceclasses"

SMALL = 1000  # parts; the other size is four times that
MOST_GROWTH = 9.0
NEGLIGIBLE = 0.15  # CPU seconds at the large size that are never too many
TRIES = 3
UNIQUE = count()  # makes headers and expressions that no cache knows

Step = tuple[str, str, str, Any]  # method, address, Content-Type or the Accept header of a GET, body
Case = Callable[[int], list[Step]]


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", **metadata}}


def pod(*env: dict[str, str], **container: Any) -> dict[str, Any]:
    containers = [{"name": "a", "image": "i", "env": list(env), **container}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}


def device_class(expression: str) -> dict[str, Any]:
    head = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "x"}}
    return {**head, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def created_then(created: dict[str, Any], method: str, query: str, content_type: str, body: Any) -> list[Step]:
    """Return the creation of an object and a request for it."""
    path = PODS if created["kind"] == "Pod" else CONFIG_MAPS
    return [("POST", path, JSON, created), (method, f"{path}/x{query}", content_type, body)]


def finalizers(n: int) -> list[str]:
    return [f"example.com/{i}" for i in range(n)]


def variables(n: int, name: str = "A", value: str = "1") -> list[dict[str, str]]:
    return [{"name": f"{name}{i}", "value": f"{value}{i}"} for i in range(n)]


def owner(i: int) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}"}


CASES: dict[str, Case] = {
    "data": lambda n: [("POST", CONFIG_MAPS, JSON, {**config_map(), "data": {f"k{i}": "v" for i in range(n)}})],
    "data with wrong keys": lambda n: [
        ("POST", CONFIG_MAPS, JSON, {**config_map(), "data": {f"k/{i}": "v" for i in range(n)}})
    ],
    "numbers in an unknown field": lambda n: [("POST", CONFIG_MAPS, JSON, {**config_map(), "x": [1] * 8 * n})],
    "unknown fields": lambda n: [("POST", CONFIG_MAPS, JSON, {**config_map(), **{f"x{i}": i for i in range(n)}})],
    "owners": lambda n: [("POST", CONFIG_MAPS, JSON, config_map(ownerReferences=[owner(i) for i in range(n)]))],
    "repeated finalizers": lambda n: [("POST", CONFIG_MAPS, JSON, config_map(finalizers=["example.com/a"] * n))],
    "refused update of names": lambda n: created_then(
        pod(*variables(n // 2)), "PUT", "", JSON, pod(*variables(n // 2, "B", "2"))
    ),
    "refused update of values": lambda n: created_then(
        pod(*variables(n // 2)), "PUT", "", JSON, pod(*variables(n // 2, "A", "2"))
    ),
    "refused update of labels": lambda n: created_then(
        {**pod(), "spec": {**pod()["spec"], "nodeSelector": {f"a{i}": "a" for i in range(2 * n)}}},
        "PUT",
        "",
        JSON,
        {**pod(), "spec": {**pod()["spec"], "nodeSelector": {f"b{i}": "b" for i in range(2 * n)}}},
    ),
    "refused update of a text": lambda n: created_then(
        pod(command=["abcdefg " * n]), "PUT", "", JSON, pod(command=["hgfe dcba" * n])
    ),
    "strategic patch with duplicates": lambda n: created_then(
        config_map(finalizers=finalizers(n)),
        "PATCH",
        "",
        STRATEGIC,
        {"metadata": {"finalizers": [finalizer for finalizer in finalizers(n // 2) for _ in range(2)]}},
    ),
    "strategic patch that deletes": lambda n: created_then(
        pod(*variables(2 * n)),
        "PATCH",
        "",
        STRATEGIC,
        {
            "spec": {
                "containers": [{"name": "a", "env": [{"name": f"A{i}", "$patch": "delete"} for i in range(1, 2 * n)]}]
            }
        },
    ),
    "strategic patch by keys": lambda n: created_then(
        pod(*variables(n)),
        "PATCH",
        "",
        STRATEGIC,
        {"spec": {"containers": [{"name": "a", "env": variables(n, value="2")[::-1]}]}},
    ),
    "strategic patch that empties a list": lambda n: created_then(
        config_map(finalizers=finalizers(n)),
        "PATCH",
        "",
        STRATEGIC,
        {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers(n)}},
    ),
    "terms of a selector": lambda n: [
        ("POST", CLASSES, JSON, device_class(f"{next(UNIQUE)} == 1 || {' || '.join(['true'] * (n // 4))}"))
    ],
    "insertions at the front": lambda n: created_then(
        config_map(finalizers=["example.com/a"]),
        "PATCH",
        "",
        JSON_PATCH,
        [{"op": "add", "path": "/metadata/finalizers/0", "value": finalizer} for finalizer in finalizers(n)],
    ),
    "apply of a set": lambda n: created_then(
        config_map(finalizers=finalizers(n)),
        "PATCH",
        "?fieldManager=m&force=true",
        APPLY,
        config_map(finalizers=finalizers(n)[::-1]),
    ),
    "apply of a list by keys": lambda n: created_then(
        pod(*variables(n // 2)), "PATCH", "?fieldManager=m", APPLY, pod(*variables(n // 2, "A", "2"))
    ),
    "label selectors": lambda n: [
        ("GET", f"{CONFIG_MAPS}?labelSelector={'%2C'.join(f'k{i}%3Dv' for i in range(n))}", JSON, None)
    ],
    "field selectors": lambda n: [
        ("GET", f"{CONFIG_MAPS}?fieldSelector={'%2C'.join(f'metadata.name%3Dv{i}' for i in range(n))}", JSON, None)
    ],
    "query parameters": lambda n: [("GET", f"{CONFIG_MAPS}?{'&'.join(f'a{i}=b' for i in range(n))}", JSON, None)],
    "clauses of Accept": lambda n: [
        ("GET", CONFIG_MAPS, ",".join(f"{next(UNIQUE)}/b;q=0.{i % 9 + 1}" for i in range(4 * n)), None)
    ],
}


@pytest.mark.maintenance
@pytest.mark.parametrize("name", CASES)
def test_work_grows_in_proportion(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of four times the size takes about four times as long."""
    for limit in ("LARGE", "LARGE_YAML"):
        monkeypatch.setattr(executor, limit, sys.maxsize)  # there is no event loop that must be free meanwhile
    asyncio.run(seconds_of(CASES[name](SMALL // 10)))  # fills caches, and imports what the request needs
    for _ in range(TRIES):
        small, large = (asyncio.run(seconds_of(CASES[name](size))) for size in (SMALL, 4 * SMALL))
        if large < max(NEGLIGIBLE, MOST_GROWTH * small):
            return
    pytest.fail(f"{small:.3f} s grow to {large:.3f} s")


async def seconds_of(steps: list[Step]) -> float:
    """Send requests to a new server in this process; return the CPU seconds that the last one takes."""
    door = front_door()
    await fill.fill(door.state, 0)
    seconds = 0.0
    for method, address, media_type, body in steps:
        path, _, query = address.partition("?")
        headers = {"Accept": media_type} if body is None else {"Content-Type": media_type}
        raw = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, headers, raw, Query(query), V1_32)
        gc.disable()  # a collection looks at everything that all tests keep
        try:
            before = time.process_time()
            answer = await door(request)
            seconds = time.process_time() - before
        finally:
            gc.enable()
        assert isinstance(answer, Response)
        assert answer.status in (200, 201, 406, 409, 422), answer.body
    await door.finish()
    return seconds
