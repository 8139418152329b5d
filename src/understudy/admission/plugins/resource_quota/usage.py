"""What objects use of resource quotas: how each kind is measured, and which quotas it counts against.

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
from understudy.machinery.types import Obj, at
from understudy.machinery.validation.names import label_value_texts

_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
_ALL_DEVICES = 32  # what a request for all devices counts as: more cannot be allocated
# What may be counted under a name of its own besides "count/RESOURCE".
_ALIASES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_UNCOUNTED = {("", "events"), ("events.k8s.io", "events")}

_POD_STORAGE = "ephemeral-storage"
# Every container has to ask for these where a quota has them.
_NEEDED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_OF_PODS = frozenset(
    ("count/pods", "pods", *_NEEDED, _POD_STORAGE, f"requests.{_POD_STORAGE}", f"limits.{_POD_STORAGE}")
)
_OF_SERVICES = frozenset(("count/services", "services", "services.nodeports", "services.loadbalancers"))
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_CLASSES = tuple(f"{_STORAGE_CLASS}{name}" for name in _OF_CLAIMS)


def _nowhere(selector: Obj, obj: Obj) -> bool:
    """Only pods are in scopes."""
    return False


def _nothing(obj: Obj, resources: Iterable[str], ctx: Context) -> str:
    """Only pods have to ask for anything."""
    return ""


class ScopeError(ValueError):
    """A scope is selected by what cannot be a value: nobody checks that when a quota is written."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How a kind is counted.

    counts    whether it is counted by a resource of a quota
    measure   what an object uses
    in_scope  whether an object is in a scope: {"scopeName": …, "operator": …, "values": …}; may raise ScopeError
    missing   what is wrong with an object that does not ask for resources of a quota; "" if nothing is
    updates   whether an object that changes is measured again
    """

    counts: Callable[[str], bool]
    measure: Callable[[Obj, Context], Amounts]
    in_scope: Callable[[Obj, Obj], bool] = _nowhere
    missing: Callable[[Obj, Iterable[str], Context], str] = _nothing
    updates: bool = False


@cache
def usage_of(group: str, resource: str) -> Usage | None:
    """How a resource is counted; None: not at all."""
    if (group, resource) in _UNCOUNTED:
        return None
    return _MEASURED.get((group, resource)) or _objects(group, resource)


def _objects(group: str, resource: str) -> Usage:
    """Each object counts as one."""
    names = {f"count/{resource}.{group}" if group else f"count/{resource}"}
    if not group and resource in _ALIASES:
        names.add(resource)
    return Usage(names.__contains__, lambda obj, ctx: dict.fromkeys(names, _whole(1)))


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, DECIMAL_SI)


# --- pods -------------------------------------------------------------------------------------------------------------


def _counts_pods(name: str) -> bool:
    extended = not is_native(name) and name.startswith("requests.")
    return name in _OF_PODS or extended or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))


def _of_pod(pod: Obj, ctx: Context) -> Amounts:
    spec = pod["spec"]
    requests, limits = (amounts.of_pod(spec, which, ctx.gates) for which in ("requests", "limits"))
    overhead = amounts.parsed(spec.get("overhead"))
    limited = [name for name, amount in limits.items() if amount.value]
    requests, limits = amounts.added(requests, overhead), amounts.added(limits, amounts.masked(overhead, limited))
    return {"count/pods": _whole(1), "pods": _whole(1), **_computed(requests, limits)}


def _computed(requests: Amounts, limits: Amounts) -> Amounts:
    """Requests and limits under the names that quotas have for them."""
    used: Amounts = {}
    for name, amount in requests.items():
        plain = name in ("cpu", "memory", _POD_STORAGE) or name.startswith(HUGE_PAGES)
        if plain:
            used[name] = amount
        if plain or is_extended(name):
            used[f"requests.{name}"] = amount
    return used | {f"limits.{name}": limits[name] for name in ("cpu", "memory", _POD_STORAGE) if name in limits}


def _missing(pod: Obj, resources: Iterable[str], ctx: Context) -> str:
    wanted = sorted(set(resources).intersection(_NEEDED))
    whole = (pod["spec"].get("resources") or {}) if ctx.gates[features.POD_LEVEL_RESOURCES] else {}
    if not wanted or any(name in (whole.get(which) or {}) for which in whole for name in amounts.POD_LEVEL):
        return ""
    lacking: dict[str, set[str]] = {}
    for container in containers(pod["spec"], "containers", "initContainers"):
        found = container.get("resources") or {}
        given = _computed(amounts.parsed(found.get("requests")), amounts.parsed(found.get("limits")))
        for name in wanted:
            if name not in given:
                lacking.setdefault(name, set()).add(container.get("name", ""))
    texts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(texts)}" if texts else ""


def _pod_in_scope(selector: Obj, pod: Obj) -> bool:
    spec, scope = pod["spec"], selector["scopeName"]
    if scope == "PriorityClass":
        return _of_priority(selector, spec.get("priorityClassName", ""))
    ends = spec.get("activeDeadlineSeconds") is not None
    best_effort: bool = at(pod, "status", "qosClass") == "BestEffort"
    scopes = {
        "Terminating": ends,
        "NotTerminating": not ends,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "CrossNamespacePodAffinity": _reaches_out(spec),
    }
    return scopes.get(scope, False)


def _of_priority(selector: Obj, name: str) -> bool:
    values: list[str] = selector.get("values") or []
    wrong = [
        f"values[{i}][{selector['scopeName']}]: Invalid value: {go_quote(value)}: {text}"
        for i, value in enumerate(values)
        for text in label_value_texts(value)
    ]
    if wrong:
        shown = f"{{{selector['scopeName']} {selector['operator']} [{' '.join(values)}]}}"
        why = f"failed to parse and convert selector: {aggregate(wrong)}"
        raise ScopeError(f"error on matching scope {shown}: {why}")
    return {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": bool(name) and name in values,
        "NotIn": not name or name not in values,
    }[selector["operator"]]


def _reaches_out(spec: Obj) -> bool:
    """Whether the pod looks at pods of other namespaces."""
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in affinity_terms(spec))


# --- services, volume claims, device claims ---------------------------------------------------------------------------


def _of_service(service: Obj, ctx: Context) -> Amounts:
    """A balancer's ports count as node ports before they have any, unless none are to be allocated."""
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
    own: Amounts = {"persistentvolumeclaims": _whole(1)}
    size = at(claim, "spec", "resources", "requests", "storage")
    if size is not None:
        own["requests.storage"] = _allocated(claim, parse(size).round_up(0), ctx)
    name = class_of(claim)
    by_class = {f"{name}{_STORAGE_CLASS}{resource}": amount for resource, amount in own.items()} if name else {}
    return {"count/persistentvolumeclaims": _whole(1), **own, **by_class}


