"""Times that tests compare with those of a server: they are taken when the test runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
CLOCKS = {"datetime", "date", "time"}
READINGS = {"now", "today", "utcnow", "time", "time_ns"}


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when a module is imported: all but the bodies of functions."""
    yield node
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and name == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from run_at_import(child)


def takes_time(call: ast.Call) -> bool:
    """Report whether a call asks for the time of the machine: `time.time()`, `datetime.now(UTC)`, `FixedDate()`."""
    clock, _, reading = ast.unparse(call.func).rpartition(".")
    return reading == "FixedDate" or (clock in CLOCKS and reading in READINGS)


def taken_at_import(source: str) -> list[int]:
    """List the lines of a module that ask for the time when it is imported."""
    calls = [node for node in run_at_import(ast.parse(source)) if isinstance(node, ast.Call)]
    return sorted(call.lineno for call in calls if takes_time(call))


def test_import_takes_no_time() -> None:
    """Hours may pass between the collection of a test and its run: then what was read at import is not the time."""
    late = {path.relative_to(TESTS).as_posix(): taken_at_import(path.read_text()) for path in TESTS.rglob("*.py")}
    assert {path: lines for path, lines in late.items() if lines} == {}


def test_readings_are_seen_where_they_are_early() -> None:
    """A constant, a default and a decorator are read at import, the body of a function is not."""
    early = "A = time.time()\n@f(datetime.now(UTC))\ndef g(a=FixedDate()): ...\nclass C:\n    a = [date.today()]"
    assert taken_at_import(early) == [1, 2, 3, 5]
    assert taken_at_import("def f():\n    return time.time()\ng = lambda: datetime.now(UTC)") == []
