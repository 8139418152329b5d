"""Forms of a report for machines: JUnit for CI servers, SARIF 2.1.0 for code scanning.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html, https://github.com/testmoapp/junitxml
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from understudy.cli.documents import place
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOMEPAGE = "https://github.com/understudy-dev/understudy"
# What XML 1.0 cannot have, not even escaped.
_NO_XML = regex("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Problem(NamedTuple):
    """A finding as the forms show it.

    file, line   its place; "" and 0 where it is not known
    reason       as in the causes of a Status, "Unreadable" for a file
    about, text  of which object, and what is wrong
    """

    file: str
    line: int
    reason: str
    about: str
    text: str


def sarif(problems: Iterable[Problem]) -> Iterator[str]:
    """Yield a SARIF log with a result for each problem, and a rule for each reason."""
    results = [*problems]
    rules = sorted({problem.reason for problem in results})
    driver = {"name": "understudy", "informationUri": HOMEPAGE, "rules": [_rule(reason) for reason in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, rules.index(problem.reason)) for problem in results],
    }
    yield json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(reason: str) -> dict[str, Any]:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason)
    return {"id": reason, "shortDescription": {"text": f"The API server refuses the object: {words}"}}


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    text = f"{problem.about}: {problem.text}" if problem.about else problem.text
    out: dict[str, Any] = {"ruleId": problem.reason, "ruleIndex": rule, "level": "error", "message": {"text": text}}
    if problem.file:
        location: dict[str, Any] = {"artifactLocation": {"uri": quote(problem.file.replace("\\", "/"))}}
        if problem.line:
            location["region"] = {"startLine": problem.line}
        out["locations"] = [{"physicalLocation": location}]
    return out


def junit(problems: Iterable[Problem], objects: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a JUnit report: a suite for each file, a test for each object (FILE, KIND/NAME) and unreadable file."""
    failures: dict[tuple[str, str], list[Problem]] = {}
    suites: dict[str, list[str]] = {}
    for problem in problems:
        failures.setdefault((problem.file, problem.about), []).append(problem)
    for file, about in dict.fromkeys([*objects, *failures]):
        suites.setdefault(file, []).append(about)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_counts(sum(map(len, suites.values())), len(failures))}>"
    for file, tests in suites.items():
        failed = sum((file, about) in failures for about in tests)
        yield f"  <testsuite name={_attribute(file or '-')}{_counts(len(tests), failed)}>"
        for about in tests:
            yield from _test(file, about, failures.get((file, about), []))
        yield "  </testsuite>"
    yield "</testsuites>"


def _counts(tests: int, failures: int) -> str:
    return f' tests="{tests}" failures="{failures}" errors="0"'


def _test(file: str, about: str, problems: list[Problem]) -> Iterator[str]:
    """Yield a test with one failure that names all problems: many readers show the first failure only."""
    head = f"    <testcase name={_attribute(about or file or '-')} classname={_attribute(file or '-')}"
    if not problems:
        yield f"{head}/>"
        return
    lines = [": ".join(filter(None, [place(problem.file, problem.line), problem.text])) for problem in problems]
    yield f"{head}>"
    text = escape(_NO_XML.sub("\ufffd", "\n".join(lines)))
    head = f"      <failure type={_attribute(problems[0].reason)} message={_attribute(problems[0].text)}>"
    yield f"{head}{text}</failure>"
    yield "    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("�", text))
