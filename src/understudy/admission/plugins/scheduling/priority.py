"""Priority: resolve the priority class of pods to a number, and allow only one default class."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.types import Obj

_CLASSES = ("scheduling.k8s.io", "priorityclasses")


class Priority:
    """Resolves the priority class of pods, and refuses a second default class."""

    name = "Priority"

    def handles(self, point: Point) -> bool:
        writes = point.operation in (Operation.CREATE, Operation.UPDATE)
        return writes and point[1:4] in (("", "pods", ""), (*_CLASSES, ""))

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Fill in a pod's priority. Raises 403 if its class is unknown or the pod states another value."""
        if attributes.point.resource != "pods":
            return
        if attributes.point.operation == Operation.CREATE:
            _resolve(attributes.new, ctx)
        else:
            _keep(attributes.new, attributes.old)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a second priority class that is the default."""
        if attributes.point.resource == "pods" or not attributes.new.get("globalDefault"):
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
    value, policy = 0, "PreemptLowerPriority"
    name = spec.get("priorityClassName")
    priority_class = ctx.lookup(*_CLASSES, "", name) if name else _default_class(ctx)
    if name and priority_class is None:
        raise errors.admission_forbidden("", "pods", metadata, f"no PriorityClass with name {name} was found")
    if priority_class is not None:
        spec["priorityClassName"] = priority_class["metadata"]["name"]
        value, policy = priority_class.get("value", 0), priority_class.get("preemptionPolicy", "")
    _set(metadata, spec, "priority", value, "the integer value of priority")
    if policy:
        _set(metadata, spec, "preemptionPolicy", policy, "the string value of PreemptionPolicy")


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
