"""Run programs of this machine as in containers: each pod has a network of its own, each container a root of its own.

It needs Linux, root and the commands `ip`, `mount`, `unshare`, `nsenter` and `chroot`. Roots are overlays of the
machine's, so that whatever is installed here is there too, and nothing that is written stays.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 5.0  # that a program may take to end
_BOUND = ("/proc", "/dev")  # that an overlay of the root leaves out


def command(*argv: object) -> None:
    """Run a command. Raises RuntimeError, with what it printed, if it fails."""
    done = subprocess.run([str(part) for part in argv], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, argv))}: {done.stderr.strip()}")


class PodNetwork:
    """A bridge that pods are connected to.

    gateway  the machine's own address, such as "10.88.0.1", at which pods reach it
    """

    def __init__(self, bridge: str, subnet: str) -> None:
        self.bridge, self._subnet = bridge, ipaddress.ip_network(subnet)
        addresses = self._subnet.hosts()
        self.gateway = str(next(addresses))
        self._free = (str(address) for address in addresses)
        self._numbers = itertools.count()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have the bridge until the block ends."""
        command("ip", "link", "add", self.bridge, "type", "bridge")
        try:
            command("ip", "address", "add", f"{self.gateway}/{self._subnet.prefixlen}", "dev", self.bridge)
            command("ip", "link", "set", self.bridge, "up")
            yield
        finally:
            command("ip", "link", "delete", self.bridge)

    def connect(self) -> tuple[str, str]:
        """Make a network namespace with an address on the bridge; return its name and the address."""
        name, address = f"{self.bridge}-{next(self._numbers)}", next(self._free)
        inside = ("ip", "netns", "exec", name)
        command("ip", "netns", "add", name)
        command("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        command("ip", "link", "set", name, "master", self.bridge, "up")
        command(*inside, "ip", "link", "set", "lo", "up")
        command(*inside, "ip", "address", "add", f"{address}/{self._subnet.prefixlen}", "dev", "eth0")
        command(*inside, "ip", "link", "set", "eth0", "up")
        command(*inside, "ip", "route", "add", "default", "via", self.gateway)
        return name, address

    def disconnect(self, name: str) -> None:
        """Remove a network namespace, in which nothing runs any more."""
        command("ip", "netns", "delete", name)


class Sandbox:
    """A program in a network namespace, below an overlay of the root.

    mounts  folders and files of the machine, by the path where the program sees them
    """

    def __init__(
        self,
        folder: Path,
        network: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        mounts: Mapping[str, Path],
        working_dir: str = "/",
    ) -> None:
        root, layers = folder / "root", folder / "layers"
        for needed in (root, layers):
            needed.mkdir(parents=True)
        self.log = folder / "log"
        lines = ["set -e", f"mount -t tmpfs tmpfs {layers}", f"mkdir {layers}/upper {layers}/work"]
        layout = f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"
        lines.append(f"mount -t overlay -o {layout} overlay {root}")
        for path, source in {**{place: Path(place) for place in _BOUND}, **mounts}.items():
            lines.append(f"at={root}$(chroot {root} readlink -m {shlex.quote(path)})")
            lines.append('mkdir -p "$at"' if source.is_dir() else 'mkdir -p "$(dirname "$at")"; touch "$at"')
            lines.append(f'mount --rbind {shlex.quote(str(source))} "$at"')
        lines.append(f'exec chroot {root} sh -c \'cd "$0"; exec "$@"\' {shlex.quote(working_dir)} {shlex.join(argv)}')
        script = "\n".join(lines)
        outside = ["ip", "netns", "exec", network, "unshare", "--mount", "sh", "-c", script]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                outside,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": "/", **env},
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The status with which the program has ended, None while it runs."""
        status = self.process.poll()
        return 128 - status if status is not None and status < 0 else status

    def run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """Run another program beside the first one, as probes and `kubectl exec` do."""
        target = ["nsenter", f"--target={self.process.pid}", "--mount", "--net", "--root"]
        return subprocess.run([*target, "env", "--chdir=/", *argv], capture_output=True)

    def stop(self) -> None:
        """End the program and whatever it has started, at the latest after STOP_SECONDS."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            break
