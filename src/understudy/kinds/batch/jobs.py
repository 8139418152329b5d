"""Validation of jobs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from understudy.kinds.apps import common
from understudy.kinds.apps.common import SPEC
from understudy.kinds.batch import job_policies
from understudy.kinds.common import label_selectors, objectmeta
from understudy.kinds.common.formats import choice, domain_path, nonnegative
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.validation import pod_warnings
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj, condition_is_true, nested_field
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported, required, too_long
from understudy.machinery.validation.names import dns_label_texts

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLD_UID_LABEL, OLD_NAME_LABEL = "controller-uid", "job-name"  # from before labels had prefixes

MOST_PARALLEL = MOST_FAILED = MANY = 100_000
MOST_WHEN_MANY = 10_000  # in parallel, or failed, of jobs with many completions
MANAGER_LENGTH = 63

_BATCH = "k8s.io/kubernetes/pkg/apis/batch"
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_INDEXED_ONLY = "requires indexed completion mode"


def create(job: Obj, ctx: Context) -> Errors:
    """Check a new Job (upstream: `ValidateJob`)."""
    return _job(job, None, ctx)


def update(job: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed job (upstream: `ValidateJobUpdate`).

    Up to 1.36 errors are reported twice, as upstream validates the object as a job, then as an update.
    """
    spec, before = job["spec"], old["spec"]
    errors = _whole_spec(spec, before, ctx)
    completions = spec.get("completions")
    if completions != before.get("completions"):
        if spec.get("completionMode") != "Indexed":
            errors += _immutable(spec, before, "completions", "")
        elif completions is not None and completions != spec.get("parallelism"):
            text = "can only be modified in tandem with spec.parallelism"
            errors.append(invalid(SPEC.child("completions"), completions, text))
    errors += _immutable(spec, before, "selector", "")
    errors += _same_template(job, old, ctx)
    kinds = {"podFailurePolicy": "PodFailurePolicy", "successPolicy": "SuccessPolicy"}
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        errors += _immutable(spec, before, name, kinds.get(name, ""))
    if ctx.release >= V1_37:
        return [*CORE.updated(job, old, ctx), *errors, *_pod_hostnames(job)]
    return [*CORE.created(job, ctx), *_job(job, old, ctx), *CORE.updated(job, old, ctx), *errors]


def _immutable(spec: Obj, old: Obj, name: str, kind: str) -> Errors:
    value: Any = spec.get(name)
    if value == old.get(name):
        return []
    if name == "selector":
        value = common.selector_value(value)
    elif kind and value is not None:
        value = Typed(value, f"{_BATCH}.{kind}")
    return [invalid(SPEC.child(name), value, objectmeta.IMMUTABLE)]


