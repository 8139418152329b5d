"""Validation of the resources of a pod as a whole (KEP-2837)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.kinds.core.pods.containers import resources
from understudy.kinds.core.pods.containers.pod_requests import Amounts, aggregate
from understudy.machinery.quantity import parse
from understudy.machinery.releases.version import V1_32, V1_33, V1_34, ByRelease, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Stringer
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported

_NO_CLAIMS = ByRelease({V1_34: "may not", V1_32: "cannot"})


def is_supported(resource: str, version: Version) -> bool:
    """Report whether a pod as a whole can have a resource (upstream: `IsSupportedPodLevelResource`)."""
    return resource in ("cpu", "memory") or (version >= V1_33 and resources.is_huge_page(resource))


_SUPPORTED = ByRelease({V1_33: ("cpu", resources.HUGE_PAGES, "memory"), V1_32: ("cpu", "memory")})


def _name(version: Version) -> resources.NameRule:
    """Return the check of the name of a resource that a pod as a whole can have."""

    def check(value: str, path: Path) -> Errors:
        errors = resources.name(value, path)
        if not errors and not is_supported(value, version):
            errors.append(not_supported(path, Stringer(value, value), _SUPPORTED[version]))
        return errors

    return check


def validate(spec: Obj, claims: Iterable[str], path: Path, version: Version) -> Errors:
    """Check `resources` of a pod spec (upstream: `validatePodResources`); `claims` are the names of its claims."""
    amounts: Obj | None = spec.get("resources")
    if amounts is None:
        return []
    if version >= V1_34 and nested_field(spec, "os", "name") == "windows":
        return [forbidden(path, "may not be set for a windows pod")]
    errors: Errors = []
    if amounts.get("claims") or "claims" in getattr(amounts, "empty", ()):
        text = f"claims {_NO_CLAIMS[version]} be set for Resources at pod-level"
        errors.append(forbidden(path.child("claims"), text))
    errors += resources.requirements(amounts, claims, path, name_rule=_name(version))
    return errors + _consistency(spec, amounts, path, version)


def _consistency(spec: Obj, amounts: Obj, path: Path, version: Version) -> Errors:
    """Check that the containers together fit into the pod (upstream: `validatePodResourceConsistency`)."""
    requests, limits = amounts.get("requests") or {}, amounts.get("limits") or {}
    # Before 1.34 a request that the pod does not have is 0.
    missing: Mapping[str, str] = {} if version >= V1_34 else dict.fromkeys(aggregate(spec, "requests"), "0")
    errors = _exceeded(aggregate(spec, "requests"), {**missing, **requests}, path.child("requests"), "requests")
    if version >= V1_34:
        pages = {name: amount for name, amount in aggregate(spec, "limits").items() if resources.is_huge_page(name)}
        errors += _exceeded(pages, limits, path.child("limits"), "limits")
    for i, container in enumerate(spec.get("containers") or ()):
        for name, limit in nested_field(container, "resources", "limits", default={}).items():
            if name in limits and parse(limits[name]) < parse(limit):
                here = path.child("containers").index(i).key(name).child("limits")
                errors.append(invalid(here, limit, f"must be less than or equal to pod limits of {limits[name]}"))
    return errors


def _exceeded(total: Amounts, most: Mapping[str, str], path: Path, kind: str) -> Errors:
    return [
        invalid(path.key(name), most[name], f"must be greater than or equal to aggregate container {kind} of {amount}")
        for name, amount in total.items()
        if name in most and parse(most[name]) < amount
    ]
