"""Validation of a DeviceClaim: requests, constraints between them, configuration."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.formats import invalid_texts, label, qualified, subdomain
from understudy.kinds.resource.claims.derived_attributes import DerivedAttributes
from understudy.kinds.resource.common import configuration, identifiers, selector
from understudy.kinds.resource.common.each import validate_list, validate_set
from understudy.kinds.resource.common.release_rules import (
    CONFIGS,
    CONSTRAINTS,
    REQUESTS,
    SELECTORS,
    SUBREQUESTS,
    ReleaseRules,
)
from understudy.machinery.releases import features
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported, required
from understudy.machinery.validation.names import label_value_texts

ALL, EXACT_COUNT = "All", "ExactCount"
_COUNT_OF_ALL = "must not be specified when allocationMode is 'All'"
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'  # sic
)


def validate(claim: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check `{"requests": […], "constraints": […], "config": […]}` (upstream: `validateDeviceClaim`).

    stored  whether the claim is unchanged since it was stored
    """
    names = request_names(claim)
    derived = DerivedAttributes(claim.get("constraints") or (), rules, stored)
    return [
        *validate_set(
            claim.get("requests"),
            REQUESTS,
            lambda request, here: _request(request, here, derived, rules, stored),
            _name,
            path.child("requests"),
            rules,
            "name",
        ),
        *validate_list(
            claim.get("constraints"),
            CONSTRAINTS,
            lambda constraint, here: _constraint(constraint, here, names, rules),
            path.child("constraints"),
            rules,
        ),
        *validate_list(
            claim.get("config"),
            CONFIGS,
            lambda config, here: _config(config, here, names, rules, stored),
            path.child("config"),
            rules,
        ),
        *derived.total_cost(path),
    ]


def _name(request: Obj) -> str:
    name: str = request.get("name", "")
    return name


def request_names(claim: Obj) -> frozenset[str]:
    """Return the names of a claim's requests, and those of its subrequests as request/subrequest."""
    names: set[str] = set()
    for request in claim.get("requests") or ():
        names |= {_name(request), *(f"{_name(request)}/{_name(sub)}" for sub in request.get("firstAvailable") or ())}
    return frozenset(names)


def references(names: Any, path: Path, requests: frozenset[str], rules: ReleaseRules) -> Errors:
    """Check the names of requests that a constraint or configuration is about, each once."""
    return validate_set(
        names,
        REQUESTS,
        lambda name, here: identifiers.request_reference(name, here, requests, rules),
        str,
        path,
        rules,
    )


def _request(request: Obj, path: Path, derived: DerivedAttributes, rules: ReleaseRules, stored: bool) -> Errors:
    """Check a request, for one kind of device or for the first of several that is available."""
    errors = label(_name(request), path.child("name"))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is None and not alternatives:
        return [*errors, required(path, _ONE_KIND)]
    wrong: Errors = []
    if exactly is not None and alternatives:
        wrong = [invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if not wrong or rules.checks_both_kinds:
        errors += validate_set(
            alternatives,
            SUBREQUESTS,
            lambda subrequest, here: _subrequest(subrequest, here, _name(request), derived, rules, stored),
            _name,
            path.child("firstAvailable"),
            rules,
            "name",
        )
        if exactly is not None:
            errors += _devices(exactly, rules.exactly(path), _name(request), derived, rules, stored)
    return errors + wrong


def _subrequest(
    subrequest: Obj, path: Path, parent: str, derived: DerivedAttributes, rules: ReleaseRules, stored: bool
) -> Errors:
    name = f"{parent}/{_name(subrequest)}"
    return label(_name(subrequest), path.child("name")) + _devices(subrequest, path, name, derived, rules, stored)


def _devices(
    request: Obj, path: Path, name: str, derived: DerivedAttributes, rules: ReleaseRules, stored: bool
) -> Errors:
    """Check which devices a request or subrequest of that name is for (upstream: `validateExactDeviceRequest`)."""
    class_name = request.get("deviceClassName", "")
    where = path.child("deviceClassName")
    errors = subdomain(class_name, where) if class_name else [required(where)]
    errors += selectors(request.get("selectors"), path, rules, stored)
    if attributes := request.get("derivedAttributes"):
        errors += derived.validate(attributes, path.child("derivedAttributes"), name)
    errors += _count(request, path)
    return errors + tolerations(request, path, rules)


def selectors(values: Any, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check the `selectors` of a request or class at `path`; `stored`: they are unchanged since they were stored."""
    return validate_list(
        values,
        SELECTORS,
        lambda value, here: selector.validate(value, here, rules, stored),
        path.child("selectors"),
        rules,
    )


def _count(request: Obj, path: Path) -> Errors:
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == ALL:
        return [invalid(path.child("count"), count, _COUNT_OF_ALL)] if count else []
    if mode == EXACT_COUNT:
        return [] if count > 0 else [invalid(path.child("count"), count, "must be greater than zero")]
    return [not_supported(path.child("allocationMode"), mode, (ALL, EXACT_COUNT))]


def tolerations(request: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the tolerations of a request, or of a device that was allocated for one."""
    if not (items := request.get("tolerations")):
        return []
    where = path.child("tolerations")
    return [error for i, item in enumerate(items) for error in _toleration(item, where.index(i), rules)]


def _toleration(toleration: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check a toleration of device taints (upstream: `validateDeviceToleration`)."""
    errors: Errors = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        errors += qualified(key, path.child("key"))
    if operator == "Exists":
        if value:
            errors.append(invalid(path.child("value"), value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += invalid_texts(label_value_texts(value), value, path.child("value"))
    elif not operator:
        errors.append(required(path.child("operator")))
    else:
        errors.append(not_supported(path.child("operator"), operator, ("Equal", "Exists")))
    if effect and effect not in rules.taint_effects:
        errors.append(not_supported(path.child("effect"), effect, rules.taint_effects))
    return errors


def _constraint(constraint: Obj, path: Path, names: frozenset[str], rules: ReleaseRules) -> Errors:
    errors = references(constraint.get("requests"), path.child("requests"), names, rules)
    for name in ("matchAttribute", "distinctAttribute"):
        if (attribute := constraint.get(name)) is not None:
            return errors + identifiers.fully_qualified(attribute, path.child(name), rules)
    if features.DRA_CONSUMABLE_CAPACITY in rules.enabled:
        return [*errors, required(path, _ONE_ATTRIBUTE)]
    return [*errors, required(path.child("matchAttribute"))]


def _config(config: Obj, path: Path, names: frozenset[str], rules: ReleaseRules, stored: bool) -> Errors:
    errors = references(config.get("requests"), path.child("requests"), names, rules)
    return errors + configuration.validate(config, path, rules, stored)
