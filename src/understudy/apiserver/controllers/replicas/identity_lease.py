"""Keeps the Lease by which an API server is known to others: `kube-system/apiserver-…`, one for each host.

It is renewed every 10 seconds, and lasts an hour. Once an hour those of servers that renew theirs no more are deleted.
Since 1.35 a server deletes its own when it starts and when it ends.

Upstream: k8s.io/component-helpers/apimachinery/lease, pkg/controlplane/controller/apiserverleasegc.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from uuid import uuid4

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.controllers.framework.leases import is_expired
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock, micro_timestamp
from understudy.machinery.util.timers import sleep

LASTS = 3600  # seconds
INTERVAL, COLLECTS = 10.0, 3600.0  # seconds
LABEL = "apiserver.kubernetes.io/identity"
COMPONENT = "kube-apiserver"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

log = logging.getLogger("understudy")


class IdentityLease:
    """Keeps the Lease of one server.

    name  that of the server: `apiserver-…`
    """

    def __init__(self, client: Verbs, clock: Clock, version: Version, name: str) -> None:
        self._client = client
        self._clock = clock
        self._deletes = version >= V1_35
        self._path = f"{LEASES}/{name}"
        self._name = name
        self._holder = f"{name}_{uuid4()}"
        self._renewing = asyncio.Lock()
        self._is_stopping = False

    async def run(self) -> None:
        """Keep the Lease until cancelled."""
        begins = self._deletes
        while True:
            try:
                if begins:
                    await self._delete(self._path)
                    begins = False
                await self._renew()
            except StatusError as why:
                if why.reason in ("Conflict", "AlreadyExists"):
                    continue  # another server of this host has just written it
                log.error("will retry updating lease %s in %g s: %s", self._name, INTERVAL, why)
            await sleep(self._clock, INTERVAL)

    async def stop(self) -> None:
        """Delete the Lease, from 1.35 on. Raises StatusError."""
        self._is_stopping = True
        async with self._renewing:
            if self._deletes:
                await self._delete(self._path)

    async def collect_expired(self) -> None:
        """Delete the Leases of servers that are gone, once an hour, until cancelled."""
        while True:
            try:
                await self._collect()
            except StatusError as why:
                log.error("leases of API servers are collected again in an hour: %s", why)
            await sleep(self._clock, COLLECTS)

    async def _renew(self) -> None:
        """Write the Lease, and create it if it is missing. Raises StatusError."""
        async with self._renewing:
            if self._is_stopping:
                return
            lease = await self._client.find(self._path)
            if lease is None:
                await self._client.create(LEASES, self._renewed({"metadata": {"name": self._name}}))
            else:
                await self._client.update(self._path, self._renewed(lease))

    def _renewed(self, lease: Obj) -> Obj:
        """Return a Lease with a new time. The holder is who has created it."""
        metadata, spec = lease["metadata"], lease.get("spec") or {"holderIdentity": self._holder}
        labels = {**(metadata.get("labels") or {}), LABEL: COMPONENT, "kubernetes.io/hostname": socket.gethostname()}
        return {
            **lease,
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "labels": labels},
            "spec": {**spec, "leaseDurationSeconds": LASTS, "renewTime": micro_timestamp(self._clock.now())},
        }

    async def _collect(self) -> None:
        """Delete what is outdated, unless it was renewed meanwhile. Raises StatusError."""
        listed = await self._client.get(LEASES, {"labelSelector": f"{LABEL}={COMPONENT}"})
        for lease in listed["items"]:
            if is_expired(lease.get("spec") or {}, self._clock.now()):
                metadata = lease["metadata"]
                await self._delete(f"{LEASES}/{metadata['name']}", metadata["resourceVersion"])

    async def _delete(self, path: str, version: str = "") -> None:
        """Delete a Lease, if it is there and, if a version is given, at that version. Raises StatusError."""
        try:
            await self._client.delete(path, resource_version=version)
        except StatusError as why:
            if why.code not in (404, 409):
                raise
