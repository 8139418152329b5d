"""JobValidation: keep the parallelism of jobs whose pods are scheduled all together or not at all."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.types import Obj, controller_of, nested_field

_GROUPS = ("scheduling.k8s.io", "podgroups")
_JOBS = ("batch", "jobs")


class JobValidation:
    """Refuses a change of the parallelism of a job that has a group of pods under the policy `gang`."""

    name = "JobValidation"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.UPDATE, *_JOBS, "")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 if the parallelism changes while GenericWorkload is on and a gang is of the job."""
        job, old = attributes.new, attributes.old
        if not ctx.gates[features.GENERIC_WORKLOAD] or job["spec"].get("parallelism") == old["spec"].get("parallelism"):
            return
        for group in _groups_of(old, ctx):
            if nested_field(group, "spec", "schedulingPolicy", "gang") is not None:
                name = go_quote(group["metadata"]["name"])
                why = f"cannot change parallelism for a Job referencing gang-scheduled PodGroup {name}"
                raise errors.admission_forbidden(*_JOBS, job["metadata"], why)


def _groups_of(job: Obj, ctx: Context) -> list[Obj]:
    """Return the group that the template of a job names, or else those that the job controls."""
    metadata = job["metadata"]
    name = nested_field(job, "spec", "template", "spec", "schedulingGroup", "podGroupName")
    if name is not None:
        group = ctx.lookup(*_GROUPS, metadata["namespace"], name)
        return [] if group is None else [group]
    groups = ctx.listing(*_GROUPS, metadata["namespace"])
    return [g for g in groups if (owner := controller_of(g)) is not None and owner["uid"] == metadata["uid"]]
