"""Keeps the Service `kubernetes` and its endpoints: the addresses of all API servers that share a store.

    Endpoints, EndpointSlice   `default/kubernetes`: the addresses of the servers, which each adds and removes its own

How servers agree on the addresses is up to an `EndpointReconciler`: see `lease_endpoints` and `counted_endpoints`.

Upstream: pkg/controlplane/controller/kubernetesservice, and `EndpointsAdapter` in pkg/controlplane/reconcilers.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from understudy.apiserver.client.verbs import Verbs
from understudy.kinds.core.endpoints.slices import SERVICE_NAME
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

INTERVAL = 10.0  # seconds between two looks at the endpoints
READY = 0.1  # seconds between two looks whether clients are served
NAME = "kubernetes"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
_NAMESPACE, _SLICES = "/api/v1/namespaces/default", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_ENDPOINTS = f"{_NAMESPACE}/endpoints"

log = logging.getLogger("understudy")


class EndpointReconciler(ABC):
    """Keeps the endpoints of the Service `kubernetes`, for one server.

    client      writes the endpoints
    address     of this server, as clients in the cluster reach it
    port        where it listens
    service_ip  the cluster IP of the Service
    """

    def __init__(self, client: Verbs, address: str, port: int, service_ip: str) -> None:
        self._client = client
        self._address = address
        self._ports: list[Obj] = [{"name": "https", "port": port, "protocol": "TCP"}]
        self._service_ip = service_ip
        self._is_stopping = False
        self._changing = asyncio.Lock()

    async def run(self, is_ready: Callable[[], bool]) -> None:
        """Keep the endpoints until cancelled. What an earlier server of this address has left goes first."""
        try:
            await self._leave()
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
        await self._leave()

    async def _reconcile(self) -> None:
        async with self._changing:
            if self._is_stopping:
                return
            if await self._client.find(f"{_NAMESPACE}/services/{NAME}") is None:
                await _create(self._client, f"{_NAMESPACE}/services", self._service())
            await self.add()

    async def _leave(self) -> None:
        async with self._changing:
            await self.remove()

    @abstractmethod
    async def add(self) -> None:
        """Let the endpoints have the address of this server (`ReconcileEndpoints`). Raises StatusError."""

    @abstractmethod
    async def remove(self) -> None:
        """Remove the address of this server, if it is there (`RemoveEndpoints`). Raises StatusError."""

    async def find_endpoints(self) -> Obj | None:
        """Return the stored Endpoints, None if there are none. Raises StatusError."""
        return await self._client.find(f"{_ENDPOINTS}/{NAME}")

    async def create_endpoints(self, subsets: list[Obj]) -> None:
        """Create Endpoints and EndpointSlice, unless another server has just done so. Raises StatusError."""
        new = with_subsets({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": NAME}}, subsets)
        await self._write_slice(await _create(self._client, _ENDPOINTS, new) or new)

    async def update_endpoints(self, stored: Obj, expected: Obj) -> None:
        """Update Endpoints that are not as they have to be, and the EndpointSlice. Raises StatusError."""
        if expected != stored:
            stored = await self._client.update(f"{_ENDPOINTS}/{NAME}", expected)
        await self._write_slice(stored)

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


def with_subsets(endpoints: Obj, subsets: list[Obj]) -> Obj:
    """Return Endpoints with other subsets, which no controller mirrors to EndpointSlices (`setSkipMirrorTrue`)."""
    metadata = endpoints["metadata"]
    labels = {**(metadata.get("labels") or {}), SKIP_MIRROR: "true"}
    others = {key: value for key, value in endpoints.items() if key != "subsets"}
    changed = {**others, "metadata": {**metadata, "labels": labels}}
    return {**changed, "subsets": subsets} if subsets else changed


def _slice_of(endpoints: Obj) -> Obj:
    """Return the EndpointSlice of Endpoints, with the addresses of one family (`endpointSliceFromEndpoints`)."""
    subset = (endpoints.get("subsets") or [{}])[0]
    listed = [*_endpoints_of(subset, "addresses", is_ready=True), *_endpoints_of(subset, "notReadyAddresses")]
    is_v6 = bool(listed) and all(":" in each["addresses"][0] for each in listed)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "labels": {SERVICE_NAME: NAME}},
        "addressType": "IPv6" if is_v6 else "IPv4",
        "endpoints": [each for each in listed if (":" in each["addresses"][0]) == is_v6],
        "ports": subset.get("ports") or [],
    }


def _endpoints_of(subset: Obj, name: str, *, is_ready: bool = False) -> Iterator[Obj]:
    """Yield the endpoints of a slice for addresses of a subset (`endpointFromAddress`)."""
    for address in subset.get(name) or ():
        others = {key: address[key] for key in ("targetRef", "nodeName") if key in address}
        yield {"addresses": [address["ip"]], "conditions": {"ready": is_ready}, **others}


async def _create(client: Verbs, path: str, obj: Obj) -> Obj | None:
    """Create an object; return it, or None if another server has just done so. Raises StatusError."""
    try:
        return await client.create(path, obj)
    except StatusError as why:
        if why.reason != "AlreadyExists":
            raise
        return None
