"""Clients that meet every fault lose no event: they end with what the server holds."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.waiting import PATIENCE, wait_until
from understudy import Fault, Server, StatusError

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NOTHING_DUE = "no_bookmarks"  # no bookmark is due within a minute


class WatchLoop:
    """A list and a watch that goes on from it, again and again: what every client of Kubernetes does.

    data    {name: data} of the objects, as far as events have told
    """

    def __init__(self, url: str) -> None:
        self._netloc = urlsplit(url).netloc
        self._version = ""
        self._stopped = threading.Event()
        self.data: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> WatchLoop:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stopped.wait(0.01):
            connection = http.client.HTTPConnection(self._netloc, timeout=2)
            try:
                self._watch(connection) if self._version else self._list(connection)
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                pass  # the next turn goes on from the last version
            finally:
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection, query: str) -> http.client.HTTPResponse | None:
        """Send a GET; return its answer, None if it is an error."""
        connection.request("GET", f"{CONFIG_MAPS}?{query}", headers={"User-Agent": "loop"})
        response = connection.getresponse()
        if response.status == 410:
            self._version = ""
        return response if response.status == 200 else None

    def _list(self, connection: http.client.HTTPConnection) -> None:
        if response := self._ask(connection, "resourceVersion=0"):
            listed = json.loads(response.read())
            self.data = {item["metadata"]["name"]: item["data"] for item in listed["items"]}
            self._version = listed["metadata"]["resourceVersion"]

    def _watch(self, connection: http.client.HTTPConnection) -> None:
        query = f"watch=1&allowWatchBookmarks=1&timeoutSeconds=1&resourceVersion={self._version}"
        response = self._ask(connection, query)
        for line in response or ():
            event = json.loads(line)
            obj = event["object"]
            if event["type"] == "ERROR":
                self._version = ""
                return
            if event["type"] == "DELETED":
                self.data.pop(obj["metadata"]["name"])
            elif event["type"] != "BOOKMARK":
                self.data[obj["metadata"]["name"]] = obj["data"]
            self._version = obj["metadata"]["resourceVersion"]


def change(server: Server) -> None:
    """Create, change and delete objects."""
    for turn in range(12):
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"object-{turn}"}}
        server.apply({**manifest, "data": {"turn": "0"}})
        server.apply({**manifest, "data": {"turn": "1"}})
        if turn % 3 == 0:
            server.delete("configmaps", f"object-{turn}")


def held(server: Server) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["data"] for each in server.list("configmaps", namespace="default")}


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault.too_many_requests(), Fault.server_error(), Fault.service_unavailable(), Fault.timeout()),
        *(Fault.reset(), Fault.reset(after_bytes=10), Fault.delay(0.05), Fault.slow(20_000), Fault.stale(3)),
        *(Fault.cut_watch(0), Fault.cut_watch(2), Fault.cut_watch(1, reset=True), Fault.expired(), Fault.expired(1)),
        *(Fault.no_bookmarks(), Fault.hang()),
    ],
    ids=str,
)
def test_watch_loop_loses_no_event(apiserver: Server, fault: Fault) -> None:
    """A loop of lists and watches ends with the objects of the server, whatever its requests meet."""
    change(apiserver)
    times = 1 if fault == Fault.hang() else 3  # the loop gives up after two seconds
    rule = apiserver.faults.add(fault, user_agent="loop", nth=1, times=times)
    with WatchLoop(apiserver.url) as loop:
        wait_until(lambda: loop.data)
        change(apiserver)
        wait_until(lambda: loop.data, lambda data: data == held(apiserver))
        if fault.name != NOTHING_DUE:
            wait_until(lambda: rule.fired)
        wait_until(lambda: loop.data, lambda data: data == held(apiserver))


def test_watch_loop_survives_chaos(apiserver: Server) -> None:
    """A loop of which half of all requests meet a fault ends with the objects of the server."""
    chaos = apiserver.faults.chaos(seed=7, share=0.5, user_agent="loop")
    with WatchLoop(apiserver.url) as loop:
        for _ in range(3):
            change(apiserver)
            wait_until(lambda: loop.data, lambda data: data == held(apiserver))
    chaos.assert_fired()


def write_until_done(server: Server, seed: int) -> tuple[list[str], list[tuple[str, int]], bytes]:
    """Write objects one after the other amid chaos, each until it is there; return the faults that were met, the
    requests with their status, and what is stored."""
    server.reset()
    server.faults.chaos(seed=seed, share=0.4, user="writer")
    writer = server.user("writer")
    for number in range(12):
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"object-{number}"}, "data": {}}
        for _ in range(50):
            with suppress(OSError, StatusError):
                writer.apply(manifest)
                break
    requests = [(each.path, each.status) for each in server.requests if each.user == "writer"]
    stored = [
        {**each, "metadata": {"name": each["metadata"]["name"]}}
        for each in server.list("configmaps", namespace="default")
    ]
    return [str(each) for each in server.faults.fired], requests, json.dumps(stored).encode()


def test_same_seed_gives_the_same_history(apiserver: Server) -> None:
    """A client that writes one object after the other sees the same twice, to the byte, and all are there at last."""
    first = write_until_done(apiserver, 7)
    assert write_until_done(apiserver, 7) == first
    assert write_until_done(apiserver, 8) != first
    assert len(json.loads(first[2])) == 12
