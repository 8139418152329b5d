"""Pods that come and go: they arrive by chance, use a device or none, and end after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from math import inf
from random import Random

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import PODS, resource_claim_templates
from understudy.controlplane.simulation.persistence import until_answered
from understudy.controlplane.simulation.settings import check_above, check_not_below, parse
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.timers import sleep

NAME, NAMESPACE = "workload", "default"
PAUSE = 3.0  # seconds between the end of a pod and its deletion


@dataclass(frozen=True)
class Workload:
    """Pods that arrive by chance, and end.

    per_hour      how many arrive in an hour, on average
    minutes       how long one runs, on average
    hours         how long they arrive, 0 for as long as the simulation runs
    device_class  whose device each uses, by a claim of its own; "" for none
    cpu           that each asks for
    """

    per_hour: float = 10.0
    minutes: float = 30.0
    hours: float = 0.0
    device_class: str = ""
    cpu: str = "100m"

    def __post_init__(self) -> None:
        check_above(self, "a workload", "per_hour", "minutes")
        check_not_below(self, "a workload", "hours")

    @classmethod
    def parse(cls, text: str) -> Workload:
        """Return the workload of a text such as "per_hour=10,device_class=gpu.example.com". Raises ValueError."""
        return parse(cls, "a workload has", text)

    async def run(self, client: APIClient, version: Version, random: Random) -> None:
        """Create pods, and end them, until cancelled."""
        templates, template = resource_claim_templates(version), _template(self.device_class, version)
        if self.device_class:
            created = partial(client.create, templates, template, NAMESPACE)
            await until_answered(client.clock, created, unless=["AlreadyExists"])
        async with asyncio.TaskGroup() as tasks:
            pods = _Pods(client)
            tasks.create_task(pods.run())
            end = client.clock.monotonic() + (self.hours * 3600 or inf)
            for number in count(1):
                await sleep(client.clock, random.expovariate(self.per_hour / 3600))
                if client.clock.monotonic() >= end:
                    return
                pod = self._pod(f"{NAME}-{number}")
                tasks.create_task(pods.live(pod, random.expovariate(1 / (self.minutes * 60))))

    def _pod(self, name: str) -> Obj:
        requests = {"requests": {"cpu": self.cpu}}
        container: Obj = {"name": "main", "image": "example.com/work", "resources": requests}
        spec: Obj = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        if self.device_class:
            spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": NAME}]
            container["resources"] = {**requests, "claims": [{"name": "device"}]}
        return {"metadata": {"name": name}, "spec": spec}


class _Pods:
    """The pods of a workload, as a controller of them sees them."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._informer = Informer(client, PODS, NAMESPACE)
        self._begun: dict[str, asyncio.Event] = {}  # by name: it runs, has ended, or is gone
        self._informer.add_handler(self._look, lambda _, new: self._look(new), self._begin)

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        await self._informer.run()

    def _look(self, pod: Obj) -> None:
        if pod.get("status", {}).get("phase") not in (None, "Pending"):
            self._begin(pod)

    def _begin(self, pod: Obj) -> None:
        if (begun := self._begun.get(pod["metadata"]["name"])) is not None:
            begun.set()

    async def live(self, pod: Obj, seconds: float) -> None:
        """Create a pod, let it run for some seconds once it does, and let it succeed; delete it."""
        client, name = self._client, pod["metadata"]["name"]
        begun = self._begun[name] = asyncio.Event()
        await self._persist(partial(client.create, PODS, pod, NAMESPACE), unless="AlreadyExists")
        await begun.wait()
        del self._begun[name]
        await sleep(client.clock, seconds)
        ended = {"status": {"phase": "Succeeded"}}
        await self._persist(partial(client.patch, PODS, name, ended, NAMESPACE, subresource="status"))
        await sleep(client.clock, PAUSE)
        await self._persist(partial(client.delete, PODS, name, NAMESPACE, propagation="Background"))

    async def _persist(self, request: Callable[[], Awaitable[Obj]], unless: str = "NotFound") -> None:
        """Make a request until it succeeds, or the pod is there, or gone, without it."""
        await until_answered(self._client.clock, request, unless=[unless])


def _template(device_class: str, version: Version) -> Obj:
    """Return the template of claims for one device."""
    request: Obj = {"deviceClassName": device_class}
    named: Obj = {"name": "device", "exactly": request} if version >= V1_34 else {"name": "device", **request}
    return {"metadata": {"name": NAME}, "spec": {"spec": {"devices": {"requests": [named]}}}}
