"""PodGroupProtection and PodGroupWorkloadExists: keep groups of pods while pods use them, and refuse those of unknown
workloads."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import nested_field

FINALIZER = "scheduling.k8s.io/podgroup-protection"
_GROUPS = ("scheduling.k8s.io", "podgroups")


def _creates_group(point: Point) -> bool:
    return point[:4] == (Operation.CREATE, *_GROUPS, "")


class PodGroupProtection:
    """Adds a finalizer to new groups of pods."""

    name = "PodGroupProtection"

    def handles(self, point: Point) -> bool:
        return _creates_group(point)

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add the finalizer if the group does not have it yet."""
        metadata = attributes.new["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, FINALIZER]


class PodGroupWorkloadExists:
    """Refuses groups of pods that refer to a template of a workload which does not have it."""

    name = "PodGroupWorkloadExists"

    def handles(self, point: Point) -> bool:
        return _creates_group(point)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a workload that is missing or being deleted, or lacks the template."""
        reference = nested_field(attributes.new, "spec", "podGroupTemplateRef", "workload")
        if reference is None:
            return
        name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
        workload = ctx.lookup(_GROUPS[0], "workloads", attributes.namespace, name)
        if workload is None:
            why = f"Workload {go_quote(name)} not found"
        elif "deletionTimestamp" in workload["metadata"]:
            why = f"Workload {go_quote(name)} is being deleted"
        elif any(t.get("name") == template for t in nested_field(workload, "spec", "podGroupTemplates", default=())):
            return
        else:
            why = f"PodGroupTemplate {go_quote(template)} not found in Workload {go_quote(name)}"
        raise errors.admission_forbidden(*_GROUPS, attributes.new["metadata"], f"PodGroup rejected: {why}")
