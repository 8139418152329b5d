"""What a server does as one of several on the same store: it makes itself known while it lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from understudy.admission.reloads import server_identity
from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.controllers.replicas.counted_endpoints import MasterCountReconciler
from understudy.apiserver.controllers.replicas.identity_lease import IdentityLease
from understudy.apiserver.controllers.replicas.kubernetes_service import EndpointReconciler
from understudy.apiserver.controllers.replicas.lease_endpoints import LeaseReconciler
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.kinds.core.services.held_numbers import SERVICE_CIDR
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features

LEAVING = 5.0  # seconds that the end of a server waits for a store that does not answer

log = logging.getLogger("understudy")


class Replica:
    """Makes one server known: as an endpoint of the Service `kubernetes`, and by its identity Lease.

    client   writes as kube-apiserver does
    address  of the server for clients in the cluster, "" if it has none; None if no endpoints are kept
    port     where the server listens
    count    how many servers there are; None if those that hold leases are
    """

    def __init__(
        self, state: ServerState, client: Verbs, address: str | None, port: int, count: int | None = None
    ) -> None:
        self._endpoints: EndpointReconciler | None = None
        self._identity: IdentityLease | None = None
        if address:
            place = client, address, port, str(SERVICE_CIDR[1])
            self._endpoints = (
                LeaseReconciler(*place, state.registry.store) if count is None else MasterCountReconciler(*place, count)
            )
        elif address is not None:
            log.warning("the Service kubernetes gets no endpoints from here: set --advertise-address")
        if state.gates[features.API_SERVER_IDENTITY]:
            self._identity = IdentityLease(client, state.clock, state.release.version, server_identity())

    def tasks(self, is_ready: Callable[[], bool]) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that run as long as the server does. `is_ready` reports whether it serves clients."""
        tasks: list[Coroutine[Any, Any, None]] = []
        if self._endpoints is not None:
            tasks.append(self._endpoints.run(is_ready))
        if self._identity is not None:
            tasks += [self._identity.run(), self._identity.collect_expired()]
        return tasks

    async def leave(self) -> None:
        """Remove what makes the server known, before it ends."""
        try:
            async with asyncio.timeout(LEAVING):
                if self._endpoints is not None:
                    await self._endpoints.stop()
                if self._identity is not None:
                    await self._identity.stop()
        except (StatusError, TimeoutError) as why:
            reason = str(why) or "timeout"
            log.warning("cannot remove this server from the endpoints of the Service kubernetes: %s", reason)
