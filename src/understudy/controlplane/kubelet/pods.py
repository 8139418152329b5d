"""The pods of a node: started when their claims are prepared, deleted when these are unprepared.

Each pod has a worker, which does one thing at a time. Upstream: `pkg/kubelet/pod_workers.go`, `SyncPod`,
`SyncTerminatingPod`. A pod ends when it is deleted, or when somebody sets its phase to Succeeded or Failed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from dataclasses import field
from ipaddress import ip_network

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.kubelet.dra.manager import DRAError, DRAManager
from understudy.controlplane.kubelet.pod_status import OWN_CONDITIONS, PodState, PodStatusWriter, is_terminal
from understudy.controlplane.kubelet.sandboxes import Sandbox, Sandboxes
from understudy.controlplane.kubelet.server.sessions import Sessions
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import timeout, working

log = logging.getLogger(__name__)

RESYNC_PERIOD = 60.0  # seconds until a pod is looked at again; claims that could not be prepared are tried again then
BACKOFF_PERIOD = 10.0  # seconds until a pod that could not be ended is tried again
JITTER = 0.5  # the most that is added to both, as a part of them


class PodIPs:
    """The addresses of a node's pods, given out one after the other."""

    def __init__(self, network: str) -> None:
        self._network = ip_network(network)
        self._next = self._all()

    def take(self, used: set[str]) -> str:
        """Return the next address that no pod has. Raises RuntimeError if every one is used."""
        for _ in range(self._network.num_addresses):
            address = next(self._next)
            if address not in used:
                return address
        raise RuntimeError(f"no free address in {self._network}")

    def _all(self) -> Iterator[str]:
        while True:
            for address in self._network.hosts():
                yield str(address)


@dataclass(frozen=True)
class PodRuntime:
    """The parts and settings that the workers of all pods share. Periods are in seconds."""

    client: APIClient
    events: EventRecorder
    dra: DRAManager
    status: PodStatusWriter
    sandboxes: Sandboxes
    pod_ips: PodIPs
    host_ip: str
    clock: Clock
    resync_period: float = RESYNC_PERIOD
    backoff_period: float = BACKOFF_PERIOD
    sessions: Sessions = field(default_factory=Sessions)


class PodWorkers:
    """The workers of all pods of the node. Handlers of an informer call `update` and `remove`."""

    def __init__(self, runtime: PodRuntime, tasks: asyncio.TaskGroup) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._workers: dict[str, PodWorker] = {}

    def update(self, pod: Obj) -> None:
        """Take a pod that is new or has changed."""
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
            return
        worker = self._workers[uid] = PodWorker(self._runtime, pod)
        name = f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._tasks.create_task(worker.run(), name=name).add_done_callback(lambda _: self._workers.pop(uid))

    def replace(self, old: Obj, new: Obj) -> None:
        """Take a pod in place of another, which is gone if it has another uid."""
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self.remove(old)
        self.update(new)

    def remove(self, pod: Obj) -> None:
        """Take a pod that the API server has no more."""
        worker = self._workers.get(pod["metadata"]["uid"])
        if worker is not None:
            worker.remove()

    def wake(self, uids: set[str]) -> None:
        """Let the workers of pods write their status again, since the health of devices has changed."""
        for uid in uids & self._workers.keys():
            self._workers[uid].wake()

    def active(self) -> set[str]:
        """Return the uids of the pods that have not ended."""
        return {uid for uid, worker in self._workers.items() if not worker.stopped}


