"""The use of quotas by pods."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from understudy.admission.plugins.resource_quota.evaluator import ScopeError, Usage, whole
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers import pod_requests
from understudy.kinds.core.pods.containers.pod_requests import Amounts, added, masked, parsed
from understudy.kinds.core.pods.containers.pod_resources import is_supported
from understudy.kinds.core.pods.containers.resources import HUGE_PAGES, is_extended, is_native
from understudy.kinds.core.pods.containers_of import affinity_terms, containers
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.names import label_value_texts

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
    supported = partial(_is_set_as_whole, ctx=ctx)
    requests, limits = (pod_requests.of_pod(spec, which, parsed, supported) for which in ("requests", "limits"))
    overhead = parsed(spec.get("overhead"))
    limited = [name for name, amount in limits.items() if amount.value]
    requests, limits = added(requests, overhead), added(limits, masked(overhead, limited))
    return {"count/pods": whole(1), "pods": whole(1), **_computed(requests, limits, ctx)}


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
    spec, scope = pod["spec"], selector["scopeName"]
    if scope == "PriorityClass":
        return _of_priority(selector, spec.get("priorityClassName", ""))
    ends = spec.get("activeDeadlineSeconds") is not None
    best_effort: bool = nested_field(pod, "status", "qosClass") == "BestEffort"
    scopes = {
        "Terminating": ends,
        "NotTerminating": not ends,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "CrossNamespacePodAffinity": _reaches_out(spec),
    }
    return scopes.get(scope, False)


def _of_priority(selector: Obj, name: str) -> bool:
    """Report whether the name of a priority class matches a scope selector. Raises ScopeError."""
    values: list[str] = selector.get("values") or []
    wrong = [
        f"values[{i}][{selector['scopeName']}]: Invalid value: {go_quote(value)}: {text}"
        for i, value in enumerate(values)
        for text in label_value_texts(value)
    ]
    if wrong:
        selector_text = f"{{{selector['scopeName']} {selector['operator']} [{' '.join(values)}]}}"
        why = f"failed to parse and convert selector: {aggregate(wrong)}"
        raise ScopeError(f"error on matching scope {selector_text}: {why}")
    return {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": bool(name) and name in values,
        "NotIn": not name or name not in values,
    }[selector["operator"]]


def _reaches_out(spec: Obj) -> bool:
    """Report whether an affinity term of the pod selects pods of other namespaces."""
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in affinity_terms(spec))


PODS = Usage(_counts, of_pod, _in_scope, _missing)
