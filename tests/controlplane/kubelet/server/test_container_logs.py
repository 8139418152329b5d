"""Logs that tests give to pods, as the API server gets them of the kubelet."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.controlplane.kubelet.conftest import NODE, Cluster
from understudy.controlplane.client.resources import NODES, PODS
from understudy.controlplane.kubelet.server.container_logs import Log, LogOptions

NOON = 1_700_000_000.0  # 2023-11-14T22:13:20Z
LOG = "/api/v1/namespaces/default/pods/{}/log"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, b"one\ntwo\nthree\n"),
        ({"tailLines": "2"}, b"two\nthree\n"),
        ({"tailLines": "0"}, b""),
        ({"tailLines": "9"}, b"one\ntwo\nthree\n"),
        ({"limitBytes": "5"}, b"one\nt"),
        ({"tailLines": "1", "timestamps": "true"}, b"2023-11-14T22:13:20.000000000Z three\n"),
        ({"sinceSeconds": "10"}, b"one\ntwo\nthree\n"),
        ({"sinceSeconds": "1"}, b""),
        ({"sinceTime": "2023-11-14T22:13:20Z"}, b"one\ntwo\nthree\n"),
        ({"sinceTime": "2023-11-14T22:13:21Z"}, b""),
    ],
)
def test_options_choose_the_lines(query: dict[str, str], text: bytes) -> None:
    """All lines have the time at which the container was started, here five seconds ago."""
    assert Log(LogOptions.of(query, NOON + 5), NOON).more(["one", "two", "three"]) == text


def test_followed_log_has_each_line_once() -> None:
    """Only lines that have come are read again; a log that was replaced is read from its begin, to the limit."""
    log = Log(LogOptions(tail=1, limit=12), NOON)
    read = [log.more(lines) for lines in (["a", "b"], ["a", "b", "c"], ["a", "b", "c"], ["new"], ["new", "longer"])]
    assert (read, log.is_full) == ([b"b\n", b"c\n", b"", b"new\n", b"long"], True)


class Reader:
    """Reads logs at the API server of a cluster."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def begin(self, pod: str, query: str = "") -> http.client.HTTPResponse:
        self._connection.request("GET", f"{LOG.format(pod)}?{query}")
        return self._connection.getresponse()

    def read(self, pod: str, query: str = "") -> tuple[int, str]:
        answer = self.begin(pod, query)
        return answer.status, answer.read().decode()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
async def reader(cluster: Cluster) -> AsyncIterator[Reader]:
    """Return a reader of logs on the node, which a kubelet that serves them has registered."""
    await cluster.client.delete(NODES, NODE)
    async with cluster.kubelet(register_node=True, serves_logs=True):
        reader = Reader(cluster.client.connection.url)
        yield reader
        reader.close()


async def annotate(cluster: Cluster, pod: str, text: str) -> None:
    patch: dict[str, Any] = {"metadata": {"annotations": {"log.understudy.dev/c": text}}}
    await cluster.client.patch(PODS, pod, patch, "default", content_type="application/merge-patch+json")


async def test_log_is_what_the_annotation_says(cluster: Cluster, reader: Reader) -> None:
    """The log of a pod that runs is its annotation, "" without one; a pod that waits for a claim has no log yet."""
    await cluster.create_pod("quiet")
    await cluster.create_pod("p")
    await annotate(cluster, "p", "one\ntwo")
    await cluster.reaches("Running", "p", "quiet")
    assert await asyncio.to_thread(reader.read, "p") == (200, "one\ntwo\n")
    assert await asyncio.to_thread(reader.read, "p", "tailLines=1&timestamps=false") == (200, "two\n")
    assert await asyncio.to_thread(reader.read, "quiet") == (200, "")
    status, text = await asyncio.to_thread(reader.read, "p", "previous=true")
    assert (status, 'previous terminated container \\"c\\" in pod \\"p\\" not found' in text) == (400, True)
    await cluster.create_pod("waiting", "missing")
    status, text = await asyncio.to_thread(reader.read, "waiting")
    assert (status, 'container \\"c\\" in pod \\"waiting\\" is waiting to start' in text) == (400, True)


async def test_followed_log_ends_with_its_pod(cluster: Cluster, reader: Reader) -> None:
    """Lines come as they are written to the annotation, and the log ends when the pod is deleted."""
    await cluster.create_pod("p")
    await annotate(cluster, "p", "one")
    await cluster.reaches("Running", "p")
    answer = await asyncio.to_thread(reader.begin, "p", "follow=true")
    assert await asyncio.to_thread(answer.readline) == b"one\n"
    await annotate(cluster, "p", "one\ntwo")
    assert await asyncio.to_thread(answer.readline) == b"two\n"
    await cluster.client.delete(PODS, "p", "default")
    assert await asyncio.to_thread(answer.read) == b""
