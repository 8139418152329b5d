"""Defaults of the resources of a pod as a whole (KEP-2837), from those of its containers."""

from __future__ import annotations

from copy import deepcopy

from understudy.kinds.core.pods.containers.pod_requests import aggregate
from understudy.kinds.core.pods.containers.pod_resources import is_supported
from understudy.kinds.core.pods.containers.resources import is_huge_page
from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_34, Version
from understudy.machinery.types import Obj


def default_decoded(spec: Obj, gates: Gates, version: Version) -> None:
    """Set the requests, and limits of huge pages, that a decoded pod as a whole does not have, in place; since 1.37
    this is left to `default_stored`.

    Upstream: `defaultHugePagePodLimits`, `defaultPodRequests`.
    """
    whole: Obj = spec.get("resources") or {}
    if gates[features.POD_LEVEL_RESOURCES] and not gates[features.POD_LEVEL_RESOURCES_FIX_DEFAULTING]:
        if version >= V1_33:
            _limit_huge_pages(spec, whole, version)
        if whole.get("limits"):
            _request(spec, whole, version)


def default_stored(spec: Obj, gates: Gates, version: Version) -> None:
    """Set requests and limits that a pod as a whole does not have, in place, as admission has left its containers.

    Upstream: `DefaultPodLevelResources`.
    """
    whole: Obj = spec.get("resources") or {}
    if gates[features.POD_LEVEL_RESOURCES_FIX_DEFAULTING] and (whole.get("limits") or whole.get("requests")):
        _limit_huge_pages(spec, whole, version)
        _request(spec, whole, version)
        _limit(spec, whole, version)


def keep_stored(spec: Obj, old: Obj, gates: Gates) -> None:
    """Keep the resources of the stored pod as a whole, in place, in an update of a client that may not know them."""
    if gates[features.POD_LEVEL_RESOURCES_FIX_DEFAULTING] and old.get("resources") is not None:
        spec.setdefault("resources", deepcopy(old["resources"]))


def _limit_huge_pages(spec: Obj, whole: Obj, version: Version) -> None:
    """Set limits of huge pages to those of the containers; from 1.34 on pages that the pod requests are not limited."""
    if whole.get("limits") or whole.get("requests"):
        limited = {**(whole.get("limits") or {}), **((whole.get("requests") or {}) if version >= V1_34 else {})}
        pages = {name: amount for name, amount in aggregate(spec, "limits").items() if is_huge_page(name)}
        _add_amounts(whole, "limits", {name: str(amount) for name, amount in pages.items() if name not in limited})


def _request(spec: Obj, whole: Obj, version: Version) -> None:
    """Set requests to those of the containers; to its limits where these have none, or of huge pages."""
    of_containers = {
        name: str(amount)
        for name, amount in aggregate(spec, "requests").items()
        if is_supported(name, version) and not is_huge_page(name)
    }
    of_limits = {name: amount for name, amount in (whole.get("limits") or {}).items() if is_supported(name, version)}
    _add_amounts(whole, "requests", {**of_limits, **of_containers, **(whole.get("requests") or {})})


def _limit(spec: Obj, whole: Obj, version: Version) -> None:
    """Set limits of what every container limits to the sum of these limits, or to the request if that is more."""
    asked, limits = whole.get("requests") or {}, whole.get("limits") or {}
    names = {name for name in asked if is_supported(name, version) and name not in limits}
    for container in containers(spec):
        names &= ((container.get("resources") or {}).get("limits") or {}).keys()
    amounts = {name: amount for name, amount in aggregate(spec, "limits").items() if name in names}
    of_containers = {
        name: asked[name] if parse(asked[name]) > amount else str(amount) for name, amount in amounts.items()
    }
    _add_amounts(whole, "limits", of_containers)


def _add_amounts(whole: Obj, kind: str, amounts: dict[str, str]) -> None:
    if amounts:
        whole[kind] = {**(whole.get(kind) or {}), **amounts}
