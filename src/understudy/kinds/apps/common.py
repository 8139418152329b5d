"""Checks that workloads share: selectors and pod templates, numbers in statuses, rolling updates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from understudy.kinds.common import label_selectors
from understudy.kinds.common.formats import invalid_texts, nonnegative, percent_texts
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers_of import template_of
from understudy.kinds.core.pods.pod_options import options
from understudy.kinds.core.pods.validation import pod_spec, pod_warnings
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported, required

SPEC, STATUS = Path("spec"), Path("status")
TEMPLATE = SPEC.child("template")

_SELECTOR = "k8s.io/apimachinery/pkg/apis/meta/v1.LabelSelector"
_INT_OR_STRING = "k8s.io/apimachinery/pkg/util/intstr.IntOrString"


def selector_value(selector: Obj | None) -> Any:
    """Return a selector as a bad value in errors, which print it as Go does."""
    return None if selector is None else Typed(selector, _SELECTOR)


def selector(value: Obj | None, kind: str) -> Errors:
    """Check the selector of a workload, which must select something."""
    path = SPEC.child("selector")
    if value is None:
        return [required(path)]
    errors = label_selectors.validate(value, path)
    if label_selectors.empty(value):
        errors.append(invalid(path, selector_value(value), f"empty selector is invalid for {kind}"))
    return errors


def unreadable(value: Obj | None) -> bool:
    """Report whether a selector is invalid."""
    return bool(label_selectors.validate(value, SPEC.child("selector")))


def same_selector(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that an update does not change the selector."""
    new = obj["spec"].get("selector")
    if new == old["spec"].get("selector"):
        return []
    return [invalid(SPEC.child("selector"), selector_value(new), IMMUTABLE)]


def mismatch(template: Obj | None, path: Path) -> Errors:
    """Return the error of a template whose labels do not match the selector."""
    bad_value = Typed.of_field(nested_field(template, "metadata", default={}), "labels", "map[string]string")
    return [invalid(path.child("metadata", "labels"), bad_value, "`selector` does not match template `labels`")]


def always_restarts(template: Obj | None, path: Path, kind: str) -> Errors:
    """Check that pods of a workload that never ends are always restarted."""
    spec = (template or {}).get("spec") or {}
    errors: Errors = []
    if spec.get("restartPolicy") != "Always":
        errors.append(not_supported(path.child("restartPolicy"), spec.get("restartPolicy", ""), ["Always"]))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(path.child("activeDeadlineSeconds"), text))
    return errors


def template(value: Obj | None, old: Obj | None, ctx: Context, path: Path = TEMPLATE) -> Errors:
    """Check a pod template; `old` is the stored one."""
    return pod_spec.template(value, path, options(ctx.release, ctx.gates, (old or {}).get("spec")))


def warn_create(workload: Obj, ctx: Context) -> None:
    """Warn of mistakes in the pod template of a workload."""
    pod_warnings.template(template_of(workload), TEMPLATE, ctx)


def warn_update(workload: Obj, old: Obj, ctx: Context) -> None:
    """Warn of mistakes in a workload's template if the update changes the spec."""
    if workload["metadata"].get("generation") != old["metadata"].get("generation"):
        warn_create(workload, ctx)


def warn_of_hostname(workload: Obj, ctx: Context) -> None:
    """Warn of a workload's name that is no hostname, as pods are named after it."""
    pod_warnings.hostname(workload, ctx, "this is used in Pod names and hostnames")


def int_or_string(value: int | str) -> Any:
    """Return a count or percentage as a bad value in errors, which print it as Go does."""
    return Typed(value, _INT_OR_STRING)


def count_or_percent(value: int | str, path: Path) -> Errors:
    """Check a number of pods, or a share of them such as "25%" (upstream: `ValidatePositiveIntOrPercent`)."""
    if isinstance(value, str):
        return invalid_texts(percent_texts(value), int_or_string(value), path)
    return nonnegative(value, path)


def amount(value: int | str) -> int:
    """Return the number in a count or percentage, 0 for any other text."""
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    return int(digits.lstrip("0")[:20] or 0) if digits.isdecimal() else 0  # Python refuses to read thousands


def not_more_than_all(value: int | str, path: Path) -> Errors:
    """Check that a percentage is at most 100 (upstream: `IsNotMoreThan100Percent`)."""
    if isinstance(value, int) or percent_texts(value) or amount(value) <= 100:
        return []
    return [invalid(path, int_or_string(value), "must not be greater than 100%")]


def counters(status: Obj, names: Iterable[str]) -> Errors:
    """Check that numbers in a status are not negative."""
    return [error for name in names for error in nonnegative(status.get(name), STATUS.child(name))]


def at_most(status: Obj, names: Iterable[str], most: str, text: str) -> Errors:
    """Check that counts are not greater than another count."""
    limit = status.get(most, 0)
    numbers = {name: status.get(name, 0) for name in names}
    return [invalid(STATUS.child(name), number, text) for name, number in numbers.items() if number > limit]


def collisions(status: Obj, old: Obj) -> Errors:
    """Check that an update does not decrease `status.collisionCount`."""
    number, before = status.get("collisionCount"), old.get("collisionCount")
    if before is None or (number or 0) >= before:
        return []
    return [invalid(STATUS.child("collisionCount"), number or 0, "cannot be decremented")]
