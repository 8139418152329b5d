"""Keeps the endpoints of the Service `kubernetes`: the addresses of all API servers that share a store.

    /registry/masterleases/ADDRESS   of each server, which deletes it when it ends; the store does so 15 s after it was
                                     written last, and it is written every 10 s
    Endpoints, EndpointSlice         `default/kubernetes`: the addresses that have such a key

Upstream: `leaseEndpointReconciler` in pkg/controlplane/reconcilers, and pkg/controlplane/controller/kubernetesservice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.storage.engine_store import MASTER_LEASES
from understudy.apiserver.storage.interface import KeyExistsError, RevisionConflictError, Store
from understudy.kinds.core.endpoints.slices import SERVICE_NAME
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

INTERVAL = 10.0  # seconds between two writes of the master lease
READY = 0.1  # seconds between two looks whether clients are served
NAME = "kubernetes"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
_NAMESPACE, _SLICES = "/api/v1/namespaces/default", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

log = logging.getLogger("understudy")


class EndpointReconciler:
    """Keeps the endpoints of the Service `kubernetes`, for one server.

    client      writes the endpoints
    address     of this server, as clients in the cluster reach it
    port        where it listens
    service_ip  the cluster IP of the Service
    """

    def __init__(self, client: Verbs, store: Store, address: str, port: int, service_ip: str) -> None:
        self._client = client
        self._store = store
        self._address = address
        self._ports: list[Obj] = [{"name": "https", "port": port, "protocol": "TCP"}]
        self._service_ip = service_ip
        self._is_stopping = False
        self._changing = asyncio.Lock()

    async def run(self, is_ready: Callable[[], bool]) -> None:
        """Keep the endpoints until cancelled. What an earlier server of this address has left goes first."""
        try:
            await self._remove()
        except StatusError as why:
            log.error("error removing old endpoints from kubernetes service: %s", why)
        while not is_ready():
            await asyncio.sleep(READY)
        while True:
            try:
                await self._reconcile()
            except StatusError as why:
                if why.reason == "Conflict":
                    continue  # another server has just written the endpoints
                log.error("unable to sync kubernetes service: %s", why)
            await asyncio.sleep(INTERVAL)

    async def stop(self) -> None:
        """Remove the address of this server. Raises StatusError."""
        self._is_stopping = True
        await self._remove()

    async def _reconcile(self) -> None:
        async with self._changing:
            if self._is_stopping:
                return
            if await self._client.find(f"{_NAMESPACE}/services/{NAME}") is None:
                await _create(self._client, f"{_NAMESPACE}/services", self._service())
            await self._renew()
            await self._write_endpoints(resets_ports=False)

    async def _remove(self) -> None:
        """Remove the address of this server, if it is there. Raises StatusError."""
        key = f"{MASTER_LEASES}{self._address}"
        async with self._changing:
            entry = await self._store.get(key)
            if entry is None:
                return
            while entry is not None:
                try:
                    await self._store.delete(key, entry.revision)
                    break
                except RevisionConflictError as changed:
                    entry = changed.current
            await self._write_endpoints(resets_ports=True)

    async def _renew(self) -> None:
        """Write the master lease, so that its time begins anew. Raises StatusError."""
        key = f"{MASTER_LEASES}{self._address}"
        while True:
            entry = await self._store.get(key)
            generation = entry.value["metadata"].get("generation", 0) if entry else 0
            value = {
                "metadata": {"generation": generation + 1},
                "subsets": [{"addresses": [{"ip": self._address}]}],
            }
            try:
                if entry is None:
                    await self._store.create(key, value)
                else:
                    await self._store.update(key, value, entry.revision)
            except (KeyExistsError, RevisionConflictError):
                continue  # a server with the same address, or the end of its time
            return

    async def _write_endpoints(self, *, resets_ports: bool) -> None:
        """Let the endpoints have the addresses of all master leases. Raises StatusError."""
        path = f"{_NAMESPACE}/endpoints"
        stored, addresses = await self._client.find(f"{path}/{NAME}"), await self._addresses()
        if self._is_stopping if stored is None else not (addresses or self._is_stopping):
            return  # a server that runs is no reason to erase all addresses
        endpoints = stored or {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": NAME}}
        expected = self._expected(endpoints, addresses, resets_ports=resets_ports)
        if stored is None:
            endpoints = await _create(self._client, path, expected) or expected
        elif expected != stored:
            endpoints = await self._client.update(f"{path}/{NAME}", expected)
        await self._write_slice(endpoints)

    async def _addresses(self) -> list[str]:
        """Return the addresses of all servers. Raises StatusError."""
        entries = (await self._store.range(MASTER_LEASES)).entries
        return [subset["addresses"][0]["ip"] for entry in entries for subset in entry.value.get("subsets") or ()]

    def _expected(self, endpoints: Obj, addresses: Sequence[str], *, resets_ports: bool) -> Obj:
        """Return Endpoints as they have to be. Ports of other servers stay, unless they are reset."""
        metadata, subsets = endpoints["metadata"], endpoints.get("subsets") or [{}]
        labels = {**(metadata.get("labels") or {}), SKIP_MIRROR: "true"}
        subset = subsets[0] if len(subsets) == 1 and subsets[0] else {"ports": self._ports}
        if resets_ports:
            subset = {**subset, "ports": self._ports}
        if {each["ip"] for each in subset.get("addresses") or ()} != {*addresses}:
            subset = {**subset, "addresses": [{"ip": ip} for ip in sorted({*addresses})]}
        others = {key: value for key, value in endpoints.items() if key != "subsets"}
        expected = {**others, "metadata": {**metadata, "labels": labels}}
        return {**expected, "subsets": [subset]} if addresses else expected

    async def _write_slice(self, endpoints: Obj) -> None:
        """Let the EndpointSlice have what the Endpoints have. Raises StatusError."""
        expected = _slice_of(endpoints)
        stored = await self._client.find(f"{_SLICES}/{NAME}")
        if stored is not None and stored["addressType"] != expected["addressType"]:
            await self._client.delete(f"{_SLICES}/{NAME}")
            stored = None
        if stored is None:
            await _create(self._client, _SLICES, expected)
        elif any((stored.get(key) or []) != expected[key] for key in ("endpoints", "ports")) or (
            stored["metadata"].get("labels") != expected["metadata"]["labels"]
        ):
            await self._client.update(f"{_SLICES}/{NAME}", expected)

    def _service(self) -> Obj:
        port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": self._ports[0]["port"]}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "labels": {"provider": "kubernetes", "component": "apiserver"}},
            "spec": {
                "ports": [port],
                "clusterIP": self._service_ip,
                "ipFamilyPolicy": "SingleStack",
                "sessionAffinity": "None",
                "type": "ClusterIP",
            },
        }


def _slice_of(endpoints: Obj) -> Obj:
    """Return the EndpointSlice of Endpoints, with the addresses of one family."""
    subset = (endpoints.get("subsets") or [{}])[0]
    addresses = [each["ip"] for each in subset.get("addresses") or ()]
    is_v6 = bool(addresses) and all(":" in ip for ip in addresses)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "labels": {SERVICE_NAME: NAME}},
        "addressType": "IPv6" if is_v6 else "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in addresses if (":" in ip) == is_v6],
        "ports": subset.get("ports") or [],
    }


async def _create(client: Verbs, path: str, obj: Obj) -> Obj | None:
    """Create an object; return it, or None if another server has just done so. Raises StatusError."""
    try:
        return await client.create(path, obj)
    except StatusError as why:
        if why.reason != "AlreadyExists":
            raise
        return None
