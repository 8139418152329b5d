"""CEL rules of schemas at work on values: errors, messages, transitions, ratcheting and budgets.

The texts are those of kube-apiserver 1.36, unless a release is named.
"""

from __future__ import annotations

from typing import Any

import pytest

from understudy.cel import Budget
from understudy.kinds.apiextensions.structural_schema.correlation import Correlation
from understudy.kinds.apiextensions.structural_schema.rules import Outcome, compile_rules
from understudy.machinery.releases.version import V1_34, V1_36, Version
from understudy.machinery.validation.schema_paths import SchemaPathError, resolve

INTEGER = {"type": "integer"}
OPTIONAL = {"rule": "oldSelf.hasValue() || self > 3", "optionalOldSelf": True}


def with_rules(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    sources = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {**schema, "x-kubernetes-validations": sources}


def spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def validate(schema: dict[str, Any], value: Any, old: Any = None, release: Version = V1_36, **more: Any) -> Outcome:
    rules = compile_rules(schema, release, resource_root=False)
    assert rules is not None
    return rules.validate(value, old, **more)


def texts(schema: dict[str, Any], value: Any, old: Any = None, release: Version = V1_36, **more: Any) -> list[str]:
    return [error.text(release) for error in validate(schema, value, old, release, **more).errors]


def test_schema_without_rules_has_no_validation() -> None:
    """A schema without rules has nothing to evaluate."""
    assert compile_rules(spec(a=INTEGER), V1_36) is None


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        (spec(a=with_rules(INTEGER, "self > 3")), {"a": 4}, []),
        (spec(a=with_rules(INTEGER, "self > 3")), {"a": 3}, ["a: Invalid value: 3: failed rule: self > 3"]),
        (spec(a=with_rules(INTEGER, "self > 3")), {}, []),
        (with_rules(spec(a=INTEGER), "self.a > 3"), {"a": 3}, ["<nil>: Invalid value: failed rule: self.a > 3"]),
        (
            {"type": "array", "items": with_rules(INTEGER, "self > 3")},
            [4, 1, 2],
            ["[1]: Invalid value: 1: failed rule: self > 3", "[2]: Invalid value: 2: failed rule: self > 3"],
        ),
        (
            {"type": "object", "additionalProperties": with_rules(INTEGER, "self > 3")},
            {"a": 1},
            ["[a]: Invalid value: 1: failed rule: self > 3"],
        ),
        (
            spec(déjà=with_rules(INTEGER, "self > 3")),
            {"déjà": 1},
            ["déjà: Invalid value: 1: failed rule: self > 3"],
        ),
    ],
)
def test_rules_apply_where_they_stand(schema: dict[str, Any], value: Any, errors: list[str]) -> None:
    """A rule is evaluated on each value of its schema; a value that is absent breaks none."""
    assert texts(schema, value) == errors


UNTYPED = "rule compiler initialization error: failed to convert to declType for CEL validation rules"


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        (
            spec(a={"type": "object", "items": with_rules(INTEGER, "true")}),
            {"a": [1]},
            [f'a[0]: Invalid value: "integer": {UNTYPED}'],
        ),
        (
            spec(a={"type": "string", "items": {"type": "array", "items": with_rules(INTEGER, "true")}}),
            {"a": [[1]]},
            [f'a[0][0]: Invalid value: "integer": {UNTYPED}'],
        ),
        (spec(a={"type": "object", "items": with_rules(INTEGER, "true")}), {"a": {}}, []),
    ],
)
def test_rules_of_values_without_a_type(schema: dict[str, Any], value: Any, errors: list[str]) -> None:
    """Rules of items below a schema that describes no list do not compile."""
    assert texts(schema, value) == errors


@pytest.mark.parametrize(
    "schema",
    [
        spec(a={"type": "object", "items": spec(b=with_rules(INTEGER, "self > 3"))}),
        spec(a={"type": "string", "properties": {"b": with_rules(INTEGER, "self > 3")}}),
        spec(a={"x-kubernetes-preserve-unknown-fields": True, "properties": {"b": with_rules(INTEGER, "self > 3")}}),
    ],
)
def test_rules_of_fields_of_values_without_a_type(schema: dict[str, Any]) -> None:
    """Rules of fields that expressions do not know are not looked at: there are no rules."""
    assert compile_rules(schema, V1_36, resource_root=False) is None


