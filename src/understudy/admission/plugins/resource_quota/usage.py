"""The use of quotas by objects: how each kind is measured, and which quotas count it (`quota.Evaluator`).

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from understudy.admission.context import Context
from understudy.admission.plugins.resource_quota import amounts
from understudy.admission.plugins.resource_quota.amounts import Amounts
from understudy.admission.validation.core.containers.resources import HUGE_PAGES, is_extended, is_native
from understudy.admission.validation.core.pods.containers_of import affinity_terms, containers
from understudy.admission.validation.core.volumes.persistent_volumes import class_of
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.quantity import DECIMAL_SI, Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.names import label_value_texts

_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
_ALL_DEVICES = 32  # the count of a request for all devices: a claim cannot have more
# Resources that quotas count under their plain name as well as under "count/RESOURCE".
_ALIASES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_UNCOUNTED = {("", "events"), ("events.k8s.io", "events")}

_POD_STORAGE = "ephemeral-storage"
# If a quota limits one of these, every container must state it.
_NEEDED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_OF_PODS = frozenset(
    ("count/pods", "pods", *_NEEDED, _POD_STORAGE, f"requests.{_POD_STORAGE}", f"limits.{_POD_STORAGE}")
)
_OF_SERVICES = frozenset(("count/services", "services", "services.nodeports", "services.loadbalancers"))
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_CLASSES = tuple(f"{_STORAGE_CLASS}{name}" for name in _OF_CLAIMS)


def _nowhere(selector: Obj, obj: Obj) -> bool:
    """Return False: only pods can be in scopes."""
    return False


def _nothing(obj: Obj, resources: Iterable[str], ctx: Context) -> str:
    """Return "": only pods must state the resources that they use."""
    return ""


class ScopeError(ValueError):
    """A scope cannot be evaluated, because a value is no label value: writes of quotas do not check that."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The functions that count a kind (`quota.Evaluator`).

    counts    reports whether a quota's resource counts the kind
    measure   returns the amounts that an object uses
    in_scope  reports whether an object is in a scope {"scopeName": …, "operator": …, "values": …}; may raise ScopeError
    missing   returns the error message of an object that omits limited resources, "" if it omits none
    updates   whether an updated object is measured again
    """

    counts: Callable[[str], bool]
    measure: Callable[[Obj, Context], Amounts]
    in_scope: Callable[[Obj, Obj], bool] = _nowhere
    missing: Callable[[Obj, Iterable[str], Context], str] = _nothing
    updates: bool = False


@cache
def usage_of(group: str, resource: str) -> Usage | None:
    """Return how a resource is counted, None if it is not."""
    if (group, resource) in _UNCOUNTED:
        return None
    return _MEASURED.get((group, resource)) or _objects(group, resource)


def _objects(group: str, resource: str) -> Usage:
    """Return the usage of a kind whose objects count as one each."""
    names = {f"count/{resource}.{group}" if group else f"count/{resource}"}
    if not group and resource in _ALIASES:
        names.add(resource)
    return Usage(names.__contains__, lambda obj, ctx: dict.fromkeys(names, _whole(1)))


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, DECIMAL_SI)


# --- pods -------------------------------------------------------------------------------------------------------------


def _counts_pods(name: str) -> bool:
    """Report whether a quota's resource counts pods."""
    extended = not is_native(name) and name.startswith("requests.")
    return name in _OF_PODS or extended or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))


def _of_pod(pod: Obj, ctx: Context) -> Amounts:
    """Return the amounts that a pod uses; its overhead adds to requests, and to the limits that it has."""
    spec = pod["spec"]
    requests, limits = (amounts.of_pod(spec, which, ctx.gates) for which in ("requests", "limits"))
    overhead = amounts.parsed(spec.get("overhead"))
    limited = [name for name, amount in limits.items() if amount.value]
    requests, limits = amounts.added(requests, overhead), amounts.added(limits, amounts.masked(overhead, limited))
    return {"count/pods": _whole(1), "pods": _whole(1), **_computed(requests, limits)}


def _computed(requests: Amounts, limits: Amounts) -> Amounts:
    """Return requests and limits under the names that quotas use for them."""
    used: Amounts = {}
    for name, amount in requests.items():
        plain = name in ("cpu", "memory", _POD_STORAGE) or name.startswith(HUGE_PAGES)
        if plain:
            used[name] = amount
        if plain or is_extended(name):
            used[f"requests.{name}"] = amount
    return used | {f"limits.{name}": limits[name] for name in ("cpu", "memory", _POD_STORAGE) if name in limits}


