"""The environments of releases, and properties of compilation that hold for every expression."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.releases import NEWEST
from understudy.cel import Compiled, device_environment
from understudy.cel import compile as compile_selector
from understudy.machinery.releases.features import DRA_CONSUMABLE_CAPACITY, DRA_LIST_TYPE_ATTRIBUTES, Gate
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_35, V1_36, Version

ENVIRONMENT = device_environment(NEWEST)


@pytest.mark.parametrize(
    ("release", "expression", "compiles"),
    [
        (V1_31, "device.driver == 'x'", True),
        (V1_31, "format.dns1123Label().validate(device.driver).hasValue()", False),
        (V1_32, "format.dns1123Label().validate(device.driver).hasValue()", True),
        (V1_32, "device.attributes.all(domain, names, true)", False),
        (V1_32, "device.attributes['x'].?y.orValue(true)", True),
        (V1_32, "[true].first().value()", False),
        (V1_33, "[true].first().value()", True),
        (V1_33, "device.attributes.all(domain, names, true)", True),
        (V1_33, "isSemver('v1', true)", False),
        (V1_34, "isSemver('v1', true)", True),
        (V1_34, "[true].reverse()[0]", False),
        (V1_35, "[true].reverse()[0]", True),
    ],
)
def test_new_expression_uses_libraries_of_the_release_before(release: Version, expression: str, compiles: bool) -> None:
    """New expressions may use the libraries of the release before, so that they can be read after a rollback."""
    assert (compile_selector(expression, device_environment(release)).error is None) is compiles


def test_stored_expression_uses_libraries_of_its_release() -> None:
    """An expression that the object already had may use everything that the release knows."""
    expression = "format.uuid().validate(device.driver).hasValue()"
    assert compile_selector(expression, device_environment(V1_31)).error is not None
    assert compile_selector(expression, device_environment(V1_31, stored=True)).error is None


@pytest.mark.parametrize(
    ("release", "gate", "expression"),
    [
        (V1_34, DRA_CONSUMABLE_CAPACITY, "device.allowMultipleAllocations"),
        (V1_36, DRA_LIST_TYPE_ATTRIBUTES, "device.attributes['x'].y.includes(1)"),
    ],
)
def test_gates_decide_what_new_expressions_may_use(release: Version, gate: Gate, expression: str) -> None:
    """A gate decides what new expressions may use; stored ones may always use it."""
    assert compile_selector(expression, device_environment(release)).error is not None
    assert compile_selector(expression, device_environment(release, features=frozenset([gate]))).error is None
    assert compile_selector(expression, device_environment(release, stored=True)).error is None


def test_compilation_is_cached() -> None:
    """Compiling the same expression twice returns the same object."""
    assert compile_selector("device.driver != ''", ENVIRONMENT) is compile_selector("device.driver != ''", ENVIRONMENT)


def test_import_loads_no_parser() -> None:
    """Importing the package does not load RE2, which would slow down the start."""
    code = "import sys, understudy.cel.compiler; print([m for m in ('re2',) if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"


def test_expression_imports_the_libraries_that_it_calls() -> None:
    """An expression imports the library of a function that it calls, and no other: all would take 0.02 s."""
    code = f"""
import sys
from understudy.cel import compile, device_environment
from understudy.machinery.releases.version import Version
environment = device_environment(Version.parse("{NEWEST}"))
for expression in ("device.driver == 'a'", "device.capacity['a'].b.isGreaterThan(quantity('1'))"):
    assert compile(expression, environment).error is None
    print([name for name in ("quantity", "network") if f"understudy.cel.library.{{name}}" in sys.modules])
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.splitlines() == ["[]", "['quantity']"]


TEXT = r"""
device .driver .attributes [ ] ( ) { } , : ? . ! - + * / % && || == < in true null 1 2u 1.5 'a' "b \q # & x .all(x, has(
cel.bind(a, .? [? 9999999999999999999 0x r' b'a' // é ' ''' .optMap(v, .map(y, size( .format([ '%d' as _?_:_
"""
PIECES = st.sampled_from([*TEXT.split(), " ", "\n", "\t"])


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join)))
def test_compile_never_raises(expression: str) -> None:
    """Every text is compiled to a program or an error."""
    compiled = compile_selector(expression, ENVIRONMENT)
    assert isinstance(compiled, Compiled)
    assert (compiled.error is None) == (compiled.program is not None)


@pytest.mark.parametrize(
    ("expression", "ending"),
    [
        ("(" * 5000, "expression recursion limit exceeded: 250"),
        ("[" * 249 + "]" * 249 + " == []", None),
        ("1 + " * 300 + "1 == 2", "max recursion depth exceeded"),
        ("true && " * 1200 + "true", None),
        ("device" + ".a" * 250, "undefined field 'a'"),
        ("device" + ".a" * 251, "max recursion depth exceeded"),
        ("device" + ".?a" * 251, "max recursion depth exceeded"),
        ("device" + "[0]" * 251, "max recursion depth exceeded"),
        ("device" + ".a()" * 251, "max recursion depth exceeded"),
        ("device" + ".a" * 100 + "+1" * 151, "max recursion depth exceeded"),
        ("-" * 9000 + "1 == 1", None),
        ("x" * 10000, "(in container '')"),
    ],
)
def test_depth_limits_hold(expression: str, ending: str | None) -> None:
    """cel-go's limits on depth hold, and what they allow does not exhaust Python's stack."""
    compiled = compile_selector(expression, ENVIRONMENT)
    if ending is not None:
        assert compiled.error is not None
        assert compiled.error.split("\n |")[0].endswith(ending)