def test_errors_showed_types_before_1_35() -> None:
    """Up to 1.34 an error shows the type of a value in the place of the value."""
    schema = spec(a=with_rules(INTEGER, "self > 3"))
    assert texts(schema, {"a": 3}, release=V1_34) == ['a: Invalid value: "integer": failed rule: self > 3']


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"message": " too low "}, "Invalid value: 3: too low"),
        ({"messageExpression": "'not ' + string(self)"}, "Invalid value: 3: not 3"),
        ({"messageExpression": "' '", "message": "m"}, "Invalid value: 3: m"),
        ({"messageExpression": r"'a\nb'"}, "Invalid value: 3: failed rule: self > 3"),
        ({"messageExpression": "string(1 / (self - 3))", "message": "m"}, "Invalid value: 3: m"),
        ({"reason": "FieldValueForbidden"}, "Forbidden: failed rule: self > 3"),
        ({"reason": "FieldValueRequired", "message": "m"}, "Required value: m"),
        ({"reason": "FieldValueDuplicate"}, "Duplicate value: 3"),
    ],
)
def test_message_and_reason_of_a_rule(rule: dict[str, str], text: str) -> None:
    """A rule has its message, that of its messageExpression if it has a usable one, and its reason."""
    assert texts(spec(a=with_rules(INTEGER, {"rule": "self > 3", **rule})), {"a": 3}) == [f"a: {text}"]


@pytest.mark.parametrize(
    ("field_path", "path"), [(".a", "x.a"), (".m['k']", "x.m[k]"), ("['a']", "x.a"), (".m['a.b']", "x.m[a.b]")]
)
def test_field_path_of_a_rule(field_path: str, path: str) -> None:
    """The error of a rule with a fieldPath is at that field."""
    fields = spec(a=INTEGER, m={"type": "object", "additionalProperties": INTEGER})
    schema = spec(x=with_rules(fields, {"rule": "self.a > 3", "fieldPath": field_path}))
    assert texts(schema, {"x": {"a": 1}}) == [f"{path}: Invalid value: failed rule: self.a > 3"]


@pytest.mark.parametrize("path", ["a", ".b", ".a.b", "['a'", r"['\x']"])
def test_wrong_field_paths(path: str) -> None:
    """A path that leads nowhere is an error."""
    with pytest.raises(SchemaPathError):
        resolve(spec(a=INTEGER), path, brackets=True)


@pytest.mark.parametrize(
    ("rule", "detail"),
    [
        ("self.l[5] == 1", "index out of bounds: 5 evaluating rule: self.l[5] == 1"),
        (
            "self.d.size() > 1",
            "'no such overload: size': call arguments did not match a supported operator, function or macro signature "
            "for rule: self.d.size() > 1",
        ),
    ],
)
def test_rule_that_fails(rule: str, detail: str) -> None:
    """A rule that cannot be evaluated is an error with the reason of that; the rules after it are evaluated."""
    fields = spec(l={"type": "array", "items": INTEGER}, d={"x-kubernetes-int-or-string": True})
    value = {"l": [], "d": 1}
    assert texts(with_rules(fields, rule, "self.d == 2"), value) == [
        f'<nil>: Invalid value: "object": {detail}',
        "<nil>: Invalid value: failed rule: self.d == 2",
    ]


def test_transition_rules_compare_with_the_old_value() -> None:
    """A rule with oldSelf is evaluated only if there is an old value."""
    schema = spec(a=with_rules(INTEGER, "self >= oldSelf"))
    assert texts(schema, {"a": 1}) == []
    assert texts(schema, {"a": 1}, {"b": 2}) == []
    assert texts(schema, {"a": 1}, {"a": 2}) == ["a: Invalid value: 1: failed rule: self >= oldSelf"]


