"""Selectors with the answers that were recorded from real kube-apiservers of 1.32 to 1.37."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from understudy.cel import Environment, device_environment
from understudy.cel import compile as compile_selector
from understudy.cel import compiler as cel_compiler
from understudy.cel.ast import Node, children
from understudy.cel.errors import RecursionDepthError, Report
from understudy.cel.parser import antlr_parser, quick_parser
from understudy.cel.parser.antlr_parser import parse as parse_with_antlr
from understudy.cel.parser.builder import NodeBuilder
from understudy.cel.parser.dialect import DIALECTS
from understudy.cel.parser.quick_parser import SyntaxMismatchError, surely_within_limits
from understudy.cel.parser.quick_parser import parse as parse_quickly
from understudy.cel.parser.tokens import scan
from understudy.machinery.releases.features import DRA_CONSUMABLE_CAPACITY, DRA_LIST_TYPE_ATTRIBUTES, Gate
from understudy.machinery.releases.version import V1_32, V1_35, Version
from understudy.machinery.util.deep_recursion import call_deeply, on_deep_stack

ENVIRONMENT = device_environment(V1_32)


def corpus(name: str) -> list[tuple[str, str | None]]:
    """Return the expressions of a corpus with their answers."""
    lines = (Path(__file__).parent / f"corpus-{name}.jsonl").read_text("utf-8").splitlines()
    return [(expression, answer) for expression, answer in map(json.loads, lines)]


CORPUS = corpus("1.32")


def server_of(name: str) -> tuple[Version, tuple[Gate, ...]]:
    """Return the release of the server of a corpus, and its feature gates: those of 1.35 and later had one more on."""
    release, _, variant = name.partition("-")
    version = Version.parse(release)
    gates = (DRA_CONSUMABLE_CAPACITY,) if version >= V1_35 else ()
    return version, (*gates, DRA_LIST_TYPE_ATTRIBUTES) if variant == "lists" else gates


# The corpora of random selectors, most of which another release answers differently. Those of 1.37 are about what its
# cel-go brought.
NAMES = sorted(path.stem.removeprefix("corpus-") for path in Path(__file__).parent.glob("corpus-*.jsonl"))
RANDOM = {name: server_of(name) for name in NAMES if name != "1.32"}

MAX_BYTES, MAX_COST = 10240, 1_000_000


def server_answer(expression: str, environment: Environment = ENVIRONMENT) -> str | None:
    """Return the message of the validation error without its `Invalid value: "…": `; None if the selector is valid."""
    if len(expression.encode()) > MAX_BYTES:
        return f"Too long: may not be more than {MAX_BYTES} bytes"
    compiled = compile_selector(expression, environment)
    if compiled.error_kind == "internal":
        return f"Internal error: {compiled.error}"
    if compiled.error is None and compiled.cost > MAX_COST:
        return "Forbidden: too complex, exceeds cost limit"
    return compiled.error


@pytest.mark.parametrize(("expression", "answer"), CORPUS, ids=[str(number) for number in range(len(CORPUS))])
def test_selector_gets_the_recorded_answer(expression: str, answer: str | None) -> None:
    """A selector is accepted or refused as it was recorded, with the same message."""
    assert server_answer(expression) == answer


@pytest.mark.parametrize("name", RANDOM)
def test_random_selectors_get_the_recorded_answers(name: str) -> None:
    """Each release accepts and refuses the selectors as it was recorded, with the same messages."""
    release, features = RANDOM[name]
    environment = device_environment(release, features=frozenset(features))
    recorded = corpus(name)
    assert [(each, server_answer(each, environment)) for each, _ in recorded] == recorded


def outline(node: Node) -> object:
    """Return a tree as nested tuples: the kinds of nodes, their offsets and scalar fields."""
    slots = [slot for kind in type(node).__mro__ for slot in getattr(kind, "__slots__", ())]
    plain = [(slot, getattr(node, slot)) for slot in sorted(slots) if slot not in ("type", "overloads")]
    return (
        type(node).__name__,
        [(slot, repr(value)) for slot, value in plain if isinstance(value, (str, bytes, int, float, frozenset))],
        [outline(child) for child in children(node)],
    )


def test_both_parsers_build_the_same_trees() -> None:
    """The quick parser and the ANTLR parser accept the same expressions and build equal trees."""
    differences, compared = [], 0
    macros = ENVIRONMENT.declarations.macros
    for expression, _ in CORPUS:
        tokens, unreadable = scan(expression, quoted_fields=False)
        if unreadable or len(tokens) > 2000 or not surely_within_limits(tokens):
            continue
        compared += 1
        reports = Report(expression), Report(expression)
        try:
            one = call_deeply(parse_quickly, tokens, NodeBuilder(reports[0], macros, DIALECTS[V1_32]))
        except (SyntaxMismatchError, RecursionDepthError):
            one = None
        other = on_deep_stack(parse_with_antlr, tokens, unreadable, NodeBuilder(reports[1], macros, DIALECTS[V1_32]))
        if one is None or reports[0].errors:
            agree = other is None and bool(reports[1].errors)
        else:
            agree = other is not None and outline(one) == outline(other)
        if not agree:
            differences.append(expression)
    assert (differences, compared > len(CORPUS) * 0.8) == ([], True)


def test_antlr_parser_alone_gives_the_recorded_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expressions get the recorded errors if the quick parser never runs."""
    monkeypatch.setattr(quick_parser, "surely_within_limits", lambda _tokens: False)
    answers = {
        expression: answer
        for expression, answer in CORPUS
        if answer is None or not answer.startswith(("Too long", "Forbidden", "Internal"))
    }
    assert len(answers) > len(CORPUS) * 0.8
    for expression, answer in answers.items():
        assert cel_compiler.compile_anew(expression, ENVIRONMENT).error == answer


