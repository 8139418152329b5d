"""Jobs and cron jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation.apps import common
from understudy.admission.validation.batch import cron_jobs, job_status, jobs
from understudy.admission.validation.compose import all_of
from understudy.admission.validation.objectmeta import CORE
from understudy.apiserver.kinds.common import main, status, steps, update_steps
from understudy.apiserver.kinds.core import pod_defaults, pod_disabled_fields
from understudy.apiserver.kinds.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.apiserver.kinds.printers import (
    NONE,
    age,
    containers,
    human_duration,
    name,
    selector,
    since,
    true_false,
)
from understudy.apiserver.registry.kind import Behavior
from understudy.machinery.clock import parse_timestamp
from understudy.machinery.releases import features
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, at, set_absent
from understudy.machinery.validation.field import Path

UID_LABELS = (jobs.UID_LABEL, jobs.OLD_UID_LABEL)
NAME_LABELS = (jobs.NAME_LABEL, jobs.OLD_NAME_LABEL)
_POD_OF_CRON = ("spec", "jobTemplate", "spec", "template", "spec")

# Who deletes a job without saying what becomes of its pods is told that they stay.
PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


def _completions(job: Obj) -> str:
    done = at(job, "status", "succeeded", default=0)
    wanted, parallel = at(job, "spec", "completions"), at(job, "spec", "parallelism", default=0)
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Obj, now: float) -> str:
    start, end = at(job, "status", "startTime"), at(job, "status", "completionTime")
    if not start:
        return ""
    return human_duration(parse_timestamp(end) - parse_timestamp(start)) if end else since(start, now)


def _state(job: Obj) -> str:
    conditions: dict[str, str] = {}
    for condition in at(job, "status", "conditions", default=[]):
        conditions.setdefault(condition["type"], condition.get("status", ""))
    states = {
        "Complete": conditions.get("Complete") == "True",
        "Failed": conditions.get("Failed") == "True",
        "Terminating": bool(at(job, "metadata", "deletionTimestamp")),
        "Suspended": conditions.get("Suspended") == "True",
        "FailureTarget": conditions.get("FailureTarget") == "True",
    }
    return next((state for state, there in states.items() if there), "Running")


def _pods(job_spec: Obj | None) -> list[Any]:
    return [*containers(at(job_spec, "template", "spec")), selector(at(job_spec, "selector"))]


def _job_row(job: Obj, now: float) -> list[Any]:
    return [name(job), _state(job), _completions(job), _duration(job, now), age(job, now), *_pods(job.get("spec"))]


def _cron_job_row(cron: Obj, now: float) -> list[Any]:
    spec, last = cron.get("spec", {}), at(cron, "status", "lastScheduleTime")
    return [
        name(cron),
        spec.get("schedule", ""),
        at(spec, "timeZone", default=NONE),
        true_false(spec.get("suspend")),
        len(at(cron, "status", "active", default=())),
        since(last, now) if last else NONE,
        age(cron, now),
        *_pods(at(spec, "jobTemplate", "spec")),
    ]


def _default_job(job: Obj, ctx: Context) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    set_absent(spec, "parallelism", 1)
    set_absent(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    found = at(spec, "template", "metadata", "labels")
    if found and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = found  # one map for both, as the real server has it: see _select_by_uid
    set_absent(spec, "completionMode", "NonIndexed")
    set_absent(spec, "suspend", False)
    policy = spec.get("podFailurePolicy")
    for rule in at(policy, "rules", default=[]):
        for pattern in rule.get("onPodConditions") or []:
            pattern["status"] = pattern.get("status") or "True"
    if ctx.gates[features.JOB_POD_REPLACEMENT_POLICY]:
        set_absent(spec, "podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    set_absent(spec, "manualSelector", False)
    pod_defaults.template(spec.get("template"), ctx.gates)


def _default_cron_job(cron: Obj, ctx: Context) -> None:
    spec = cron.setdefault("spec", {})
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    for key, value in {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}.items():
        set_absent(spec, key, value)
    pod_defaults.template(at(spec, "jobTemplate", "spec", "template"), ctx.gates)


def _select_by_uid(job: Obj, ctx: Context) -> None:
    """Gives the job's pods labels of their own and selects by one of them, unless the job manages its selector."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    given = template.get("labels")
    found = dict(given or {})
    for keys, value in ((NAME_LABELS, metadata.get("name", "")), (UID_LABELS, metadata.get("uid", ""))):
        for key in keys:
            found.setdefault(key, value)
    template["labels"] = found
    if given and metadata.get("labels") is given:
        metadata["labels"] = dict(found)
    chosen = spec.get("selector") or {}
    labels = chosen.get("matchLabels") or {}
    if UID_LABELS[0] not in labels:
        labels = {**labels, UID_LABELS[0]: metadata.get("uid", "")}
    spec["selector"] = {**chosen, "matchLabels": labels}


