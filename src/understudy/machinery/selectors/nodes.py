"""Node selectors: which nodes they match, and what is wrong with them.

Upstream: `k8s.io/component-helpers/scheduling/corev1/nodeaffinity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases.version import Version
from understudy.machinery.selectors.labels import Requirement, Test, requirement_errors
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}
_FIELD_OPERATORS = ("In", "NotIn")


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a selector: all its requirements have to be met; one with errors matches no node."""

    labels: Sequence[Test]
    fields: Sequence[tuple[str, str, bool]]  # (field, value, whether it has to have this value, or another one)
    errors: Errors

    def matches(self, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        """Report whether a node with labels meets the term. A node without a name has no fields to look at."""
        if self.errors or not all(test(labels) for test in self.labels):
            return False
        return not fields or all((fields.get(name, "") == value) == equal for name, value, equal in self.fields)


class NodeSelector:
    """A node selector (`core/v1.NodeSelector`), read once for many nodes.

    A node has to meet one of the terms. A term without requirements is ignored; without terms no node matches. The only
    field that nodes have is `metadata.name`.

    selector  the object that it was made of
    """

    __slots__ = ("_errors", "_terms", "selector")

    def __init__(self, selector: Obj) -> None:
        self.selector = selector
        path, terms = Path("nodeSelectorTerms"), selector.get("nodeSelectorTerms") or ()
        self._terms = [_term(term, path.index(i)) for i, term in enumerate(terms) if _has_requirements(term)]
        self._errors = [error for term in self._terms for error in term.errors]

    def error(self, version: Version) -> str:
        """Return the error of the selector, "" for a good one. Upstream: the error of `NewNodeSelector`."""
        return aggregate([error.text(version) for error in self._errors]) if self._errors else ""

    def matches(self, node: Obj) -> bool:
        """Report whether a node meets one of the terms; one that is wrong is met by no node."""
        metadata = node.get("metadata") or {}
        labels = metadata.get("labels") or {}
        fields = {"metadata.name": metadata["name"]} if metadata.get("name") else {}
        return any(term.matches(labels, fields) for term in self._terms)


def _has_requirements(term: Obj) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _term(term: Obj, path: Path) -> _Term:
    labels: list[Requirement] = []
    errors: Errors = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        at = path.child("matchExpressions").index(i)
        key, operator = expression.get("key", ""), expression.get("operator", "")
        if operator not in _OPERATORS:
            errors.append(not_supported(at.child("operator"), operator, _OPERATORS))
            continue
        errors += requirement_errors(key, _OPERATORS[operator], Typed.of_field(expression, "values", "[]string"), at)
        labels.append(Requirement(key, _OPERATORS[operator], frozenset(expression.get("values") or ())))
    fields = []
    for i, field in enumerate(term.get("matchFields") or ()):
        at = path.child("matchFields").index(i)
        operator = field.get("operator", "")
        values: list[str] = field.get("values") or []
        if operator not in _FIELD_OPERATORS:
            errors.append(not_supported(at.child("operator"), operator, _FIELD_OPERATORS))
        elif len(values) != 1:
            typed = Typed.of_field(field, "values", "[]string")
            errors.append(invalid(at.child("values"), typed, "must have one element"))
        else:
            fields.append((field.get("key", ""), values[0], operator == "In"))
    return _Term([] if errors else [requirement.test() for requirement in labels], fields, errors)
