"""Validation of derived attributes: expressions that requests add to the attributes of their devices (1.37)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from understudy.kinds.resource.common.each import validate_set
from understudy.kinds.resource.common.expression import derived_attribute_errors
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid

MOST_COST = 1_000_000
"""The estimated cost of all derived attributes of a claim (`DeviceClaimDerivedAttributeCELMaxCost`)."""

_UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
_COSTLY = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
_EVERY_REQUEST = ""


class DerivedAttributes:
    """The check of a claim's derived attributes, which counts what all of them cost."""

    def __init__(self, constraints: Iterable[Obj], rules: ReleaseRules, stored: bool) -> None:
        self._constraints = constraints
        self._rules = rules
        self._stored = stored
        self._cost = 0

    @cached_property
    def _used(self) -> set[tuple[str, str]]:
        """Return (request, attribute) of all constraints."""
        return {use for constraint in self._constraints for use in _uses(constraint)}

    def validate(self, attributes: list[Obj] | None, path: Path, request: str) -> Errors:
        """Check those of a request, or of a subrequest by the name request/subrequest.

        Declared rules check how many there are, how they are named, and that they have an expression.
        """
        return validate_set(
            attributes,
            None,
            lambda attribute, here: self._attribute(attribute, here, request),
            lambda attribute: attribute.get("name", ""),
            path,
            self._rules,
        )

    def total_cost(self, path: Path) -> Errors:
        """Check the cost of all that were validated; `path` is that of the claim's devices."""
        return [forbidden(path, _COSTLY)] if self._cost > MOST_COST else []

    def _attribute(self, attribute: Obj, path: Path, request: str) -> Errors:
        errors: Errors = []
        name, expression = attribute.get("name", ""), attribute.get("expression", "")
        parent = request.partition("/")[0]
        if name and self._used.isdisjoint((each, name) for each in (_EVERY_REQUEST, request, parent)):
            errors.append(replace(invalid(path.child("name"), name, _UNUSED), undeclared=True))
        if expression and not self._stored:
            wrong, cost = derived_attribute_errors(expression, path.child("expression"), self._rules)
            errors += wrong
            self._cost = (self._cost + cost) % 2**64  # wraps around as Go's addition does
        return errors


def _uses(constraint: Obj) -> list[tuple[str, str]]:
    """Return (request, attribute) for each request that a constraint reaches."""
    attribute: str = constraint.get("matchAttribute") or constraint.get("distinctAttribute", "")
    return [(request, attribute) for request in constraint.get("requests") or [_EVERY_REQUEST]]
