"""The cost that evaluations count, and the budgets that limit it. The costs are those of kube-apiserver 1.36."""

from __future__ import annotations

import pytest

from understudy.cel import Budget, CostLimitError, EvaluationError, OutOfBudgetError
from understudy.cel import compile as compile_expression
from understudy.cel.checker.environment import Environment, base_libraries, build_declarations, device_environment
from understudy.cel.checker.policy_environments import policy_environment
from understudy.machinery.releases.version import V1_31, V1_36, Version

SELF = {
    "s": "hello wörld",
    "l": [3, 1, 2],
    "ss": ["a", "bbbbbbbbbbbbbbbbb", ""],
    "m": {"k": "v", "k2": "v2"},
    "n": 5,
    "o": {"a": "x" * 50},
    "d": "7",
}
TYPES = {
    "kubernetes.Self": {
        "s": "string",
        "l": "list(int)",
        "ss": "list(string)",
        "m": "map(string, string)",
        "n": "int",
        "o": "kubernetes.O",
        "d": "dyn",
    },
    "kubernetes.O": {"a": "string"},
}


def environment() -> Environment:
    declared = build_declarations(V1_36, base_libraries(V1_36, True), {"self": "kubernetes.Self"}, TYPES)
    return Environment(V1_36, frozenset(), True, declared, lambda _type: "", purpose=("test",))


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        # names, fields and indices
        ("1", 0),
        ("self.s", 2),
        ("self.o.a", 3),
        ("self.l[self.n - 3]", 6),
        ("self.l[self.l[1]]", 5),
        ("self.m[?'none'].orValue('zz')", 2),
        ("[1, 2][0]", 2),
        # presence, logic and conditionals
        ("has(self.o.a)", 2),
        ("has(self.o) && has(self.s)", 2),
        ("has(self.o) ? self.o.a : self.s", 3),
        ("(self.n == 5 ? self.l : [1])[0]", 5),
        # literals
        ("[1, 2, 3]", 0),
        ("[self.n]", 12),
        ("{'a': self.n}", 32),
        ("google.protobuf.StringValue{value: self.s}", 42),
        # membership
        ("self.s in ['a', 'b']", 2),
        ("self.n in [1, 2, self.n]", 17),
        ("self.s in []", 0),
        # comprehensions
        ("self.l.all(x, x > 0)", 18),
        ("self.l.exists(x, x > 1)", 12),
        ("self.l.map(x, x * 2)", 45),
        ("self.l.filter(x, x > 1)", 35),
        ("optional.of(self.n).optMap(x, x + 1)", 11),
        # functions
        ("self.s.matches('^h.*')", 4),
        ("self.ss.isSorted()", 3),
        ("self.s.split(' ')", 5),
        ("format.uri().validate(self.s)", 555),
        ("cidr('10.0.0.0/8').containsIP('10.1.1.1')", 3),
        ("sets.equivalent(self.l, [1])", 9),
        ("self.l.sort()", 31),
        # failures, which an operator ignores
        ("self.l[7] == 1 || true", 4),
    ],
)
def test_cost_is_that_of_the_real_server(expression: str, cost: int) -> None:
    """An evaluation costs as much as in cel-go with the rules of the Kubernetes libraries."""
    compiled = compile_expression(expression, environment())
    budget = Budget()
    compiled.run({"self": SELF}, budget)
    assert 10_000_000 - budget.remaining == cost


def test_failed_evaluation_costs() -> None:
    """An evaluation that fails takes its cost from the budget, too."""
    budget = Budget(100)
    with pytest.raises(EvaluationError, match="index out of bounds: 7"):
        compile_expression("self.l[7] == 1", environment()).run({"self": SELF}, budget)
    assert budget.remaining == 96


@pytest.mark.maintenance
def test_evaluation_is_cancelled_at_the_limit() -> None:
    """An evaluation that costs more than one call may is cancelled, even inside of an operator that ignores errors."""
    compiled = compile_expression("object.all(x, object.all(y, object.all(z, x + y + z < 0 || true)))", policy())
    with pytest.raises(CostLimitError, match="operation cancelled: actual cost limit exceeded"):
        compiled.run({"object": list(range(100))}, Budget())


def test_evaluation_over_budget_fails() -> None:
    """An evaluation that costs more than is left of the budget fails, and what is left stays."""
    budget = Budget(4)
    compiled = compile_expression("object.a == 1", policy())
    assert compiled.run({"object": {"a": 1}}, budget) is True
    with pytest.raises(OutOfBudgetError, match="no further validation rules will be run"):
        compiled.run({"object": {"a": 1}}, budget)
    assert budget.remaining == 1


def test_variable_without_value_is_an_error() -> None:
    """A declared variable that has no value fails the expression that uses it."""
    with pytest.raises(EvaluationError, match=r"no such attribute\(s\): oldObject"):
        compile_expression("oldObject == null", policy()).run({"object": None}, Budget())


def policy() -> Environment:
    return policy_environment(V1_36, params=False, authorizer=False)


@pytest.mark.parametrize("release", [V1_31, V1_36])
def test_device_selector_is_cancelled_at_the_limit(release: Version) -> None:
    """A selector that costs more than one call may is cancelled, as that of an object from before there was a limit."""
    numbers = list(range(50))
    expression = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, {numbers}.all(d, a + b + c + d >= 0))))"
    compiled = compile_expression(expression, device_environment(release, stored=True))
    with pytest.raises(EvaluationError, match="operation cancelled: actual cost limit exceeded"):
        compiled.evaluate({"driver": "dra.example.com"})


def test_device_selector_within_the_limit_counts_nothing() -> None:
    """A selector that cannot cost too much, as far as is known, is evaluated without counting."""
    environment = device_environment(V1_36)
    assert compile_expression("device.driver == 'dra.example.com'", environment).program is not None
    costly = compile_expression("device.attributes.all(a, device.attributes.all(b, a != b || a == b))", environment)
    assert costly.evaluate({"driver": "dra.example.com", "attributes": {"a": {"int": 1}}}) is True
