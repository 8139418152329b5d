"""Validation of limit ranges and resource quotas. Admission plugins (limit_ranger, resource_quota) enforce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.kinds.common.formats import invalid_texts
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers import resources
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases.version import V1_31, V1_33, V1_35, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Stringer, Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, required
from understudy.machinery.validation.names import qualified_name_texts

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_KINDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def limit_range(obj: Obj, ctx: Context) -> Errors:
    """Check a limit range (upstream: `ValidateLimitRange`)."""
    errors: Errors = []
    seen: set[str] = set()
    for i, item in enumerate(obj["spec"].get("limits") or ()):
        path, kind = Path("spec", "limits").index(i), item.get("type", "")
        texts = qualified_name_texts(kind)
        errors += invalid_texts(texts, kind, path.child("type"))
        if not texts and "/" not in kind and kind not in _TYPES:
            errors.append(invalid(path.child("type"), kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            errors.append(duplicate(path.child("type"), kind))
        seen.add(kind)
        errors += _names(item, kind, path)
        errors += _amounts(item, kind, path)
    return errors


def _names(item: Obj, kind: str, path: Path) -> Errors:
    rule = resources.container_name if kind in ("Pod", "Container") else resources.name
    errors: Errors = []
    for name in _KINDS:
        if kind == "Pod" and name in ("default", "defaultRequest"):
            if item.get(name):
                errors.append(forbidden(path.child(name), "may not be specified when `type` is 'Pod'"))
            continue
        if name == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim":
            if "storage" not in {**(item.get("min") or {}), **(item.get("max") or {})}:
                text = "either minimum or maximum storage value is required, but neither was provided"
                errors.append(required(path.child("limits"), text))
        errors += [error for r in sorted(item.get(name) or ()) for error in rule(r, path.child(name).key(r))]
    return errors


# Pairs of which the first may not be more than the second: (first, second, where it is told, which value is shown).
_ORDER = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)
_CALLED = {"defaultRequest": "default request"}


def _amounts(item: Obj, kind: str, path: Path) -> Errors:
    kinds: dict[str, Mapping[str, str]] = {
        name: item.get(name) or {} for name in _KINDS if kind != "Pod" or not name.startswith("default")
    }
    errors: Errors = []
    for resource in sorted({r for amounts in kinds.values() for r in amounts}):
        values = {name: amounts[resource] for name, amounts in kinds.items() if resource in amounts}
        errors += _ordered(values, resource, path)
        errors += _ratio(values, path.child("maxLimitRequestRatio").key(resource))
        default, request = values.get("default"), values.get("defaultRequest")
        if not resources.overcommits(resource) and default and request and parse(default) != parse(request):
            text = f"default value {default} must equal to defaultRequest value {request} in {resource}"
            bad_value = resources.as_printed_quantity(request)
            errors.append(invalid(path.child("defaultRequest").key(resource), bad_value, text))
    return errors


def _ordered(values: Mapping[str, str], resource: str, path: Path) -> Errors:
    errors: Errors = []
    for less, more, where, name in _ORDER:
        if less in values and more in values and parse(values[more]) < parse(values[less]):
            called = "default limit" if (less, more) == ("defaultRequest", "default") else _CALLED.get(more, more)
            text = f"{_CALLED.get(less, less)} value {values[less]} is greater than {called} value {values[more]}"
            bad_value = resources.as_printed_quantity(values[name])
            errors.append(invalid(path.child(where).key(resource), bad_value, text))
    return errors


def _ratio(values: Mapping[str, str], path: Path) -> Errors:
    ratio = values.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    bad_value = resources.as_printed_quantity(ratio)
    errors: Errors = []
    if parse(ratio) < 1:
        errors.append(invalid(path, bad_value, f"ratio {ratio} is less than 1"))
    if "min" in values and "max" in values:
        asked, least, most = _comparable(parse(ratio), parse(values["min"]), parse(values["max"]))
        if least and asked > most / least:
            errors.append(invalid(path, bad_value, f"ratio {ratio} is greater than max/min = {most / least:f}"))
    return errors


def _comparable(ratio: Quantity, least: Quantity, most: Quantity) -> tuple[float, float, float]:
    """Return the numbers that a ratio is checked with: thousandths, or whole ones if these do not fit 64 bits, of which
    Go keeps the lower ones."""
    whole = [_lower_bits(quantity.scaled(0)) for quantity in (ratio, least, most)]
    if max(whole) >= _MAX_MILLI:
        return float(whole[0]), float(whole[1]), float(whole[2])
    milli = [float(_lower_bits(quantity.scaled(-3))) for quantity in (ratio, least, most)]
    return milli[0] / 1000, milli[1], milli[2]


_MAX_MILLI = (2**63 - 1) // 1000


def _lower_bits(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


# --- quotas -------------------------------------------------------------------------------------------------------

_POD_COMPUTE = ("pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_POD_SCOPES: dict[str, tuple[str, ...]] = {
    "Terminating": _POD_COMPUTE,
    "NotTerminating": _POD_COMPUTE,
    "NotBestEffort": _POD_COMPUTE,
    "PriorityClass": _POD_COMPUTE,
    "CrossNamespacePodAffinity": _POD_COMPUTE,
    "BestEffort": ("pods",),
}
# {scope: the resources that it can be applied to}
_SCOPES = ByRelease({
    V1_33: {**_POD_SCOPES, "VolumeAttributesClass": ("persistentvolumeclaims", "requests.storage")},
    V1_31: _POD_SCOPES,
})  # fmt: skip
_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")  # scopes that other operators than Exists can select
_UNSUPPORTED = "unsupported scope applied to resource"
_SCOPE_LIST = "[]k8s.io/kubernetes/pkg/apis/core.ResourceQuotaScope"
_EXCLUSIVE = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def quota(obj: Obj, ctx: Context) -> Errors:
    """Check a resource quota (upstream: `ValidateResourceQuota`)."""
    spec = obj["spec"]
    errors = _hard(spec.get("hard"), Path("spec", "hard"))
    errors += _scopes(spec, Path("spec", "scopes"), ctx)
    selector = spec.get("scopeSelector")
    return (
        errors if selector is None else errors + _selector(spec, Path("spec", "scopeSelector", "matchExpressions"), ctx)
    )


def _hard(amounts: Mapping[str, str] | None, path: Path) -> Errors:
    errors: Errors = []
    for name in sorted(amounts or ()):
        here, text = path.key(name), (amounts or {})[name]
        errors += resources.name(name, here)
        if "/" not in name and not _is_quota(name):
            errors.append(invalid(here, Stringer(name, name), "must be a standard resource for quota"))
        errors += resources.amount(name, text, here)
    return errors


def _is_quota(name: str) -> bool:
    return name in resources.QUOTA or name.startswith(("hugepages-", "requests.hugepages-"))


def _scopes(spec: Obj, path: Path, ctx: Context) -> Errors:
    scopes: Sequence[str] = spec.get("scopes") or []
    bad_value = Typed(scopes, _SCOPE_LIST)
    unknown, unsupported = invalid(path, bad_value, "unsupported scope"), invalid(path, bad_value, _UNSUPPORTED)
    errors: Errors = []  # equal ones are one object, so that all the scopes are printed once
    for scope in scopes:
        if scope not in _SCOPES[ctx.release]:
            errors.append(unknown)
        errors += [unsupported for _ in _not_in_scope(spec, scope, ctx)]
    return errors + [invalid(path, bad_value, "conflicting scopes") for pair in _EXCLUSIVE if pair <= set(scopes)]


def _not_in_scope(spec: Obj, scope: str, ctx: Context) -> list[str]:
    """Return the resources of a quota that a scope cannot be applied to."""
    resources_of_scope = _SCOPES[ctx.release].get(scope)
    limited = [name for name in sorted(spec.get("hard") or ()) if _is_quota(name)]
    return [name for name in limited if resources_of_scope is not None and name not in resources_of_scope]


def _selector(spec: Obj, path: Path, ctx: Context) -> Errors:
    errors: Errors = []
    expressions = spec["scopeSelector"].get("matchExpressions") or ()
    bad_value = Typed(spec["scopeSelector"], "k8s.io/kubernetes/pkg/apis/core.ScopeSelector")
    for item in expressions:
        scope, operator, values = item.get("scopeName", ""), item.get("operator", ""), item.get("values") or []
        if scope not in _SCOPES[ctx.release]:
            errors.append(invalid(path.child("scopeName"), scope, "unsupported scope"))
        errors += [invalid(path, bad_value, _UNSUPPORTED) for _ in _not_in_scope(spec, scope, ctx)]
        if scope in _SCOPES[ctx.release] and scope not in _WITH_VALUES and operator != "Exists":
            errors.append(invalid(path.child("operator"), operator, _EXISTS))
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(path.child("values"), text))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(path.child("values"), Typed(values, "[]string"), text))
        else:
            errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    scopes = {item.get("scopeName", "") for item in expressions}
    bad_value = Typed.of_field(spec, "scopes", _SCOPE_LIST)
    return errors + [invalid(path, bad_value, "conflicting scopes") for pair in _EXCLUSIVE if pair <= scopes]


def quota_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a quota keeps its scopes."""
    scopes, before = obj["spec"].get("scopes") or [], old["spec"].get("scopes") or []
    if set(scopes) == set(before):
        return []
    bad_value = Typed.of_field(obj["spec"], "scopes", _SCOPE_LIST)
    return [invalid(Path("spec", "scopes"), bad_value, IMMUTABLE)]


_REQUESTED = ("cpu", "memory", "storage", "ephemeral-storage")


def warn_of_quota(obj: Obj, ctx: Context) -> None:
    """Warn of a new quota that allows more requests than limits (upstream: `resourcequotaStrategy`)."""
    hard = obj["spec"].get("hard") or {}
    for name in _REQUESTED if ctx.release >= V1_35 else ():
        request, limit = f"requests.{name}", f"limits.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        if request in hard and limit in hard and parse(hard[limit]) < parse(hard[request]):
            ctx.warn(f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})")


def quota_status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a quota's status (upstream: `ValidateResourceQuotaStatusUpdate`)."""
    status = obj.get("status") or {}
    hard = _hard(status.get("hard"), Path("status", "hard"))
    return hard + _hard(status.get("used"), Path("status", "used"))
