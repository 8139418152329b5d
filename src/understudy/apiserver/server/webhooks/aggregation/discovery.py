"""Serves the versions of API services, and asks the servers behind them what they have.

Upstream: `discoveryManager` and `APIServiceRegistrationController`.
"""

from __future__ import annotations

from understudy.admission.webhooks import CallError
from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.apiserver.endpoints.discovery.aggregated_versions import current, stale, version_of, versions_of
from understudy.apiserver.extensions.aggregated import AggregatedVersion
from understudy.apiserver.server.webhooks.aggregation.aggregator import Aggregator
from understudy.apiserver.server.webhooks.aggregation.availability import API_SERVICES, GROUP, RESOURCE
from understudy.apiserver.server.webhooks.aggregation.backends import Backend, adds_version, backend_of, path_of
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.releases.version import V1_31, V1_36, V1_37, ByRelease
from understudy.machinery.types import Obj, condition_of

REFRESH = 60.0  # seconds after which a server is asked again
DELAYS = 0.5, REFRESH  # of one that does not answer, where it is asked again before
_RETRIES = ByRelease({V1_36: True, V1_31: False})  # whether one that does not answer is asked again before
_V2, _V2_BETA = (f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1"))
_ACCEPTED = ByRelease({V1_37: _V2, V1_31: f"{_V2},{_V2_BETA}"})
_USER = "system:kube-aggregator"


class DiscoveryController(Controller[str]):
    """Lists the versions of API services in discovery; keys are the names of these."""

    def __init__(self, context: ControllerContext, informers: StoreInformers, aggregator: Aggregator) -> None:
        super().__init__(informers, workers=2, delays=DELAYS)
        self._state = context.state
        self._aggregator = aggregator
        informers.of(API_SERVICES).on_change(self._changed)

    def _changed(self, entry: Entry) -> None:
        name = entry.key.removeprefix(API_SERVICES)
        if name in self._state.serving.aggregated or adds_version(entry.object):
            self.queue.add(name)

    async def sync(self, key: str) -> None:
        """List the version of an API service, with what its server has now. Raises TryAgainError for one that does not
        answer."""
        service = self._state.registry.lookup(GROUP, RESOURCE, "", key)
        if service is None or not adds_version(service):
            self._serve(key, None)
            return
        known = self._state.serving.aggregated.get(key)
        version, backend = AggregatedVersion.of(service), backend_of(service)
        if backend is None:
            self._serve(key, version)
            return
        self._serve(key, version._replace(discovered=known and known.discovered))
        try:
            discovered = await self._fetch(backend, service, version)
        except (CallError, ValueError) as error:
            self._serve(key, version._replace(discovered=stale(version.version)))
            raise TryAgainError(str(error), None if _RETRIES[self._state.release.version] else REFRESH) from None
        self._serve(key, version._replace(discovered=discovered))
        self.queue.add_after(key, REFRESH)

    def _serve(self, key: str, version: AggregatedVersion | None) -> None:
        """List a version of an API service from now on, None for none."""
        serving = self._state.serving
        others = {name: other for name, other in serving.aggregated.items() if name != key}
        self._state.serve(serving.with_aggregated(others if version is None else {**others, key: version}))

    async def _fetch(self, backend: Backend, service: Obj, version: AggregatedVersion) -> Obj:
        """Return the APIVersionDiscovery of a server. Raises CallError, ValueError for an answer that is none."""
        if not condition_of(service, "Available"):
            raise CallError("it is not known yet whether the server is available")
        accept = _ACCEPTED[self._state.release.version]
        answer = await self._aggregator.proxy.fetch(backend, "/apis", User(_USER, [MASTERS]), {"Accept": accept})
        if answer.status == 503:
            raise CallError("service unavailable")
        if answer.status == 200 and "as=APIGroupDiscoveryList" in answer.headers.get("Content-Type", ""):
            versions = versions_of(answer.body, self._state.schemas)
            return versions.get((version.group, version.version)) or current(version.version, ())
        headers = {"Accept": "application/json"}
        answer = await self._aggregator.proxy.fetch(backend, path_of(service), User(_USER, []), headers)
        if answer.status != 200:
            raise CallError(f"failed to download legacy discovery: {answer.status}")
        return version_of(version.version, answer.body, self._state.schemas)
