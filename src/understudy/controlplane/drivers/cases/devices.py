"""Taints and the health of a driver's devices."""

from __future__ import annotations

from understudy.controlplane.client.resources import device_taint_rules
from understudy.controlplane.drivers import objects
from understudy.controlplane.drivers.node import Node
from understudy.controlplane.drivers.verdicts import FailedError, SkippedError, require
from understudy.controlplane.kubelet.dra.api import HealthStatus
from understudy.controlplane.kubelet.dra.plugins import HEALTH_SERVICES
from understudy.machinery.serializer.rpc.grpc_channel import RPCError
from understudy.machinery.types import Obj, nested_field


async def gives_up_tainted_devices(node: Node) -> None:
    """A pod whose device gets a taint is evicted, its claim unprepared, and the next pod gets another device.

    Source: KEP-5055 "DRA: device taints and tolerations".
    """
    await node.starts()
    await node.create_claim("one")
    await node.run_pods("evicted", resourceClaimName="one")
    [result, *_] = await node.results("one")
    await node.client.create(device_taint_rules(node.version), objects.taint_rule(result))
    await node.ended("evicted")
    if len(await node.devices()) > 1:
        await node.create_claim("two")
        await node.run_pods("next", resourceClaimName="two")
        devices = [each["device"] for each in await node.results("two")]
        require(result["device"] not in devices, "the next pod got the device with the taint")
        await node.gone("next")


async def reports_health(node: Node) -> None:
    """A driver with the health service tells the health of its devices when it is asked, of those it has published.

    Sources: KEP-4680 "Add Resource Health Status to the Pod Status for Device Plugin and DRA",
    `k8s.io/kubelet/pkg/apis/dra-health`.
    """
    await node.starts()
    named = (await node.registration()).info.supported_versions
    services = [service for service in HEALTH_SERVICES[node.version] if service in named]
    if not services:
        raise SkippedError("the driver does not name a service for the health of devices")
    published = await node.devices()
    try:
        response = await (await node.endpoint()).health(services[0], node.timeout)
    except RPCError as why:
        raise FailedError(f"it does not tell the health of its devices: {why}") from why
    require(response.devices, "it told the health of no device")
    for device in response.devices:
        identifier = device.device
        named_device = (identifier.pool_name, identifier.device_name)
        require(named_device in published, f"it told the health of a device that it has not published: {named_device}")
        require(device.health in set(HealthStatus), f"this is no health of a device: {device.health}")


async def shows_health_of_pods(node: Node) -> None:
    """The health of a device that a pod uses is in the status of its container.

    Source: KEP-4680; the kubelet writes it there for containers with the claim.
    """
    await node.starts()
    named = (await node.registration()).info.supported_versions
    if not any(service in named for service in HEALTH_SERVICES[node.version]):
        raise SkippedError("the driver does not name a service for the health of devices")
    await node.create_claim("one")
    await node.run_pods("pod", resourceClaimName="one")

    async def health() -> list[str]:
        stored = await node.pod("pod") or {}
        statuses: list[Obj] = nested_field(stored, "status", "containerStatuses", default=[])
        return [
            device["health"] for status in statuses for resource in status.get("allocatedResourcesStatus") or ()
            for device in resource.get("resources") or () if device.get("health") in ("Healthy", "Unhealthy")
        ]  # fmt: skip

    await node.waits("the status of the pod does not say whether its device is healthy", health)
    await node.gone("pod")