def _same_template(job: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that the template stays (upstream: `validatePodTemplateUpdate`).

    While a job is suspended and has no pods, the place where they will run and their resources can change.
    """
    template, before = job["spec"].get("template") or {}, deepcopy(old["spec"].get("template") or {})
    suspended, started = old["spec"].get("suspend"), nested_field(old, "status", "startTime")
    stopped = suspended and (not started or _has_stopped(old)) and not nested_field(old, "status", "active")
    movable = stopped if ctx.gates[features.MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS] else not started
    if suspended and movable:
        _take_scheduling(before, template)
    if stopped and ctx.gates[features.MUTABLE_POD_RESOURCES_FOR_SUSPENDED_JOBS]:
        spec, stored = template.get("spec") or {}, before.setdefault("spec", {})
        _take_resources(stored, spec)
        return _unchanged(spec, stored, "PodSpec", SPEC.child("template.spec"))
    return _unchanged(template, before, "PodTemplateSpec", SPEC.child("template"))


def _unchanged(value: Obj, before: Obj, kind: str, path: Path) -> Errors:
    if _cleaned(value) == _cleaned(before):
        return []
    return [invalid(path, Typed(value, f"k8s.io/kubernetes/pkg/apis/core.{kind}"), objectmeta.IMMUTABLE)]


def _has_stopped(job: Obj) -> bool:
    """Report whether the controller has seen that a job is suspended."""
    return condition_is_true(job, "Suspended")


def _take_resources(before: Obj, spec: Obj) -> None:
    """Give the stored containers the resources of the new ones, in place, where their names agree."""
    for kind in ("containers", "initContainers"):
        containers, stored = spec.get(kind) or [], before.get(kind) or []
        if len(containers) == len(stored):
            for container, old in zip(containers, stored, strict=True):
                if container.get("name") == old.get("name"):
                    old["resources"] = container.get("resources")


def _cleaned(value: Any) -> Any:
    """Remove null and empty lists, which are as if absent. An empty object is a pointer that is set."""
    if isinstance(value, dict):
        pairs = {k: _cleaned(v) for k, v in value.items()}
        return {k: v for k, v in pairs.items() if v not in (None, [])}
    return [_cleaned(v) for v in value] if isinstance(value, list) else value


def _take_scheduling(before: Obj, template: Obj) -> None:
    spec, pod_spec = before.setdefault("spec", {}), template.get("spec") or {}
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        spec[name] = pod_spec.get(name)
    metadata = before.setdefault("metadata", {})
    for name in ("annotations", "labels"):
        metadata[name] = nested_field(template, "metadata", name)
    affinity = {
        **(spec.get("affinity") or {}),
        "nodeAffinity": nested_field(pod_spec, "affinity", "nodeAffinity"),
    }
    is_set = pod_spec.get("affinity") is not None or any(value is not None for value in affinity.values())
    spec["affinity"] = affinity if is_set else None


def _job(job: Obj, old: Obj | None, ctx: Context) -> Errors:
    errors = _generated(job, old, ctx) + _whole_spec(job["spec"], (old or {}).get("spec"), ctx)
    return errors + _pod_hostnames(job)


def _pod_hostnames(job: Obj) -> Errors:
    """Check that the name of an indexed job leaves room for indexes (upstream: `validateNameAllowsCompletions`)."""
    spec, name = job["spec"], job["metadata"].get("name", "")
    completions = spec.get("completions") or 0
    longest = f"{name}-{completions - 1}"
    if spec.get("completionMode") != "Indexed" or completions <= 0 or not dns_label_texts(longest):
        return []
    text = f"will not able to create pod with invalid DNS label: {longest}"
    return [invalid(Path("metadata", "name"), name, text)]


def _generated(job: Obj, old: Obj | None, ctx: Context) -> Errors:
    """Check the selector and labels that the server generates and clients may have overwritten."""
    spec, metadata = job["spec"], job["metadata"]
    chosen = spec.get("selector")
    if spec.get("manualSelector") or chosen is None:
        return []
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    errors = [] if uid else [required(Path("metadata", "uid"))]
    expected = {OLD_UID_LABEL: uid, OLD_NAME_LABEL: name}
    stored = nested_field(old, "spec", "template", "metadata", "labels", default={})
    if old is None or (UID_LABEL in stored and NAME_LABEL in stored):
        expected |= {UID_LABEL: uid, NAME_LABEL: name}
    labels = nested_field(spec, "template", "metadata", "labels", default={})
    for key, value in expected.items():
        where = common.TEMPLATE.child("metadata", "labels").key(key)
        if key not in labels:
            errors.append(required(where, f"must be '{value}'"))
        elif labels[key] != value:
            bad_value = Typed(labels, "map[string]string")
            errors.append(invalid(where, bad_value, f"must be '{value}'"))
    if not common.unreadable(chosen) and not label_selectors.matches(chosen, expected):
        bad_value = common.selector_value(chosen)
        errors.append(invalid(SPEC.child("selector"), bad_value, "`selector` not auto-generated"))
    return errors


def _whole_spec(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    errors = validate_spec(spec, old, SPEC, ctx)
    chosen, where = spec.get("selector"), SPEC.child("selector")
    errors += label_selectors.validate(chosen, where) if chosen is not None else [required(where)]
    labels = nested_field(spec, "template", "metadata", "labels", default={})
    if not common.unreadable(chosen) and not label_selectors.matches(chosen, labels):
        errors += common.mismatch(spec.get("template"), common.TEMPLATE)
    return errors


def validate_spec(spec: Obj, old: Obj | None, path: Path, ctx: Context) -> Errors:
    """Check a JobSpec, of a job or in a cron job (upstream: `ValidateJobSpec`)."""
    errors = [error for name in _NUMBERS for error in nonnegative(spec.get(name), path.child(name))]
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
    errors += _manager(spec.get("managedBy"), path.child("managedBy"))
    mode = spec.get("completionMode")
    if mode is not None:
        errors += choice(mode, _MODES, path.child("completionMode"))
    if mode == "Indexed":
        errors += _indexed(spec, path)
    elif mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                errors.append(invalid(path.child(name), spec[name], _INDEXED_ONLY))
    errors += _policies(spec, path)
    errors += common.template(spec.get("template"), (old or {}).get("template"), ctx, path.child("template"))
    return errors + _restarts(spec, path.child("template", "spec", "restartPolicy"))


def _manager(value: str | None, path: Path) -> Errors:
    if value is None:
        return []
    errors = domain_path(value, path)
    return errors + ([too_long(path, MANAGER_LENGTH)] if len(value) > MANAGER_LENGTH else [])


def _indexed(spec: Obj, path: Path) -> Errors:
    completions, parallel, failed = (spec.get(n) for n in ("completions", "parallelism", "maxFailedIndexes"))
    most, errors = "must be less than or equal to", Errors()
    if completions is None:
        errors.append(required(path.child("completions"), "when completion mode is Indexed"))
    where = path.child("parallelism")
    if parallel is not None and parallel > MOST_PARALLEL:
        errors.append(invalid(where, parallel, f"{most} {MOST_PARALLEL} when completion mode is Indexed"))
    where_failed = path.child("maxFailedIndexes")
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(where_failed, failed, f"{most} completions"))
    if failed is not None and failed > MOST_FAILED:
        errors.append(invalid(where_failed, failed, f"{most} {MOST_FAILED}"))
    if (completions or 0) <= MANY or spec.get("backoffLimitPerIndex") is None:
        return errors
    text = f"{most} {MOST_WHEN_MANY} when completions are above {MANY} and used with backoff limit per index"
    if failed is None:
        errors.append(required(where_failed, f"must be specified when completions is above {MANY}"))
    if parallel is not None and parallel > MOST_WHEN_MANY:
        errors.append(invalid(where, parallel, text))
    if failed is not None and failed > MOST_WHEN_MANY:
        errors.append(invalid(where_failed, failed, text))
    return errors


def _policies(spec: Obj, path: Path) -> Errors:
    errors: Errors = []
    if spec.get("podFailurePolicy") is not None:
        errors += job_policies.failure(spec, path.child("podFailurePolicy"))
    policy, where = spec.get("successPolicy"), path.child("successPolicy")
    if policy is not None and spec.get("completionMode") == "Indexed":
        errors += job_policies.success(spec, where)
    elif policy is not None:
        errors.append(invalid(where, Typed(policy, f"{_BATCH}.SuccessPolicy"), _INDEXED_ONLY))
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None:
        allowed = ["Failed"] if spec.get("podFailurePolicy") is not None else ["Failed", "TerminatingOrFailed"]
        errors += choice(replacement, allowed, path.child("podReplacementPolicy"))
    return errors


def _restarts(spec: Obj, path: Path) -> Errors:
    policy = nested_field(spec, "template", "spec", "restartPolicy", default="")
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ["OnFailure", "Never"])]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def warn(spec: Obj, path: Path, ctx: Context) -> None:
    """Warn of mistakes in a JobSpec (upstream: `WarningsForJobSpec`)."""
    many = (spec.get("completions") or 0) > MANY and (spec.get("parallelism") or 0) > MOST_WHEN_MANY
    if spec.get("completionMode") == "Indexed" and many:
        ctx.warn(
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
            "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    pod_warnings.template(spec.get("template"), path.child("template"), ctx)
