"""Who holds which device: one row for each device that a claim has, as `understudy devices` prints them.

NODE  DEVICE                    CLAIM                POD        SINCE                 PREPARED
n1    gpu.example.com/n1/gpu-0  default/p-gpu-x7k2p  default/p  2026-01-01T12:03:53Z  yes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from understudy.machinery.types import NamedTuple, Obj

NOTHING = "-"


class Holding(NamedTuple):
    """A device that a claim has.

    node      where its pods run; that of the device's slice before there are any, "-" for devices of no single node
    device    DRIVER/POOL/DEVICE
    claim     NAMESPACE/NAME
    pod       the pods that the claim is reserved for, "-" without any
    since     when the claim was allocated, RFC 3339; "-" if nothing says so
    prepared  "yes" if a kubelet has let a pod start that uses it, which it does when drivers have prepared all of its
              claims; "no" otherwise
    """

    node: str
    device: str
    claim: str
    pod: str
    since: str
    prepared: str


def holdings(slices: Iterable[Obj], claims: Iterable[Obj], pods: Iterable[Obj]) -> list[Holding]:
    """Return the devices that claims have, by node and device."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    nodes = {pool: node for pool, node in map(_pool_and_node, slices) if node}
    return sorted(row for claim in claims for row in _of_claim(claim, by_uid, nodes))


def published(slices: Iterable[Obj]) -> int:
    """Return the number of devices that drivers have published."""
    return sum(len(obj["spec"].get("devices") or ()) for obj in slices)


def table(rows: Sequence[Holding], count: int) -> Iterator[str]:
    """Yield the lines of a table, and how many of the `count` devices are held."""
    if rows:
        lines = [tuple(name.upper() for name in Holding._fields), *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
    held = len({row.device for row in rows})
    yield f"{held} of {count} device{'' if count == 1 else 's'} {'is' if held == 1 else 'are'} held"


def _pool_and_node(resource_slice: Obj) -> tuple[tuple[str, str], str]:
    spec = resource_slice["spec"]
    return (spec["driver"], spec["pool"]["name"]), spec.get("nodeName") or ""


def _of_claim(claim: Obj, pods: dict[str, Obj], nodes: dict[tuple[str, str], str]) -> Iterator[Holding]:
    metadata, status = claim["metadata"], claim.get("status") or {}
    allocation = status.get("allocation") or {}
    users = [user for user in status.get("reservedFor") or () if user["resource"] == "pods"]
    using = [pods[user["uid"]] for user in users if user["uid"] in pods]
    prepared = "yes" if any(map(_has_started, using)) else "no"
    names = ", ".join(f"{metadata['namespace']}/{user['name']}" for user in users) or NOTHING
    bound = sorted({pod["spec"]["nodeName"] for pod in using if pod["spec"].get("nodeName")})
    since = allocation.get("allocationTimestamp") or _allocated_at(metadata) or NOTHING
    for result in (allocation.get("devices") or {}).get("results") or ():
        node = nodes.get((result["driver"], result["pool"])) or ", ".join(bound) or NOTHING
        device = f"{result['driver']}/{result['pool']}/{result['device']}"
        yield Holding(node, device, f"{metadata['namespace']}/{metadata['name']}", names, since, prepared)


def _has_started(pod: Obj) -> bool:
    """Report whether the claims of a pod are prepared: its kubelet has let it start, and it has not ended."""
    conditions = {each["type"]: each["status"] for each in (pod.get("status") or {}).get("conditions") or ()}
    return conditions.get("PodReadyToStartContainers") == "True"


def _allocated_at(metadata: Obj) -> str:
    """Return the time at which the allocation was written, "" if none is noted. Releases before 1.34 note none."""
    for entry in metadata.get("managedFields") or ():
        if "f:allocation" in (entry.get("fieldsV1") or {}).get("f:status", {}):
            return str(entry.get("time") or "")
    return ""
