"""Fixtures of the tests with Python clients: an allocated claim, and a relay whose connections can be cut."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from understudy import Server
from understudy.machinery.releases.version import Version
from understudy.pytest_plugin import marked

CLAIM = {
    "apiVersion": "resource.k8s.io/v1beta1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}},
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}]
            }
        }
    },
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run these tests on the release of `--client-release`, those that are marked with a release on no later one.

    The marker names the latest release that the client knows."""
    release = config.getoption("--client-release")
    for item in items if release else ():
        latest = marked(item).get("emulated_version", release)
        if Path(__file__).parent in item.path.parents and Version.parse(release) <= Version.parse(latest):
            item.add_marker(pytest.mark.apiserver(emulated_version=release), append=False)


@pytest.fixture
def claim(apiserver: Server) -> str:
    """Return the name of an allocated, unused claim in the namespace default."""
    apiserver.apply(CLAIM)
    return "gpu"


class Relay:
    """Forward connections of clients to a server."""

    def __init__(self, server: Server, kubeconfig: Path) -> None:
        address = urlsplit(server.url)
        self._server = (address.hostname, address.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.kubeconfig = str(kubeconfig)
        kubeconfig.write_text(server.kubeconfig.read_text().replace(server.url, self.url))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(self._server)
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        with self._lock:
            self._open.add(near)
        with near, far, suppress(OSError):
            while True:
                for ready in select.select(list(other), (), ())[0]:
                    data = ready.recv(65536)
                    if not data:
                        raise ConnectionError
                    other[ready].sendall(data)
        with self._lock:
            self._open.discard(near)

    def cut(self) -> None:
        """Drop every connection, in the middle of its data."""
        with self._lock:
            for near in self._open:
                with suppress(OSError):
                    near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@pytest.fixture
def relay(apiserver: Server, tmp_path: Path) -> Iterator[Relay]:
    """Return a relay to the server of `apiserver`."""
    relay = Relay(apiserver, tmp_path / "kubeconfig")
    yield relay
    relay.close()
