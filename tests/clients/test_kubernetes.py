"""The official Python client, `kubernetes`."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tests.host_node import host_node
from tests.waiting import PATIENCE
from understudy import Server

kubernetes = pytest.importorskip("kubernetes", reason="the client `kubernetes` is not installed")
client, stream, watch = kubernetes.client, kubernetes.stream, kubernetes.watch


def connected(kubeconfig: object) -> Any:
    return kubernetes.config.new_client_from_config(config_file=kubeconfig)


@pytest.fixture
def core(apiserver: Server) -> Iterator[Any]:
    with connected(apiserver.kubeconfig) as api:
        yield client.CoreV1Api(api)


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


@pytest.mark.parametrize("whose", ["server", "user"])
def test_kubeconfig_is_loaded(apiserver: Server, whose: str) -> None:
    """`load_kube_config` takes the kubeconfig of the server, and that of a user, as it is."""
    kubeconfig = apiserver.kubeconfig if whose == "server" else apiserver.user("driver").kubeconfig
    configuration = client.Configuration()
    kubernetes.config.load_kube_config(kubeconfig, client_configuration=configuration)
    with client.ApiClient(configuration) as api:
        assert client.CoreV1Api(api).read_namespace("default").metadata.name == "default"


def test_crud(core: Any) -> None:
    """Objects are created, read, listed, replaced, patched in every way, and deleted."""
    made = core.create_namespaced_config_map("default", config_map("a", k="1"))
    assert made.metadata.uid
    made.data["k"] = "2"
    assert core.replace_namespaced_config_map("a", "default", made).data == {"k": "2"}
    patch = core.patch_namespaced_config_map
    assert patch("a", "default", {"data": {"l": "1"}}).data == {"k": "2", "l": "1"}
    assert patch("a", "default", [{"op": "remove", "path": "/data/k"}]).data == {"l": "1"}
    assert [c.metadata.name for c in core.list_namespaced_config_map("default").items] == ["a"]
    core.delete_namespaced_config_map("a", "default")
    assert core.list_config_map_for_all_namespaces(label_selector="k=v").items == []


def test_errors_carry_a_status(core: Any) -> None:
    """A refused request raises an error with the server's Status."""
    core.create_namespaced_config_map("default", config_map("a"))
    cases: list[tuple[str, int, Callable[[], Any]]] = [
        ("NotFound", 404, lambda: core.read_namespaced_config_map("b", "default")),
        ("AlreadyExists", 409, lambda: core.create_namespaced_config_map("default", config_map("a"))),
        ("Invalid", 422, lambda: core.create_namespaced_config_map("default", config_map("A"))),
    ]
    for reason, status, request in cases:
        with pytest.raises(client.ApiException) as error:
            request()
        assert error.value.status == status
        assert f'"reason":"{reason}"' in error.value.body


def test_dynamic_client_discovers_kinds(apiserver: Server) -> None:
    """The dynamic client finds resources by discovery."""
    with connected(apiserver.kubeconfig) as api:
        client = kubernetes.dynamic.DynamicClient(api)
        slices = client.resources.get(api_version="resource.k8s.io/v1beta1", kind="ResourceSlice")
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool}
        body = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
        assert slices.create(body={**body, "spec": spec}).spec.pool.generation == 1
        pool["generation"] = 2
        applied = slices.server_side_apply(body={**body, "spec": spec}, field_manager="driver", force_conflicts=True)
        assert applied.spec.pool.generation == 2


def test_watch_starts_at_a_version(core: Any) -> None:
    """A watch sees every change after the version of a list."""
    since = core.list_namespaced_config_map("default").metadata.resource_version
    made = core.create_namespaced_config_map("default", config_map("a"))
    core.patch_namespaced_config_map("a", "default", {"data": {"k": "1"}})
    core.delete_namespaced_config_map("a", "default")
    seen = []
    events = watch.Watch()
    for event in events.stream(core.list_namespaced_config_map, "default", resource_version=since):
        seen.append((event["type"], event["object"].data))
        assert event["object"].metadata.uid == made.metadata.uid
        if len(seen) == 3:
            events.stop()
    assert seen == [("ADDED", None), ("MODIFIED", {"k": "1"}), ("DELETED", {"k": "1"})]


def test_expired_watch_is_410(apiserver: Server, core: Any) -> None:
    """A watch from a compacted version ends with 410."""
    since = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", config_map("a"))
    apiserver.compact()
    with pytest.raises(client.ApiException, match="Expired: too old resource version") as error:
        next(watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version=since))
    assert error.value.status == 410


