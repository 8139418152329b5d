"""Validation of cron jobs."""

from __future__ import annotations

import re

from understudy.kinds.apps.common import SPEC, selector_value
from understudy.kinds.batch import cron, jobs
from understudy.kinds.common.formats import choice, nonnegative
from understudy.kinds.context import Context
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported, required

NAME_LENGTH = 52  # the names of a cron job's jobs have a time behind it

_JOB_PATH = SPEC.child("jobTemplate", "spec")


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a new CronJob (upstream: `ValidateCronJobCreate`)."""
    errors, name = _validate(obj["spec"], None, ctx), obj["metadata"].get("name", "")
    if len(name) > NAME_LENGTH:
        text = f"must be no more than {NAME_LENGTH} characters"
        errors.append(invalid(Path("metadata", "name"), name, text))
    return errors


def update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed CronJob (upstream: `ValidateCronJobUpdate`)."""
    return _validate(obj["spec"], old["spec"], ctx)


def _validate(spec: Obj, old: Obj | None, ctx: Context) -> Errors:
    errors = _schedule(spec, old, SPEC.child("schedule"))
    errors += nonnegative(spec.get("startingDeadlineSeconds"), SPEC.child("startingDeadlineSeconds"))
    if old is None or old.get("timeZone") != spec.get("timeZone"):
        errors += _zone(spec.get("timeZone"), SPEC.child("timeZone"))
    allowed = ("Allow", "Forbid", "Replace")
    errors += choice(spec.get("concurrencyPolicy", ""), allowed, SPEC.child("concurrencyPolicy"), needed=True)
    job = nested_field(spec, "jobTemplate", "spec", default={})
    errors += jobs.validate_spec(job, nested_field(old, "jobTemplate", "spec"), _JOB_PATH, ctx)
    if job.get("selector") is not None:
        bad_value = selector_value(job["selector"])
        errors.append(invalid(_JOB_PATH.child("selector"), bad_value, "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(not_supported(_JOB_PATH.child("manualSelector"), True, ["nil", "false"]))
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += nonnegative(spec.get(name), SPEC.child(name))
    return errors


def _schedule(spec: Obj, old: Obj | None, path: Path) -> Errors:
    schedule = spec.get("schedule", "")
    if not schedule:
        return [required(path)]
    errors: Errors = []
    try:
        cron.check(schedule)
    except cron.ScheduleError as error:
        errors.append(invalid(path, schedule, str(error)))
    if "TZ" not in schedule:
        return errors
    if old is None or "TZ" not in old.get("schedule", ""):
        errors.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    elif spec.get("timeZone") is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid(path, schedule, text))
    return errors


def _zone(name: str | None, path: Path) -> Errors:
    if name is None:
        return []
    if not name:
        return [invalid(path, name, "timeZone must be nil or non-empty string")]
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or not re.fullmatch("[-A-Za-z._0-9+]{1,14}", part):
            return [invalid(path, name, f"unknown time zone {name}")]
    errors: Errors = []
    if name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, name, text))
    if not cron.is_zone(name):
        errors.append(invalid(path, name, f"unknown time zone {name}"))
    return errors


def warn(obj: Obj, ctx: Context) -> None:
    """Warn of mistakes in the job template."""
    jobs.warn(nested_field(obj, "spec", "jobTemplate", "spec", default={}), _JOB_PATH, ctx)


def warn_of_zone(obj: Obj, ctx: Context) -> None:
    """Warn of a time zone in the schedule, which has its own field."""
    if "TZ" in obj["spec"].get("schedule", ""):
        ctx.warn(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