def test_items_of_lists_with_keys_have_old_values() -> None:
    """The old value of an item is the one with the same keys; items of other lists have none."""
    item = with_rules(spec(k={"type": "string"}, v=INTEGER), "self.v >= oldSelf.v")
    by_key = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    old = [{"k": "a", "v": 5}, {"k": "b", "v": 1}]
    new = [{"k": "b", "v": 2}, {"k": "a", "v": 4}, {"k": "c", "v": 0}]
    assert texts(by_key, new, old) == ["[1]: Invalid value: failed rule: self.v >= oldSelf.v"]
    assert texts({"type": "array", "items": item}, new, old) == []


def test_optional_old_self() -> None:
    """A rule with optionalOldSelf is evaluated on new values as well, where its gate is on."""
    schema = spec(a=with_rules(INTEGER, OPTIONAL))
    error = f"a: Invalid value: 1: failed rule: {OPTIONAL['rule']}"
    assert texts(schema, {"a": 1}) == [error]
    assert texts(schema, {"a": 1}, {"a": 2}) == []
    assert texts(schema, {"a": 1}, optional_rules=False) == []


def test_unchanged_values_may_break_rules() -> None:
    """A rule that an unchanged value breaks is a warning, a transition rule is not."""
    schema = spec(a=with_rules(INTEGER, "self > 3"), b=with_rules(INTEGER, "self > 3", "self > oldSelf"))
    old = {"a": 1, "b": 1}
    new = {"a": 1, "b": 1, "c": 1}
    outcome = validate(schema, new, old, correlation=Correlation(new, old, schema))
    assert [error.field for error in outcome.warnings] == ["a", "b"]
    assert [error.text(V1_36) for error in outcome.errors] == ["b: Invalid value: 1: failed rule: self > oldSelf"]
    changed = {"a": 2, "b": 4}
    outcome = validate(schema, changed, old, correlation=Correlation(changed, old, schema))
    assert [error.field for error in outcome.errors] == ["a"]


def test_budget_is_shared() -> None:
    """All rules of an object share a budget; once it is spent, no further rule is evaluated."""
    schema = spec(a=with_rules(INTEGER, "self > 3"), b=with_rules(INTEGER, "self > 3"))
    none_left = (
        'Invalid value: "integer": validation failed due to running out of cost budget, no further validation rules '
        "will be run"
    )
    assert texts(schema, {"a": 1, "b": 1}, budget=Budget(3)) == [
        "a: Invalid value: 1: failed rule: self > 3",
        f"b: {none_left}",
    ]
    assert texts(schema, {"a": 1, "b": 1}, budget=Budget(1)) == [f"a: {none_left}"]


def test_rule_that_costs_too_much() -> None:
    """A rule that costs more than one call may is an error, and no further rule is evaluated."""
    rule = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))"
    schema = with_rules({"type": "array", "items": with_rules(INTEGER, "self > 3")}, rule)
    assert texts(schema, list(range(100))) == [
        "<nil>: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation "
        f"rules will be run due to call cost exceeds limit for rule: {rule}"
    ]


def test_message_expression_that_costs_too_much() -> None:
    """A messageExpression that costs more than is left of the budget is an error itself."""
    schema = spec(a=with_rules(INTEGER, {"rule": "self > 3", "messageExpression": "'a' + string(self)"}))
    assert texts(schema, {"a": 1}, budget=Budget(3)) == [
        'a: Invalid value: "integer": messageExpression evaluation failed due to running out of cost budget, no '
        "further validation rules will be run"
    ]


def test_whole_objects_have_names() -> None:
    """The rules of a whole object see its kind, apiVersion and the names in its metadata."""
    rules = compile_rules(with_rules(spec(), "self.metadata.name == 'a' && self.kind == 'K'"), V1_36)
    assert rules is not None
    assert rules.validate({"kind": "K", "metadata": {"name": "a"}}).errors == []
    assert len(rules.validate({"kind": "K", "metadata": {"name": "b"}}).errors) == 1