def test_cel_cpp_finds_syntax_errors_in_the_same_expressions() -> None:
    """cel-expr-python, Google's C++ implementation, finds syntax errors in the same expressions."""
    celcpp = pytest.importorskip("cel_expr_python.cel")
    optional = pytest.importorskip("cel_expr_python.ext.ext_optional")
    bindings = pytest.importorskip("cel_expr_python.ext.ext_bindings")
    environment = celcpp.NewEnv(extensions=[optional.ExtOptional(), bindings.ExtBindings()])
    differences = []
    for expression, answer in CORPUS:
        has_syntax_error = answer is not None and "Syntax error" in answer
        if len(expression) > 200 or "`" in expression:  # it has other limits on depth, and quoted field names
            continue
        try:
            environment.compile(expression, disable_check=True)
            accepts = True
        except RuntimeError as error:
            accepts = "Syntax error" not in str(error)
        if accepts is has_syntax_error:
            differences.append(expression)
    assert not differences


def chain(sign: str, count: int, operand: str = "1") -> str:
    return f" {sign} ".join([operand] * count)


@pytest.mark.parametrize(
    "expression",
    [
        chain("+", 3000),
        *(chain("+", count) for count in (251, 252)),
        *(f"a{'.b' * count}" for count in (250, 251)),
        *(f"a{'.b(1)[2]' * count}" for count in (125, 126)),
        *(f"[{chain('-', count)}, f({chain('<', 100)})]" for count in (251, 252)),
        *(f"{chain('*', count, 'a.b.c')} + {chain('+', 100)}" for count in (147, 150, 151)),
        *(f"{chain('+', 100)} + {chain('*', count)} + {chain('+', 50)}" for count in (199, 200, 201, 202)),
        *(f"{'(1 + ' * count}1{')' * count}" for count in (10, 60)),
        *(f"{'true ? 1 : ' * count}{chain('+', 200)}" for count in (49, 50, 51, 52, 53)),
        *(f"{chain('+', 249)} + (a ? b : c.d{'.e' * count})" for count in (0, 248, 249, 250)),
        *(f"x.y(1, {chain('+', 100)}){'.z' * count}" for count in (148, 149, 150, 151, 249, 250)),
        *(f"A{'.b' * 10}{{c: {chain('+', count)}}}" for count in (250, 251, 252)),
    ],
)
def test_both_parsers_count_depth_alike(expression: str) -> None:
    """Operators and selections that nest too deep are refused by both parsers, at the same depth."""
    tokens, unreadable = scan(expression, quoted_fields=False)
    assert surely_within_limits(tokens)
    macros = ENVIRONMENT.declarations.macros
    report = Report(expression)
    try:
        quick = call_deeply(parse_quickly, tokens, NodeBuilder(Report(expression), macros, DIALECTS[V1_32]))
    except RecursionDepthError:
        quick = None
    antlr = on_deep_stack(parse_with_antlr, tokens, unreadable, NodeBuilder(report, macros, DIALECTS[V1_32]))
    if antlr is None:
        assert quick is None
        assert "max recursion depth exceeded" in str(report)
    else:
        assert quick is not None
        assert on_deep_stack(outline, quick) == on_deep_stack(outline, antlr)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{chain('+', 3000)} == 1", "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"),
        (chain("||", 1700, "true"), None),
    ],
    ids=["+", "||"],
)
def test_long_expressions_are_parsed_quickly(
    expression: str, error: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of terms are no reason to walk the grammar's network, which takes much longer."""
    monkeypatch.delattr(antlr_parser, "parse")
    assert cel_compiler.compile_anew(expression, ENVIRONMENT).error == error
