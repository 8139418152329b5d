"""Pods that use devices of a driver, as scheduler and kubelet bring them to its node."""

from __future__ import annotations

from understudy.controlplane.client.resources import NAMESPACES
from understudy.controlplane.drivers.node import Node
from understudy.controlplane.drivers.objects import ADMIN_LABELS, NAMESPACE
from understudy.controlplane.drivers.verdicts import SkippedError, require

MOST_PODS = 50


async def runs_a_pod(node: Node) -> None:
    """A pod with a claim of its own runs, and ends when it is deleted.

    Source: KEP-4381 "Kubelet": all claims of a pod are prepared before it starts, and unprepared after it has ended.
    """
    await node.starts()
    await node.create_template("one")
    await node.run_pods("pod", resourceClaimTemplateName="one")
    await node.gone("pod")


async def shares_a_claim(node: Node) -> None:
    """Two pods that use one claim get the same devices; the second keeps them when the first has gone.

    Source: KEP-4381: a claim is prepared for the first pod on a node, and unprepared after the last.
    """
    await node.starts()
    await node.create_claim("shared")
    await node.run_pods("first", "second", resourceClaimName="shared")
    first, second = await node.cdi_devices("first"), await node.cdi_devices("second")
    require(first == second, f"the pods of one claim got {first} and {second}")
    await node.gone("first")
    await node.run_pods("third", resourceClaimName="shared")
    third = await node.cdi_devices("third")
    require(third == second, f"the pods of one claim got {second}, and {third} after one of them had gone")
    await node.gone("second", "third")


async def grants_admin_access(node: Node) -> None:
    """A claim with admin access is prepared for a device that another pod uses, which is not disturbed.

    Source: KEP-5018 "DRA: AdminAccess for ResourceClaims and ResourceClaimTemplates".
    """
    await node.starts()
    await node.client.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": ADMIN_LABELS}})
    await node.create_claim("user")
    await node.run_pods("user", resourceClaimName="user")
    await node.create_claim("admin", node.claim.with_admin_access())
    await node.run_pods("admin", resourceClaimName="admin")
    user, admin = await node.results("user"), await node.results("admin")
    if [result["device"] for result in user] != [result["device"] for result in admin]:
        raise SkippedError("the scheduler chose other devices than those in use")
    await node.gone("admin")
    require(await node.pod("user"), "the pod that used the device went with the one that had admin access")
    await node.gone("user")


async def runs_fifty_pods_at_once(node: Node) -> None:
    """Fifty pods that are created at once run, as far as there are devices for them, with devices of their own.

    Source: KEP-4381: claims of several pods are prepared at the same time, by calls that do not wait for each other.
    """
    await node.starts()
    count = min(len(await node.devices()), MOST_PODS)
    if count < 2:
        raise SkippedError("the driver publishes one device only")
    await node.create_template("one")
    names = [f"pod-{i}" for i in range(count)]
    await node.run_pods(*names, resourceClaimTemplateName="one")
    given = [tuple(await node.cdi_devices(name)) for name in names]
    ids = [cdi_id for of_pod in given for cdi_id in set(of_pod)]
    shared = {cdi_id for cdi_id in ids if ids.count(cdi_id) > 1}
    unique = {of_pod for of_pod in given if of_pod}
    require(not ids or len(unique) == count, f"pods with claims of their own share CDI devices: {sorted(shared)}")
    await node.gone(*names)
