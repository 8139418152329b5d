"""Validation of a DeviceClaim: requests, constraints between them, configuration."""

from __future__ import annotations

from typing import Any

from understudy.admission.validation.each import duplicates, validate_list
from understudy.admission.validation.formats import label, subdomain
from understudy.admission.validation.resource import configuration, identifiers, selector
from understudy.admission.validation.resource.release_rules import (
    CONFIGS,
    CONSTRAINTS,
    REQUESTS,
    SELECTORS,
    ReleaseRules,
)
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported, required

ALL, EXACT_COUNT = "All", "ExactCount"


def validate(claim: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check `{"requests": […], "constraints": […], "config": […]}` (upstream: `validateDeviceClaim`).

    stored  whether the claim is unchanged since it was stored
    """
    names = request_names(claim)
    requests = claim.get("requests") or ()
    where = path.child("requests")
    return [
        *validate_list(requests, REQUESTS, lambda request, here: _request(request, here, rules, stored), where, rules),
        *duplicates((request.get("name", "") for request in requests), where, "name"),
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
    ]


def request_names(claim: Obj) -> frozenset[str]:
    """Return the names of a claim's requests."""
    return frozenset(request.get("name", "") for request in claim.get("requests") or ())


def references(names: Any, path: Path, requests: frozenset[str], rules: ReleaseRules) -> Errors:
    """Check the names of requests that a constraint or configuration is about, each once."""
    return [
        *validate_list(
            names, REQUESTS, lambda name, here: identifiers.request_reference(name, here, requests), path, rules
        ),
        *duplicates(names or (), path),
    ]


def _request(request: Obj, path: Path, rules: ReleaseRules, stored: bool) -> Errors:
    errors = label(request.get("name", ""), path.child("name"))
    return errors + _exactly(request["exactly"], rules.exactly(path), rules, stored)


def _exactly(request: Obj, path: Path, rules: ReleaseRules, stored: bool) -> Errors:
    class_name = request.get("deviceClassName", "")
    where = path.child("deviceClassName")
    errors = subdomain(class_name, where) if class_name else [required(where)]
    errors += selectors(request.get("selectors"), path, rules, stored)
    return errors + _count(request, path)


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
    mode, count, where = request.get("allocationMode", ""), request.get("count", 0), path.child("count")
    if mode == ALL:
        return [invalid(where, count, "must not be specified when allocationMode is 'All'")] if count else []
    if mode == EXACT_COUNT:
        return [] if count > 0 else [invalid(where, count, "must be greater than zero")]
    return [not_supported(path.child("allocationMode"), mode, (ALL, EXACT_COUNT))]


def _constraint(constraint: Obj, path: Path, names: frozenset[str], rules: ReleaseRules) -> Errors:
    errors = references(constraint.get("requests"), path.child("requests"), names, rules)
    attribute, where = constraint.get("matchAttribute"), path.child("matchAttribute")
    if attribute is None:
        return [*errors, required(where)]
    return errors + identifiers.fully_qualified(attribute, where, rules)


def _config(config: Obj, path: Path, names: frozenset[str], rules: ReleaseRules, stored: bool) -> Errors:
    errors = references(config.get("requests"), path.child("requests"), names, rules)
    return errors + configuration.validate(config, path, rules, stored)
