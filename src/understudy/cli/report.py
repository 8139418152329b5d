"""What `understudy validate` found, and the forms in which it says so: text, JSON, annotations of GitHub.

Findings are printed on stdout, how much was looked at on stderr. Files that cannot be read are errors, too: in the text
they are lines on stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from understudy.cli.documents import STDIN, UnreadableError, place
from understudy.cli.output import print_places
from understudy.offline.validator import Finding

VALID, INVALID, UNREADABLE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Located:
    """A finding and its place; `line` counts from 1, 0 for the whole file."""

    file: str
    line: int
    finding: Finding

    def __str__(self) -> str:
        return " ".join(f"{place(self.file, self.line)}: {self.finding}".splitlines())

    def as_json(self) -> dict[str, Any]:
        """Return the finding as `--output json` prints it, but for its releases."""
        return {"file": self.file, "line": self.line, **asdict(self.finding)}


@dataclass
class Report:
    """The result of `understudy validate`, to which files and findings are added as they are read.

    releases    those that were asked
    unreadable  what cannot be read
    files, objects, skipped  how many were read; how many objects are in them, and were skipped
    findings    each with the releases that have it, in order
    """

    releases: list[str]
    unreadable: list[UnreadableError]
    files: int
    objects: int = 0
    skipped: int = 0
    findings: dict[Located, dict[str, None]] = field(default_factory=dict)

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
    for why in report.unreadable:
        yield _annotation(why.file, why.line, "", why.problem)
    for located in report.findings:
        text = located.finding.text + report.suffix(located)
        yield _annotation(located.file, located.line, located.finding.about, text)


def _annotation(file: str, line: int, title: str, message: str) -> str:
    """Return `::error file=…,line=…,title=…::MESSAGE`, without what is not known."""
    known = {"file": "" if file == STDIN else file, "line": str(line) if line else "", "title": title}
    properties = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in known.items() if value)
    return f"::error {properties}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """Return a text as workflow commands have it: some characters are `%` and their code."""
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" or char in more else char for char in text)


# How reports are printed, by the value of `--output`.
FORMS = {"text": _text, "json": _json, "github": _github}
