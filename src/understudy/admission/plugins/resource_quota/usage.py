"""The use of quotas by objects: how each kind is measured, and which quotas count it (`quota.Evaluator`).

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from functools import cache

from understudy.admission.plugins.resource_quota.device_claims import DEVICE_CLAIMS
from understudy.admission.plugins.resource_quota.evaluator import Usage, always, selects, whole
from understudy.admission.plugins.resource_quota.pods import PODS
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.pod_requests import Amounts
from understudy.kinds.core.pods.volumes.persistent_volumes import class_of
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj, nested_field

_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
# Resources that quotas count under their plain name as well as under "count/RESOURCE".
_ALIASES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_UNCOUNTED = {("", "events"), ("events.k8s.io", "events")}

_OF_SERVICES = frozenset(("count/services", "services", "services.nodeports", "services.loadbalancers"))
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OF_CLASSES = tuple(f"{_STORAGE_CLASS}{name}" for name in _OF_CLAIMS)


@cache
def usage_of(group: str, resource: str) -> Usage | None:
    """Return the rule by which objects of a resource are counted, None for one that is not counted."""
    if (group, resource) in _UNCOUNTED:
        return None
    return _MEASURED.get((group, resource)) or _objects(group, resource)


def _objects(group: str, resource: str) -> Usage:
    """Return the usage of a kind whose objects count as one each."""
    names = {f"count/{resource}.{group}" if group else f"count/{resource}"}
    if not group and resource in _ALIASES:
        names.add(resource)
    return Usage(lambda name, ctx: name in names, lambda obj, ctx: dict.fromkeys(names, whole(1)))


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
        "count/services": whole(1),
        "services": whole(1),
        "services.loadbalancers": whole(int(kind == "LoadBalancer")),
        "services.nodeports": whole(node_ports),
    }


def _counts_services(name: str, ctx: Context) -> bool:
    return name in _OF_SERVICES


def _counts_claims(name: str, ctx: Context) -> bool:
    return name in (*_OF_CLAIMS, "count/persistentvolumeclaims") or name.endswith(_OF_CLASSES)


def _of_claim(claim: Obj, ctx: Context) -> Amounts:
    """Return the amounts that a volume claim uses, in total and under its storage class."""
    own: Amounts = {"persistentvolumeclaims": whole(1)}
    size = nested_field(claim, "spec", "resources", "requests", "storage")
    if size is not None:
        own["requests.storage"] = _allocated(claim, parse(size).round_up(0), ctx)
    name = class_of(claim)
    by_class = {f"{name}{_STORAGE_CLASS}{resource}": amount for resource, amount in own.items()} if name else {}
    return {"count/persistentvolumeclaims": whole(1), **own, **by_class}


def _allocated(claim: Obj, size: Quantity, ctx: Context) -> Quantity:
    """Return the size that a claim counts with: the requested or the allocated one, whichever is larger."""
    allocated = nested_field(claim, "status", "allocatedResources", "storage")
    if allocated is None or not ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]:
        return size
    return max(size, parse(allocated).round_up(0))


def _is_of_class(selector: Obj, claim: Obj) -> bool:
    """Report whether a volume claim is in the scope of attributes classes that it asks for, has or gets. Raises
    ScopeError."""
    if selector["scopeName"] != "VolumeAttributesClass":
        return False
    of_claim = nested_field(claim, "spec", "volumeAttributesClassName")
    status = claim.get("status") or {}
    target = nested_field(status, "modifyVolumeStatus", "targetVolumeAttributesClassName")
    names = [name for name in (of_claim, status.get("currentVolumeAttributesClassName"), target) if name]
    return any(selects(selector, name) for name in names or [""])


def _counts_status(claim: Obj, old: Obj, ctx: Context) -> bool:
    """Report whether what a claim's status says of its volume is counted again, as it is since 1.33."""
    return ctx.release >= V1_33 and ctx.gates[features.RECOVER_VOLUME_EXPANSION_FAILURE]


_MEASURED = {
    ("", "pods"): PODS,
    ("", "services"): Usage(_counts_services, _of_service, updates={"": always}),
    ("", "persistentvolumeclaims"): Usage(
        _counts_claims, _of_claim, _is_of_class, updates={"": always, "status": _counts_status}
    ),
    ("resource.k8s.io", "resourceclaims"): DEVICE_CLAIMS,
}
