"""scripts.measure mutate: how it breaks conditions, and what it says of tests that notice some of the breaks."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.measure import mutants, mutate
from tests.scripts.commands import ROOT
from tests.scripts.commands import run as run_script

SOURCE = """
def is_small(n, limit=10, names=None):
    names = names or {}
    if n < limit and n not in names:
        return True
    return False


def first_power(n):
    power = 1
    while power < n:
        power *= 2
    return power


def unused(n):
    return n == 7
"""
TESTS = """
import gc

from limits import first_power, is_small

gc.freeze()  # as large suites do

def test_small():
    assert is_small(9)

def test_large():
    assert not is_small(11)

def test_power():
    assert first_power(4) == 4
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "limits.py").write_text(SOURCE)
    (tmp_path / "test_limits.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a project; its tests import `limits`."""
    source, tests = str(project / "source"), str(project / "test_limits.py")
    command = [
        sys.executable,
        "-m",
        "scripts.measure",
        "mutate",
        source,
        "--tests",
        tests,
        "--patience",
        "4",
        *arguments,
    ]
    path = f"{ROOT}{os.pathsep}{source}"
    return subprocess.run(command, capture_output=True, text=True, cwd=project, env={"PYTHONPATH": path})


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("if a: b()", ["True", "False"]),
        ("if not a: b()", ["True", "False", "a"]),
        ("return a < b", ["True", "False", "a <= b", "a >= b"]),
        ("return a < b <= c", ["True", "False", "a <= b <= c", "a < b < c", "a >= b <= c", "a < b > c"]),
        ("return [x for x in y if x is None]", ["True", "False", "x is not None"]),
        ("return a and b", ["True", "False", "a or b", "True", "True"]),
        ("if a or b: c()", ["True", "False", "a and b", "False", "False"]),
        ("return lambda: 1 if a else 2", ["True", "False"]),
        ("return a or {}", ["True", "False", "False"]),
        ("while True: a()", []),
        ("assert a == b", []),
        ("return a + b", []),
    ],
)
def test_condition_is_broken_in_every_way(statement: str, broken: list[str]) -> None:
    """A condition becomes true and false, negated, moved by one; an operand goes; a literal default is no condition."""
    tree = ast.parse(f"def f(a, b, c):\n    {statement}\n")
    texts = [after for place, role in mutants.conditions(tree) for _, after in mutants.broken(place.get(), role)]
    assert texts == broken


def test_conditions_of_modules_are_left_out() -> None:
    """A condition that is decided while a module is imported has no mutant: defaults and decorators, too."""
    tree = ast.parse("if a: b()\n@c(1 < 2)\ndef f(d=not e): pass\nclass C:\n    g = h and i\n")
    assert list(mutants.conditions(tree)) == []


def test_function_that_lives_is_broken(tmp_path: Path) -> None:
    """A mutant changes functions that others hold already, closures included, and nothing else of them."""
    path = tmp_path / "closures.py"
    path.write_text("def make(limit):\n    def check(n):\n        return n < limit\n    return check\n")
    namespace: dict[str, Any] = {"__name__": "closures"}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), namespace)
    check = namespace["make"](5)
    assert [check(4), check(5)] == [True, False]
    for mutant, answers in zip(
        mutants.mutants(path), [[True, True], [False, False], [True, True], [False, True]], strict=True
    ):
        code = check.__code__, namespace["make"].__code__
        assert mutant.apply() == 2
        assert [check(4), check(5)] == answers
        check.__code__, namespace["make"].__code__ = code


def test_unnoticed_mutants_are_listed(project: Path) -> None:
    """Each break that no test notices is a line; one that hangs is noticed; the last line has the share."""
    done = run(project)
    assert (done.returncode, done.stderr) == (0, "")
    *listed, share = done.stdout.splitlines()
    limits = project / "source" / "limits.py"
    assert listed == [
        f"{limits}:3  names  →  False",
        f"{limits}:4  n < limit  →  n <= limit",
        f"{limits}:4  n not in names  →  True",
        *(f"{limits}:17  n == 7  →  {after}  (no test comes here)" for after in ("True", "False", "n != 7")),
    ]
    assert share == f"{project}/source: 12 of 18 mutants are noticed, 66.7 %"


def test_status_tells_whether_enough_are_noticed(project: Path) -> None:
    """The status is 1 below the share of --at-least; --count takes a sample, and -k chooses tests."""
    few = run(project, "--count", "5", "--at-least", "100", "-k", "power")
    assert few.returncode == 1
    assert " of 5 mutants are noticed" in few.stdout


def test_sample_is_the_same_for_a_seed() -> None:
    """A sample keeps the order, and is chosen by the seed alone; a count that is too large takes all."""
    listed: Any = list(range(100))
    chosen: Any = mutate.sample(listed, 10, 3)
    assert chosen == mutate.sample(listed, 10, 3) == sorted(chosen)
    assert chosen != mutate.sample(listed, 10, 4)
    assert mutate.sample(listed, 101, 3) == mutate.sample(listed, None, 3) == listed


def test_default_tests_mirror_the_source() -> None:
    """Without --tests the mirrored file or folder is run, or the nearest folder above it."""
    for source, tests in (
        ("controlplane/allocator", "controlplane/allocator"),
        ("controlplane/allocator/explain.py", "controlplane/allocator/test_explain.py"),
        ("controlplane/allocator/checks", "controlplane/allocator"),
    ):
        assert mutate.mirrored(ROOT / "src" / "understudy" / source) == ROOT / "tests" / tests


def test_wrong_arguments_and_failing_tests(project: Path) -> None:
    """A folder that is missing, and tests that fail without a mutant, are one line and exit status 2."""
    missing = run_script("measure", "mutate", "kinds/nothing")
    assert missing.returncode == 2
    assert "error: there is no folder" in missing.stderr
    (project / "test_limits.py").write_text("def test_nothing():\n    assert False\n")
    failing = run(project)
    assert failing.returncode == 2
    assert failing.stderr.startswith("mutate: without a mutant ")
    assert failing.stderr.endswith("::test_nothing fails\n")
