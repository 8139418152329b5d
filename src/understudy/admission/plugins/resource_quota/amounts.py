"""Arithmetic on {resource: quantity}, and the sum of the requests or limits of a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

Amounts = dict[str, Quantity]
POD_LEVEL = ("cpu", "memory")  # resources that a pod may set as a whole


def parsed(amounts: Mapping[str, str] | None) -> Amounts:
    """Return quantities parsed from their texts; None counts as empty."""
    return {name: parse(text) for name, text in (amounts or {}).items()}


def added(amounts: Amounts, more: Amounts) -> Amounts:
    """Return the sums of two sets of amounts (`quota.Add`); a resource of only one side stays as it is."""
    total = dict(amounts)
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def greatest(amounts: Amounts, others: Amounts) -> Amounts:
    """Return the greater amount of each resource (`quota.Max`)."""
    more = {name: amount for name, amount in others.items() if name not in amounts or amount > amounts[name]}
    return {**amounts, **more}


def masked(amounts: Amounts, names: Iterable[str]) -> Amounts:
    """Return the amounts of the named resources (`quota.Mask`)."""
    kept = set(names)
    return {name: amount for name, amount in amounts.items() if name in kept}


def of_pod(spec: Obj, which: str, gates: Gates) -> Amounts:
    """Return the `requests` or `limits` of a pod (`PodRequests`, `PodLimits`).

    That is the sum over containers and sidecars, or the amount of an init container if that needs more while it runs.
    Resources that the pod sets as a whole win (PodLevelResources).
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    total: Amounts = {}
    for container in containers(spec, "containers"):
        total = added(total, _of_container(container, which))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in containers(spec, "initContainers"):
        own = _of_container(container, which)
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, own), added(sidecars, own)
            starting = greatest(starting, sidecars)
        else:
            starting = greatest(starting, added(own, sidecars))
    total = greatest(total, starting)
    if gates[features.POD_LEVEL_RESOURCES]:
        total |= masked(parsed((spec.get("resources") or {}).get(which)), POD_LEVEL)
    return total


def _of_container(container: Obj, which: str) -> Amounts:
    return parsed((container.get("resources") or {}).get(which))
