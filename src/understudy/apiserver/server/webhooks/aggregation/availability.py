"""Says in the status of APIServices whether the servers behind them answer.

Upstream: `AvailableConditionController`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.server.webhooks.aggregation.aggregator import Aggregator
from understudy.apiserver.server.webhooks.aggregation.backends import Backend, backend_of, is_local, path_of
from understudy.apiserver.storage.interface import Entry
from understudy.kinds.core.endpoints.slices import is_ready, service_of
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_34, V1_36
from understudy.machinery.types import Obj, condition_of, nested_field, with_condition

GROUP, RESOURCE = "apiregistration.k8s.io", "apiservices"
API_SERVICES = f"/registry/{GROUP}/{RESOURCE}/"
SERVICES, ENDPOINTS, SLICES = "/registry/services/specs/", "/registry/services/endpoints/", "/registry/endpointslices/"
LOCAL = ("True", "Local", "Local APIServices are always available")
PASSED = ("True", "Passed", "all checks passed")
ATTEMPTS = 5  # at once, of which one must succeed
RESYNC = 30.0  # seconds after which a server is asked again
_FAILED = "FailedDiscoveryCheck"

Condition = tuple[str, str, str]  # status, reason and message


class AvailabilityController(Controller[str]):
    """Checks APIServices, and lets the aggregator know of them; keys are their names.

    Services and endpoints are followed once there is an APIService with a Service behind it.
    """

    def __init__(self, context: ControllerContext, informers: StoreInformers, aggregator: Aggregator) -> None:
        super().__init__(informers)
        self._state = context.state
        self._registry = context.state.registry
        self._client = context.clients.client(APISERVER_AGENT)
        self._aggregator = aggregator
        self._known: dict[str, str] = {}  # paths of those with a Service behind them, by name
        self._following: asyncio.Task[None] | None = None
        informers.of(API_SERVICES).on_change(self._changed)

    def _changed(self, entry: Entry) -> None:
        name = entry.key.removeprefix(API_SERVICES)
        if name in self._known or not is_local(entry.object):
            self.queue.add(name)

    async def run(self) -> None:
        """Check APIServices until cancelled."""
        try:
            await super().run()
        finally:
            if self._following is not None:
                self._following.cancel()
                with suppress(asyncio.CancelledError):
                    await self._following

    def _follow(self) -> None:
        """Look at all APIServices again when Services or their endpoints change."""
        informers = StoreInformers(self._registry.store, self._state.clock)
        for prefix in (SERVICES, ENDPOINTS if self._has_endpoints else SLICES):
            informers.of(prefix).on_change(self._moved)
        self._following = asyncio.create_task(informers.run())

    def _moved(self, entry: Entry) -> None:
        """Look at the APIServices of a Service of which something has changed."""
        metadata = entry.object["metadata"]
        name = service_of(entry.object) or metadata["name"]
        for key in self._known:
            service = nested_field(self._find(key), "spec", "service", default={})
            if (service.get("namespace"), service.get("name")) == (metadata.get("namespace"), name):
                self.queue.add(key)

    @property
    def _has_endpoints(self) -> bool:
        """Report whether Endpoints are looked at, and not EndpointSlices."""
        return self._state.release.version < V1_34

    def _find(self, key: str) -> Obj | None:
        return self._registry.lookup(GROUP, RESOURCE, "", key)

    async def sync(self, key: str) -> None:
        """Write the condition `Available` of an APIService if it is missing or wrong."""
        current = self._find(key)
        backend = None if current is None else backend_of(current)
        if current is None or backend is None:
            self._aggregator.backends.put(self._known.pop(key, ""), None)
            if current is not None:
                await self._write(key, current, LOCAL)
            return
        self._known[key] = path_of(current)
        if self._following is None:
            self._follow()
        condition = await self._check(backend, path_of(current))
        self._aggregator.backends.put(path_of(current), backend._replace(is_available=condition[0] == "True"))
        await self._write(key, current, condition)
        if condition[1] == _FAILED:
            raise TryAgainError(condition[2])
        self.queue.add_after(key, RESYNC)

    async def _write(self, key: str, current: Obj, new: Condition) -> None:
        """Write a condition if it says something new."""
        before = condition_of(current, "Available")
        status, reason, message = new
        if (before.get("status"), before.get("reason"), before.get("message")) == new:
            return
        condition = {"type": "Available", "status": status, "reason": reason, "message": message}
        conditions = nested_field(current, "status", "conditions", default=[])
        changed = {**current, "status": {"conditions": with_condition(conditions, condition, self._state.timestamp())}}
        with suppress(StatusError):  # it has been changed since, and is looked at again
            await self._client.update(resource_path(GROUP, "v1", RESOURCE, "", key, "status"), changed)
            if before.get("status") == "True" != status:
                self._state.availability_metrics.fail(key, reason)

    async def _check(self, backend: Backend, path: str) -> Condition:
        """Return the condition of a server behind an APIService."""
        if not self._aggregator.services.is_mapped(backend.service):
            problem = self._service_problem(backend)
            if problem is not None:
                return ("False", *problem)
        verifies = self._state.release.version >= V1_36
        attempts = [self._aggregator.proxy.check(backend, path, verifies=verifies) for _ in range(ATTEMPTS)]
        try:
            results = await asyncio.gather(*attempts)
        except OSError as error:  # the CA bundle has no certificates
            raise TryAgainError(str(error)) from None
        return PASSED if "" in results else ("False", _FAILED, results[-1])

    def _service_problem(self, backend: Backend) -> tuple[str, str] | None:
        """Return reason and message for a Service that cannot be asked, None for one that can."""
        namespace, name, port = backend.service
        service = self._registry.lookup("", "services", namespace, name)
        where = f"service/{name} in {go_quote(namespace)}"
        if service is None:
            return "ServiceNotFound", f"{where} is not present"
        if service["spec"].get("type") != "ClusterIP":
            return None
        named = [item.get("name") or "" for item in service["spec"].get("ports") or () if item["port"] == port]
        if not named:
            return "ServicePortError", f"{where} is not listening on port {port}"
        kind = "endpoints" if self._has_endpoints else "endpointslices"
        places = self._endpoints(namespace, name) if self._has_endpoints else self._slices(namespace, name)
        if not places:
            return "EndpointsNotFound", f"cannot find {kind} for {where}"
        if not any(has_addresses and named[0] in ports for has_addresses, ports in places):
            return "MissingEndpoints", f"{kind} for {where} have no addresses with port name {go_quote(named[0])}"
        return None

    def _endpoints(self, namespace: str, name: str) -> list[tuple[bool, list[str]]]:
        """Return for each subset whether there are ready addresses, and the names of ports; one for none at all."""
        endpoints = self._registry.lookup("", "endpoints", namespace, name)
        if endpoints is None:
            return []
        subsets = endpoints.get("subsets") or [{}]
        return [(bool(subset.get("addresses")), _port_names(subset)) for subset in subsets]

    def _slices(self, namespace: str, name: str) -> list[tuple[bool, list[str]]]:
        """Return for each slice whether there are ready addresses, and the names of ports."""
        return [
            (any(map(is_ready, item.get("endpoints") or ())), _port_names(item))
            for item in self._registry.listing("discovery.k8s.io", "endpointslices", namespace)
            if service_of(item) == name
        ]


def _port_names(obj: Any) -> list[str]:
    return [port.get("name") or "" for port in obj.get("ports") or ()]
