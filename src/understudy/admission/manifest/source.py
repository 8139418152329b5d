"""The webhooks and policies in force that stand in folders of manifests: read at the start, and again when they change.

Upstream: `staticWebhookSource` and `StaticPolicySource` of k8s.io/apiserver/pkg/admission/plugin, and the metrics of
plugin/manifest/metrics.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.admission.reloads import LOOK_EVERY, MANIFESTS, Looks, ReloadMetrics

if TYPE_CHECKING:
    from understudy.admission.manifest.loader import ManifestLoader, Manifests, StaticObject

log = logging.getLogger("understudy")


def manifest_metrics(server: str = "") -> ReloadMetrics:
    """Return the metrics of manifests of a server with an identity, "" for none."""
    what = "admission manifest configuration"
    return ReloadMetrics("manifest_admission_config_controller", what, MANIFESTS, server, ("plugin",))


class ManifestSource:
    """The manifests of one plugin that are in force.

    objects  replaced as a whole when the folder changes, never edited
    """

    def __init__(self, loader: ManifestLoader, metrics: ReloadMetrics, now: Callable[[], float]) -> None:
        self._loader = loader
        self._metrics = metrics
        self._now = now
        self._looks = Looks(lambda: _looks_of(loader.folder), now)
        self._take(loader.load())

    def _take(self, manifests: Manifests) -> None:
        self._hash = manifests.hash
        self.objects = manifests.objects
        self._metrics.succeed(self._now(), manifests.hash, self._loader.plugin)

    def reload(self) -> bool:
        """Read the folder again if it has changed; report whether other manifests are in force. Errors are logged, and
        what was in force before stays so (`checkAndReload`)."""
        if not self._looks.are_new():
            return False
        plugin = self._loader.plugin
        try:
            manifests = self._loader.load()
        except ValueError as error:
            log.error("reloading manifests of %s in %s: %s", plugin, self._loader.folder, " ".join(f"{error}".split()))
            self._metrics.fail(self._now(), plugin)
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

    def __init__(self, sources: Mapping[str, ManifestSource], metrics: ReloadMetrics) -> None:
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


NO_MANIFESTS = StaticManifests({}, manifest_metrics())
