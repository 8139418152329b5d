"""Validation of a service's addresses, their families, and the policy between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.kinds.common.address_rules import AddressRule
from understudy.kinds.common.formats import choice
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required

SPEC = Path("spec")
FAMILIES = ("IPv4", "IPv6")
POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


def headless(spec: Obj) -> bool:
    """Report whether a service has no address."""
    return bool(spec.get("clusterIPs") == ["None"])


def validate(spec: Obj, ip_rule: AddressRule) -> Errors:
    """Check addresses, families and the policy between them (upstream: `ValidateServiceClusterIPsRelatedFields`)."""
    if spec.get("type") == "ExternalName":
        return []
    path, ips = SPEC.child("clusterIPs"), spec.get("clusterIPs") or []
    bad_value = Typed(ips or None, "[]string")
    errors: Errors = []
    if spec.get("clusterIP"):
        if not ips:
            errors.append(required(path))
        elif ips[0] != spec["clusterIP"]:
            errors.append(invalid(path, bad_value, "first value must match `clusterIP`"))
    elif ips:
        errors.append(invalid(path, bad_value, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    seen: set[str] = set()
    for i, family in enumerate(families):
        here = SPEC.child("ipFamilies").index(i)
        errors += choice(family, FAMILIES, here)
        if family in seen:
            errors.append(duplicate(here, family))
        seen.add(family)
    if spec.get("ipFamilyPolicy") is not None:
        errors += choice(spec["ipFamilyPolicy"], POLICIES, SPEC.child("ipFamilyPolicy"))
    wrong = _addresses(ips, bad_value, ip_rule, path)
    errors += wrong
    if len(ips) > 2:
        errors.append(invalid(path, bad_value, "may only hold up to 2 values"))
    return errors if wrong else errors + _of_family(ips, families, bad_value, path, headless(spec))


def _addresses(ips: Sequence[str], bad_value: Any, ip_rule: AddressRule, path: Path) -> Errors:
    errors: Errors = []
    for i, value in enumerate(ips):
        if i == 0 and value == "None":
            if len(ips) > 1:
                errors.append(invalid(path, bad_value, "'None' must be the first and only value"))
            continue
        errors += ip_rule(value, path.index(i))
    return errors


def _of_family(ips: Sequence[str], families: Sequence[str], bad_value: Any, path: Path, is_headless: bool) -> Errors:
    errors: Errors = []
    if len(ips) > 1 and len({":" in value for value in ips}) < 2:
        errors.append(invalid(path, bad_value, "may specify no more than one IP for each IP family"))
    if is_headless:
        return errors
    for i, (value, family) in enumerate(zip(ips, families, strict=False)):
        if family in FAMILIES and (family == "IPv6") != (":" in value):
            text = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            errors.append(invalid(path.index(i), value, text))
    return errors
