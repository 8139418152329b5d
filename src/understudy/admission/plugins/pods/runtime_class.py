"""RuntimeClass: copy the overhead and the scheduling rules of runtime classes into pods."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import round_up_milli
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.names import path_segment_name


class RuntimeClass:
    """Copies overhead, node selector and tolerations of runtime classes into pods."""

    name = "RuntimeClass"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.CREATE, "", "pods", "")

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Copy overhead and scheduling of the runtime class. Raises 403 if the pod contradicts them."""
        spec, metadata = attributes.new["spec"], attributes.new["metadata"]
        name, runtime_class = spec.get("runtimeClassName"), _runtime_class(spec, ctx)
        if name is not None and runtime_class is None:
            _check_path(name)
            raise _forbidden(metadata, f"pod rejected: RuntimeClass {go_quote(name)} not found")
        overhead = nested_field(runtime_class, "overhead", "podFixed", default={})
        if nested_field(runtime_class, "overhead") is not None:
            if spec.get("overhead") and spec["overhead"] != overhead:
                raise _forbidden(metadata, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        if overhead:
            spec["overhead"] = {name: round_up_milli(amount) for name, amount in overhead.items()}
        _place(spec, metadata, nested_field(runtime_class, "scheduling", default={}))

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a pod with an overhead that its runtime class does not define."""
        spec = attributes.new["spec"]
        has_overhead = spec.get("overhead") or was_sent_empty(spec, "overhead")
        if has_overhead and nested_field(_runtime_class(spec, ctx), "overhead") is None:
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise _forbidden(attributes.new["metadata"], why)


def _check_path(name: str) -> None:
    """Raise 500 for a name that upstream's client cannot ask for."""
    if not name:
        raise errors.unknown_error("resource name may not be empty")
    if texts := path_segment_name(name, False):
        raise errors.unknown_error(f"invalid resource name {go_quote(name)}: [{' '.join(texts)}]")


def _forbidden(metadata: Obj, why: str) -> errors.StatusError:
    return errors.admission_forbidden("", "pods", metadata, why)


def _runtime_class(spec: Obj, ctx: Context) -> Obj | None:
    """Return the runtime class that a pod spec names, None if it names none or the class does not exist."""
    name = spec.get("runtimeClassName")
    return None if name is None else ctx.lookup("node.k8s.io", "runtimeclasses", "", name)


def _place(spec: Obj, metadata: Obj, scheduling: Obj) -> None:
    """Merge the node selector and the tolerations of a runtime class into a pod's spec. Raises 403 for a conflict."""
    required, stated = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in required.items():
        if stated.get(key, value) != value:
            theirs, ours = (f"{owner}.nodeSelector[{key}]" for owner in ("runtimeClass.scheduling", "pod.spec"))
            raise _forbidden(metadata, f"conflict: {theirs} = {value}; {ours} = {stated[key]}")
    if required:
        spec["nodeSelector"] = {**stated, **required}
    for toleration in scheduling.get("tolerations") or []:
        if toleration not in (spec.get("tolerations") or []):
            spec["tolerations"] = [*(spec.get("tolerations") or []), dict(toleration)]
