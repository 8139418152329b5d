"""The webhooks and policies in force that stand in folders of manifests: read at the start, and again when they change.

Upstream: `staticWebhookSource` and `StaticPolicySource` of k8s.io/apiserver/pkg/admission/plugin, and the metrics of
plugin/manifest/metrics.
"""

from __future__ import annotations

import logging
import os
import socket
from base64 import b32encode
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import sha256

from understudy.admission.manifest.loader import ManifestLoader, Manifests, StaticObject
from understudy.admission.metrics import Counter, Gauge

log = logging.getLogger("understudy")
LOOK_EVERY = 0.2  # seconds between two looks at the folders; the real server is told of changes by its system
READ_EVERY = 60.0  # seconds after which a folder is read even if it looks the same


def server_identity() -> str:
    """Return the name by which a server of this machine is known to others (`APIServerID`)."""
    parts = (part.encode() for part in (socket.gethostname(), "kube-apiserver"))
    digest = sha256(b"".join(len(part).to_bytes(2, "big") + part for part in parts)).digest()
    return f"apiserver-{b32encode(digest[:16]).decode().rstrip('=').lower()}"


class ManifestMetrics:
    """Counts how often manifests were read (upstream: `apiserver_manifest_admission_config_controller_*`).

    server  identity of this server, "" for none
    """

    def __init__(self, server: str = "") -> None:
        prefix, split = (
            "apiserver_manifest_admission_config_controller",
            "split by status, plugin, and apiserver identity.",
        )
        self._server = f"sha256:{sha256(server.encode()).hexdigest()}" if server else ""
        self._times = Gauge(
            f"{prefix}_automatic_reload_last_timestamp_seconds",
            f"[ALPHA] Timestamp of the last automatic reload of admission manifest configuration {split}",
            ("apiserver_id_hash", "plugin", "status"),
        )
        self._reloads = Counter(
            f"{prefix}_automatic_reloads_total",
            f"[ALPHA] Total number of automatic reloads of admission manifest configuration {split}",
            ("apiserver_id_hash", "plugin", "status"),
        )
        self._hashes: dict[str, str] = {}

    @property
    def families(self) -> Sequence[Counter | Gauge]:
        """Return all families, in the order of their names."""
        info = Gauge(
            "apiserver_manifest_admission_config_controller_last_config_info",
            "[ALPHA] Information about the last applied admission manifest configuration with hash as label, split by "
            "plugin and apiserver identity.",
            ("apiserver_id_hash", "hash", "plugin"),
            {(self._server, digest, plugin): 1 for plugin, digest in self._hashes.items() if self._server},
        )
        return self._times, self._reloads, info

    def observe(self, plugin: str, now: float, digest: str | None) -> None:
        """Count that the manifests of a plugin were read; `digest` is their hash, None if they have errors."""
        status = "failure" if digest is None else "success"
        self._reloads.add(self._server, plugin, status)
        self._times.set(now, self._server, plugin, status)
        if digest is not None:
            self._hashes[plugin] = digest


class ManifestSource:
    """The manifests of one plugin that are in force.

    objects  replaced as a whole when the folder changes, never edited
    """

    def __init__(self, loader: ManifestLoader, metrics: ManifestMetrics, now: Callable[[], float]) -> None:
        self._loader = loader
        self._metrics = metrics
        self._now = now
        self._looks = _looks_of(loader.folder)
        self._read_at = now()
        self._take(loader.load())

    def _take(self, manifests: Manifests) -> None:
        self._hash = manifests.hash
        self.objects = manifests.objects
        self._metrics.observe(self._loader.plugin, self._now(), manifests.hash)

    def reload(self) -> bool:
        """Read the folder again if it has changed; report whether other manifests are in force. Errors are logged, and
        what was in force before stays so (`checkAndReload`)."""
        looks, now = _looks_of(self._loader.folder), self._now()
        if looks == self._looks and now - self._read_at < READ_EVERY:
            return False
        self._looks, self._read_at = looks, now
        plugin = self._loader.plugin
        try:
            manifests = self._loader.load()
        except ValueError as error:
            log.error("reloading manifests of %s in %s: %s", plugin, self._loader.folder, " ".join(f"{error}".split()))
            self._metrics.observe(plugin, now, None)
            return False
        if manifests.hash == self._hash:
            return False
        self._take(manifests)
        return True


def _looks_of(folder: str) -> Collection[tuple[str, int, int, int]]:
    """Return name, time, size and number of each file of a folder, one of which changes when a file does; none for a
    folder that is missing."""
    try:
        with os.scandir(folder) as entries:
            stats = {entry.name: entry.stat() for entry in entries}
    except OSError:  # a file or the folder is gone, which reading it says
        return ()
    return {(name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats.items()}


class StaticManifests:
    """The manifests of all plugins that have any, and how often they were read."""

    def __init__(self, sources: Mapping[str, ManifestSource], metrics: ManifestMetrics) -> None:
        self._sources = sources
        self.metrics = metrics

    def of(self, plugin: str) -> Sequence[StaticObject]:
        """Return the manifests of a plugin that are in force: the same sequence, until others are."""
        source = self._sources.get(plugin)
        return source.objects if source is not None else ()

    def reload(self) -> bool:
        """Read the folders that have changed again; report whether other manifests are in force."""
        reloaded = [source.reload() for source in self._sources.values()]
        return any(reloaded)

    async def reload_periodically(self, sleep: Callable[[float], Awaitable[None]], changed: Callable[[], None]) -> None:
        """Read folders that change, and call a function when other manifests are in force. Runs until it is cancelled;
        `sleep` waits for seconds."""
        while True:
            if self.reload():
                changed()
            await sleep(LOOK_EVERY)


NO_MANIFESTS = StaticManifests({}, ManifestMetrics())
