"""What stays when the driver, the kubelet or the machine starts again."""

from __future__ import annotations

import shutil

from understudy.controlplane.drivers.cases.claims import prepared, shown, unprepared
from understudy.controlplane.drivers.endpoint import registrations
from understudy.controlplane.drivers.node import Node
from understudy.controlplane.drivers.verdicts import FailedError, SkippedError, require

NO_UPGRADE = 10.0  # seconds until a second process would listen


async def survives_a_restart(node: Node) -> None:
    """A driver that is stopped and started again knows the claims that it had prepared.

    Sources: KEP-4381 "Plugin restarts"; the kubelet asks the new process to unprepare what the old one has prepared.
    """
    await _survives(node, kill=False)


async def survives_a_crash(node: Node) -> None:
    """A driver that was killed starts again in spite of its old sockets, and knows the claims that it had prepared.

    Source: as for a restart; a driver that was killed could not tidy up.
    """
    await _survives(node, kill=True)


async def _survives(node: Node, *, kill: bool) -> None:
    await node.starts()
    claims = await node.allocated(*("one", "two")[: len(await node.devices())])
    endpoint = await node.endpoint()
    before = [await prepared(endpoint, claim) for claim in claims]
    await (node.kill_driver() if kill else node.stop_driver())
    await node.start_driver()
    endpoint = await node.endpoint()
    after = await prepared(endpoint, claims[0])
    had = f"it had prepared {shown(before[0])}, and after its start {shown(after)} for the same claim"
    require(before[0] == after, had)
    for claim in claims:
        await unprepared(endpoint, claim, "it could not unprepare a claim that it had prepared before its start")


async def keeps_pods_running(node: Node) -> None:
    """Pods stay while the driver is away; afterwards new ones run, and those from before can end.

    Source: KEP-4381: a DaemonSet restarts its pods one after the other, under the pods that use devices.
    """
    await node.starts()
    await node.create_claim("one")
    await node.run_pods("before", resourceClaimName="one")
    await node.stop_driver()
    require(await node.pod("before"), "the pod went with the driver")
    await node.start_driver()
    await node.devices()
    await _ends_and_begins(node, "before", "after")
    await node.gone("after")


async def survives_a_kubelet_restart(node: Node) -> None:
    """A kubelet that starts again registers the driver again, and has claims from before unprepared.

    Source: kubelet's plugin manager; the driver is not started again with the kubelet.
    """
    await node.starts()
    await node.create_claim("one")
    await node.run_pods("before", resourceClaimName="one")
    await node.stop_kubelet()
    await node.start_kubelet()
    await _ends_and_begins(node, "before", "after")
    await node.gone("after")


async def _ends_and_begins(node: Node, old: str, new: str) -> None:
    """Let a pod end, and another one run with a claim of its own: the driver is called for both."""
    await node.gone(old)
    await node.create_claim(new)
    await node.run_pods(new, resourceClaimName=new)


async def survives_a_reboot(node: Node) -> None:
    """After a reboot, which empties `/run` and leaves the rest, pods start again with their devices, and can end.

    Sources: KEP-4381 "NodePrepareResources"; CDI files in `/var/run/cdi` are gone, and have to be written again.
    """
    await node.starts()
    await node.create_claim("one")
    await node.run_pods("pod", resourceClaimName="one")
    had_files = any(node.cdi.iterdir())
    await node.kill_driver()
    await node.stop_kubelet()
    for path in [*node.registry.iterdir(), *node.cdi.iterdir()]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    await node.start_kubelet(boot_id="2", wipe=True)
    await node.start_driver()
    await node.waits("it does not publish after the reboot", node.devices_now)
    await node.running("pod")
    if had_files:
        await node.waits("it does not write its CDI files again after a reboot", node.has_cdi_files)
    await _ends_and_begins(node, "pod", "after")
    await node.gone("after")


async def stops(node: Node) -> None:
    """A driver ends within 30 seconds of SIGTERM, and takes its registration socket with it.

    Sources: the termination of pods; `kubeletplugin.Helper.Stop`: a kubelet finds out by the socket that is gone.
    """
    await node.starts()
    socket = (await node.registration()).socket
    await node.stop_driver()
    require(not socket.exists(), f"its registration socket is still there: {socket.name}")


async def is_upgraded_without_a_break(node: Node) -> None:
    """Two processes of the driver run side by side: the newer takes over before the older ends.

    Sources: KEP-4381 "Rolling updates", `kubeletplugin.RollingUpdate`, since 1.33. Each process has another `POD_UID`.
    """
    await node.starts()
    await node.create_claim("one")
    await node.run_pods("before", resourceClaimName="one")
    await node.start_driver()

    async def two_answer() -> bool:
        answering = await registrations(node.registry)
        return len({each.info.endpoint for each in answering}) > 1

    try:
        await node.waits("no second process listens", two_answer, NO_UPGRADE)
    except FailedError as why:
        raise SkippedError(f"the driver has no rolling update: {str(why).splitlines()[0]}") from None
    await _ends_and_begins(node, "before", "meanwhile")
    await node.stop_driver()
    require(await node.devices_now(), "the devices went with the older process")
    await _ends_and_begins(node, "meanwhile", "after")
    await node.gone("after")
