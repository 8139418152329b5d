"""The rules of definitions: compilation, estimated cost, and where transition rules may stand.

The texts, costs and sizes are those of kube-apiserver 1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.apiextensions import schemas
from understudy.kinds.apiextensions.schema_rules import KnownRules, cost_error_text
from understudy.machinery.releases.version import V1_31, V1_36, Version
from understudy.machinery.validation.field import Path

STRING = {"type": "string", "maxLength": 10}
HINT = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
UNBOUNDED = {"type": "array", "items": {"type": "string"}}


def rules(*expressions: str) -> list[dict[str, str]]:
    return [{"rule": expression} for expression in expressions]


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def errors(whole: dict[str, Any], known: KnownRules | None = None, release: Version = V1_36) -> list[tuple[str, str]]:
    """Return (field, detail) of the errors of a schema, with paths from `spec` on."""
    found = schemas.validate(whole, Path("x"), False, "v1", known or KnownRules(release))
    return [(str(e.field).removeprefix("x.openAPIV3Schema.properties[spec].properties"), str(e.detail)) for e in found]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({**STRING, "x-kubernetes-validations": rules("self == 'a'", "self.startsWith('a')")}, []),
        (
            {**STRING, "x-kubernetes-validations": rules("self")},
            [("rule", "cel expression must evaluate to a bool")],
        ),
        (
            {**STRING, "x-kubernetes-validations": rules("self == 1")},
            [
                (
                    "rule",
                    "compilation failed: ERROR: <input>:1:6: found no matching overload for '_==_' applied to "
                    "'(string, int)'\n | self == 1\n | .....^",
                )
            ],
        ),
        (
            {**STRING, "x-kubernetes-validations": [{"rule": "self == 'a'", "messageExpression": "1"}]},
            [("messageExpression", "messageExpression must evaluate to a string")],
        ),
        (
            {**STRING, "x-kubernetes-validations": [{"rule": "self == 'a'", "optionalOldSelf": True}]},
            [("optionalOldSelf", "may not be set if oldSelf is not used in rule")],
        ),
        ({**STRING, "x-kubernetes-validations": rules("self == oldSelf")}, []),
    ],
)
def test_rules_compile(part: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """A rule must be a valid expression of type bool, its messageExpression one of type string."""
    assert errors(schema(a=part)) == [(f"[a].x-kubernetes-validations[0].{name}", text) for name, text in expected]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "object", "items": {**STRING, "x-kubernetes-validations": rules("true")}}, []),
        (
            {
                "type": "object",
                "items": {**STRING, "x-kubernetes-validations": rules("true")},
                "x-kubernetes-validations": rules("true"),
            },
            [("[a].items.x-kubernetes-validations", "failed to convert to declType for CEL validation rules")],
        ),
        (
            {
                "type": "object",
                "items": {"type": "object", "properties": {"b": {**STRING, "x-kubernetes-validations": rules("true")}}},
            },
            [],
        ),
    ],
)
def test_items_below_an_object(part: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """A schema with rules gives its parts their types: items of an object have none."""
    assert errors(schema(a=part)) == expected


@pytest.mark.parametrize(
    "rule",
    ["self.__namespace__ == 'a'", "self.namespace == 'a'", "self.x__dash__y == 1", "has(self.o.a__dot__b)"],
)
def test_fields_are_escaped(rule: str) -> None:
    """A field whose name is no identifier is written escaped; one that is a keyword may be written as it is."""
    fields = {"namespace": STRING, "x-y": {"type": "integer"}, "o": {"type": "object", "properties": {"a.b": STRING}}}
    whole = schema(a={"type": "object", "properties": fields, "x-kubernetes-validations": rules(rule)})
    assert errors(whole) == []


def test_new_rules_use_what_the_release_before_knew() -> None:
    """A new rule may not use what CEL of this very release brought; a rule that was stored before may."""
    whole = schema(a={**STRING, "x-kubernetes-validations": rules("format.dns1123Label().validate(self).hasValue()")})
    assert "undeclared reference to 'format'" in errors(whole, release=V1_31)[0][1]
    assert errors(whole, KnownRules.of(V1_31, {"v1": whole}, {"v1": whole})) == []


def test_transition_rules_need_items_that_can_be_compared() -> None:
    """A rule with oldSelf is refused inside of a list, unless keys tell which item was which before."""
    items = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": STRING},
        "x-kubernetes-validations": rules("self.k == oldSelf.k"),
    }
    atomic = {"type": "array", "maxItems": 5, "items": items}
    by_key = {**atomic, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    assert errors(schema(a=by_key)) == []
    text = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
    where = "x.openAPIV3Schema.properties[spec].properties"
    assert errors(schema(a=atomic)) == [("[a].items.x-kubernetes-validations[0].rule", f"{text}{where}[a]")]
    outer = {"type": "array", "maxItems": 5, "items": atomic}
    assert errors(schema(a=outer)) == [("[a].items.items.x-kubernetes-validations[0].rule", f"{text}{where}[a]")]


def test_types_must_be_known() -> None:
    """A rule cannot stand at a list of values without a type."""
    items = {"x-kubernetes-preserve-unknown-fields": True}
    found = errors(schema(a={"type": "array", "items": items, "x-kubernetes-validations": rules("true")}))
    assert found[0][0] == "[a].x-kubernetes-validations"
    assert "unable to convert structural schema to CEL declarations" in found[0][1]


def test_cost_of_a_rule_is_limited() -> None:
    """A rule that may cost too much is refused, with the factor by which it does."""
    found = errors(schema(a={**UNBOUNDED, "x-kubernetes-validations": rules("self.all(x, self.all(y, x == y))")}))
    path = "[a].x-kubernetes-validations[0].rule"
    assert found[0][0] == path
    assert found[0][1].startswith(f"estimated rule cost exceeds budget by factor of more than 100x {HINT}")
    assert found[1] == (
        path,
        "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
    )
    assert found[2][0] == "x.openAPIV3Schema"


def test_cost_counts_how_often_a_value_may_stand() -> None:
    """The cost of a rule inside of lists and maps is multiplied by their largest sizes."""
    rule = {**STRING, "x-kubernetes-validations": rules("self.contains('a')")}
    once = {"type": "array", "maxItems": 1000, "items": rule}
    often = {"type": "object", "maxProperties": 100000, "additionalProperties": once}
    assert errors(schema(a=once)) == []
    found = errors(schema(a=often))
    assert found[0] == (
        "[a].additionalProperties.items.x-kubernetes-validations[0].rule",
        cost_error_text("estimated rule cost", 500_000_000, 10_000_000),
    )


def test_cost_of_an_unchanged_schema_is_not_limited() -> None:
    """A schema that an update leaves as it is keeps its rules, but their total stays limited."""
    rule = "self.all(x, self.all(y, y.contains(x)))"
    whole = schema(a={"type": "array", "maxItems": 1000, "items": STRING, "x-kubernetes-validations": rules(rule)})
    other = schema(b=STRING, **whole["properties"]["spec"]["properties"])
    limited = [("[a].x-kubernetes-validations[0].rule", cost_error_text("estimated rule cost", 21005002, 10_000_000))]
    assert errors(whole) == limited
    known = KnownRules.of(V1_36, {"v1": whole}, {"v1": whole})
    assert errors(whole, known) == []
    assert errors(other, KnownRules.of(V1_36, {"v1": whole}, {"v1": other})) == limited


@pytest.mark.parametrize(
    ("cost", "factor"),
    [(10_000_001, "1.000000x"), (14_999_999, "1.500000x"), (15_000_000, "1.5x"), (10**9, "100.0x"), (10**10, "more")],
)
def test_factor_of_a_cost(cost: int, factor: str) -> None:
    """The factor has the digits that are needed to show that it is more than one."""
    assert cost_error_text("cost", cost, 10_000_000).startswith(f"cost exceeds budget by factor of {factor}")


def test_rules_around_other_errors_are_not_compiled() -> None:
    """A rule is not compiled while the schema below it has other errors; rules elsewhere are."""
    broken = {"type": "string", "uniqueItems": True, "x-kubernetes-validations": rules("nonsense")}
    found = errors(schema(a=broken, b={**STRING, "x-kubernetes-validations": rules("self")}))
    assert [path for path, _ in found] == ["[a].uniqueItems", "[b].x-kubernetes-validations[0].rule"]