def _missing(pod: Obj, resources: Iterable[str], ctx: Context) -> str:
    """Return the error message of a pod whose containers omit limited resources, "" if they omit none."""
    needed = sorted(set(resources).intersection(_NEEDED))
    whole = (pod["spec"].get("resources") or {}) if ctx.gates[features.POD_LEVEL_RESOURCES] else {}
    if not needed or any(name in (whole.get(which) or {}) for which in whole for name in amounts.POD_LEVEL):
        return ""
    lacking: dict[str, set[str]] = {}
    for container in containers(pod["spec"], "containers", "initContainers"):
        own = container.get("resources") or {}
        stated = _computed(amounts.parsed(own.get("requests")), amounts.parsed(own.get("limits")))
        for name in needed:
            if name not in stated:
                lacking.setdefault(name, set()).add(container.get("name", ""))
    texts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(texts)}" if texts else ""


def _pod_in_scope(selector: Obj, pod: Obj) -> bool:
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


# --- services, volume claims, device claims ---------------------------------------------------------------------------


def _of_service(service: Obj, ctx: Context) -> Amounts:
    """Return the amounts that a service uses.

    Ports of a load balancer count as node ports before they are allocated, unless the service turns that off.
    """
    spec = service["spec"]
    ports, kind = spec.get("ports") or [], spec.get("type")
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    return {
        "count/services": _whole(1),
        "services": _whole(1),
        "services.loadbalancers": _whole(int(kind == "LoadBalancer")),
        "services.nodeports": _whole(node_ports),
    }


def _counts_claims(name: str) -> bool:
    return name in (*_OF_CLAIMS, "count/persistentvolumeclaims") or name.endswith(_OF_CLASSES)


def _of_claim(claim: Obj, ctx: Context) -> Amounts:
    """Return the amounts that a volume claim uses, in total and under its storage class."""
    own: Amounts = {"persistentvolumeclaims": _whole(1)}
    size = nested_field(claim, "spec", "resources", "requests", "storage")
    if size is not None:
        own["requests.storage"] = _allocated(claim, parse(size).round_up(0), ctx)
    name = class_of(claim)
    by_class = {f"{name}{_STORAGE_CLASS}{resource}": amount for resource, amount in own.items()} if name else {}
    return {"count/persistentvolumeclaims": _whole(1), **own, **by_class}


def _allocated(claim: Obj, size: Quantity, ctx: Context) -> Quantity:
    """Return the size that a claim counts with: the requested or the allocated one, whichever is larger."""
    allocated = nested_field(claim, "status", "allocatedResources", "storage")
    if allocated is None or not ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]:
        return size
    return max(size, parse(allocated).round_up(0))


def _counts_device_claims(name: str) -> bool:
    return name == "count/resourceclaims.resource.k8s.io" or name.endswith(_DEVICE_CLASS)


def _of_device_claim(claim: Obj, ctx: Context) -> Amounts:
    """Return the number of devices that a resource claim asks for, by device class; of alternatives the largest."""
    used = {"count/resourceclaims.resource.k8s.io": _whole(1)}
    for request in nested_field(claim, "spec", "devices", "requests", default=[]):
        most: dict[str, int] = {}
        for devices in request.get("firstAvailable") or [request.get("exactly") or {}]:
            mode, name = devices.get("allocationMode", ""), f"{devices.get('deviceClassName', '')}{_DEVICE_CLASS}"
            count = {"ExactCount": devices.get("count", 0), "All": _ALL_DEVICES}.get(mode, 0)
            most[name] = max(count, most.get(name, 0))
        used = amounts.added(used, {name: _whole(count) for name, count in most.items()})
    return used


_MEASURED = {
    ("", "pods"): Usage(_counts_pods, _of_pod, _pod_in_scope, _missing),
    ("", "services"): Usage(_OF_SERVICES.__contains__, _of_service, updates=True),
    ("", "persistentvolumeclaims"): Usage(_counts_claims, _of_claim, updates=True),
    ("resource.k8s.io", "resourceclaims"): Usage(_counts_device_claims, _of_device_claim, updates=True),
}
