"""Validation of a job's status: what no controller may write.

A rule about some fields applies when one of them changes, so that an object that once broke it can still be updated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.kinds.apps.common import STATUS
from understudy.kinds.batch.job_policies import IndexesError, count_indexes, overlap, without_value
from understudy.kinds.common.formats import nonnegative
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, V1_36, ByRelease, Version
from understudy.machinery.types import Obj, dataclass, nested_field
from understudy.machinery.validation.bad_values import Stringer, TextByRelease, Typed
from understudy.machinery.validation.field import Errors, FieldError, Path, duplicate, invalid, required

_TOO_EARLY = TextByRelease(
    ByRelease({V1_34: "must be equal to or after `startTime`", V1_31: "completionTime cannot be set before startTime"})
)
_UNCOUNTED = TextByRelease(
    ByRelease(
        {V1_34: "must be empty for finished job", V1_31: "uncountedTerminatedPods needs to be empty for finished job"}
    )
)
_COMPLETED = TextByRelease(ByRelease({V1_34: IMMUTABLE, V1_31: "completionTime cannot be mutated"}))
_CONDITIONS = STATUS.child("conditions")


@dataclass(frozen=True, slots=True)
class _Status:
    """A status and its conditions."""

    spec: Obj
    status: Obj
    version: Version

    def true(self, kind: str) -> bool:
        return self.has(kind, "True")

    def has(self, kind: str, value: str) -> bool:
        conditions = self.status.get("conditions") or ()
        return any(c.get("type") == kind and c.get("status") == value for c in conditions)

    @property
    def finished(self) -> bool:
        return self.true("Complete") or self.true("Failed")

    def get(self, name: str) -> Any:
        return self.finished if name == "finished" else self.true(name) if name[0].isupper() else self.status.get(name)


def _of(job: Obj, version: Version) -> _Status:
    return _Status(job["spec"], job.get("status") or {}, version)


def validate(job: Obj, old: Obj, ctx: Context) -> Errors:
    """Check an update of the status (upstream: `ValidateJobUpdateStatus`)."""
    new, before = _of(job, ctx.release), _of(old, ctx.release)
    errors = [
        error
        for name in ("active", "succeeded", "failed", "ready", "terminating")
        for error in nonnegative(new.status.get(name), STATUS.child(name))
    ]
    errors += _uncounted(new.status.get("uncountedTerminatedPods") or {})
    if ctx.gates[features.JOB_MANAGED_BY]:
        for watched, rule in _RULES:
            if any(new.get(name) != before.get(name) for name in watched):
                errors += rule(new)
    errors += _success(new)
    if ctx.gates[features.JOB_MANAGED_BY]:
        errors += _transitions(new, before)
    if before.true("SuccessCriteriaMet") and not new.true("SuccessCriteriaMet"):
        errors.append(without_value(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition"))
    if before.true("Complete") and not before.true("SuccessCriteriaMet") and new.true("SuccessCriteriaMet"):
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(without_value(_CONDITIONS, text))
    return errors


def _uncounted(pods: Obj) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        for i, uid in enumerate(pods.get(name) or ()):
            where = STATUS.child("uncountedTerminatedPods", name).index(i)
            if not uid:
                errors.append(invalid(where, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(where, uid))
            seen.add(uid)
    return errors


def _both(one: str, other: str, text: str) -> Callable[[_Status], Errors]:
    return lambda new: [without_value(_CONDITIONS, text)] if new.true(one) and new.true(other) else []


def _alone(one: str, other: str, text: str) -> Callable[[_Status], Errors]:
    return lambda new: [without_value(_CONDITIONS, text)] if new.true(one) and not new.true(other) else []


def _time(value: str) -> Stringer:
    """Return a time as a bad value."""
    return Stringer(f"{value[:10]} {value[11:19]} +0000 UTC", value)


def _completion(new: _Status) -> Errors:
    time, where = new.status.get("completionTime"), STATUS.child("completionTime")
    if time and not new.true("Complete"):
        return [invalid(where, _time(time), "cannot set completionTime when there is no Complete=True condition")]
    return []


def _completion_needed(new: _Status) -> Errors:
    if new.status.get("completionTime") or not new.true("Complete"):
        return []
    return [required(STATUS.child("completionTime"), "completionTime is required for Complete jobs")]


def _order(new: _Status) -> Errors:
    start, end = new.status.get("startTime"), new.status.get("completionTime")
    if not start or not end or end >= start:
        return []
    return [invalid(STATUS.child("completionTime"), _time(end), _TOO_EARLY)]


def _finished(name: str) -> Callable[[_Status], Errors]:
    def rule(new: _Status) -> Errors:
        number = new.status.get(name) or 0
        if number > 0 and new.finished:
            return [invalid(STATUS.child(name), number, f"{name}>0 is invalid for finished job")]
        return []

    return rule


def _start(new: _Status) -> Errors:
    never_ran = new.version >= V1_33 and new.spec.get("suspend") and new.spec.get("completions") == 0
    if new.status.get("startTime") or not new.finished or never_ran:
        return []
    return [required(STATUS.child("startTime"), "startTime is required for finished job")]


def _all_counted(new: _Status) -> Errors:
    pods = new.status.get("uncountedTerminatedPods") or {}
    if not new.finished or not (pods.get("failed") or pods.get("succeeded")):
        return []
    value = Typed(pods, "k8s.io/kubernetes/pkg/apis/batch.UncountedTerminatedPods")
    return [invalid(STATUS.child("uncountedTerminatedPods"), value, _UNCOUNTED)]


def _indexes(name: str, *needed: str) -> Callable[[_Status], Errors]:
    def rule(new: _Status) -> Errors:
        text = new.status.get(name)
        if text is None or any(new.spec.get(field) is None for field in ("completions", *needed)):
            return []
        try:
            count_indexes(text, new.spec["completions"])
        except IndexesError as error:
            return [invalid(STATUS.child(name), text, f"error parsing {name}: {error}")]
        return []

    return rule


def _completed_of_plain(new: _Status) -> Errors:
    text = new.status.get("completedIndexes")
    if not text or new.spec.get("completionMode") == "Indexed":
        return []
    detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
    return [invalid(STATUS.child("completedIndexes"), text, detail)]


def _failed_without_limit(new: _Status) -> Errors:
    text = new.status.get("failedIndexes")
    if text is None or new.spec.get("backoffLimitPerIndex") is not None:
        return []
    detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
    return [invalid(STATUS.child("failedIndexes"), text, detail)]


def _overlapping(new: _Status) -> Errors:
    failed, completions = new.status.get("failedIndexes"), new.spec.get("completions")
    if failed is None or completions is None:
        return []
    index = overlap(new.status.get("completedIndexes", ""), failed, completions)
    if index is None:
        return []
    text = f"failedIndexes and completedIndexes overlap at index: {index}"
    return [invalid(STATUS.child("failedIndexes"), failed, text)]


def _more_ready(new: _Status) -> Errors:
    ready = new.status.get("ready")
    if ready is None or ready <= (new.status.get("active") or 0):
        return []
    return [invalid(STATUS.child("ready"), ready, "cannot set more ready pods than active")]


# (fields and conditions that a rule is about, the rule), in the order of their errors.
_RULES: tuple[tuple[tuple[str, ...], Callable[[_Status], Errors]], ...] = (
    (("Complete", "Failed"), _both("Complete", "Failed", "cannot set Complete=True and Failed=true conditions")),
    (
        ("Complete", "FailureTarget"),
        _both("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
    ),
    (("Complete", "completionTime"), _completion),
    (("Complete", "completionTime"), _completion_needed),
    (("startTime", "completionTime"), _order),
    (
        ("Failed", "failedIndexes"),
        _alone("Failed", "FailureTarget", "cannot set Failed=True condition without the FailureTarget=true condition"),
    ),
    (
        ("Complete", "SuccessCriteriaMet"),
        _alone(
            "Complete",
            "SuccessCriteriaMet",
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
    ),
    (("finished", "active"), _finished("active")),
    (("finished", "startTime"), _start),
    (("finished", "uncountedTerminatedPods"), _all_counted),
    (("completedIndexes",), _indexes("completedIndexes")),
    (("failedIndexes",), _indexes("failedIndexes", "backoffLimitPerIndex")),
    (("completedIndexes",), _completed_of_plain),
    (("failedIndexes",), _failed_without_limit),
    (("failedIndexes", "completedIndexes"), _overlapping),
    (("finished", "terminating"), _finished("terminating")),
    (("ready", "active"), _more_ready),
)


def _success(new: _Status) -> Errors:
    met = new.true("SuccessCriteriaMet")
    checks = (
        (met and new.true("Failed"), "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (met and new.true("FailureTarget"), "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
        (
            new.spec.get("successPolicy") is not None and not met and new.true("Complete"),
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ),
    )
    return [without_value(_CONDITIONS, text) for wrong, text in checks if wrong]


def _transitions(new: _Status, old: _Status) -> Errors:
    errors = [
        without_value(_CONDITIONS, f"cannot disable the terminal {kind}=True condition")
        for kind in ("Failed", "Complete", "FailureTarget")
        if old.true(kind) and not new.true(kind)
    ]
    errors += _decreased(new, old, "failed")
    scaled = new.spec.get("completionMode") == "Indexed" and nested_field(new.spec, "completions") == nested_field(
        new.spec, "parallelism"
    )
    errors += [] if scaled else _decreased(new, old, "succeeded")
    end, before = new.status.get("completionTime"), old.status.get("completionTime")
    if end and before and end != before:
        errors.append(invalid(STATUS.child("completionTime"), _time(end), _COMPLETED))
    started = old.status.get("startTime")
    resumes = new.version >= V1_34 and old.has("Suspended", "True") and new.has("Suspended", "False")
    if started and started != new.status.get("startTime") and not new.spec.get("suspend") and not resumes:
        errors.append(_STARTED[new.version](new.status.get("startTime")))
    return errors


def _start_is_kept(time: str | None) -> FieldError:
    text = "field is immutable for unsuspended job once set"
    return invalid(STATUS.child("startTime"), _time(time) if time else None, text)


def _start_is_needed(time: str | None) -> FieldError:
    return required(STATUS.child("startTime"), "startTime cannot be removed for unsuspended job")


_STARTED = ByRelease({V1_36: _start_is_kept, V1_31: _start_is_needed})


def _decreased(new: _Status, old: _Status, name: str) -> list[FieldError]:
    number: int = new.status.get(name) or 0
    where: Path = STATUS.child(name)
    return (
        [invalid(where, number, f"cannot decrease the {name} counter")] if number < (old.status.get(name) or 0) else []
    )
