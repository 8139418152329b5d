"""Validation of amounts of resources: names, quantities, requests and limits, claims of containers.

https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from understudy.kinds.common.formats import invalid_texts, label
from understudy.machinery.quantity import PrintedQuantity, Quantity, parse
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Stringer, Typed
from understudy.machinery.validation.field import (
    Errors,
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from understudy.machinery.validation.names import qualified_name_texts

COMPUTE = ("cpu", "ephemeral-storage", "memory")
COUNTED = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
QUOTA = frozenset(
    (*COMPUTE, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in COMPUTE), "requests.storage", *COUNTED)
)
STANDARD = QUOTA | {"storage"}
HUGE_PAGES = "hugepages-"
_REQUESTS = "requests."

NameRule = Callable[[str, Path], Errors]


def is_huge_page(name: str) -> bool:
    """Report whether a resource is huge pages of some size."""
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Report whether a resource belongs to Kubernetes (upstream: `IsNativeResource`)."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Report whether a resource is of another domain and counted in whole numbers.

    Upstream: `IsExtendedResourceName`.
    """
    return not is_native(name) and not name.startswith(_REQUESTS) and not qualified_name_texts(_REQUESTS + name)


def overcommits(name: str) -> bool:
    """Report whether requests may differ from limits (upstream: `IsOvercommitAllowed`)."""
    return is_native(name) and not is_huge_page(name)


def name(value: str, path: Path) -> Errors:
    """Check the name of any resource. The real server prints such names without quotes."""
    bad_value = Stringer(value, value)
    errors = invalid_texts(qualified_name_texts(value), bad_value, path)
    standard = value in STANDARD or value.startswith((HUGE_PAGES, f"{_REQUESTS}{HUGE_PAGES}"))
    if not errors and "/" not in value and not standard:
        errors.append(invalid(path, bad_value, "must be a standard resource type or fully qualified"))
    return errors


def container_name(value: str, path: Path) -> Errors:
    """Check the name of a resource that a container can use."""
    errors = name(value, path)
    if "/" not in value:
        if value not in COMPUTE and not is_huge_page(value):
            errors.append(invalid(path, Stringer(value, value), "must be a standard resource for containers"))
    elif not is_native(value) and not is_extended(value):
        errors.append(invalid(path, Stringer(value, value), "doesn't follow extended resource name standard"))
    return errors


def amount(resource: str, text: str, path: Path) -> Errors:
    """Check that an amount is not negative, and whole where the resource is counted."""
    errors = nonnegative(text, path)
    if (resource in COUNTED or is_extended(resource)) and parse(text).scaled(-3) % 1000:
        errors.append(invalid(path, as_quantity(text), "must be an integer"))
    return errors


def nonnegative(text: str, path: Path) -> Errors:
    """Check that an amount is not negative."""
    return [invalid(path, text, "must be greater than or equal to 0")] if parse(text).value < 0 else []


@dataclass(frozen=True, slots=True)
class _Rules:
    name: NameRule

    def one(self, resource: str, text: str, path: Path) -> Errors:
        return self.name(resource, path) + amount(resource, text, path)

    def pages(self, resource: str, text: str, path: Path) -> Errors:
        """Check that huge pages come as wholes of their size."""
        if not is_huge_page(resource):
            return []
        page = page_size(resource)
        if page is not None and page.value > 0 and not parse(text).scaled(0) % page.scaled(0):
            return []
        return [invalid(path, text, f"{text} is not positive integer multiple of {resource}")]


def requirements(
    resources: Obj | None,
    claims: Iterable[str],
    path: Path,
    *,
    name_rule: NameRule = container_name,
) -> Errors:
    """Check the resources of a container or pod (upstream: `ValidateContainerResourceRequirements`).

    `claims` are the names of the pod's resource claims.
    """
    resources, rules = resources or {}, _Rules(name_rule)
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors: Errors = []
    for resource in sorted(limits):
        here, text = path.child("limits").key(resource), limits[resource]
        errors += rules.one(resource, text, here) + rules.pages(resource, text, here)
    for resource in sorted(requests):
        errors += _request(resource, requests[resource], limits, path, rules)
    asked = {*limits, *requests}
    if any(is_huge_page(r) for r in asked) and asked.isdisjoint(("cpu", "memory")):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors + claim_names(resources.get("claims") or [], claims, path.child("claims"))


def _request(resource: str, text: str, limits: Mapping[str, str], path: Path, rules: _Rules) -> Errors:
    here = path.child("requests")
    errors = rules.one(resource, text, here.key(resource))
    limit = limits.get(resource)
    if limit is None:
        if not overcommits(resource):
            errors.append(required(path.child("limits"), "Limit must be set for non overcommitable resources"))
    elif parse(text) != parse(limit) and not overcommits(resource):
        errors.append(invalid(here, text, f"must be equal to {resource} limit of {limit}"))
    elif parse(limit) < parse(text):
        errors.append(invalid(here, text, f"must be less than or equal to {resource} limit of {limit}"))
    return errors + rules.pages(resource, text, here.key(resource))


def page_size(resource: str) -> Quantity | None:
    """Return the size of a resource's huge pages, None for a wrong one."""
    try:
        return parse(resource.removeprefix(HUGE_PAGES))
    except ValueError:
        return None


def claim_names(claims: list[Obj], known: Iterable[str], path: Path) -> Errors:
    """Check `resources.claims` of a container: each claim or request once, and one of the pod's."""
    errors: Errors = []
    names = sorted(known)
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        claimed, here = claim.get("name", ""), path.index(i)
        if not claimed:
            errors.append(required(here))
            continue
        errors += _claimed_twice(claimed, claim.get("request", ""), seen, here)
        if claimed not in names:
            errors.append(_unknown_claim(claimed, names, here))
    return errors


def _claimed_twice(claimed: str, request: str, seen: set[str], path: Path) -> Errors:
    if claimed in seen:
        return [duplicate(path, claimed)]
    errors = label(request, path.child("request")) if request else []
    key = f"{claimed}/{request}" if request else claimed
    if key in seen:
        errors.append(duplicate(path, key))
    elif not request:
        errors += [duplicate(path, claimed) for other in seen if other.partition("/")[0] == claimed]
    seen.add(key)
    return errors


def _unknown_claim(claimed: str, names: list[str], path: Path) -> FieldError:
    known = f": {', '.join(names)}" if names else " which is empty"
    detail = f"must be one of the names in pod.spec.resourceClaims{known}"
    return replace(not_found(path, claimed), detail=detail)


def as_quantity(text: str) -> Typed:
    """Return a quantity as a bad value that shows the Go struct."""
    return Typed(text, "k8s.io/apimachinery/pkg/api/resource.Quantity")


def as_printed_quantity(text: str) -> Typed:
    """Return a quantity that was printed before as a bad value that shows the Go struct."""
    return as_quantity(PrintedQuantity.of(text))
