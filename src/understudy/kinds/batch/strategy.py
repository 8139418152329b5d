"""Jobs and cron jobs: defaults, strategies, table cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from understudy.kinds.apps import common
from understudy.kinds.batch import cron_jobs, job_status, jobs
from understudy.kinds.common.compose import all_of
from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, age, containers, human_duration, name, selector, since, true_false
from understudy.kinds.context import Context
from understudy.kinds.core.pods import pod_defaults, pod_disabled_fields
from understudy.kinds.declarations.kind import Behavior
from understudy.kinds.declarations.strategies import create_steps, resource_strategy, status_strategy, update_steps
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, default_if_nil, nested_field
from understudy.machinery.util.clock import parse_timestamp
from understudy.machinery.validation.field import Path

UID_LABELS = (jobs.UID_LABEL, jobs.OLD_UID_LABEL)
NAME_LABELS = (jobs.NAME_LABEL, jobs.OLD_NAME_LABEL)
_POD_OF_CRON = ("spec", "jobTemplate", "spec", "template", "spec")

# The warning for a job that is deleted without a propagation policy.
PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


def _completions(job: Obj) -> str:
    """Return the completions cell of a job: `1/3`, `0/1 of 2`."""
    done = nested_field(job, "status", "succeeded", default=0)
    expected, parallel = nested_field(job, "spec", "completions"), nested_field(job, "spec", "parallelism", default=0)
    if expected is not None:
        return f"{done}/{expected}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: Obj, now: float) -> str:
    """Return the duration of a job."""
    start, end = nested_field(job, "status", "startTime"), nested_field(job, "status", "completionTime")
    if not start:
        return ""
    return human_duration(parse_timestamp(end) - parse_timestamp(start)) if end else since(start, now)


# Conditions that are the status of a job if nothing else is.
_LESSER_CONDITIONS = ByRelease(
    {V1_34: ("Suspended", "FailureTarget", "SuccessCriteriaMet"), V1_31: ("Suspended", "FailureTarget")}
)


def _state(job: Obj, version: Version) -> str:
    """Return the status cell of a job (upstream: `printJob`)."""
    conditions: dict[str, str] = {}
    for condition in nested_field(job, "status", "conditions", default=[]):
        conditions.setdefault(condition["type"], condition.get("status", ""))
    states = {
        "Complete": conditions.get("Complete") == "True",
        "Failed": conditions.get("Failed") == "True",
        "Terminating": bool(nested_field(job, "metadata", "deletionTimestamp")),
        **{name: conditions.get(name) == "True" for name in _LESSER_CONDITIONS[version]},
    }
    return next((state for state, is_true in states.items() if is_true), "Running")


def _pod_cells(job_spec: Obj | None) -> list[Any]:
    """Return the cells that describe a job's pods: containers, images, selector."""
    return [*containers(nested_field(job_spec, "template", "spec")), selector(nested_field(job_spec, "selector"))]


def _job_row(job: Obj, now: float, version: Version) -> list[Any]:
    """Return the cells of a job."""
    cells = [_state(job, version), _completions(job), _duration(job, now), age(job, now)]
    return [name(job), *cells, *_pod_cells(job.get("spec"))]


def _cron_job_row(cron: Obj, now: float) -> list[Any]:
    """Return the cells of a cron job."""
    spec, last = cron.get("spec", {}), nested_field(cron, "status", "lastScheduleTime")
    return [
        name(cron),
        spec.get("schedule", ""),
        nested_field(spec, "timeZone", default=NONE),
        true_false(spec.get("suspend")),
        len(nested_field(cron, "status", "active", default=())),
        since(last, now) if last else NONE,
        age(cron, now),
        *_pod_cells(nested_field(spec, "jobTemplate", "spec")),
    ]


