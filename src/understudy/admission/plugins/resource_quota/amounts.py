"""Amounts of resources in arithmetic: {resource: quantity}, as Kubernetes adds up what containers ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.admission.validation.core.pods.containers_of import containers
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

Amounts = dict[str, Quantity]
POD_LEVEL = ("cpu", "memory")  # what can be said of a pod as a whole


def parsed(amounts: Mapping[str, str] | None) -> Amounts:
    return {name: parse(text) for name, text in (amounts or {}).items()}


def added(amounts: Amounts, more: Amounts) -> Amounts:
    """The sums; what only one side has stays as it is."""
    total = dict(amounts)
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def greatest(amounts: Amounts, others: Amounts) -> Amounts:
    """The greater amount of each resource."""
    more = {name: amount for name, amount in others.items() if name not in amounts or amount > amounts[name]}
    return {**amounts, **more}


def masked(amounts: Amounts, names: Iterable[str]) -> Amounts:
    """Those of certain names."""
    wanted = set(names)
    return {name: amount for name, amount in amounts.items() if name in wanted}


def of_pod(spec: Obj, which: str, gates: Gates) -> Amounts:
    """The `requests` or `limits` of a pod: of its containers and sidecars together, or of an init container if that
    needs more while it runs. What the pod states as a whole wins (PodLevelResources).

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
