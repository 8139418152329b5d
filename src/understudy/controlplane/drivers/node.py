"""A node to test a driver on: a server of one release, the kubelet of its one node, and processes of the driver."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import EVENTS, PODS, device_classes, resource_slices
from understudy.controlplane.drivers import objects
from understudy.controlplane.drivers.endpoint import Endpoint, Registration, registrations
from understudy.controlplane.drivers.objects import NAMESPACE, ClaimForm
from understudy.controlplane.drivers.places import Places
from understudy.controlplane.drivers.process import RunningDriver, StartDriver
from understudy.controlplane.drivers.verdicts import FailedError
from understudy.controlplane.kubelet.dra.api import Claim
from understudy.controlplane.kubelet.kubelet import Kubelet
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field

T = TypeVar("T")

NODE = "node-1"
LOOK_EVERY = 0.05  # seconds
RETRY_PERIOD = 0.5  # seconds until the kubelet tries again what failed


class Node:
    """Runs kubelet and driver for a case, while it is an open (asynchronous) context manager.

    root          folder of the kubelet, with a short path
    kubeconfig    file for the driver
    start_driver  starts a process of the driver
    claim         what claims ask for; any one device of the driver by default
    timeout       seconds that the driver has for each thing that is waited for
    """

    def __init__(
        self, client: APIClient, kubeconfig: Path, root: Path, version: Version, gates: Gates,
        start: StartDriver, claim: ClaimForm | None, timeout: float,
    ) -> None:  # fmt: skip
        self.client = client
        self.root = root
        self.version = version
        self.timeout = timeout
        self.claim = claim or ClaimForm.of_one_device(version)
        self.drivers: list[RunningDriver] = []  # the newest last
        self._name = ""
        self._kubeconfig = kubeconfig
        self._gates = gates
        self._start = start
        self._kubelet: Kubelet | None = None
        self._stack = AsyncExitStack()
        for folder in (self.registry, self.plugins, self.cdi):
            folder.mkdir(parents=True)

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(self, *_: object) -> None:
        for driver in self.drivers:
            await driver.kill()
        await self._stack.aclose()
        await self.stop_kubelet()

    @property
    def registry(self) -> Path:
        """Return the folder of registration sockets."""
        return self.root / "plugins_registry"

    @property
    def plugins(self) -> Path:
        """Return the folder of the drivers' own files."""
        return self.root / "plugins"

    @property
    def cdi(self) -> Path:
        """Return the folder of CDI files."""
        return self.root / "cdi"

    # --- what runs

    async def start_kubelet(self, *, boot_id: str = "1", wipe: bool = False) -> None:
        """Start the kubelet. `wipe`: it deletes the node's ResourceSlices, as a real one does when it starts."""
        kubelet = Kubelet(
            self.client.connection, NODE, self.root, self.version, self._gates,
            register_node=True, boot_id=boot_id, wipe_at_start=wipe,
            resync_period=RETRY_PERIOD, backoff_period=RETRY_PERIOD, reconcile_period=RETRY_PERIOD,
        )  # fmt: skip
        self._kubelet = await kubelet.__aenter__()

    async def stop_kubelet(self) -> None:
        """Stop the kubelet, if it runs."""
        if self._kubelet is not None:
            await self._kubelet.__aexit__()
            self._kubelet = None

    async def start_driver(self) -> None:
        """Start another process of the driver."""
        places = Places(
            self._kubeconfig, NODE, self.root, self.registry, self.plugins, self.cdi, instance=str(uuid.uuid4())
        )
        self.drivers.append(await self._start(places))

    async def stop_driver(self) -> None:
        """Ask the oldest process of the driver to end. Raises FailedError if it does not."""
        self._check_driver()
        await self.drivers.pop(0).stop()

    async def kill_driver(self) -> None:
        """End the oldest process of the driver without a word."""
        self._check_driver()
        await self.drivers.pop(0).kill()

    def _check_driver(self) -> None:
        for driver in self.drivers:
            if problem := driver.problem():
                raise FailedError(problem)

    async def waits(self, failure: str, condition: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """Wait until a condition is true; return its value. Raises FailedError with `failure`, "no device"."""
        limit = timeout or self.timeout
        try:
            async with asyncio.timeout(limit):
                while True:
                    self._check_driver()
                    if value := await condition():
                        return value
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise FailedError(f"{failure} within {limit:g} s") from None

    # --- the driver

    async def registration(self) -> Registration:
        """Wait for the registration of the driver; return it."""
        answering = await self.waits(f"no plugin answers at a socket in {self.registry.name}", self._registrations)
        return answering[-1]

    async def _registrations(self) -> list[Registration]:
        return await registrations(self.registry)

    async def name(self) -> str:
        """Return the name of the driver."""
        self._name = self._name or (await self.registration()).info.name
        return self._name

    async def endpoint(self) -> Endpoint:
        """Return a connection to the endpoint of the driver."""
        endpoint = Endpoint(await self.registration(), self.version)
        self._stack.push_async_callback(endpoint.close)
        return endpoint

    async def slices(self) -> list[Obj]:
        """Return the ResourceSlices of the newest generation of each pool of the driver on this node, now."""
        listed = await self.client.list(resource_slices(self.version), fields=f"spec.driver={await self.name()}")
        newest: dict[str, int] = {}
        for each in listed["items"]:
            newest[_pool_of(each)] = max(_generation_of(each), newest.get(_pool_of(each), 0))
        return [each for each in listed["items"] if _generation_of(each) == newest[_pool_of(each)]]

    async def devices(self) -> set[tuple[str, str]]:
        """Wait until every pool of the driver is complete and has devices; return these: {(pool, device)}."""
        return await self.waits("no complete pool of devices was published", self.devices_now)

    async def devices_now(self) -> set[tuple[str, str]]:
        """Return the devices of the driver, none if a pool is not complete: {(pool, device)}."""
        slices = await self.slices()
        counts = Counter(_pool_of(each) for each in slices)
        if any(counts[_pool_of(each)] != each["spec"]["pool"]["resourceSliceCount"] for each in slices):
            return set()
        return {(_pool_of(each), device["name"]) for each in slices for device in each["spec"].get("devices") or ()}

    async def starts(self) -> None:
        """Start kubelet and driver, and wait for devices; create the class of these."""
        await self.start_kubelet()
        await self.start_driver()
        await self.devices()
        await self.client.create(device_classes(self.version), objects.device_class(await self.name()))

    # --- claims and pods

    async def create_claim(self, name: str, form: ClaimForm | None = None) -> None:
        """Create a claim."""
        form = form or self.claim
        await self.client.create(form.claims, form.claim(name))

    async def create_template(self, name: str) -> None:
        """Create a template of claims."""
        await self.client.create(self.claim.templates, self.claim.template(name))

    async def create_pods(self, *names: str, **claim: str) -> None:
        """Create pods that use a claim: `resourceClaimName` or `resourceClaimTemplateName`."""
        for name in names:
            await self.client.create(PODS, objects.pod(name, **claim))

    async def run_pods(self, *names: str, **claim: str) -> None:
        """Create pods that use a claim, and wait until they run."""
        await self.create_pods(*names, **claim)
        await self.running(*names)

    async def running(self, *names: str) -> None:
        """Wait until pods run. Raises FailedError with what the events of the first that does not say."""
        for name in names:
            try:
                await self.waits(f"pod {name} does not run", partial(self._has_phase, name, "Running"))
            except FailedError as why:
                raise FailedError(f"{why}{await self._events(name)}") from None

    async def gone(self, *names: str) -> None:
        """Delete pods and wait until they are gone, when their claims are unprepared."""
        for name in names:
            await self.client.delete(PODS, name, NAMESPACE)
        await self.ended(*names)

    async def ended(self, *names: str) -> None:
        """Wait until pods are gone. Raises FailedError with what the events of the first that is not say."""
        for name in names:
            try:
                await self.waits(f"pod {name} does not end", partial(self._has_phase, name, ""))
            except FailedError as why:
                raise FailedError(f"{why}{await self._events(name)}") from None

    async def pod(self, name: str) -> Obj | None:
        """Return a pod, None for one that is gone."""
        with suppress(StatusError):
            return await self.client.get(PODS, name, NAMESPACE)
        return None

    async def _has_phase(self, name: str, phase: str) -> bool:
        pod = await self.pod(name)
        return (nested_field(pod, "status", "phase") if pod else "") == phase

    async def _events(self, name: str) -> str:
        listed = await self.client.list(EVENTS, NAMESPACE, fields=f"involvedObject.name={name}")
        messages = {event.get("message", ""): None for event in listed["items"]}
        return "".join(f"\n    {message}" for message in list(messages)[-3:])

    async def cdi_devices(self, pod: str) -> list[str]:
        """Return the CDI ids that the container of a pod was given."""
        note = nested_field(await self.pod(pod) or {}, "metadata", "annotations", "understudy.dev/cdi-devices")
        ids: list[str] = json.loads(note)["c"] if note else []
        return ids

    async def results(self, claim: str) -> list[Obj]:
        """Return the devices that are allocated for a claim."""
        stored = await self.client.get(self.claim.claims, claim, NAMESPACE)
        results: list[Obj] = nested_field(stored, "status", "allocation", "devices", "results") or []
        return results

    async def allocated(self, *names: str) -> list[Claim]:
        """Stop the kubelet, create claims and pods that use them; return the claims once they have devices."""
        await self.stop_kubelet()
        claims = []
        for name in names:
            await self.create_claim(name)
            await self.create_pods(name, resourceClaimName=name)
            await self.waits(f"claim {name} is not allocated", partial(self.results, name))
            claims.append(await self.claim_of(name))
        return claims

    async def claim_of(self, name: str) -> Claim:
        """Return the name of a claim as a driver is told it."""
        stored = await self.client.get(self.claim.claims, name, NAMESPACE)
        return Claim(NAMESPACE, stored["metadata"]["uid"], name)

    async def delete_for_good(self, name: str) -> None:
        """Delete a claim and the pod of the same name without a kubelet, whatever finalizers there are."""
        await self.client.delete(PODS, name, NAMESPACE, grace_period=0)
        with suppress(StatusError):
            await self.client.delete(self.claim.claims, name, NAMESPACE)
            await self.client.patch(self.claim.claims, name, {"metadata": {"finalizers": None}}, NAMESPACE)
        await self.waits(f"claim {name} is not deleted", partial(self._has_no_claim, name))

    async def _has_no_claim(self, name: str) -> bool:
        with suppress(StatusError):
            await self.client.get(self.claim.claims, name, NAMESPACE)
            return False
        return True

    async def has_cdi_files(self) -> bool:
        """Report whether there are CDI files."""
        return any(self.cdi.iterdir())


def _pool_of(resource_slice: Obj) -> str:
    return str(resource_slice["spec"]["pool"]["name"])


def _generation_of(resource_slice: Obj) -> int:
    return int(resource_slice["spec"]["pool"].get("generation", 0))
