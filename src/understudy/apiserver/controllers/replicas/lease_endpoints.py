"""Lets the endpoints of the Service `kubernetes` be the servers that hold a master lease.

    /registry/masterleases/ADDRESS   of each server, which deletes it when it ends; the store does so 15 s after it was
                                     written last, and it is written every 10 s

Upstream: `leaseEndpointReconciler` in pkg/controlplane/reconcilers.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.controllers.replicas.kubernetes_service import EndpointReconciler, with_subsets
from understudy.apiserver.storage.engine_store import MASTER_LEASES
from understudy.apiserver.storage.interface import KeyExistsError, RevisionConflictError, Store
from understudy.machinery.types import Obj


class LeaseReconciler(EndpointReconciler):
    """Keeps the endpoints by leases of the servers. `store` holds the leases."""

    def __init__(self, client: Verbs, address: str, port: int, service_ip: str, store: Store) -> None:
        super().__init__(client, address, port, service_ip)
        self._store = store
        self._key = f"{MASTER_LEASES}{address}"

    async def add(self) -> None:
        await self._renew()
        await self._write_endpoints(resets_ports=False)

    async def remove(self) -> None:
        entry = await self._store.get(self._key)
        if entry is None:
            return
        while entry is not None:
            try:
                await self._store.delete(self._key, entry.revision)
                break
            except RevisionConflictError as changed:
                entry = changed.current
        await self._write_endpoints(resets_ports=True)

    async def _renew(self) -> None:
        """Write the master lease, so that its time begins anew. Raises StatusError."""
        while True:
            entry = await self._store.get(self._key)
            generation = entry.value["metadata"].get("generation", 0) if entry else 0
            value = {
                "metadata": {"generation": generation + 1},
                "subsets": [{"addresses": [{"ip": self._address}]}],
            }
            try:
                if entry is None:
                    await self._store.create(self._key, value)
                else:
                    await self._store.update(self._key, value, entry.revision)
            except (KeyExistsError, RevisionConflictError):
                continue  # a server with the same address, or the end of its time
            return

    async def _write_endpoints(self, *, resets_ports: bool) -> None:
        """Let the endpoints have the addresses of all master leases. Raises StatusError."""
        stored, addresses = await self.find_endpoints(), await self._addresses()
        if self._is_stopping if stored is None else not (addresses or self._is_stopping):
            return  # a server that runs is no reason to erase all addresses
        subsets = self._subsets(stored or {}, addresses, resets_ports=resets_ports)
        if stored is None:
            await self.create_endpoints(subsets)
        else:
            await self.update_endpoints(stored, with_subsets(stored, subsets))

    async def _addresses(self) -> list[str]:
        """Return the addresses of all servers. Raises StatusError."""
        entries = (await self._store.range(MASTER_LEASES)).entries
        return [subset["addresses"][0]["ip"] for entry in entries for subset in entry.value.get("subsets") or ()]

    def _subsets(self, endpoints: Obj, addresses: Sequence[str], *, resets_ports: bool) -> list[Obj]:
        """Return the subsets as they have to be. Ports of other servers stay, unless they are reset."""
        subsets = endpoints.get("subsets") or [{}]
        subset = subsets[0] if len(subsets) == 1 and subsets[0] else {"ports": self._ports}
        if resets_ports:
            subset = {**subset, "ports": self._ports}
        if {each["ip"] for each in subset.get("addresses") or ()} != {*addresses}:
            subset = {**subset, "addresses": [{"ip": ip} for ip in sorted({*addresses})]}
        return [subset] if addresses else []
