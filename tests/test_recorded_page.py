"""RECORDED.md lists every corpus of recorded answers, with the releases that its files are of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.releases import RELEASES
from understudy.machinery.releases.version import Version

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("RECORDED.md")
PATTERN = re.compile(r"`(.+?)`(?: \((\d\.\d+)\))?")
DATA = (*(f"tests/**/*.{suffix}" for suffix in ("json", "jsonl")), "fixtures/**/*.jsonl")


class Corpus(NamedTuple):
    """A row of the page; `files` has the release of each file, None where its name tells none."""

    line: str
    name: str
    files: dict[str, Version | None]
    releases: str

    @property
    def own(self) -> list[Version]:
        """Return the releases that the names of files tell, oldest first."""
        return sorted({release for release in self.files.values() if release})


def rows(title: str) -> list[tuple[str, list[str]]]:
    """Return (line, cells) of each row of the table that begins with a title."""
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(title)) + 2
    end = next((number for number in range(start, len(lines)) if not lines[number].startswith("|")), len(lines))
    return [(line, [cell.strip() for cell in line.strip("|").split("|")]) for line in lines[start:end]]


def corpora() -> list[Corpus]:
    found = []
    for line, (name, patterns, _, _, releases) in rows("| corpus | files |"):
        files: dict[str, Version | None] = {}
        for pattern, release in PATTERN.findall(patterns):
            files |= matching(pattern, release)
        found.append(Corpus(line, name, files, releases))
    return found


def matching(pattern: str, release: str) -> dict[str, Version | None]:
    """Return the files of a pattern with their releases: that of their names, or the given one."""
    expression = re.escape(pattern).replace("RELEASE", r"(\d\.\d+)").replace(r"\*", "[^/]*")
    files: dict[str, Version | None] = {}
    for path in sorted(ROOT.glob(pattern.replace("RELEASE", "*").replace("**", "*"))):
        name = path.relative_to(ROOT).as_posix()
        if match := re.fullmatch(expression, name):
            text = release or (match[1] if match.groups() else "")
            files[name] = Version.parse(text) if text else None
    return files


CORPORA = corpora()


def test_every_recorded_file_is_listed() -> None:
    """Every file of data in the tests belongs to one corpus of the page, and every corpus has files."""
    data = {path.relative_to(ROOT).as_posix() for pattern in DATA for path in ROOT.glob(pattern)}
    assert sorted(data) == sorted(file for corpus in CORPORA for file in corpus.files)
    assert [corpus.name for corpus in CORPORA if not corpus.files] == []


def test_releases_are_those_of_the_files(request: pytest.FixtureRequest) -> None:
    """The page names the releases of a corpus whose files do; `--redraw` writes them anew."""
    text = PAGE.read_text()
    for corpus in CORPORA:
        if corpus.own:
            cells = corpus.line.removesuffix("|").rpartition("|")[0]
            text = text.replace(corpus.line, f"{cells}| {', '.join(map(str, corpus.own))} |")
    if request.config.getoption("redraw"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text


def test_missing_releases_have_a_reason() -> None:
    """A release without a file of a corpus is named with a reason, and only such a release is."""
    missing = {(each.name, release) for each in CORPORA if each.own for release in RELEASES if release not in each.own}
    explained = {
        (name, Version.parse(release))
        for _, (name, releases, reason) in rows("| corpus | releases | reason")
        for release in releases.split(", ")
        if reason
    }
    assert missing == {(name, release) for name, release in explained if release in RELEASES}
