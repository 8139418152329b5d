"""A node for tests: a server with the Node and a class, a folder for the kubelet, and pods with claims."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.releases import NEWEST
from tests.waiting import until
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import EVENTS, NODES, PODS, resource_claims
from understudy.controlplane.kubelet.kubelet import Kubelet
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj

NODE, DRIVER = "node-1", "gpu.example.com"


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a folder whose path is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as folder:
        yield Path(folder)


@dataclass
class Cluster:
    """A server of one release, and the folder of the one node's kubelet."""

    client: APIClient
    root: Path
    release: Version

    def kubelet(self, *, gates: dict[str, bool] | None = None, **options: Any) -> Kubelet:
        """Return the kubelet of the node; what it tries again it tries at once."""
        quick = {"resync_period": 0.1, "backoff_period": 0.05, "reconcile_period": 0.1, "boot_id": "1"}
        chosen = Gates.of(self.release, gates)
        return Kubelet(self.client.connection, NODE, self.root, self.release, chosen, **{**quick, **options})

    async def claim(self, name: str, *pods: str, drivers: tuple[str, ...] = (DRIVER,), allocated: bool = True) -> Obj:
        """Create a claim that is allocated and reserved for pods, which exist."""
        request: Obj = {"deviceClassName": "gpu"}
        if self.release >= V1_34:
            request = {"exactly": request}
        resource = resource_claims(self.release)
        spec = {"devices": {"requests": [{"name": "r", **request}]}}
        claim = await self.client.create(resource, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        return await self.reserve(claim, *pods, drivers=drivers) if allocated else claim

    async def reserve(self, claim: Obj, *pods: str, drivers: tuple[str, ...] = (DRIVER,)) -> Obj:
        """Allocate a claim and reserve it for pods."""
        device = {"request": "r", "pool": "pool", "device": f"gpu-{claim['metadata']['name']}"}
        uids = {name: (await self.pod(name))["metadata"]["uid"] for name in pods}
        status = {
            "allocation": {"devices": {"results": [{**device, "driver": driver} for driver in drivers]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid} for name, uid in uids.items()],
        }
        return await self.client.update_status(resource_claims(self.release), {**claim, "status": status})

    async def create_pod(self, name: str, *claims: str, **spec: Any) -> Obj:
        """Create a pod on the node that uses claims in its one container."""
        container = {"name": "c", "image": "i", "resources": {"claims": [{"name": claim} for claim in claims]}}
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        spec = {"nodeName": NODE, "containers": [container], "resourceClaims": entries, **spec}
        return await self.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def pod(self, name: str) -> Obj:
        """Return a pod."""
        return await self.client.get(PODS, name, "default")

    async def phase(self, name: str) -> str:
        """Return the phase of a pod, "" if there is none."""
        try:
            phase: str = (await self.pod(name))["status"]["phase"]
        except StatusError as why:
            if why.code != 404:
                raise
            return ""
        return phase

    async def reaches(self, phase: str, *pods: str) -> None:
        """Wait until pods are in a phase; "" means that they are gone."""
        for name in pods:
            await until(partial(self.phase, name), lambda actual: actual == phase)

    async def event(self, pod: str, message: str) -> Obj:
        """Wait for the event about a pod that has a message; return it."""

        async def by_message() -> dict[str, Obj]:
            listed = await self.client.list(EVENTS, "default", fields=f"involvedObject.name={pod}")
            return {event["message"]: event for event in listed["items"]}

        return (await until(by_message, lambda events: message in events))[message]


@pytest.fixture
async def cluster(root: Path, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """Return a cluster of the release that the test's parameter `release` names, of the newest without one."""
    release = request.getfixturevalue("release") if "release" in request.fixturenames else NEWEST
    async with (
        Server(emulated_version=str(release)) as server,
        APIClient(Connection(url=server.url), "test") as client,
    ):
        await client.create(NODES, {"metadata": {"name": NODE}})
        yield Cluster(client, root, release)