class PodWorker:
    """Brings one pod to life and to its end."""

    def __init__(self, runtime: PodRuntime, pod: Obj) -> None:
        self.stopped = False  # its claims are unprepared and its last status is written
        self._runtime = runtime
        self._pod = pod
        self._removed = False
        self._changed = asyncio.Event()

    def update(self, pod: Obj) -> None:
        """Take the pod as it is now; look at it now if that matters here."""
        relevant = _relevant(self._pod) != _relevant(pod)
        self._pod = pod
        if relevant:
            self.wake()

    def remove(self) -> None:
        """Note that the API server has the pod no more."""
        self._removed = True
        self.wake()

    def wake(self) -> None:
        """Look at the pod now."""
        self._changed.set()

    async def run(self) -> None:
        """Follow the pod until the API server has it no more."""
        while True:
            self._changed.clear()
            try:
                with working(self._runtime.clock):
                    delay = await self._step()
            except StatusError as why:
                gone = why.code in (404, 409)  # perhaps another pod has the name now, or none
                log.log(logging.DEBUG if gone else logging.WARNING, "pod %s: %s", self._name, why)
                delay = self._runtime.backoff_period
            except Exception as why:  # no error of one pod ends the others
                unexpected = not isinstance(why, ConnectionError)
                log.log(
                    logging.ERROR if unexpected else logging.WARNING, "pod %s: %s", self._name, why, exc_info=unexpected
                )
                delay = self._runtime.backoff_period
            if self._removed and self.stopped:
                return
            if delay is not None:
                delay *= random.uniform(1.0, 1.0 + JITTER)
            try:
                async with timeout(self._runtime.clock, delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _step(self) -> float | None:
        """Do what the pod needs now; return the seconds until it is to be looked at again, None if it need not be."""
        deleting = self._removed or "deletionTimestamp" in self._pod["metadata"]
        if not deleting and not is_terminal(self._pod):
            await self._start()
            return self._runtime.resync_period
        if not self.stopped:
            try:
                await self._stop()
            except DRAError as why:
                log.warning("pod %s: %s", self._name, why)
                return self._runtime.backoff_period
        if deleting and not self._removed:
            metadata = self._pod["metadata"]
            await self._runtime.client.delete(
                PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_period=0
            )
        return None

    async def _start(self) -> None:
        """Prepare the pod's claims and let it run, if it does not run yet; write its status."""
        runtime, uid = self._runtime, self._pod["metadata"]["uid"]
        sandbox = runtime.sandboxes.get(uid)
        if sandbox is None:
            await self._write_status(PodState(runtime.host_ip))
            try:
                await runtime.dra.prepare(self._pod)
            except DRAError as why:
                message = f"Failed to prepare dynamic resources: {why}"
                runtime.events.event(PODS, self._pod, "Warning", "FailedPrepareDynamicResources", message)
                return
            sandbox = Sandbox(runtime.pod_ips.take(runtime.sandboxes.addresses()), runtime.clock.now())
            runtime.sandboxes.start(uid, sandbox)
        await self._write_status(self._state(sandbox, stopped=False))

    async def _stop(self) -> None:
        """End the pod and what clients do there: unprepare its claims, then write its last status. Raises DRAError."""
        runtime, uid = self._runtime, self._pod["metadata"]["uid"]
        sandbox = runtime.sandboxes.get(uid)
        runtime.sessions.end(uid)
        await runtime.dra.unprepare(self._pod)
        runtime.sandboxes.stop(uid)
        if not self._removed and (sandbox is not None or not is_terminal(self._pod)):
            state = PodState(runtime.host_ip, stopped=True) if sandbox is None else self._state(sandbox, stopped=True)
            await self._write_status(state)
        self.stopped = True

    def _state(self, sandbox: Sandbox, *, stopped: bool) -> PodState:
        devices = {} if stopped else self._runtime.dra.cdi_devices(self._pod)
        return PodState(self._runtime.host_ip, sandbox.pod_ip, sandbox.started, stopped, devices)

    async def _write_status(self, state: PodState) -> None:
        """Patch the status of the pod, if it differs. Raises StatusError, 409 if another pod has its name."""
        runtime, pod, metadata = self._runtime, self._pod, self._pod["metadata"]
        patch = runtime.status.patch(pod, state, runtime.clock.now())
        if patch is None:
            return
        written = await runtime.client.patch(
            PODS, metadata["name"], patch, metadata["namespace"], content_type=STRATEGIC_PATCH, subresource="status"
        )
        if self._pod is pod:  # else the informer has been quicker, perhaps with a later state
            self.update(written)

    @property
    def _name(self) -> str:
        return f"{self._pod['metadata']['namespace']}/{self._pod['metadata']['name']}"


def _relevant(pod: Obj) -> Obj:
    """Return the parts of a pod whose change is looked at when it comes; the rest is what the kubelet itself writes."""
    metadata, status = pod["metadata"], pod.get("status", {})
    ours = ("resourceVersion", "managedFields", "annotations")
    return {
        "metadata": {key: value for key, value in metadata.items() if key not in ours},
        "spec": pod["spec"],
        "ended": is_terminal(pod),
        "claims": (status.get("resourceClaimStatuses"), status.get("extendedResourceClaimStatus")),
        "conditions": [c for c in status.get("conditions") or () if c["type"] not in OWN_CONDITIONS],
    }
