"""The use of quotas by pods."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from understudy.admission.plugins.resource_quota.evaluator import Usage, always, selects, whole
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers import pod_requests
from understudy.kinds.core.pods.containers.pod_requests import Amounts, added, masked, parsed
from understudy.kinds.core.pods.containers.pod_resources import is_supported
from understudy.kinds.core.pods.containers.resized_requests import of_resized
from understudy.kinds.core.pods.containers.resources import HUGE_PAGES, is_extended, is_native
from understudy.kinds.core.pods.containers_of import affinity_terms, containers
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33, V1_35, Version
from understudy.machinery.types import Obj, nested_field

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"  # resources of containers that stand for the devices of a class
_STORAGE = "ephemeral-storage"
# If a quota limits one of these, every container must state it.
_NEEDED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_OF_PODS = frozenset(("count/pods", "pods", *_NEEDED, _STORAGE, f"requests.{_STORAGE}", f"limits.{_STORAGE}"))


def _counts(name: str, ctx: Context) -> bool:
    """Report whether a quota's resource counts pods."""
    plain = name in _OF_PODS or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))
    return plain or is_extended_request(name, ctx.release)


def is_extended_request(name: str, version: Version) -> bool:
    """Report whether a quota's resource limits requests for an extended resource (`isExtendedResourceNameForQuota`).

    Since 1.35 the resource may be a device class, named `deviceclass.resource.kubernetes.io/CLASS`.
    """
    extended = name.startswith("requests.") and not is_native(name)
    return extended or (version >= V1_35 and name.startswith(f"requests.{DEVICE_CLASS}"))


def of_pod(pod: Obj, ctx: Context) -> Amounts:
    """Return the amounts that a pod uses; its overhead adds to requests, and to the limits that it has.

    A pod that has ended only counts as an object (`PodUsageFunc`).
    """
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return {"count/pods": whole(1)}
    spec = pod["spec"]
    requests, limits = (_of_pod(pod, which, ctx) for which in ("requests", "limits"))
    overhead = parsed(spec.get("overhead"))
    limited = [name for name, amount in limits.items() if amount.value]
    requests, limits = added(requests, overhead), added(limits, masked(overhead, limited))
    return {"count/pods": whole(1), "pods": whole(1), **_computed(requests, limits, ctx)}


def _of_pod(pod: Obj, which: str, ctx: Context) -> Amounts:
    """Return the requests or limits of a pod, those that its status reports included if pods can be resized."""
    supported = partial(_is_set_as_whole, ctx=ctx)
    if not ctx.gates[features.IN_PLACE_POD_VERTICAL_SCALING]:
        return pod_requests.of_pod(pod["spec"], which, parsed, supported)
    return of_resized(pod, which, ctx.release) | pod_requests.of_whole(pod["spec"], which, parsed, supported)


def _is_set_as_whole(name: str, ctx: Context) -> bool:
    """Report whether an amount that a pod sets as a whole wins over those of its containers."""
    return ctx.gates[features.POD_LEVEL_RESOURCES] and is_supported(name, ctx.release)


def _computed(requests: Amounts, limits: Amounts, ctx: Context) -> Amounts:
    """Return requests and limits under the names that quotas use for them."""
    used: Amounts = {}
    for name, amount in requests.items():
        plain = name in ("cpu", "memory", _STORAGE) or name.startswith(HUGE_PAGES)
        if plain:
            used[name] = amount
        if plain or is_extended(name) or (ctx.release >= V1_35 and name.startswith(DEVICE_CLASS)):
            used[f"requests.{name}"] = amount
    return used | {f"limits.{name}": limits[name] for name in ("cpu", "memory", _STORAGE) if name in limits}


def _missing(pod: Obj, resources: Iterable[str], ctx: Context) -> str:
    """Return the error message of a pod whose containers omit limited resources, "" if they omit none."""
    needed = sorted(set(resources).intersection(_NEEDED))
    of_whole = pod["spec"].get("resources") or {}
    stated_as_whole = (name for which in ("requests", "limits") for name in of_whole.get(which) or ())
    if not needed or any(_is_set_as_whole(name, ctx) for name in stated_as_whole):
        return ""
    lacking: dict[str, set[str]] = {}
    for container in containers(pod["spec"], "containers", "initContainers"):
        own = container.get("resources") or {}
        stated = _computed(parsed(own.get("requests")), parsed(own.get("limits")), ctx)
        for name in needed:
            if name not in stated:
                lacking.setdefault(name, set()).add(container.get("name", ""))
    texts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(texts)}" if texts else ""


def _in_scope(selector: Obj, pod: Obj) -> bool:
    """Report whether a pod is in a scope. Raises ScopeError."""
    spec, scope, ends = pod["spec"], selector["scopeName"], _is_terminating(pod)
    if scope == "PriorityClass":
        return selects(selector, spec.get("priorityClassName", ""))
    best_effort: bool = nested_field(pod, "status", "qosClass") == "BestEffort"
    scopes = {
        "Terminating": ends,
        "NotTerminating": not ends,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "CrossNamespacePodAffinity": _reaches_out(spec),
    }
    return scopes.get(scope, False)


def _reaches_out(spec: Obj) -> bool:
    """Report whether an affinity term of the pod selects pods of other namespaces."""
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in affinity_terms(spec))


def _is_terminating(pod: Obj) -> bool:
    return pod["spec"].get("activeDeadlineSeconds") is not None


def _changes_scope(pod: Obj, old: Obj, ctx: Context) -> bool:
    """Report whether an update moves a pod from the quotas of one scope to those of another, which count it since
    1.33."""
    return ctx.release >= V1_33 and _is_terminating(pod) != _is_terminating(old)


PODS = Usage(_counts, of_pod, _in_scope, _missing, {"": _changes_scope, "resize": always})
