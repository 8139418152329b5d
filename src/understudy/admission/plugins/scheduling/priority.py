"""Priority: resolve the priority class of pods, and of their groups, to a number, and allow only one default class."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj

_GROUP = "scheduling.k8s.io"
_CLASSES = (_GROUP, "priorityclasses")
# What groups of pods are called in errors, with the gate that they need; since 1.37 they have a priority.
_GROUPS = {
    "podgroups": ("pod group", features.GENERIC_WORKLOAD),
    "compositepodgroups": ("composite pod group", features.COMPOSITE_POD_GROUP),
}


class Priority:
    """Resolves the priority class of pods and of groups of them, and refuses a second default class."""

    name = "Priority"

    def handles(self, point: Point) -> bool:
        writes = point.operation in (Operation.CREATE, Operation.UPDATE)
        if point.group == _GROUP and point.resource in _GROUPS:
            return point.operation == Operation.CREATE and not point.subresource
        return writes and point[1:4] in (("", "pods", ""), (*_CLASSES, ""))

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Fill in a pod's priority. Raises 403 if its class is unknown or the pod states another value."""
        resource = attributes.point.resource
        if resource in _GROUPS:
            if ctx.release >= V1_37:
                _resolve_group(resource, attributes.new, ctx)
            return
        if resource != "pods":
            return
        if attributes.point.operation == Operation.CREATE:
            _resolve(attributes.new, ctx)
        else:
            _keep(attributes.new, attributes.old)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a second priority class that is the default."""
        if attributes.point.resource != _CLASSES[1] or not attributes.new.get("globalDefault"):
            return
        metadata = attributes.new["metadata"]
        for other in ctx.listing(*_CLASSES, ""):
            name = other["metadata"]["name"]
            if other.get("globalDefault") and name != metadata.get("name"):
                why = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise errors.admission_forbidden(*_CLASSES, metadata, why)


def _keep(pod: Obj, old: Obj) -> None:
    """Keep the values that were resolved on create if an update leaves them out."""
    for name in ("priority", "preemptionPolicy"):
        if pod["spec"].get(name) is None and old["spec"].get(name) is not None:
            pod["spec"][name] = old["spec"][name]


def _resolve(pod: Obj, ctx: Context) -> None:
    """Write the priority and the preemption policy of a pod's class into the pod. Raises 403."""
    spec, metadata = pod["spec"], pod["metadata"]
    value, policy = _priority_of("", "pods", pod, ctx)
    _set(metadata, spec, "priority", value, "the integer value of priority")
    if policy:
        _set(metadata, spec, "preemptionPolicy", policy, "the string value of PreemptionPolicy")


def _priority_of(group: str, resource: str, obj: Obj, ctx: Context) -> tuple[int, str]:
    """Return the priority and preemption policy of the class that an object names, or of the default class, whose name
    it gets. Raises 403 for an unknown class."""
    spec = obj["spec"]
    name = spec.get("priorityClassName")
    named = ctx.lookup(*_CLASSES, "", name) if name else _default_class(ctx)
    if named is not None:
        spec["priorityClassName"] = named["metadata"]["name"]
        return named.get("value", 0), named.get("preemptionPolicy", "")
    if name:
        why = f"no PriorityClass with name {name} was found"
        raise errors.admission_forbidden(group, resource, obj["metadata"], why)
    return 0, "PreemptLowerPriority"


def _resolve_group(resource: str, group: Obj, ctx: Context) -> None:
    """Write the priority and the preemption policy of a group's class into the group. Raises 403."""
    called, gate = _GROUPS[resource]
    if not ctx.gates[gate]:
        return
    spec, metadata = group["spec"], group["metadata"]
    value, policy = _priority_of(_GROUP, resource, group, ctx)
    if spec.get("priority") not in (None, value):
        why = f"priority set in the {called} ({spec['priority']}) must match the priority computed ({value})"
        why += " based on the priority class set in the spec"
        raise errors.admission_forbidden(_GROUP, resource, metadata, why)
    spec["priority"] = value
    if ctx.gates[features.POD_GROUP_PREEMPTION_POLICY] and policy:
        if spec.get("preemptionPolicy") not in (None, policy):
            rule = f"must not be provided in {called} spec; priority admission controller computed"
            why = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) {rule} {policy}"
            raise errors.admission_forbidden(_GROUP, resource, metadata, f"{why} from the given PriorityClass name")
        spec["preemptionPolicy"] = policy


def _default_class(ctx: Context) -> Obj | None:
    """Return the priority class of pods that name none; among several defaults, the one with the lowest value."""
    classes = [c for c in ctx.listing(*_CLASSES, "") if c.get("globalDefault")]
    return min(classes, key=lambda c: int(c.get("value", 0)), default=None)


def _set(metadata: Obj, spec: Obj, field: str, value: int | str, description: str) -> None:
    """Set a field of the spec. Raises 403 if the pod states another value."""
    stated = spec.get(field)
    if stated is not None and stated != value:
        rule = "must not be provided in pod spec; priority admission controller computed"
        why = f"{description} ({stated}) {rule} {value} from the given PriorityClass name"
        raise errors.admission_forbidden("", "pods", metadata, why)
    spec[field] = value
