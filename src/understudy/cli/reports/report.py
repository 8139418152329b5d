"""What `understudy validate` found, and the forms in which it says so: text, JSON, annotations of GitHub, and
those of `forms`.

Findings are printed on stdout, how much was looked at on stderr. Files that cannot be read are errors, too: in the text
they are lines on stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, field
from typing import Any

from understudy.cli.documents import STDIN, UnreadableError, place
from understudy.cli.output import print_places
from understudy.cli.reports.forms import Problem, junit, sarif
from understudy.machinery.types import dataclass
from understudy.offline.validator import Finding

VALID, INVALID, UNREADABLE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Located:
    """A finding and its place.

    line    counts from 1, 0 for the whole file
    source  the template from which Helm made the object (`# Source: …`), "" if it says nothing. The line is not in it.
    """

    file: str
    line: int
    finding: Finding
    source: str = ""

    def __str__(self) -> str:
        where = place(self.file, self.line)
        return " ".join(f"{f'{self.source} ({where})' if self.source else where}: {self.finding}".splitlines())

    def as_json(self) -> dict[str, Any]:
        """Return the finding as `--output json` prints it, but for its releases."""
        source = {"source": self.source} if self.source else {}
        return {"file": self.file, "line": self.line, **source, **asdict(self.finding)}

    def problem(self, suffix: str) -> Problem:
        """Return the finding as machines are shown it: in the file of a repository, as far as that is known."""
        finding, file, line = self.finding, self.file, self.line
        if self.source:
            file, line, suffix = self.source, 0, f"{suffix} (rendered: {place(file, line)})"
        file = _in_repository(file)
        return Problem(file, line if file else 0, finding.reason, finding.about, finding.text + suffix)


@dataclass
class Report:
    """The result of `understudy validate`, to which files and findings are added as they are read.

    releases    those that were asked
    unreadable  what cannot be read
    files, objects, skipped  how many were read; how many objects are in them, and were skipped
    findings    each with the releases that have it, in order
    checked     (file, KIND/NAME) of the objects that were not skipped
    """

    releases: list[str]
    unreadable: list[UnreadableError]
    files: int
    objects: int = 0
    skipped: int = 0
    findings: dict[Located, dict[str, None]] = field(default_factory=dict)
    checked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def code(self) -> int:
        """Return the exit code."""
        return UNREADABLE if self.unreadable else INVALID if self.findings else VALID

    def print(self, form: str) -> None:
        """Print the report in one of `FORMS`."""
        for line in FORMS[form](self):
            print(line)
        sys.stdout.flush()  # what stderr says comes below it, in a log of both, too
        if form == "text":
            print_places(self.unreadable)
        print(self.summary(), file=sys.stderr)

    def summary(self) -> str:
        """Return the numbers of documents and findings, in one line."""
        counts = [("file", self.files), ("object", self.objects), ("error", len(self.unreadable) + len(self.findings))]
        parts = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts]
        return ", ".join([*parts, f"{self.skipped} skipped"] if self.skipped else parts)

    def suffix(self, located: Located) -> str:
        """Return ` [1.33, 1.34]`, the releases that have a finding; nothing if only one was asked."""
        return f" [{', '.join(self.findings[located])}]" if len(self.releases) > 1 else ""


def _text(report: Report) -> Iterator[str]:
    """Yield `FILE:LINE: KIND/NAME: FIELD: MESSAGE` for each finding."""
    for located in report.findings:
        yield f"{located}{report.suffix(located)}"


def _json(report: Report) -> Iterator[str]:
    """Yield a JSON list with an object for each unreadable file (its reason is `Unreadable`) and for each finding."""
    objects = []
    for why in report.unreadable:
        finding = Finding("", "", "", "Unreadable", "", why.problem)
        objects.append(Located(why.file, why.line, finding).as_json() | {"releases": report.releases})
    for located, names in report.findings.items():
        objects.append(located.as_json() | {"releases": list(names)})
    yield json.dumps(objects, indent=2)


def _github(report: Report) -> Iterator[str]:
    """Yield a workflow command for each error, which GitHub shows next to the line that it names."""
    for problem in _problems(report):
        known = {"file": problem.file, "line": str(problem.line or ""), "title": problem.about}
        properties = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in known.items() if value)
        yield f"::error {properties}::{_escaped(problem.text)}"


def _sarif(report: Report) -> Iterator[str]:
    return sarif(_problems(report))


def _junit(report: Report) -> Iterator[str]:
    return junit(_problems(report), ((_in_repository(file), about) for file, about in report.checked))


def _problems(report: Report) -> Iterator[Problem]:
    """Yield the problems of files that cannot be read, then those of objects."""
    for why in report.unreadable:
        yield Problem(_in_repository(why.file), why.line, "Unreadable", "", why.problem)
    for located in report.findings:
        yield located.problem(report.suffix(located))


def _in_repository(file: str) -> str:
    """Return the name of a file as machines are shown it, "" for standard input, which no repository has."""
    return "" if file == STDIN else file


def _escaped(text: str, more: str = "") -> str:
    """Return a text as workflow commands have it: some characters are `%` and their code."""
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" or char in more else char for char in text)


# How reports are printed, by the value of `--output`.
FORMS = {"text": _text, "json": _json, "github": _github, "sarif": _sarif, "junit": _junit}