def _label(job: Obj, ctx: Context) -> None:
    """A job without labels has those of its template, once valid: the defaults apply again to what is stored."""
    found = at(job, "spec", "template", "metadata", "labels")
    if found and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(found)


def _drop_rules_with_fail_index(job: Obj) -> None:
    """Drop the rules of a pod failure policy that fail an index."""
    if policy := job["spec"].get("podFailurePolicy"):
        policy["rules"] = [rule for rule in policy.get("rules") or () if rule.get("action") != "FailIndex"]


_JOB_GUARDS = (
    field_guard(features.JOB_SUCCESS_POLICY, "spec", "successPolicy"),
    field_guard(features.JOB_BACKOFF_LIMIT_PER_INDEX, "spec", "backoffLimitPerIndex"),
    field_guard(features.JOB_BACKOFF_LIMIT_PER_INDEX, "spec", "maxFailedIndexes"),
    field_guard(features.JOB_POD_REPLACEMENT_POLICY, "spec", "podReplacementPolicy"),
)
# Fields that validation does not let change are dropped from new jobs only.
_NEW_JOB_GUARDS = (
    *_JOB_GUARDS,
    field_guard(features.JOB_MANAGED_BY, "spec", "managedBy"),
    Guard(features.JOB_BACKOFF_LIMIT_PER_INDEX, lambda job: False, _drop_rules_with_fail_index),
)


def _drop(job: Obj, ctx: Context) -> None:
    drop_disabled_fields(_NEW_JOB_GUARDS, job, None, ctx.gates)
    pod_disabled_fields.drop_template_fields(job, None, ctx)


def _drop_update(job: Obj, old: Obj, ctx: Context) -> None:
    drop_disabled_fields(_JOB_GUARDS, job, old, ctx.gates)
    pod_disabled_fields.drop_template_fields(job, old, ctx)


def _drop_cron(cron: Obj, ctx: Context) -> None:
    pod_disabled_fields.drop_spec(at(cron, *_POD_OF_CRON), None, ctx.gates)


def _drop_cron_update(cron: Obj, old: Obj, ctx: Context) -> None:
    pod_disabled_fields.drop_spec(at(cron, *_POD_OF_CRON), at(old, *_POD_OF_CRON), ctx.gates)


def _warn(job: Obj, ctx: Context) -> None:
    jobs.warn(job["spec"], Path("spec"), ctx)


def _when_changed(warn: Callable[[Obj, Context], None]) -> Callable[[Obj, Obj, Context], None]:
    def rule(obj: Obj, old: Obj, ctx: Context) -> None:
        if obj["metadata"].get("generation") != old["metadata"].get("generation"):
            warn(obj, ctx)

    return rule


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """By (group, kind)."""
    return {("batch", "Job"): _jobs(), ("batch", "CronJob"): _cron_jobs()}


def _jobs() -> Behavior:
    return Behavior(
        defaults=_default_job,
        strategy=main(
            "batch",
            "v1",
            "Job",
            _select_by_uid,
            _drop,
            prepare_update=_drop_update,
            validate=jobs.create,
            validate_update=jobs.update,
            canonicalize=_label,
            warn_create=steps(common.warn_of_hostname, _warn),
            warn_update=_when_changed(_warn),
            generation=True,
        ),
        status=status(validate_update=all_of(CORE.updated, job_status.validate)),
        selectable={"status.successful": lambda job: str(at(job, "status", "succeeded", default=0))},
        table_row=_job_row,
        default_gc_policy="Orphan",
        orphan_warning=PRESERVED,
        unknown_field='field label "{label}" not supported for Job',
    )


def _cron_jobs() -> Behavior:
    return Behavior(
        defaults=_default_cron_job,
        strategy=main(
            "batch",
            "v1",
            "CronJob",
            _drop_cron,
            prepare_update=_drop_cron_update,
            validate=cron_jobs.create,
            validate_update=all_of(CORE.updated, cron_jobs.update),
            warn_create=steps(common.warn_of_hostname, cron_jobs.warn),
            warn_update=update_steps(
                _when_changed(cron_jobs.warn), lambda obj, old, ctx: cron_jobs.warn_of_zone(obj, ctx)
            ),
            generation=True,
        ),
        status=status(),
        table_row=_cron_job_row,
    )
