"""A real etcd for tests: $ETCD, or the one on PATH. Tests skip without one, and fail in CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port

REASON = "needs etcd 3.5.8 or later, on PATH or named by ETCD: scripts/build_etcd.sh builds one"


def program() -> str:
    """Return the path of etcd. Skips the test without one; fails it in CI."""
    path = os.environ.get("ETCD") or shutil.which("etcd")
    if path:
        return path
    if os.environ.get("CI"):
        pytest.fail(REASON)
    pytest.skip(REASON)


class Etcd:
    """One member of etcd, with its data in a folder. It may be killed and started again.

    url  where it serves clients
    """

    def __init__(self, folder: Path, *flags: str, scheme: str = "http") -> None:
        self.url = f"{scheme}://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self._argv = [
            *(program(), "--data-dir", str(folder / "etcd"), "--log-level", "fatal", "--unsafe-no-fsync"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *(
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"default={peer}",
            ),
            *("--heartbeat-interval", "20", "--election-timeout", "200"),
            *flags,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it takes calls at once, and answers them when it has elected itself."""
        self.process = subprocess.Popen(self._argv)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(folder: Path, *flags: str, scheme: str = "http") -> Iterator[Etcd]:
    """Run an etcd until the block ends."""
    etcd = Etcd(folder, *flags, scheme=scheme)
    etcd.start()
    try:
        yield etcd
    finally:
        etcd.kill()