def test_informer_survives_drops_and_expiry(apiserver: Server, relay: Any) -> None:
    """A loop of list and watch misses nothing and repeats nothing, though connections drop and versions expire."""
    informers = pytest.importorskip("kubernetes.informer", reason="this release of `kubernetes` has no informers")
    seen: Queue[tuple[str, str]] = Queue()
    with connected(relay.kubeconfig) as api, connected(apiserver.kubeconfig) as direct:
        core = client.CoreV1Api(direct)
        informer = informers.SharedInformer(client.CoreV1Api(api).list_namespaced_config_map, namespace="default")
        for type_ in ("ADDED", "MODIFIED", "DELETED"):
            informer.add_event_handler(type_, lambda obj, type_=type_: seen.put((type_, obj.metadata.name)))
        core.create_namespaced_config_map("default", config_map("listed"))
        informer.start()
        assert seen.get(timeout=PATIENCE) == ("ADDED", "listed")
        for name in ("watched", "after-a-cut", "after-another"):
            core.create_namespaced_config_map("default", config_map(name))
            assert seen.get(timeout=PATIENCE) == ("ADDED", name)
            relay.cut()
        core.create_namespaced_config_map("default", config_map("last"))
        assert seen.get(timeout=PATIENCE) == ("ADDED", "last")
        informer.stop()
        core.delete_namespaced_config_map("listed", "default")
        apiserver.compact()
        informer.start()
        assert seen.get(timeout=PATIENCE) == ("DELETED", "listed")
        listed = {seen.get(timeout=PATIENCE) for _ in range(4)}
        assert listed == {("MODIFIED", name) for name in ("watched", "after-a-cut", "after-another", "last")}
        core.delete_namespaced_config_map("last", "default")
        assert seen.get(timeout=PATIENCE) == ("DELETED", "last")
        informer.stop()


def test_concurrent_consumers(apiserver: Server, claim: str) -> None:
    """Strategic merge patches that each add a consumer to a claim's status all arrive."""
    names = [f"pod-{n}" for n in range(30)]
    with connected(apiserver.kubeconfig) as api, ThreadPoolExecutor(8) as pool:
        claims = client.ResourceV1beta1Api(api)

        def reserve(name: str) -> None:
            consumer = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
            body = {"status": {"reservedFor": [consumer]}}
            claims.patch_namespaced_resource_claim_status(claim, "default", body)

        list(pool.map(reserve, names))
        stored = claims.read_namespaced_resource_claim(claim, "default")
    assert sorted(consumer.name for consumer in stored.status.reserved_for) == sorted(names)


def test_optimistic_locking_loses_no_change(apiserver: Server, core: Any) -> None:
    """Tasks that read, change and replace again after 409 lose no change."""
    core.create_namespaced_config_map("default", config_map("counter", n="0"))
    with connected(apiserver.kubeconfig) as api, ThreadPoolExecutor(4) as pool:
        maps = client.CoreV1Api(api)
        conflicts = []

        def increment(_: int) -> None:
            while True:
                current = maps.read_namespaced_config_map("counter", "default")
                current.data["n"] = str(int(current.data["n"]) + 1)
                try:
                    maps.replace_namespaced_config_map("counter", "default", current)
                    return
                except client.ApiException as error:
                    conflicts.append(error.status)

        list(pool.map(increment, range(40)))
    assert core.read_namespaced_config_map("counter", "default").data == {"n": "40"}
    assert set(conflicts) <= {409}


@pytest.fixture(scope="module")
def in_pods() -> Iterator[Any]:
    """Return the client of a server on whose node commands in the pod `web` are processes of this machine."""
    with tempfile.TemporaryDirectory(prefix="node-") as folder, host_node(Path(folder), "1.37") as node:
        node.create_pod("web")
        with connected(node.server.kubeconfig) as api:
            yield client.CoreV1Api(api)


def test_commands_run_in_pods(in_pods: Any) -> None:
    """`stream` runs a command with input, both outputs and exit code, over WebSockets with channels."""
    execute, options = in_pods.connect_get_namespaced_pod_exec, {"stdin": True, "stdout": True, "stderr": True}
    script = 'read line; echo "$POD_NAME $line"; echo wrong >&2; exit 3'
    command = ["sh", "-c", script]
    running = stream.stream(execute, "web", "default", command=command, _preload_content=False, **options)
    running.write_stdin("hello\n")
    running.run_forever(timeout=PATIENCE)
    assert (running.read_stdout(), running.read_stderr(), running.returncode) == ("web hello\n", "wrong\n", 3)
    running.sock.shutdown()


def test_ports_of_pods_are_forwarded(in_pods: Any) -> None:
    """`portforward` gives a socket that is connected with a port of a pod."""

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(5).upper())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        port = listener.getsockname()[1]
        forward = in_pods.connect_get_namespaced_pod_portforward
        ports = stream.portforward(forward, "web", "default", ports=str(port))
        local = ports.socket(port)
        local.setblocking(True)
        local.sendall(b"hello")
        assert local.recv(5) == b"HELLO"
        local.close()
        assert ports.error(port) is None
