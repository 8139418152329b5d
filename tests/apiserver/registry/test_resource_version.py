"""Reads that ask for a minimum resourceVersion, as kube-apiserver 1.31 and 1.32 answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.http import TIMEOUT, exchange, send
from understudy import Server
from understudy.apiserver.registry import continue_token, resource_version
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import V1_31, V1_32

FUTURE = 99999999
NOT_THERE = f"Timeout: Too large resource version: {FUTURE}, current: "
ETCD = "etcdserver: mvcc: required revision is a future revision"
TOKEN = continue_token.encode("a", 5)
BEYOND = 2**64
OUT_OF_RANGE = f'Invalid value: "{BEYOND}": strconv.ParseUint: parsing "{BEYOND}": value out of range'


async def test_write_ends_the_wait() -> None:
    """A read that waits for a version goes on with the write that makes it, and not with an earlier one."""
    store = MemoryStore()
    waiting = asyncio.create_task(resource_version.wait_for(store, str(store.revision + 2), wait_seconds=TIMEOUT))
    for name in "ab":
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.create(f"/registry/things/{name}", {"metadata": {"name": name}})
    await asyncio.wait_for(waiting, TIMEOUT)
    assert store.watching("/") == 0


async def test_timeout_ends_the_wait() -> None:
    """Without a write the read is refused at last, and leaves no watch behind in the store."""
    store = MemoryStore()
    with pytest.raises(StatusError) as refused:
        await resource_version.wait_for(store, "9", wait_seconds=0)
    assert (refused.value.code, refused.value.retry_after, store.watching("/")) == (504, 1, 0)


async def test_current_version_needs_no_wait() -> None:
    """No version, 0 and the current one are answered at once, without a step of the event loop."""
    store = MemoryStore()
    for version in ("", "0", str(store.revision)):
        with pytest.raises(StopIteration):
            resource_version.wait_for(store, version, wait_seconds=TIMEOUT).send(None)


@pytest.fixture(scope="module", params=[V1_31, V1_32], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        running.state.registry.wait_seconds = 0
        yield running


@pytest.mark.parametrize(
    ("where", "query", "status", "retry_after", "message"),
    [
        pytest.param("pods", "", 504, "1", NOT_THERE, id="a list"),
        pytest.param("pods/a", "", 504, "1", NOT_THERE, id="an object, be it missing"),
        pytest.param("pods/a/status", "", 504, "1", NOT_THERE, id="a status"),
        pytest.param("pods", "&limit=1&resourceVersionMatch=NotOlderThan", 504, "1", NOT_THERE, id="a page"),
        pytest.param("pods", "&fieldSelector=metadata.name%3Da", 504, "1", NOT_THERE, id="a name"),
        pytest.param("pods", "&limit=1&fieldSelector=metadata.name%3Da", 504, None, NOT_THERE, id="a name from etcd"),
        pytest.param("pods", "&limit=1", 500, None, ETCD, id="a page of that very version"),
        pytest.param("pods", "&resourceVersionMatch=Exact", 500, None, ETCD, id="that very version"),
        pytest.param(
            "pods", "&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Da", 500, None, ETCD, id="of a name"
        ),
        pytest.param(
            "pods",
            f"&continue={TOKEN}&fieldSelector=metadata.name%3Da",
            400,
            None,
            "specifying resource version is not allowed when using continue",
            id="a continued list looks at all, whatever name it asks for",
        ),
        pytest.param("events", "", 504, None, NOT_THERE, id="events are in no cache"),
        pytest.param("events/a", "", 504, None, NOT_THERE, id="nor is one of them"),
    ],
)
def test_future_version_is_a_timeout(
    server: Server, where: str, query: str, status: int, retry_after: str | None, message: str
) -> None:
    """A version that does not come is a timeout: the cache says when to try again, etcd does not."""
    path = f"/api/v1/namespaces/default/{where}?resourceVersion={FUTURE}{query}"
    response = send(server, "GET", path)
    code, headers, body = response.status, response.headers, response.json()
    assert (code, headers["Retry-After"]) == (status, retry_after)
    assert body["message"].startswith(message)
    assert body.get("details", {}).get("retryAfterSeconds") == (int(retry_after) if retry_after else None)


@pytest.mark.parametrize(
    ("where", "status", "message"),
    [
        pytest.param("pods", 500, f"resourceVersion: {OUT_OF_RANGE}", id="the cache's error"),
        pytest.param("events", 400, f"invalid resource version: resourceVersion: {OUT_OF_RANGE}", id="etcd's"),
        pytest.param("events/a", 400, f"invalid resource version: resourceVersion: {OUT_OF_RANGE}", id="of an object"),
    ],
)
def test_version_out_of_range(server: Server, where: str, status: int, message: str) -> None:
    """A version beyond 64 bits is 500 from the cache and 400 from etcd."""
    code, body = exchange(server, "GET", f"/api/v1/namespaces/default/{where}?resourceVersion={BEYOND}")
    assert (code, body["message"]) == (status, message)
