"""Run an etcd of one or more members, which may be killed, stopped and started again one by one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.common.ports import free_port

START_SECONDS = 60.0
_LISTENS = "listen-client-urls", "advertise-client-urls"
_PEERS = "listen-peer-urls", "initial-advertise-peer-urls"


class Member:
    """A member of an etcd, with its data in a folder.

    url   where it serves clients
    peer  where it serves other members
    """

    def __init__(self, name: str, folder: Path, scheme: str = "http") -> None:
        self.name, self.folder = name, folder
        self.url, self.peer = f"{scheme}://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self.command: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it takes calls at once, and answers them when the members have elected a leader."""
        self.process = subprocess.Popen(self.command)

    def signal(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def new_members(program: str | Path, folder: Path, count: int = 1, *flags: str, scheme: str = "http") -> list[Member]:
    """Return the members of an etcd, which are not started yet."""
    members = [Member(f"member-{number}", folder / f"etcd-{number}", scheme) for number in range(count)]
    cluster = ",".join(f"{member.name}={member.peer}" for member in members)
    for member in members:
        urls = dict.fromkeys(_LISTENS, member.url) | dict.fromkeys(_PEERS, member.peer)
        own = {"name": member.name, "data-dir": member.folder, **urls, "initial-cluster": cluster, "log-level": "fatal"}
        member.command = [str(program), *(f"--{name}={value}" for name, value in own.items()), *flags]
    return members


@contextmanager
def running_etcd(program: str | Path, folder: Path, count: int = 1, *flags: str) -> Iterator[list[Member]]:
    """Run an etcd until the block ends; yield its members once they answer. Raises RuntimeError if they do not."""
    members = new_members(program, folder, count, *flags)
    try:
        for member in members:
            member.start()
        for member in members:
            _wait_until_ready(member)
        yield members
    finally:
        for member in members:
            member.signal(signal.SIGCONT)
            member.kill()


def _wait_until_ready(member: Member) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{member.url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"etcd at {member.url} does not answer")


def urls_of(members: Sequence[Member]) -> str:
    """Return the members' URLs as `--etcd-servers` takes them."""
    return ",".join(member.url for member in members)


def installed_etcd() -> str | None:
    """Return the path of etcd: $ETCD, or the one on PATH; None if there is none."""
    return os.environ.get("ETCD") or shutil.which("etcd")
