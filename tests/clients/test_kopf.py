"""An operator built with kopf."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import pytest

from tests.http import watch
from understudy import Server

kopf = pytest.importorskip("kopf", reason="the framework `kopf` is not installed")

PATIENCE = 60.0  # seconds
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


@contextmanager
def operator(url: str, registry: Any) -> Iterator[None]:
    """Run the operator until the block ends."""
    stop, ready = threading.Event(), threading.Event()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=url)

    def run() -> None:
        kopf.run(registry=registry, standalone=True, namespaces=["default"], stop_flag=stop, ready_flag=ready)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def test_operator_survives_drops_and_expiry(apiserver: Server, relay: Any) -> None:
    """Handlers see every creation, change and deletion, though connections drop and history expires."""
    registry = kopf.OperatorRegistry()
    seen: Queue[tuple[Any, ...]] = Queue()

    @kopf.on.startup(registry=registry)
    def configure(settings: Any, **_: Any) -> None:
        settings.networking.error_backoffs = [0.01] * 10
        settings.watching.reconnect_backoff = 0.01
        settings.process.ultimate_exiting_timeout = None

    @kopf.on.create("configmaps", registry=registry)
    def created(name: str, patch: Any, body: Any, **_: Any) -> None:
        patch.metadata.annotations["seen"] = "yes"
        kopf.info(body, reason="Seen", message=f"{name} was seen")
        seen.put(("created", name))

    @kopf.on.update("configmaps", field="data", registry=registry)
    def updated(name: str, old: Any, new: Any, **_: Any) -> None:
        seen.put(("updated", name, old, new))

    @kopf.on.delete("configmaps", registry=registry)
    def deleted(name: str, **_: Any) -> None:
        seen.put(("deleted", name))

    def expect(*what: Any) -> None:
        assert seen.get(timeout=PATIENCE) == what

    with operator(relay.url, registry):
        apiserver.apply(config_map("a", k="1"))
        expect("created", "a")
        relay.cut()
        apiserver.apply(config_map("b"))
        expect("created", "b")
        until_settled(apiserver, "a", "b")
        stored = apiserver.get("configmap", "a")["metadata"]
        assert (stored["annotations"]["seen"], stored["finalizers"]) == ("yes", [FINALIZER])
        relay.cut()
        apiserver.apply(config_map("a", k="2"))
        apiserver.compact()
        expect("updated", "a", {"k": "1"}, {"k": "2"})
        apiserver.delete("configmap", "a")
        expect("deleted", "a")
        until_reported(apiserver, "Seen", "a was seen")


def watched(server: Server, resource: str) -> Iterator[dict[str, Any]]:
    """Yield every object of a resource in the namespace default, and again after each change."""
    with watch(server, f"/api/v1/namespaces/default/{resource}", "&resourceVersion=0") as events:
        for event in events:
            yield event["object"]


def until_settled(server: Server, *names: str) -> None:
    """Wait until the operator has written to each of the objects."""
    waiting = set(names)
    for obj in watched(server, "configmaps"):
        if "seen" in obj["metadata"].get("annotations", {}):
            waiting.discard(obj["metadata"]["name"])
        if not waiting:
            return


def until_reported(server: Server, reason: str, message: str) -> None:
    """Wait for an event of the operator; after a broken connection it comes a second later."""
    for event in watched(server, "events"):
        if (event["reason"], event["message"]) == (reason, message):
            return
    raise AssertionError(f"no event {reason}: {message}")
