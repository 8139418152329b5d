"""The pods that run on a node, as a container runtime would know them: one file for each pod.

`<root>/pods/UID/sandbox` says when the pod was started, its address, and the boot id of the machine at that time: after
a reboot no pod runs any more. As with a real kubelet, pods keep running while the kubelet itself is restarted.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson

from understudy.controlplane.kubelet.files import replace_file
from understudy.machinery.types import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Sandbox(NamedTuple):
    """A running pod: its address and the time at which it was started, in seconds since 1970."""

    pod_ip: str
    started: float


class Sandboxes:
    """The running pods of a node, by uid. `boot_id` is made new by every start of the machine."""

    def __init__(self, root: Path, boot_id: str) -> None:
        self._pods = root / "pods"
        self._boot_id = boot_id
        self._running: dict[str, Sandbox] = {}
        for file in self._pods.glob("*/sandbox"):
            record = orjson.loads(file.read_bytes())
            if record.pop("boot_id") == boot_id:
                self._running[file.parent.name] = Sandbox(**record)

    def get(self, uid: str) -> Sandbox | None:
        """Return a pod that runs, None for any other."""
        return self._running.get(uid)

    def addresses(self) -> set[str]:
        """Return the addresses of all pods that run."""
        return {sandbox.pod_ip for sandbox in self._running.values()}

    def start(self, uid: str, sandbox: Sandbox) -> None:
        """Note that a pod runs."""
        self._running[uid] = sandbox
        folder = self._pods / uid
        folder.mkdir(parents=True, exist_ok=True)
        record = {**sandbox._asdict(), "boot_id": self._boot_id}
        replace_file(folder / "sandbox", orjson.dumps(record))

    def stop(self, uid: str) -> None:
        """Note that a pod runs no more."""
        self._running.pop(uid, None)
        shutil.rmtree(self._pods / uid, ignore_errors=True)


def read_boot_id() -> str:
    """Return the boot id of this machine, "" where there is none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