def _allocated(claim: Obj, size: Quantity, ctx: Context) -> Quantity:
    """What is allocated already counts if it is more than what is asked for."""
    allocated = at(claim, "status", "allocatedResources", "storage")
    if allocated is None or not ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]:
        return size
    return max(size, parse(allocated).round_up(0))


def _counts_device_claims(name: str) -> bool:
    return name == "count/resourceclaims.resource.k8s.io" or name.endswith(_DEVICE_CLASS)


def _of_device_claim(claim: Obj, ctx: Context) -> Amounts:
    used = {"count/resourceclaims.resource.k8s.io": _whole(1)}
    for request in at(claim, "spec", "devices", "requests", default=[]):
        mode, name = request.get("allocationMode"), f"{request.get('deviceClassName', '')}{_DEVICE_CLASS}"
        devices = {"ExactCount": request.get("count", 0), "All": _ALL_DEVICES}.get(mode, 0)
        used = amounts.added(used, {name: _whole(devices)})
    return used


_MEASURED = {
    ("", "pods"): Usage(_counts_pods, _of_pod, _pod_in_scope, _missing),
    ("", "services"): Usage(_OF_SERVICES.__contains__, _of_service, updates=True),
    ("", "persistentvolumeclaims"): Usage(_counts_claims, _of_claim, updates=True),
    ("resource.k8s.io", "resourceclaims"): Usage(_counts_device_claims, _of_device_claim, updates=True),
}
