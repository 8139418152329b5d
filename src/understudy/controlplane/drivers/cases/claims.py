"""How a driver answers when it is asked to prepare and unprepare claims. These cases call it as a kubelet does.

A driver that tells container runtimes about devices in another way than by CDI ids may answer with no devices, always.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from understudy.controlplane.drivers.endpoint import Endpoint
from understudy.controlplane.drivers.node import Node
from understudy.controlplane.drivers.objects import NAMESPACE
from understudy.controlplane.drivers.verdicts import FailedError, require
from understudy.controlplane.kubelet.dra.api import Claim, Device, PreparedClaim
from understudy.machinery.serializer.rpc.grpc_channel import RPCError
from understudy.machinery.util.regex import regex

# "vendor.com/class=name", as a container runtime reads it; see the specification of the Container Device Interface.
CDI_ID = regex(r"[A-Za-z][-.\w]*[A-Za-z0-9]/[A-Za-z][-.\w]*[A-Za-z0-9]?=[A-Za-z0-9]([-.:\w]*[A-Za-z0-9])?")
GIVEN_UP_AFTER = (0.001, 0.01, 0.1, 1.0)  # seconds; a call that is answered before costs no more
OTHER_UID = "00000000-0000-4000-8000-000000000000"


async def prepares(node: Node) -> None:
    """NodePrepareResources answers with the allocated devices, and with CDI ids that a container runtime can read.

    Sources: `k8s.io/kubelet/pkg/apis/dra/v1` (`Device`), KEP-4381 "NodePrepareResources", the CDI specification.
    """
    await node.starts()
    driver = await node.name()
    [claim] = await node.allocated("one")
    devices = await prepared(await node.endpoint(), claim)
    results = await node.results("one")
    allocated = {(result["pool"], result["device"]) for result in results if result["driver"] == driver}
    requests = {name for result in results for name in (result["request"], result["request"].partition("/")[0])}
    for device in devices:
        named = (device.pool_name, device.device_name)
        require(named == ("", "") or named in allocated, f"it prepared {named}, but {sorted(allocated)} is allocated")
        others = set(device.request_names) - requests
        require(not others, f"it prepared for requests that the claim does not have: {sorted(others)}")
        for cdi_id in device.cdi_device_ids:
            require(CDI_ID.fullmatch(cdi_id), f"this is no CDI id (vendor/class=device): {cdi_id!r}")


async def prepares_again(node: Node) -> None:
    """Preparing a claim again answers with the same devices, since the kubelet may not know that it did.

    Source: KEP-4381: "This operation MUST be idempotent."
    """
    await node.starts()
    [claim] = await node.allocated("one")
    endpoint = await node.endpoint()
    first, second = await prepared(endpoint, claim), await prepared(endpoint, claim)
    require(first == second, f"it prepared {shown(first)} first, and {shown(second)} for the same claim then")


async def unprepares_again(node: Node) -> None:
    """Unpreparing a claim again, or one that was never prepared, is no error.

    Source: KEP-4381: "This operation MUST be idempotent." A kubelet that has lost an answer asks again.
    """
    await node.starts()
    claim, never = await node.allocated("one", "never")
    endpoint = await node.endpoint()
    await prepared(endpoint, claim)
    await unprepared(endpoint, claim, "it could not unprepare a claim")
    await unprepared(endpoint, claim, "it could not unprepare a claim again")
    await unprepared(endpoint, never, "it could not unprepare a claim that it had not prepared")


async def prepares_after_unpreparing(node: Node) -> None:
    """A claim that was unprepared can be prepared again, for the next pod that uses it.

    Source: KEP-4381 "NodeUnprepareResources": it undoes what NodePrepareResources did.
    """
    await node.starts()
    [claim] = await node.allocated("one")
    endpoint = await node.endpoint()
    first = await prepared(endpoint, claim)
    await unprepared(endpoint, claim, "it could not unprepare a claim")
    second = await prepared(endpoint, claim)
    require(second or not first, "it prepared no devices for a claim that it had unprepared")


async def prepares_several_claims(node: Node) -> None:
    """A call for several claims is answered for each of them: a pod may use more than one.

    Source: `k8s.io/kubelet/pkg/apis/dra/v1`: the answer is a map by the uid of the claims.
    """
    await node.starts()
    if len(await node.devices()) < 2:
        claims = await node.allocated("one")
    else:
        claims = await node.allocated("one", "two")
    endpoint = await node.endpoint()
    answers = await calls(endpoint, *claims)
    for claim in claims:
        require(not answers[claim.uid].error, f"it could not prepare claim {claim.name}: {answers[claim.uid].error}")
    errors = await endpoint.unprepare(*claims)
    for claim in claims:
        require(not errors[claim.uid], f"it could not unprepare claim {claim.name}: {errors[claim.uid]}")


async def refuses_other_claims(node: Node) -> None:
    """A claim that is gone, or has another uid by now, is not prepared, and the driver lives on.

    Source: KEP-4381: a claim may be deleted and made again under the same name; the uid tells them apart.
    """
    await node.starts()
    [claim] = await node.allocated("one")
    endpoint = await node.endpoint()
    first = await prepared(endpoint, claim)
    await unprepared(endpoint, claim, "it could not unprepare a claim")
    for text, other in {
        "that does not exist": Claim(NAMESPACE, OTHER_UID, "missing"),
        "whose uid is another one by now": replace(claim, uid=OTHER_UID),
    }.items():
        with suppress(RPCError):  # an error of the whole call will do
            answer = (await endpoint.prepare(other))[other.uid]
            require(answer.error, f"it prepared a claim {text}")
    second = await prepared(endpoint, claim)
    require(second or not first, "it prepared no devices after it had refused a claim")


async def unprepares_deleted_claims(node: Node) -> None:
    """A claim that the API server has no more can be unprepared: nobody else would undo what was done for it.

    Source: KEP-4381 "NodeUnprepareResources"; the call has only the name and uid of the claim.
    """
    await node.starts()
    [claim] = await node.allocated("one")
    endpoint = await node.endpoint()
    await prepared(endpoint, claim)
    await node.delete_for_good("one")
    await unprepared(endpoint, claim, "it could not unprepare a claim that was deleted")


async def survives_timeouts(node: Node) -> None:
    """A claim whose preparation the kubelet gave up is prepared at the next attempt.

    Source: KEP-4381: after a failed call, or without knowing, the kubelet may prepare again or unprepare.
    """
    await node.starts()
    [claim] = await node.allocated("one")
    endpoint = await node.endpoint()
    for seconds in GIVEN_UP_AFTER:
        with suppress(RPCError):
            await endpoint.prepare(claim, timeout=seconds)
    devices = await prepared(endpoint, claim)
    await unprepared(endpoint, claim, "it could not unprepare a claim after calls that were given up")
    require(devices or not await prepared(endpoint, claim), "it prepared no devices after a call that was given up")


# --- calls


async def prepared(endpoint: Endpoint, claim: Claim) -> list[Device]:
    """Prepare a claim; return its devices in a fixed order. Raises FailedError."""
    answer = (await calls(endpoint, claim))[claim.uid]
    require(not answer.error, f"it could not prepare a claim: {answer.error}")
    return sorted(answer.devices, key=repr)


async def unprepared(endpoint: Endpoint, claim: Claim, failure: str) -> None:
    """Unprepare a claim. Raises FailedError."""
    try:
        error = (await endpoint.unprepare(claim))[claim.uid]
    except RPCError as why:
        error = str(why)
    require(not error, f"{failure}: {error}")


async def calls(endpoint: Endpoint, *claims: Claim) -> dict[str, PreparedClaim]:
    """Prepare claims; return the answers by uid. Raises FailedError."""
    try:
        return await endpoint.prepare(*claims)
    except RPCError as why:
        raise FailedError(f"it could not prepare {len(claims)} claims: {why}") from why


def shown(devices: list[Device]) -> str:
    """Return devices as reports show them."""
    names = [f"{each.pool_name}/{each.device_name} ({', '.join(each.cdi_device_ids)})" for each in devices]
    return ", ".join(names) or "nothing"
