"""Publishes the devices of one driver on one node in a ResourceSlice, and again when somebody deletes that.

A kubelet does so when it starts, and expects it. Upstream: `resourceslice.Controller`, which drivers use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from understudy.apiserver.controllers.framework.backoff import Backoff
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import resource_slices
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)


class SlicePublisher:
    """Writes the slice of a driver on a node, whose pool has the node's name.

    Before the first call of `publish` there is none.
    """

    def __init__(self, client: APIClient, version: Version, driver: str, node: str) -> None:
        self._client = client
        self._version = version
        self._resource = resource_slices(version)
        self._driver = driver
        self._node = node
        self._name = f"{node}-{driver}"
        self._devices: list[Obj] | None = None
        self._generation = 0
        self._gone = asyncio.Event()

    async def publish(self, devices: Iterable[str | Obj]) -> Obj:
        """Publish devices (names or objects) in place of those before; return the slice. Raises StatusError."""
        self._devices = [self._device(device) for device in devices]
        return await self._write(self._devices)

    async def run(self) -> None:
        """Publish the devices again when the slice is gone, until cancelled."""
        informer = Informer(self._client, self._resource, fields=f"metadata.name={self._name}")
        informer.add_handler(delete=lambda _: self._gone.set())
        backoff = Backoff(clock=self._client.clock.monotonic)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run(), name=f"slice of {self._driver}")
            await informer.wait_for_sync()
            if not informer.store.objects():
                self._gone.set()
            while True:
                await self._gone.wait()
                self._gone.clear()
                try:
                    if self._devices is not None:
                        await self._write(self._devices)
                except (StatusError, ConnectionError) as why:
                    log.warning("cannot publish ResourceSlice %s: %s", self._name, why)
                    await sleep(self._client.clock, backoff.delay())
                    self._gone.set()

    async def _write(self, devices: list[Obj]) -> Obj:
        """Create the slice, or replace it by the next generation of its pool."""
        self._generation += 1
        pool = {"name": self._node, "generation": self._generation, "resourceSliceCount": 1}
        spec = {"driver": self._driver, "nodeName": self._node, "pool": pool, "devices": devices}
        obj: Obj = {"metadata": {"name": self._name}, "spec": spec}
        try:
            return await self._client.create(self._resource, obj)
        except StatusError as why:
            if why.reason != "AlreadyExists":
                raise
        stored = await self._client.get(self._resource, self._name)
        pool["generation"] = self._generation = stored["spec"]["pool"]["generation"] + 1
        return await self._client.update(self._resource, {**stored, "spec": spec})

    def _device(self, device: str | Obj) -> Obj:
        """Return a device as a slice of the release has it."""
        if isinstance(device, str):
            device = {"name": device}
        if self._version >= V1_34 or "basic" in device:
            return device
        return {"name": device["name"], "basic": {key: value for key, value in device.items() if key != "name"}}
