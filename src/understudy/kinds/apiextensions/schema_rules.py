"""Validation of the rules in the schemas of custom resources: they compile, and their estimated cost has limits.

A rule costs what its evaluation may cost, as often as its value may occur in an object. The largest numbers of elements
come from maxItems, maxProperties and maxLength, or from the size of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from understudy.kinds.context import COMPILATION, observe_nothing
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, internal, invalid

if TYPE_CHECKING:
    from understudy.cel.checker.declared_types import DeclaredType
    from understudy.cel.rules import Rule

RULES: Final = "x-kubernetes-validations"
RULE_COST_LIMIT: Final = 10_000_000
"""The largest estimated cost of one rule (`StaticEstimatedCostLimit`)."""
SCHEMA_COST_LIMIT: Final = 100_000_000
"""The largest estimated cost of all rules of a schema (`StaticEstimatedCRDCostLimit`)."""

_MOST_EXPENSIVE = 4
_MAX_COST = 2**64 - 1
_RULE_TYPE = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions.ValidationRule"
_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert "
    "structural schema to CEL declarations"
)


@dataclass(frozen=True)
class KnownRules:
    """The rules of a definition before an update: they may use what CEL of this very release brought.

    `rules` and `messages` are expressions of any version, `unchanged` are the names of the versions whose schema is the
    same as before: for their rules there is no limit of cost. `observe` counts the seconds that rules take to compile.
    """

    version: Version
    rules: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    unchanged: frozenset[str] = frozenset()
    observe: Callable[[str, float], None] = observe_nothing

    @classmethod
    def of(
        cls,
        version: Version,
        before: Mapping[str, Obj | None],
        after: Mapping[str, Obj | None],
        observe: Callable[[str, float], None] = observe_nothing,
    ) -> KnownRules:
        """Return the rules of a definition, given the schemas of its versions by name before and after an update."""
        known = [rule for schema in before.values() if schema for rule in _rules_within(schema)]
        return cls(
            version,
            frozenset(rule.get("rule", "") for rule in known),
            frozenset(rule["messageExpression"] for rule in known if rule.get("messageExpression")),
            frozenset(name for name, schema in after.items() if name in before and before[name] == schema),
            observe,
        )


def _rules_within(part: Any) -> Iterator[Obj]:
    """Yield all rules in a schema."""
    if isinstance(part, dict):
        if isinstance(part.get(RULES), list):
            yield from part[RULES]
        for inner in part.values():
            yield from _rules_within(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _rules_within(inner)


def validate(schema: Obj, path: Path, version: str, known: KnownRules, others: Errors) -> Errors:
    """Check the rules of a whole structural schema, that of a version.

    others  the errors of the schema apart from its rules: rules around a part with errors are not compiled
    """
    if next(_rules_within(schema), None) is None:
        return []
    places = frozenset(error.field for error in others)
    checker = _Checker(known, version in known.unchanged, places)
    errors = checker.check(schema, path, _Place())
    return errors + checker.total.errors(path)


def cost_error_text(name: str, cost: int, limit: int) -> str:
    """Return the detail of an estimate over its limit (`getCostErrorMessage`)."""
    factor = cost / limit
    if factor > 100:
        times = "more than 100x"
    else:
        times = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


@dataclass
class _TotalCost:
    """The estimated cost of all rules of a schema, and the most expensive ones with their paths."""

    total: int = 0
    expensive: list[tuple[int, Path]] = field(default_factory=list)

    def add(self, cost: int, path: Path) -> None:
        """Add the cost of the expression at a path."""
        self.total = min(self.total + cost, _MAX_COST)
        if cost >= SCHEMA_COST_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive.sort(key=lambda entry: -entry[0])
            del self.expensive[_MOST_EXPENSIVE:]

    def errors(self, path: Path) -> Errors:
        """Return the errors of a schema at a path whose rules cost too much together."""
        if self.total <= SCHEMA_COST_LIMIT:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors = [forbidden(place, text) for _, place in self.expensive]
        return [*errors, forbidden(path, cost_error_text(whole, self.total, SCHEMA_COST_LIMIT))]


@dataclass(frozen=True)
class _Place:
    """The place of a schema.

    `cardinality` is how often a value may occur there, None if only the size of a request limits that. `uncorrelatable`
    is the path of the outermost list around it whose items cannot be compared with those before an update. `in_rules`:
    it is below a schema with rules, which gives its parts their types; elements of no list or map are not `typed`.
    """

    root: bool = True
    cardinality: int | None = 1
    uncorrelatable: Path | None = None
    in_rules: bool = False
    typed: bool = True

    def inside(self, schema: Obj) -> _Place:
        """Return the place of the parts of a schema."""
        most = _max_elements(schema)
        unbounded = self.cardinality is None or most is None
        cardinality = None if unbounded else _product(self.cardinality or 0, most or 0)
        return replace(self, root=False, cardinality=cardinality, in_rules=self.in_rules or bool(schema.get(RULES)))

    def of_elements(self, schema: Obj) -> _Place:
        """Return the place, which is that of the parts of a schema, for its items or additional properties."""
        return replace(self, typed=not self.in_rules or _has_elements(schema))


def _max_elements(schema: Obj) -> int | None:
    """Return the number of values that the parts of a schema describe, None for no limit (`extractMaxElements`)."""
    name = ""
    if schema.get("type") == "array":
        name = "maxItems"
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        name = "maxProperties"
    if not name:
        return 1
    return None if schema.get(name) is None else max(schema[name], 0)


def _has_elements(schema: Obj) -> bool:
    """Report whether a schema describes lists or maps."""
    others = isinstance(schema.get("additionalProperties"), dict)
    return schema.get("type") == "array" or (schema.get("type") == "object" and others)


def _product(one: int, other: int) -> int:
    return min(one * other, _MAX_COST)


class _Checker:
    """The check of the rules of one schema. `places` are the paths of errors that it has apart from its rules."""

    def __init__(self, known: KnownRules, unlimited: bool, places: frozenset[str]) -> None:
        self.total = _TotalCost()
        self._known = known
        self._unlimited = unlimited
        self._places = places

    def check(self, schema: Obj, path: Path, place: _Place) -> Errors:
        """Check the rules of a schema, after those of its parts."""
        errors: Errors = []
        inner = place.inside(schema)
        if isinstance(schema.get("additionalProperties"), dict):
            place_of_others = inner.of_elements(schema)
            errors += self.check(schema["additionalProperties"], path.child("additionalProperties"), place_of_others)
        for name, part in (schema.get("properties") or {}).items():
            errors += self.check(part, path.child("properties").key(name), replace(inner, typed=True))
        if isinstance(schema.get("items"), dict):
            if schema.get("x-kubernetes-list-type") != "map" and inner.uncorrelatable is None:
                inner = replace(inner, uncorrelatable=path)
            errors += self.check(schema["items"], path.child("items"), inner.of_elements(schema))
        return errors + (self._own(schema, path, place) if schema.get(RULES) else [])

    def _own(self, schema: Obj, path: Path, place: _Place) -> Errors:
        start = str(path)
        if any(text.startswith(start) and text[len(start) :][:1] in ("", ".", "[") for text in self._places):
            return []
        from understudy.cel.checker.declared_types import declared_type  # here, since most schemas have none
        from understudy.cel.rules import NO_DECLARATION, compile_rule

        if not place.typed:
            return [internal(path.child(RULES), NO_DECLARATION)]
        root = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
        declared = declared_type(schema, self._known.version, resource_root=root)
        if declared is None:
            return [internal(path.child(RULES), _NO_TYPE)]
        started = perf_counter()
        rules = [
            compile_rule(
                source,
                declared,
                self._known.version,
                stored=source.get("rule", "") in self._known.rules,
                message_stored=source.get("messageExpression", "") in self._known.messages,
            )
            for source in schema[RULES]
        ]
        self._known.observe(COMPILATION, perf_counter() - started)
        errors: Errors = []
        for i, rule in enumerate(rules):
            errors += self._rule(rule, declared, path.child(RULES).index(i), place)
        return errors

    def _rule(self, rule: Rule, declared: DeclaredType, path: Path, place: _Place) -> Errors:
        where, compiled = path.child("rule"), rule.compiled
        errors: Errors = []
        if compiled is not None:
            if compiled.error is not None:
                errors.append(invalid(where, Typed(rule.source, _RULE_TYPE), compiled.error))
            else:
                times = declared.max_cardinality if place.cardinality is None else place.cardinality
                errors += self._cost(_product(compiled.cost, times), "estimated rule cost", where)
        where = path.child("messageExpression")
        if rule.message_error:
            errors.append(invalid(where, Typed(rule.source, _RULE_TYPE), rule.message_error))
        elif rule.message is not None:
            errors += self._cost(rule.message.cost, "estimated messageExpression cost", where)
        return errors + _old_self(rule, path, place)

    def _cost(self, cost: int, name: str, path: Path) -> Errors:
        self.total.add(cost, path)
        if self._unlimited or cost <= RULE_COST_LIMIT:
            return []
        return [forbidden(path, cost_error_text(name, cost, RULE_COST_LIMIT))]


def _old_self(rule: Rule, path: Path, place: _Place) -> Errors:
    """Check that a transition rule is where a value can be compared with the one before."""
    optional = rule.source.get("optionalOldSelf")
    if not rule.uses_old_self and optional is not None:
        return [invalid(path.child("optionalOldSelf"), optional, "may not be set if oldSelf is not used in rule")]
    if not rule.uses_old_self or place.uncorrelatable is None:
        return []
    text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
    return [invalid(path.child("rule"), rule.source["rule"], text)]