def _default_job(job: Obj, ctx: Context) -> None:
    """Set the defaults of a job, in place (upstream: `SetDefaults_Job`)."""
    spec = job.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    default_if_nil(spec, "parallelism", 1)
    default_if_nil(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    template_labels = nested_field(spec, "template", "metadata", "labels")
    if template_labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = template_labels  # the same object, as in the real server: see _generate_selector
    default_if_nil(spec, "completionMode", "NonIndexed")
    default_if_nil(spec, "suspend", False)
    policy = spec.get("podFailurePolicy")
    _default_patterns(policy)
    if ctx.gates[features.JOB_POD_REPLACEMENT_POLICY]:
        default_if_nil(spec, "podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    default_if_nil(spec, "manualSelector", False)
    pod_defaults.template(spec.get("template"), ctx.gates)


def _default_cron_job(cron: Obj, ctx: Context) -> None:
    """Set the defaults of a cron job, in place (upstream: `SetDefaults_CronJob`)."""
    spec = cron.setdefault("spec", {})
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    for key, value in {"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}.items():
        default_if_nil(spec, key, value)
    if _DEFAULTS_PATTERNS[ctx.release]:
        _default_patterns(nested_field(spec, "jobTemplate", "spec", "podFailurePolicy"))
    pod_defaults.template(nested_field(spec, "jobTemplate", "spec", "template"), ctx.gates)


def _default_patterns(policy: Obj | None) -> None:
    """Set the status of the conditions of pods that a pod failure policy names, in place."""
    for rule in nested_field(policy, "rules", default=[]):
        for pattern in rule.get("onPodConditions") or []:
            pattern["status"] = pattern.get("status") or "True"


_DEFAULTS_PATTERNS = ByRelease({V1_34: True, V1_31: False})  # of cron jobs


def _generate_selector(job: Obj, ctx: Context) -> None:
    """Label the pods of a job and select by its uid, unless it manages its selector (upstream: `generateSelector`)."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template_labels = template.get("labels")
    pod_labels = dict(template_labels or {})
    for keys, value in ((NAME_LABELS, metadata.get("name", "")), (UID_LABELS, metadata.get("uid", ""))):
        for key in keys:
            pod_labels.setdefault(key, value)
    template["labels"] = pod_labels
    shares_empty = was_sent_empty(template, "labels") and not metadata.get("labels")
    if shares_empty or (template_labels and metadata.get("labels") is template_labels):
        metadata["labels"] = dict(pod_labels)
    chosen = spec.get("selector") or {}
    labels = chosen.get("matchLabels") or {}
    if UID_LABELS[0] not in labels:
        labels = {**labels, UID_LABELS[0]: metadata.get("uid", "")}
    spec["selector"] = {**chosen, "matchLabels": labels}


def _copy_template_labels(job: Obj, ctx: Context) -> None:
    """Give a valid job without labels those of its template: the defaults apply again to the stored object."""
    template_labels = nested_field(job, "spec", "template", "metadata", "labels")
    if template_labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(template_labels)


def _drop_rules_with_fail_index(job: Obj) -> None:
    """Drop the rules of a pod failure policy that fail an index."""
    if policy := job["spec"].get("podFailurePolicy"):
        policy["rules"] = [rule for rule in policy.get("rules") or () if rule.get("action") != "FailIndex"]


_CRON_GUARDS = (field_guard(features.WORKLOAD_WITH_JOB, "spec", "jobTemplate", "spec", "scheduling"),)
_JOB_GUARDS = (
    field_guard(features.JOB_SUCCESS_POLICY, "spec", "successPolicy"),
    field_guard(features.JOB_BACKOFF_LIMIT_PER_INDEX, "spec", "backoffLimitPerIndex"),
    field_guard(features.JOB_BACKOFF_LIMIT_PER_INDEX, "spec", "maxFailedIndexes"),
    field_guard(features.JOB_POD_REPLACEMENT_POLICY, "spec", "podReplacementPolicy"),
    field_guard(features.WORKLOAD_WITH_JOB, "spec", "scheduling"),
)
# Fields that validation does not let change are dropped from new jobs only.
_NEW_JOB_GUARDS = (
    *_JOB_GUARDS,
    field_guard(features.JOB_MANAGED_BY, "spec", "managedBy"),
    Guard(features.JOB_BACKOFF_LIMIT_PER_INDEX, lambda job: False, _drop_rules_with_fail_index),
)


def _drop(job: Obj, ctx: Context) -> None:
    """Drop disabled fields of a new job."""
    drop_disabled_fields(_NEW_JOB_GUARDS, job, None, ctx.gates)
    pod_disabled_fields.drop_template_fields(job, None, ctx)


def _drop_update(job: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of an updated job."""
    drop_disabled_fields(_JOB_GUARDS, job, old, ctx.gates)
    pod_disabled_fields.drop_template_fields(job, old, ctx)


def _drop_cron(cron: Obj, ctx: Context) -> None:
    """Drop disabled fields of a new cron job."""
    drop_disabled_fields(_CRON_GUARDS, cron, None, ctx.gates)
    pod_disabled_fields.drop_spec(nested_field(cron, *_POD_OF_CRON), None, ctx.gates)


def _drop_cron_update(cron: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of an updated cron job."""
    drop_disabled_fields(_CRON_GUARDS, cron, old, ctx.gates)
    pod_disabled_fields.drop_spec(nested_field(cron, *_POD_OF_CRON), nested_field(old, *_POD_OF_CRON), ctx.gates)


def _warn(job: Obj, ctx: Context) -> None:
    """Warn of doubtful fields of a job."""
    jobs.warn(job["spec"], Path("spec"), ctx)


def _if_generation_changed(warn: Callable[[Obj, Context], None]) -> Callable[[Obj, Obj, Context], None]:
    """Return a warning of updates that calls `warn` if the generation has changed."""

    def rule(obj: Obj, old: Obj, ctx: Context) -> None:
        if obj["metadata"].get("generation") != old["metadata"].get("generation"):
            warn(obj, ctx)

    return rule


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {("batch", "Job"): _jobs(version), ("batch", "CronJob"): _cron_jobs()}


def _jobs(version: Version) -> Behavior:
    return Behavior(
        defaults=_default_job,
        defaults_labels=True,
        strategy=resource_strategy(
            "batch",
            "v1",
            "Job",
            _generate_selector,
            _drop,
            prepare_update=_drop_update,
            validate=jobs.create,
            validate_update=jobs.update,
            canonicalize=_copy_template_labels,
            warn_create=create_steps(common.warn_of_hostname, _warn),
            warn_update=_if_generation_changed(_warn),
            generation=True,
        ),
        status=status_strategy(validate_update=all_of(CORE.updated, job_status.validate)),
        selectable={"status.successful": lambda job: str(nested_field(job, "status", "succeeded", default=0))},
        table_row=partial(_job_row, version=version),
        default_gc_policy="Orphan",
        orphan_warning=PRESERVED,
        unknown_field='field label "{label}" not supported for Job',
    )


def _cron_jobs() -> Behavior:
    return Behavior(
        defaults=_default_cron_job,
        strategy=resource_strategy(
            "batch",
            "v1",
            "CronJob",
            _drop_cron,
            prepare_update=_drop_cron_update,
            validate=cron_jobs.create,
            validate_update=all_of(CORE.updated, cron_jobs.update),
            warn_create=create_steps(common.warn_of_hostname, cron_jobs.warn),
            warn_update=update_steps(
                _if_generation_changed(cron_jobs.warn), lambda obj, old, ctx: cron_jobs.warn_of_zone(obj, ctx)
            ),
            generation=True,
        ),
        status=status_strategy(),
        table_row=_cron_job_row,
    )
