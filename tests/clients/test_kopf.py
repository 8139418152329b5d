"""An operator built with kopf."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import Queue
from typing import Any

import pytest

from tests.http import watch
from tests.waiting import PATIENCE, wait_until
from understudy import Fault, FaultRule, Server

kopf = pytest.importorskip("kopf", reason="the framework `kopf` is not installed")

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@contextmanager
def operator(url: str, registry: Any, **options: Any) -> Iterator[None]:
    """Run the operator in the namespace default until the block ends, with options of `kopf.run`."""
    stop, ready = threading.Event(), threading.Event()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=url)

    def run() -> None:
        kopf.run(registry=registry, namespaces=["default"], stop_flag=stop, ready_flag=ready, **options)

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

    with operator(relay.url, registry, standalone=True):
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


def test_operator_survives_faults(apiserver: Server) -> None:
    """Handlers see every creation, change and deletion, whatever the lists and watches of the operator meet.

    kopf leaves an object whose patch meets a conflict alone until the next event of it; then it does what it missed.
    """
    registry = kopf.OperatorRegistry()
    seen: Queue[tuple[str, str]] = Queue()

    @kopf.on.startup(registry=registry)
    def configure(settings: Any, **_: Any) -> None:
        settings.networking.error_backoffs = [0.01] * 20
        settings.watching.reconnect_backoff = 0.01
        settings.queueing.error_delays = [0.01]
        settings.watching.server_timeout = 1  # each watch that follows meets the faults that were added meanwhile
        settings.watching.client_timeout = 2  # what hangs is given up
        settings.posting.enabled = False
        settings.process.ultimate_exiting_timeout = None

    @kopf.on.create("configmaps", registry=registry)
    @kopf.on.update("configmaps", field="data", registry=registry)
    @kopf.on.delete("configmaps", registry=registry)
    def handled(name: str, reason: str, **_: Any) -> None:
        seen.put((reason, name))

    def expect(reason: str, name: str) -> None:
        while seen.get(timeout=PATIENCE) != (reason, name):
            pass  # an event may come twice

    def is_handled(name: str) -> bool:
        return "last-handled" in str(apiserver.get("configmap", name))

    def met(rule: FaultRule) -> int:
        """Change an object, for faults that count events; return how often the fault has happened."""
        apiserver.apply(config_map("other", k=str(time.monotonic())))
        return rule.fired

    faults = [
        *(
            Fault.too_many_requests(retry_after=0),
            Fault.server_error(),
            Fault.service_unavailable(retry_after=0),
            Fault.timeout(),
            Fault.reset(),
            Fault.delay(0.1),
            Fault.slow(20_000),
            Fault.hang(),
        ),
        *(Fault.cut_watch(1), Fault.cut_watch(1, reset=True), Fault.expired(), Fault.expired(1)),
    ]
    with operator(apiserver.url, registry):
        for number, fault in enumerate(faults):
            name = f"object-{number}"
            with apiserver.faults.add(fault, resource="configmaps", verb=["list", "watch"], nth=1, times=2) as rule:
                apiserver.apply(config_map(name, k="1"))
                expect("create", name)
                wait_until(partial(is_handled, name))
                apiserver.apply(config_map(name, k="2"))
                expect("update", name)
                apiserver.delete("configmap", name)
                expect("delete", name)
                wait_until(partial(met, rule))
        for name, fault in (("conflicting", Fault.conflict()), ("written", Fault.server_error(after_commit=True))):
            with apiserver.faults.add(fault, resource="configmaps", verb="patch", name=name, nth=1) as rule:
                apiserver.apply(config_map(name, k="1"))
                wait_until(partial(met, rule))
                apiserver.patch("configmap", name, {"metadata": {"labels": {"touched": "yes"}}})
                expect("create", name)
                wait_until(partial(is_handled, name))
        apiserver.faults.chaos(seed=7, share=0.3, resource="configmaps", verb=["list", "watch"])
        for name in "abcdef":
            apiserver.apply(config_map(name, k="1"))
            expect("create", name)


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


def definition(group: str, kind: str, scope: str, properties: dict[str, Any], **version: Any) -> dict[str, Any]:
    """Return the definition of a kind, whose schema has some properties."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "scope": scope,
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }


def ship(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": metadata, "spec": {"crew": 3}}


def crew_registry(captain: str, handled: Queue[tuple[str, str]]) -> Any:
    """Return an operator that writes into the status of a ship who commands it, and passes on who has handled what."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    def configure(settings: Any, **_: Any) -> None:
        settings.process.ultimate_exiting_timeout = None

    @kopf.on.create("example.com", "v1", "ships", registry=registry, id="command")
    def command(name: str, spec: Any, **_: Any) -> Any:
        handled.put((captain, name))
        return {"captain": captain, "crew": spec["crew"]}

    return registry


def test_operator_pauses_for_a_peer_of_higher_priority(apiserver: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Operators of a custom resource meet in the status of kopf's peering objects: the one of higher priority works."""
    for kind, scope in (("ClusterKopfPeering", "Cluster"), ("KopfPeering", "Namespaced")):  # as in kopf's peering.yaml
        apiserver.apply(definition("kopf.dev", kind, scope, {"status": ANYTHING}))
        apiserver.apply({"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": {"name": "default"}})
    spec = {"type": "object", "properties": {"crew": {"type": "integer"}}}
    properties = {"spec": spec, "status": ANYTHING}
    apiserver.apply(definition("example.com", "Ship", "Namespaced", properties, subresources={"status": {}}))
    handled: Queue[tuple[str, str]] = Queue()

    def expect(captain: str, name: str) -> None:
        assert handled.get(timeout=PATIENCE) == (captain, name)
        status = {"command": {"captain": captain, "crew": 3}}
        wait_until(lambda: apiserver.get("ship", name).get("status") == status)

    caplog.set_level("INFO", "kopf")
    with operator(apiserver.url, crew_registry("mate", handled), priority=1):
        apiserver.apply(ship("a"))
        expect("mate", "a")
        with operator(apiserver.url, crew_registry("captain", handled), priority=2):
            wait_until(lambda: "Pausing operations in favour of" in caplog.text)
            apiserver.apply(ship("b"))
            expect("captain", "b")
            peers = apiserver.get("kopfpeering", "default")["status"].values()
            assert sorted(peer["priority"] for peer in peers) == [1, 2]
        wait_until(lambda: "Resuming operations after the pause" in caplog.text)
        apiserver.apply(ship("c"))
        expect("mate", "c")
    wait_until(lambda: not apiserver.get("kopfpeering", "default")["status"])
    assert handled.empty()
