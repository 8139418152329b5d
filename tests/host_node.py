"""A server and a node on which commands in pods are processes of this machine."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme

from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.kubelet.kubelet import Kubelet
from understudy.machinery.types import Obj

NODE = "n"


class HostNode:
    """The node of a server that runs.

    client_context  the TLS context of a client with a certificate that the kubelet trusts
    """

    def __init__(self, server: Server, authority: trustme.CA) -> None:
        self.server = server
        self.client_context = ssl.create_default_context()
        self.client_context.check_hostname = False
        self.client_context.verify_mode = ssl.CERT_NONE
        authority.issue_cert("client").configure_cert(self.client_context)

    @property
    def port(self) -> int:
        """Return the port at which the kubelet listens."""
        port: int = self.server.get("nodes", NODE)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        return port

    def create_pod(self, name: str, **container: Any) -> Obj:
        """Create a pod, and return it once it runs."""
        containers = [{"name": "main", "image": "i", **container}]
        spec = {"nodeName": NODE, "containers": containers}
        self.server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        return wait_until(lambda: self.server.get("pods", name), lambda pod: pod["status"]["phase"] == "Running")


@contextmanager
def host_node(
    folder: Path, release: str, command: Sequence[str] = ("env",), pod_addresses: Mapping[str, str] | None = None
) -> Iterator[HostNode]:
    """Run a server of a release, and a kubelet that trusts it in a thread; both have certificates of one authority."""
    authority = trustme.CA()
    ca, pem = folder / "ca.pem", folder / "api-server.pem"
    authority.cert_pem.write_to_path(str(ca))
    authority.issue_cert("api-server").private_key_and_cert_chain_pem.write_to_path(str(pem))
    with Server(emulated_version=release, kubelet_client_certificate=pem, kubelet_client_key=pem) as server:
        kubelet = Kubelet(
            Connection(url=server.url),
            NODE,
            folder / "kubelet",
            release,
            register_node=True,
            client_ca_file=ca,
            exec_command=command,
            pod_addresses=pod_addresses,
            boot_id="1",
        )
        with _in_thread(kubelet):
            yield HostNode(server, authority)


@contextmanager
def _in_thread(kubelet: Kubelet) -> Iterator[None]:
    """Run a kubelet in a thread until the end of a block."""
    started = threading.Event()
    loop: asyncio.AbstractEventLoop
    stopping: asyncio.Event

    async def run() -> None:
        nonlocal loop, stopping
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        async with kubelet:
            started.set()
            await stopping.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(60), "the kubelet does not start"
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(60)
    assert not thread.is_alive(), "the kubelet does not stop"
