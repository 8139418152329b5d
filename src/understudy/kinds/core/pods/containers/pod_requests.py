"""The requests and limits of all containers of a pod together: what quotas, limit ranges and the scheduler count.

Containers run together, so their amounts are added; init containers run one after the other before them, each beside
the sidecars that have been started by then. So of each resource the largest need counts (KEP-753). The pod as a whole
may set its own amounts in their place (KEP-2837). Overhead is left to the caller: not everybody counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from understudy.kinds.core.pods.containers_of import containers
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.types import Obj

N = TypeVar("N", int, Quantity)
Amounts = dict[str, Quantity]
Read = Callable[[Mapping[str, str] | None], dict[str, N]]  # parses the amounts of a ResourceList


def parsed(amounts: Mapping[str, str] | None) -> Amounts:
    """Return quantities parsed from their texts; None counts as empty."""
    return {name: parse(text) for name, text in (amounts or {}).items()}


def added(amounts: dict[str, N], more: Mapping[str, N]) -> dict[str, N]:
    """Return the sums of two sets of amounts (`quota.Add`); a resource of only one side stays as it is."""
    total = dict(amounts)
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def masked(amounts: Amounts, names: Iterable[str]) -> Amounts:
    """Return the amounts of the named resources (`quota.Mask`)."""
    kept = set(names)
    return {name: amount for name, amount in amounts.items() if name in kept}


def aggregate(spec: Obj, kind: str) -> Amounts:
    """Return the `requests` or `limits` of all containers together, by resource.

    Upstream: `AggregateContainerRequests`, `AggregateContainerLimits`.
    """
    return of_containers(spec, lambda container: _of_container(container, kind, parsed))


def of_pod(spec: Obj, kind: str, read: Read[N], is_supported: Callable[[str], bool]) -> dict[str, N]:
    """Return the `requests` or `limits` of a pod without its overhead. Upstream: `PodRequests`, `PodLimits`.

    is_supported  whether the amount that the pod sets of a resource wins over those of its containers
    """
    total = of_containers(spec, lambda container: _of_container(container, kind, read))
    return total | of_whole(spec, kind, read, is_supported)


def of_whole(spec: Obj, kind: str, read: Read[N], is_supported: Callable[[str], bool]) -> dict[str, N]:
    """Return the `requests` or `limits` that a pod sets as a whole, of resources that are supported."""
    whole: Mapping[str, str] = (spec.get("resources") or {}).get(kind) or {}
    return read({name: text for name, text in whole.items() if is_supported(name)}) if whole else {}


def of_containers(spec: Obj, amounts: Callable[[Obj], dict[str, N]]) -> dict[str, N]:
    """Return the amounts of all containers together, given the function that returns those of one."""
    total: dict[str, N] = {}
    for container in containers(spec, "containers"):
        total = added(total, amounts(container))
    sidecars: dict[str, N] = {}
    starting: dict[str, N] = {}
    for container in containers(spec, "initContainers"):
        own = amounts(container)
        if is_sidecar(container):
            total, sidecars = added(total, own), added(sidecars, own)
            needed = sidecars
        else:
            needed = added(own, sidecars)  # in this order: a sum is written in the format of its first quantity
        starting = greatest(starting, needed)
    return greatest(total, starting)


def _of_container(container: Obj, kind: str, read: Read[N]) -> dict[str, N]:
    return read((container.get("resources") or {}).get(kind))


def greatest(*each: Mapping[str, N]) -> dict[str, N]:
    """Return the greatest amount of each resource, of equal ones the first (`quota.Max`)."""
    most: dict[str, N] = {}
    for amounts in each:
        most |= {name: amount for name, amount in amounts.items() if name not in most or amount > most[name]}
    return most
