"""What a driver does when it starts: it registers with the kubelet, and publishes its devices."""

from __future__ import annotations

import re

from understudy.controlplane.client.resources import resource_slices
from understudy.controlplane.drivers.endpoint import notify
from understudy.controlplane.drivers.node import NODE, Node
from understudy.controlplane.drivers.verdicts import FailedError, require
from understudy.controlplane.kubelet.dra.plugins import PLUGIN_TYPE, SERVICES
from understudy.machinery.releases.version import V1_32
from understudy.machinery.serializer.rpc.grpc_channel import RPCError

LONGEST_NAME = 63
QUIET = 1.0  # seconds in which a driver has nothing to publish


async def registers(node: Node) -> None:
    """A driver answers at a socket in the kubelet's folder, with its name and services that the kubelet knows.

    Sources: `k8s.io/kubelet/pkg/apis/pluginregistration/v1`, KEP-4381 "Driver registration", and `PluginInfo` of the
    kubelet plugin API: `supported_versions` of a DRA driver are names of gRPC services.
    """
    await node.start_driver()
    registration = await node.registration()
    info = registration.info
    require(info.type == PLUGIN_TYPE, f"its plugin type is {info.type!r}, not {PLUGIN_TYPE!r}")
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    is_name = re.fullmatch(rf"{label}(\.{label})*", info.name) and len(info.name) <= LONGEST_NAME
    require(is_name, f"its name is no DNS subdomain of at most {LONGEST_NAME} characters: {info.name!r}")
    require(info.supported_versions, "it names no services (`supported_versions`)")
    known = SERVICES[node.version]
    speaks = node.version < V1_32 or any(service in known for service in info.supported_versions)
    named = ", ".join(info.supported_versions)
    require(speaks, f"it names {named}, of which a kubelet of {node.version} knows only {', '.join(known)}")
    try:
        await notify(registration)
    except RPCError as why:
        raise FailedError(f"it does not take that it is registered (NotifyRegistrationStatus): {why}") from why


async def publishes(node: Node) -> None:
    """The devices of the node are in ResourceSlices: complete pools, with each device once.

    Source: the API documentation of ResourceSlice (`spec.driver`, `spec.nodeName`, `spec.pool`), KEP-4381 "Publishing
    node resources".
    """
    await node.start_kubelet()
    await node.start_driver()
    await node.devices()
    seen: set[tuple[str, str]] = set()
    for each in await node.slices():
        spec, name = each["spec"], each["metadata"]["name"]
        of_node = spec.get("nodeName")
        require(of_node in (None, NODE), f"slice {name} is for node {of_node}, but the driver was started on {NODE}")
        for device in spec.get("devices") or ():
            key = spec["pool"]["name"], device["name"]
            require(key not in seen, f"device {key[1]} is twice in pool {key[0]}")
            seen.add(key)


async def leaves_slices_alone(node: Node) -> None:
    """A driver does not write ResourceSlices again that are as they should be.

    Source: `k8s.io/dynamic-resource-allocation/resourceslice`: each write is sent to every scheduler and autoscaler.
    """
    await node.starts()
    listed = await node.client.list(resource_slices(node.version))
    version = listed["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "timeoutSeconds": str(int(QUIET))}
    events = [event async for event in node.client.watch(resource_slices(node.version), query=query)]
    require(
        not events, f"it wrote its ResourceSlices {len(events)} times within {QUIET:g} s though nothing had changed"
    )


async def publishes_again(node: Node) -> None:
    """ResourceSlices that somebody deletes are published again: a kubelet that starts deletes those of its node.

    Sources: KEP-4381 "Kubelet restarts", kubelet's `wipeResourceSlices`; the helper takes 30 to 60 seconds.
    """
    await node.starts()
    before = await node.devices()
    await node.stop_kubelet()
    await node.client.delete_collection(resource_slices(node.version))
    await node.start_kubelet(wipe=True)
    await node.waits("slices that were deleted are not published again", node.devices_now)
    missing = before - await node.devices()
    require(not missing, f"devices are missing in what it published again: {sorted(missing)}")
