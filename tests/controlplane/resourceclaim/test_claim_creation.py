"""Claims are made once, whatever the order in which the controller comes to know of its own writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from tests.releases import every_release
from tests.waiting import running, until
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.controllers.framework.controller import run_controllers
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.resources import PODS, Resource, resource_claim_templates, resource_claims
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.resourceclaim.controller import Controller
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, V1_37, Version
from understudy.machinery.types import Obj

TURNS = 100  # of the event loop, in which a worker would look at the pod again


class LateClient(APIClient):
    """A client that hears of the status that it has written to a pod only when it could have looked at the pod again.

    Just before that, somebody else changes the pod, so that it has to be looked at again.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, "test")
        self._may_hear = asyncio.Event()
        self._may_hear.set()
        self._heard: set[str] = set()
        self._opening: asyncio.Task[None] | None = None
        self.made: list[str] = []  # the names of the claims that were made

    async def watch(
        self, resource: Resource, namespace: str = "", *, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Obj, None]:
        """Yield the events of a watch; those of pods while they may be heard."""
        async with aclosing(super().watch(resource, namespace, query=query)) as events:
            async for event in events:
                if resource == PODS:
                    await self._may_hear.wait()
                yield event
                self._heard.add(event["object"]["metadata"]["resourceVersion"])

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Obj:
        """Create an object, and hear of it if it is a claim."""
        created = await super().create(resource, obj, namespace, name, subresource)
        if resource.kind == "ResourceClaim":
            self.made.append(created["metadata"]["name"])
            await until(lambda: created["metadata"]["resourceVersion"] in self._heard)
        return created

    async def apply(self, resource: Resource, obj: Obj, field_manager: str, subresource: str = "") -> Obj:
        """Write the status of a pod after a change by somebody else."""
        changes: dict[str, Any] = {"metadata": {"labels": {"changed": "by-somebody"}}}
        changed = await self.patch(PODS, obj["metadata"]["name"], changes, obj["metadata"]["namespace"])
        await until(lambda: changed["metadata"]["resourceVersion"] in self._heard)
        self._may_hear.clear()
        written = await super().apply(resource, obj, field_manager, subresource)
        self._opening = asyncio.create_task(self._let_hear())
        return written

    async def _let_hear(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._may_hear.set()


async def add_pod(client: APIClient, name: str) -> None:
    """Create a pod on a node with a claim of the template `t`."""
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "resourceClaims": entries}
    await client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


async def claim_of(client: APIClient, name: str) -> str:
    """Return the name of the claim of a pod once the pod's status has it."""
    pod = await until(lambda: client.get(PODS, name, "default"), lambda pod: "resourceClaimStatuses" in pod["status"])
    return str(pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"])


@every_release
async def test_claim_of_an_ended_pod_is_not_made_again(release: Version) -> None:
    """A pod that is looked at again before its status is seen keeps the name of its claim when that is deleted.

    From 1.37 on looking at the pod makes the controller forget that it has made the claim: it makes it once more.
    """
    claims, templates = resource_claims(release), resource_claim_templates(release)
    request: Obj = {"name": "r"}
    (request.setdefault("exactly", {}) if release >= V1_34 else request)["deviceClassName"] = "gpu"
    async with Server(emulated_version=str(release)) as server:
        connection = Connection(url=server.url)
        context = ComponentContext(
            lambda user: connection, release, Gates.of(release, {"DynamicResourceAllocation": True})
        )
        async with LateClient(connection) as client, EventRecorder(client, "test") as events:
            template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
            await client.create(templates, template, "default")
            controller = Controller(context, client, events)
            async with running(run_controllers(controller.informers, [controller])):
                await add_pod(client, "p")
                name = await claim_of(client, "p")
                ended = {"status": {"phase": "Succeeded"}}
                await client.patch(PODS, "p", ended, "default", subresource="status")
                await until(lambda: client.list(claims, "default"), lambda listed: listed["items"] == [])
                await add_pod(client, "q")  # what was to be done for the first pod has been done by then
                other = await claim_of(client, "q")
            assert (await claim_of(client, "p") == name) == (release < V1_37)
            again = [await claim_of(client, "p")] if release >= V1_37 else []
            assert sorted(client.made) == sorted([name, *again, other])
