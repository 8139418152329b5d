"""What the file of `--admission-control-config-file` says: the configurations of plugins, and their manifests.

Upstream: `NewFromPlugins` of k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.admission.manifest.configuration import AdmissionConfiguration, read_configuration
from understudy.admission.manifest.plugin_configuration import MUTATING_POLICY, POLICIES, NamedFiles, named_files
from understudy.admission.manifest.source import NO_MANIFESTS, ManifestSource, StaticManifests
from understudy.admission.reloads import ReloadMetrics
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from understudy.admission.manifest.loader import ManifestLoader

T = TypeVar("T")
# Reads the configuration of a plugin in some bytes, None for none. Raises ValueError, InitializationError.
Reader = Callable[[bytes | None, Version], object]
# Plugins that cannot be enabled without a configuration.
NEED_CONFIGURATION = frozenset(("EventRateLimit", "ImagePolicyWebhook"))


class InitializationError(ValueError):
    """A configuration that can be read, and with which a plugin cannot begin (`ValidateInitialization`)."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The settings of the plugins of one server.

    read   configurations by the names of their plugins
    clock  that of the server
    """

    manifests: StaticManifests = NO_MANIFESTS
    read: Mapping[str, object] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    def of(self, plugin: str, default: T) -> T:
        """Return the configuration of a plugin, `default` without one."""
        configuration = self.read.get(plugin, default)
        assert isinstance(configuration, type(default))
        return configuration


NO_SETTINGS = AdmissionSettings()


def load_settings(
    path: Path | None,
    plugins: Sequence[str],
    readers: Mapping[str, Reader],
    version: Version,
    gates: Gates,
    metrics: ReloadMetrics,
    clock: Clock,
) -> AdmissionSettings:
    """Read an AdmissionConfiguration. Raises ValueError with the text of the real server.

    path     of its file, None for none
    plugins  names of those that are enabled, in their order
    readers  of their configurations
    clock    that of the server
    """
    from understudy.admission.manifest.loader import ManifestLoader  # and the rules of what it loads, for few servers

    sources: dict[str, ManifestSource] = {}
    read: dict[str, object] = {}
    try:
        configuration = AdmissionConfiguration([], Path()) if path is None else read_configuration(path, version)
        for plugin in plugins:
            data, files = configuration.of(plugin), NamedFiles()
            with _beginning(plugin):
                if plugin in readers:
                    read[plugin] = readers[plugin](data, version)
                elif data is not None:
                    files = named_files(plugin, data, version, gates)
                if files.kubeconfig:
                    from understudy.admission.manifest.webhook_users import read_webhook_users

                    read[plugin] = read_webhook_users(Path(files.kubeconfig))
            if not files.folder or (plugin == MUTATING_POLICY and not gates[features.MUTATING_ADMISSION_POLICY]):
                continue
            sources[plugin] = _source(ManifestLoader(plugin, files.folder, version, gates), metrics, clock.now)
    except ValueError as error:
        raise ValueError(f"failed to apply admission: {error}") from None
    return AdmissionSettings(StaticManifests(sources, metrics), read, clock)


@contextmanager
def _beginning(plugin: str) -> Iterator[None]:
    """Say in a ValueError which plugin cannot begin."""
    try:
        yield
    except InitializationError as error:
        raise ValueError(f"failed to initialize admission plugin {go_quote(plugin)}: {error}") from None
    except ValueError as error:
        raise ValueError(f"couldn't init admission plugin {go_quote(plugin)}: {error}") from None


def _source(loader: ManifestLoader, metrics: ReloadMetrics, now: Callable[[], float]) -> ManifestSource:
    try:
        return ManifestSource(loader, metrics, now)
    except ValueError as error:
        kind = "policy" if loader.plugin in POLICIES else "webhook"
        text = f"failed to load static {kind} manifests from {go_quote(loader.folder)}: {error}"
        raise ValueError(f"failed to initialize admission plugin {go_quote(loader.plugin)}: {text}") from None
