"""Files of a configuration that are read again when they change, and how often they were.

Upstream: `WatchUntil` of k8s.io/apiserver/pkg/util/filesystem, and the metrics of each such file.
"""

from __future__ import annotations

import logging
import os
import socket
from abc import ABC, abstractmethod
from base64 import b32encode
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

from understudy.machinery.releases.version import V1_31, V1_34, ByRelease
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.metrics import AnyFamily, Counter, Gauge

T = TypeVar("T")
log = logging.getLogger("understudy")
LOOK_EVERY = 0.2  # seconds between two looks at a file; the real server is told of changes by its system
READ_EVERY = 60.0  # seconds after which a file is read even if it looks the same
FAILURE, SUCCESS = "failure", "success"


def server_identity() -> str:
    """Return the name by which a server of this machine is known to others (`APIServerID`)."""
    parts = (part.encode() for part in (socket.gethostname(), "kube-apiserver"))
    digest = sha256(b"".join(len(part).to_bytes(2, "big") + part for part in parts)).digest()
    return f"apiserver-{b32encode(digest[:16]).decode().rstrip('=').lower()}"


def hash_of(data: bytes) -> str:
    """Return the hash of some bytes, as metrics show it; "" for none."""
    return f"sha256:{sha256(data).hexdigest()}" if data else ""


class Wording(NamedTuple):
    """The words of the metrics of a configuration, which releases change.

    stage        their stability
    tells_hash   whether there is one for the hash of the configuration that is in force
    counts_first whether reading it at the start counts
    """

    stage: str
    tells_hash: bool
    counts_first: bool


MANIFESTS = Wording("ALPHA", tells_hash=True, counts_first=True)
WORDINGS = ByRelease({V1_34: Wording("BETA", True, False), V1_31: Wording("ALPHA", False, True)})


class ReloadMetrics:
    """Counts how often a configuration was read (upstream: `apiserver_CONTROLLER_automatic_*`).

    controller  first part of the names of all families, after `apiserver_`
    what        the configuration, for people
    server      identity of this server, "" for none
    parts       label for the parts that are read by themselves, none for one file
    """

    def __init__(
        self, controller: str, what: str, wording: Wording, server: str = "", parts: tuple[str, ...] = ()
    ) -> None:
        prefix, labels = f"apiserver_{controller}", ("apiserver_id_hash", *parts, "status")
        listed = f"status, {parts[0]}, and" if parts else "status and"
        split = f"{what} split by {listed} apiserver identity."
        self._server = hash_of(server.encode())
        self._times = Gauge(
            f"{prefix}_automatic_reload_last_timestamp_seconds",
            f"[{wording.stage}] Timestamp of the last automatic reload of {split}",
            labels,
        )
        self._reloads = Counter(
            f"{prefix}_automatic_reloads_total",
            f"[{wording.stage}] Total number of automatic reloads of {split}",
            labels,
        )
        by = f"{parts[0]} and " if parts else ""
        self._hashes = Gauge(
            f"{prefix}_last_config_info",
            f"[ALPHA] Information about the last applied {what} with hash as label, split by {by}apiserver identity.",
            ("apiserver_id_hash", "hash", *parts),
        )
        self._wording = wording

    @property
    def families(self) -> Sequence[Counter | Gauge]:
        """Return all families, in the order of their names."""
        return self._times, self._reloads, self._hashes

    def begin(self, now: float, digest: str, *part: str) -> None:
        """Note what was read at the start."""
        if self._wording.counts_first:
            self._count(now, SUCCESS, part)
        self._apply(digest, part)

    def succeed(self, now: float, digest: str, *part: str) -> None:
        """Count a configuration that was read and is in force; `digest` is its hash."""
        self._count(now, SUCCESS, part)
        self._apply(digest, part)

    def fail(self, now: float, *part: str) -> None:
        """Count a configuration with errors, or one that cannot be read."""
        self._count(now, FAILURE, part)

    def _count(self, now: float, status: str, part: tuple[str, ...]) -> None:
        self._reloads.add(self._server, *part, status)
        self._times.set(now, self._server, *part, status)

    def _apply(self, digest: str, part: tuple[str, ...]) -> None:
        """Note which configuration is in force; among parts, only if servers have names."""
        if not self._wording.tells_hash or (part and not self._server):
            return
        for labels in [labels for labels in self._hashes.series if labels[2:] == part]:
            del self._hashes.series[labels]
        self._hashes.set(1, self._server, digest, *part)


def looks_of(path: Path | str) -> tuple[int, int, int] | None:
    """Return time, size and number of a file, one of which changes when the file does; None for one that is missing."""
    try:
        stat = os.stat(path)
    except OSError:  # it is gone, which reading it says
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class Looks(Generic[T]):
    """Tells when files have to be read again: when they look different, or were not read for long.

    look  returns what changes when a file does
    now   returns the time of day, in seconds since 1970
    """

    def __init__(self, look: Callable[[], T], now: Callable[[], float]) -> None:
        self._look = look
        self._now = now
        self._last, self._read_at = look(), now()

    def are_new(self) -> bool:
        """Report whether the files have to be read again, which the caller does."""
        looks, now = self._look(), self._now()
        if looks == self._last and now - self._read_at < READ_EVERY:
            return False
        self._last, self._read_at = looks, now
        return True


class Reloaded(ABC):
    """Files that are read again when they change."""

    @abstractmethod
    def reload(self) -> None:
        """Read the files again if they have changed."""

    async def reload_periodically(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Read the files whenever they change. Runs until it is cancelled; `sleep` waits for seconds."""
        while True:
            self.reload()
            await sleep(LOOK_EVERY)


class ReloadedFile(ABC):
    """A file whose configuration is put in force again when it changes. One with errors leaves the old one in force.

    data     that the file held when its configuration was put in force first
    what     the configuration, for people
    metrics  count how often it is read again
    now      returns the time of day, in seconds since 1970
    """

    def __init__(self, path: Path, data: bytes, what: str, metrics: ReloadMetrics, now: Callable[[], float]) -> None:
        self._path = path
        self._data = data  # that is in force, or is not worth another try
        self._what = what
        self._metrics = metrics
        self._now = now
        self._looks: Looks[object] = Looks(lambda: looks_of(path), now)
        self._is_first = True
        metrics.begin(now(), hash_of(data))

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return the families of metrics, in the order of their names."""
        return self._metrics.families

    @abstractmethod
    async def apply(self, data: bytes) -> bool:
        """Put the configuration in some bytes in force, and note them unless they are worth another try. Return whether
        it is another one than before. Raises ValueError."""

    async def reload(self) -> None:
        """Read the file again if it has changed, or for the first time since the start (`checkFile`)."""
        if not self._looks.are_new() and not self._is_first:
            return
        self._is_first = False
        try:
            data = self._path.read_bytes()
            if data == self._data or not await self.apply(data):
                return
        except (OSError, ValueError) as error:
            log.error("reloading %s %s: %s", self._what, self._path, error)
            self._metrics.fail(self._now())
            return
        log.info("reloaded %s %s", self._what, self._path)
        self._metrics.succeed(self._now(), hash_of(data))

    async def reload_periodically(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Read the file whenever it changes. Runs until it is cancelled; `sleep` waits for seconds."""
        while True:
            await self.reload()
            await sleep(LOOK_EVERY)
