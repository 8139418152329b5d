"""The requests and limits of pods with devices that use cpu, memory and huge pages of their node (KEP-5517).

The status of a pod says how much its devices use, as the scheduler has worked it out. It counts as if containers
requested it, and what a pod sets as a whole has to cover it.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.kinds.core.pods.containers.pod_requests import Amounts, added, aggregate, parsed
from understudy.kinds.core.pods.containers.resources import HUGE_PAGES
from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.quantity import DECIMAL_SI, Quantity, parse
from understudy.machinery.types import Obj

CLAIM_STATUSES = "nodeAllocatableResourceClaimStatuses"  # the field of the status of a pod
_AGGREGATED = "is insufficient to cover the aggregated container and node-allocatable DRA"
_REQUEST = f"pod level request for {{}} {_AGGREGATED} requests"
_LIMIT = f"pod level limit for {{}} {_AGGREGATED} limits"
_CONTAINER = "pod level limit for {} is insufficient to cover the limit and DRA overhead for container {}"


def of_claims(status: Obj) -> Amounts:
    """Return the amounts that the devices of a pod use of its node, as the pod's status says.

    Overhead for containers counts once for each that uses the claim. Upstream: `addDRANodeAllocatableClaimResources`.
    """
    total: Amounts = {}
    for of_claim in status.get(CLAIM_STATUSES) or ():
        for mapped in of_claim.get("mapping") or ():
            total = added(total, {mapped["name"]: parse(mapped["quantity"])})
        for overhead in of_claim.get("overhead") or ():
            times = Quantity(len(of_claim.get("containers") or ()), 0, DECIMAL_SI)
            amount = parse(overhead.get("perPod", "0")) + parse(overhead.get("perContainer", "0")) * times
            total = added(total, {overhead["name"]: amount})
    return total


def uncovered(spec: Obj, status: Obj) -> str:
    """Return the reason that a pod sets too little as a whole for its containers and devices, "" if it is enough.

    Upstream: `validatePodLevelResourcesCoverDRA`.
    """
    whole, used = spec.get("resources") or {}, of_claims(status)
    requests = added(aggregate(spec, "requests"), used)
    for name, most in parsed(whole.get("requests")).items():
        if is_set_as_whole(name) and requests.get(name, most) > most:
            return _REQUEST.format(name)
    most_of = parsed(whole.get("limits"))
    limits = added(aggregate(spec, "limits"), used)
    for name in filter(is_huge_pages, limits):
        if name in most_of and limits[name] > most_of[name]:
            return _LIMIT.format(name)
    for container, name, limit in _limits(spec, status):
        if name in most_of and limit > most_of[name]:
            return _CONTAINER.format(name, container)
    return ""


def _limits(spec: Obj, status: Obj) -> Iterator[tuple[str, str, Quantity]]:
    """Yield the limits of containers with what their devices use, other than huge pages: container, resource, limit."""
    for container in containers(spec, "containers"):
        own = [
            {**of_claim, "containers": [container["name"]]}
            for of_claim in status.get(CLAIM_STATUSES) or ()
            if container["name"] in of_claim.get("containers", ())
        ]
        used = of_claims({CLAIM_STATUSES: own})
        for name, limit in parsed((container.get("resources") or {}).get("limits")).items():
            if not is_huge_pages(name):
                yield container["name"], name, limit + used.get(name, parse("0"))


def is_huge_pages(name: str) -> bool:
    """Report whether a resource is huge pages of some size."""
    return name.startswith(HUGE_PAGES)


def is_set_as_whole(name: str) -> bool:
    """Report whether an amount that a pod sets as a whole wins over those of its containers."""
    return name in ("cpu", "memory") or is_huge_pages(name)
