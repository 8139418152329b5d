"""Clients that follow a server for a day of its time, while a part of their requests fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Queue
from threading import Event, Thread
from typing import Any

import pytest

from tests.clients.test_kopf import config_map, operator
from tests.waiting import PATIENCE, wait_until
from understudy import Server

kopf = pytest.importorskip("kopf", reason="the framework `kopf` is not installed")
kubernetes = pytest.importorskip("kubernetes", reason="the client `kubernetes` is not installed")
urllib3 = pytest.importorskip("urllib3", reason="the client `kubernetes` is not installed")
pytestmark = pytest.mark.maintenance
STEPS, MINUTES = 144, 10  # a day


class WatchLoop:
    """A loop as people write it: list, watch from there, list again when that is too old.

    versions  the versions of each object that it was told of, in order
    """

    def __init__(self, url: str) -> None:
        client = kubernetes.client.ApiClient(kubernetes.client.Configuration(host=url))
        client.user_agent = "watch-loop"
        self._core = kubernetes.client.CoreV1Api(client)
        self.known: dict[str, str] = {}
        self.versions: dict[str, list[int]] = {}
        self.stopped = Event()

    def run(self) -> None:
        """Follow the objects until stopped."""
        version = None
        while not self.stopped.is_set():
            try:
                version = self._list() if version is None else self._watch(version)
            except kubernetes.client.ApiException as error:
                version = None if error.status == 410 else version
            except urllib3.exceptions.HTTPError:
                pass  # the connection has been reset

    def _list(self) -> str:
        listed = self._core.list_namespaced_config_map("default")
        for name in self.known.keys() - {item.metadata.name for item in listed.items}:
            del self.known[name]
        for item in listed.items:
            self._put(item)
        version: str = listed.metadata.resource_version
        return version

    def _watch(self, version: str) -> str:
        """Take in what a watch sends until it ends; return the version to go on from."""
        listing: Callable[..., Any] = self._core.list_namespaced_config_map
        options = {"resource_version": version, "timeout_seconds": 300, "allow_watch_bookmarks": True}
        for event in kubernetes.watch.Watch().stream(listing, "default", **options):
            obj = event["object"]
            if event["type"] == "BOOKMARK":
                version = event["raw_object"]["metadata"]["resourceVersion"]
                continue
            version = obj.metadata.resource_version
            if event["type"] == "DELETED":
                self.known.pop(obj.metadata.name, None)
            else:
                self._put(obj)
        return version

    def _put(self, obj: Any) -> None:
        name, version = obj.metadata.name, obj.metadata.resource_version
        if self.known.get(name) != version:
            self.versions.setdefault(name, []).append(int(version))
        self.known[name] = version


def test_clients_lose_nothing_in_a_day(apiserver: Server) -> None:
    """A watch loop and an operator of kopf know of every object in the end, and have seen each in its order."""
    registry, handled = kopf.OperatorRegistry(), Queue[tuple[str, str]]()

    @kopf.on.startup(registry=registry)
    def configure(settings: Any, **_: Any) -> None:
        settings.networking.error_backoffs = [0.01] * 20
        settings.watching.reconnect_backoff = 0.01
        settings.watching.server_timeout = 300
        settings.queueing.error_delays = [0.01]
        settings.posting.enabled = False
        settings.process.ultimate_exiting_timeout = None

    @kopf.on.create("configmaps", registry=registry, labels={"handled": "yes"})
    @kopf.on.delete("configmaps", registry=registry, labels={"handled": "yes"})
    def note(name: str, reason: str, **_: Any) -> None:
        handled.put((reason, name))

    loop = WatchLoop(apiserver.url)
    thread = Thread(target=loop.run, daemon=True)
    chaos = apiserver.faults.chaos(seed=7, share=0.2, resource="configmaps", verb=["list", "watch"])
    apiserver.clock.freeze()

    def is_known(name: str) -> bool:
        """Tell whether both clients know an object. A list after its deletion, as after 410, would not show it."""
        apiserver.clock.advance(seconds=1)  # a late answer is late by this clock
        return name in loop.versions and ("create", name) in set(handled.queue)

    with operator(apiserver.url, registry):
        thread.start()
        for step in range(STEPS):
            obj = config_map(f"object-{step}", step=str(step))
            apiserver.create({**obj, "metadata": {**obj["metadata"], "labels": {"handled": "yes"}}})
            if step >= 3:
                apiserver.patch("configmap", f"object-{step - 3}", {"data": {"step": "changed"}})
            if step >= 6 and step % 2:
                old = f"object-{step - 6}"
                wait_until(partial(is_known, old))
                apiserver.delete("configmap", old)
            apiserver.clock.advance(minutes=MINUTES)

        gone = {f"object-{step - 6}" for step in range(6, STEPS) if step % 2}
        every = {("create", f"object-{step}") for step in range(STEPS)} | {("delete", name) for name in gone}

        def is_all_handled() -> bool:
            apiserver.clock.advance(minutes=MINUTES)
            return every <= set(handled.queue)

        wait_until(is_all_handled)

        def stored() -> dict[str, str]:
            objects = apiserver.list("configmaps", namespace="default")
            return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in objects}

        wait_until(lambda: (loop.known, stored()), lambda both: both[0] == both[1])
        assert not gone & stored().keys()
        for name, versions in loop.versions.items():
            assert versions == sorted(set(versions)), name
        assert set(loop.versions) >= {f"object-{step}" for step in range(STEPS)}
        assert chaos.fired > 20
        print(f"{chaos.matched} requests, {chaos.fired} faults, {len(handled.queue)} calls of handlers")
        loop.stopped.set()
        apiserver.clock.advance(minutes=MINUTES)
    thread.join(PATIENCE)
