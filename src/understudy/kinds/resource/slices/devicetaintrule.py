"""Validation of DeviceTaintRule: a taint for all devices that a selector selects."""

from __future__ import annotations

from understudy.kinds.common import conditions
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.formats import label, subdomain
from understudy.kinds.resource.claims.devices import selectors
from understudy.kinds.resource.common import identifiers
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.kinds.resource.slices import taint
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, too_many

CONDITIONS = 8


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules, old: Obj | None = None) -> Errors:
    """Check a spec; `old`: the spec that it replaces (upstream: `validateDeviceTaintRuleSpec`)."""
    selector, before = spec.get("deviceSelector"), (old or {}).get("deviceSelector")
    errors = _selector(selector, before, path.child("deviceSelector"), rules) if selector is not None else []
    return errors + taint.validate(spec.get("taint") or {}, path.child("taint"), rules)


def _selector(selector: Obj, old: Obj | None, path: Path, rules: ReleaseRules) -> Errors:
    """Check which devices a rule is for. Classes and CEL selectors were there in 1.33 and 1.34."""
    errors: Errors = []
    if (name := selector.get("deviceClassName")) is not None:
        errors += subdomain(name, path.child("deviceClassName"))
    if (name := selector.get("driver")) is not None:
        errors += identifiers.driver(name, path.child("driver"), rules)
    if (name := selector.get("pool")) is not None:
        errors += identifiers.pool(name, path.child("pool"))
    if (name := selector.get("device")) is not None:
        errors += label(name, path.child("device"))
    expressions = selector.get("selectors")
    stored = old is not None and semantic_deep_equal(expressions, old.get("selectors"))
    return errors + selectors(expressions, path, rules, stored)


def validate_status(status: Obj, path: Path) -> Errors:
    """Check a status (upstream: `ValidateDeviceTaintRuleStatusUpdate`)."""
    items, where = status.get("conditions") or (), path.child("conditions")
    errors = conditions.validate(items, where)
    return errors + ([too_many(where, len(items), CONDITIONS)] if len(items) > CONDITIONS else [])
