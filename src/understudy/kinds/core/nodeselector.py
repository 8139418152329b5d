"""Validation of node selectors, of pods, volumes, slices and allocation results."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.label_selectors import operands
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, required
from understudy.machinery.validation.names import label_value_texts, qualified_name_texts, subdomain_name

# Labels whose names have left beta.
_RENAMED = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def equal_ignoring_beta_labels(new: Any, old: Any) -> bool:
    """Report whether two selectors, or parts of them, are equal apart from labels that left beta."""
    if isinstance(new, dict) and isinstance(old, dict):
        if "key" in old:  # a key of no beta label may become empty too
            was, new, old = old["key"], {"key": "", **new}, {**old, "key": ""}
            new["key"] = "" if new["key"] in (was, _RENAMED.get(was, "")) else new["key"]
        return new.keys() == old.keys() and all(equal_ignoring_beta_labels(new[name], was) for name, was in old.items())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(equal_ignoring_beta_labels, new, old))
    return bool(new == old)


def validate(selector: Obj, path: Path, *, any_values: bool = False) -> Errors:
    """Check a core/v1 NodeSelector (upstream: `ValidateNodeSelector`). `any_values` allows what no label can have."""
    terms, where = selector.get("nodeSelectorTerms"), path.child("nodeSelectorTerms")
    if not terms:
        return [required(where, "must have at least one node selector term")]
    return [error for i, term in enumerate(terms) for error in validate_term(term, where.index(i), any_values)]


def validate_term(term: Obj, path: Path, any_values: bool = False) -> Errors:
    """Check one term of a node selector (upstream: `ValidateNodeSelectorTerm`)."""
    expressions, fields = path.child("matchExpressions"), path.child("matchFields")
    return [
        error
        for i, item in enumerate(term.get("matchExpressions") or ())
        for error in _expression(item, expressions.index(i), any_values)
    ] + [error for i, item in enumerate(term.get("matchFields") or ()) for error in _field(item, fields.index(i))]


def _expression(item: Obj, path: Path, any_values: bool) -> Errors:
    key, values = item.get("key", ""), item.get("values") or ()
    errors = _operands(item, path)
    errors += [invalid(path.child("key"), key, text) for text in qualified_name_texts(key)]
    if not any_values:
        where = path.child("values")
        errors += [
            invalid(where.index(i), value, text) for i, value in enumerate(values) for text in label_value_texts(value)
        ]
    return errors


def _operands(item: Obj, path: Path) -> Errors:
    """Check the values of an expression, which has two operators more than one of a label selector."""
    if item.get("operator") not in ("Gt", "Lt"):
        return operands(item, path)
    text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
    return [] if len(item.get("values") or ()) == 1 else [required(path.child("values"), text)]


def _field(item: Obj, path: Path) -> Errors:
    key, operator, values = item.get("key", ""), item.get("operator", ""), item.get("values") or ()
    errors: Errors = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(path.child("values"), text))
    if key != "metadata.name":
        return [*errors, invalid(path.child("key"), key, "not a valid field selector key")]
    where = path.child("values")
    return errors + [
        invalid(where.index(i), value, text) for i, value in enumerate(values) for text in subdomain_name(value, False)
    ]
