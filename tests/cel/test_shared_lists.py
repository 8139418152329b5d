"""Lists that share their elements, and what one evaluation may make."""

from __future__ import annotations

import tracemalloc

import pytest

from understudy.cel import Budget, CostLimitError, EvaluationError, OutOfBudgetError
from understudy.cel import compile as compile_expression
from understudy.cel.ast import walk
from understudy.cel.checker.environment import Environment
from understudy.cel.checker.policy_environments import policy_environment
from understudy.cel.compiler import parse
from understudy.cel.errors import Report
from understudy.cel.library.shared_lists import ConcatList, GrowingList, GrowingMap, concat, grown
from understudy.cel.limits.interrupts import EvaluationTakesLongError, Meter, metered
from understudy.cel.values import Value, count_values, equal, type_of
from understudy.machinery.releases.version import V1_32, V1_36

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

ENVIRONMENT = policy_environment(V1_36, returns=("dyn",), params=False, authorizer=False)
BOOLEAN = policy_environment(V1_36, returns=("bool",), params=False, authorizer=False)
HALF = [f"n{number}" for number in range(40)]


def run(expression: str, data: Value = None, environment: Environment = ENVIRONMENT) -> Value:
    """Return the value of an expression, to which `object` is the data."""
    compiled = compile_expression(f"dyn({expression})", environment)
    assert compiled.error is None
    return compiled.run({"object": data}, Budget())


def test_sum_of_lists_reads_like_a_list() -> None:
    """Size, elements, slices, order and equality of a sum are those of a copy."""
    whole = HALF + HALF[::-1] + HALF[3:]
    shared = concat(concat(HALF, HALF[::-1]), HALF[3:])
    assert type(shared) is ConcatList
    assert (len(shared), list(shared), list(reversed(shared))) == (len(whole), whole, whole[::-1])
    assert [shared[i] for i in range(-len(whole), len(whole))] == whole + whole
    assert (shared[5:95:7], shared[::-1], shared[200:]) == (whole[5:95:7], whole[::-1], [])
    assert equal(shared, whole)
    assert equal(whole, shared)
    assert not equal(shared, whole[1:])
    assert type_of(shared) is type_of(whole)
    with pytest.raises(IndexError):
        shared[len(whole)]


@pytest.mark.parametrize(
    "expression",
    [
        "(object + object).size() == 80",
        "(object + object)[41] == 'n1'",
        "'n7' in (object + object)",
        "!('x' in (object + object))",
        "object + object == object + object",
        "object + object != object + ['n1']",
        "(object + object).all(x, x.startsWith('n'))",
        "(object + object).map(x, x + '!')[79] == 'n39!'",
        "(object + object).all(i, x, object[i % 40] == x)",
        "(object + object).distinct().size() == 40",
        "(object + object).reverse()[0] == 'n39'",
        "(object + object).slice(39, 41) == ['n39', 'n0']",
        "(object + object).sort()[1] == 'n0'",
        "(object + object).join(',').size() == 2 * object.join(',').size() + 1",
        "[object + object, object].flatten().size() == 120",
        "{'a': object + object}.a.size() == 80",
        "'%s'.format([object + object]).size() == 2 * '%s'.format([object]).size()",
        "object + [] == object && [] + object == object",
    ],
)
def test_sum_of_lists_in_expressions(expression: str) -> None:
    """Functions and macros take a sum of lists as any other list."""
    assert run(expression, HALF) is True


def test_list_doubled_again_and_again_takes_no_memory() -> None:
    """A list that is added to itself 50 times has a size and elements, and nobody can afford to read it all."""
    scope: Value = HALF
    tracemalloc.start()
    for _ in range(50):
        scope = run("object + object", scope)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
    assert run("object.size()", scope) == len(HALF) << 50
    assert run("object[object.size() - 1]", scope) == "n39"
    for expression in ("'x' in object", "object == object", "object.all(x, true)", "object.map(x, x)"):
        with metered(Meter(most=2_000_000)), pytest.raises((CostLimitError, EvaluationTakesLongError)):
            run(expression, scope)
    for _ in range(7):
        scope = run("object + object", scope)
    with pytest.raises(EvaluationError, match="integer overflow"):
        run("object + object", scope)


@pytest.mark.parametrize(
    "expression",
    [
        "object.replace('a', object)",
        "'%s'.format([object.split('').map(x, object)])",
        "object.split('').map(x, object).join()",
        "[object.split(''), object.split('')].map(x, object.split('').map(y, x)).flatten().flatten().size()",
        "lists.range(1000000000)",
    ],
)
def test_what_is_too_large_to_make_is_not_made(expression: str) -> None:
    """An evaluation ends before it makes of its arguments more than it could pay for."""
    tracemalloc.start()
    with pytest.raises((CostLimitError, OutOfBudgetError)):
        run(expression, "a" * 4_000 if "replace" not in expression else "a" * 10_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 << 20


def test_macros_collect_in_place() -> None:
    """A macro adds to its list or map in place, and returns an ordinary one."""
    growing, entries = GrowingList([1]), GrowingMap({"a": 1})
    assert concat(growing, [2]) is growing
    assert (grown(growing), type(grown(growing)), type(grown(entries))) == ([1, 2], list, dict)
    for expression in ("object.map(x, x)", "object.filter(x, true)", "object.transformList(i, x, x)"):
        assert type(run(expression, HALF)) is list
    assert type(run("object.transformMap(i, x, x)", HALF)) is dict


def test_macros_let_look_at_what_they_collect() -> None:
    """In releases where the name of what a macro collects can be written, it has what was collected so far."""
    environment = policy_environment(V1_32, returns=("dyn",), params=False, authorizer=False)
    expressions = {
        "[7, 8, 9].map(x, __result__.size())": [0, 1, 2],
        "[7, 8].map(x, dyn(__result__))": [[], [[]]],
        "[7, 8, 9].filter(x, __result__.size() < 2)": [7, 8],
    }
    for expression, expected in expressions.items():
        assert run(expression, environment=environment) == expected


@pytest.mark.parametrize("macro", ["optMap", "optFlatMap"])
def test_chain_of_macros_grows_with_its_length(macro: str) -> None:
    """The tree of a chain of `optMap` doubles nothing, at whatever length."""
    body = "x + 1" if macro == "optMap" else "optional.of(x + 1)"
    nodes = []
    for length in (8, 16):
        tree = parse(f"optional.of(1){f'.{macro}(x, {body})' * length}", report := Report(""), ENVIRONMENT)
        assert tree is not None
        assert not report.errors
        nodes.append(sum(1 for _ in walk(tree)))
    assert nodes[1] < 3 * nodes[0]
    assert compile_expression(f"optional.of(1){f'.{macro}(x, {body})' * 16}.hasValue()", BOOLEAN).error is None


def test_chain_of_macros_repeats_its_errors() -> None:
    """An error at the beginning of a chain of `optMap` is reported as often as upstream copies it."""
    error = compile_expression(f"optional.of(nope){'.optMap(x, x)' * 7}", ENVIRONMENT).error
    assert error is not None
    assert error.count("undeclared reference to 'nope'") == 100
    assert error.endswith("28 more errors were truncated")


def test_values_are_counted_no_further_than_asked() -> None:
    """A nested value counts as often as it occurs, and counting ends beyond the limit."""
    nested: Value = [1, 2]
    for _ in range(60):
        nested = [nested, nested]
    assert count_values(nested, 1000) == 1001
    assert count_values({"a": [1, {"b": 2}]}, 1000) == 5
