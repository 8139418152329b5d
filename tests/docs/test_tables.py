"""What pages say of releases is made from the schemas: the tables of docs/releases.md, and the names of releases."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT
from tests.releases import RELEASES, served
from understudy.apiserver.serving.release import DEFAULT, Release, previews
from understudy.apiserver.serving.runtime_config import SUFFICIENT_GATES
from understudy.machinery.releases.version import Version

PAGE = DOCS / "releases.md"
PACKAGE = ROOT / "src" / "understudy"


def table(head: Sequence[str], *body: Sequence[str]) -> str:
    """Return a table in Markdown."""
    lines = ["".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in (head, *body)]
    return "".join([lines[0], "|" + "---|" * len(head) + "\n", *lines[1:]])


def versions(release: Version, group: str, name: str) -> str:
    """Return the versions of a kind in a release, preferred first, in italics those that are off by default."""
    kind = Release.of(release).kind(group, name)
    on = served(release).kind(group, name)
    of_kind = kind.versions if kind else ()
    return ", ".join(version if on and version in on.versions else f"*{version}*" for version in of_kind)


def kinds_table() -> str:
    """Return the table of the kinds that are not the same in every release, those with the same versions in one row."""
    every = {(kind.group, kind.name): kind.resource for release in RELEASES for kind in Release.of(release).kinds}
    rows: dict[tuple[str, ...], list[str]] = {}
    for group, name in sorted(every, key=lambda key: (key[0] != "resource.k8s.io", key)):
        cells = [versions(release, group, name) for release in RELEASES]
        if len(set(cells)) > 1 or group == "resource.k8s.io":
            gate = SUFFICIENT_GATES.get((group, every[group, name]), "")
            rows.setdefault((f" of `{group}`", *cells, gate), []).append(name)
    body = [(", ".join(names) + group, *cells) for (group, *cells), names in rows.items()]
    return table(("kind", *map(str, RELEASES), "feature gate"), *body)


STAGES = {"ALPHA": "alpha", "BETA": "beta", "": "GA"}


def gates_table(guards: dict[str, str]) -> str:
    """Return the table of the feature gates of DRA; `guards` is the text of their last cells."""
    histories = json.loads((PACKAGE / "schemas/feature_gates.json").read_text())
    named = sorted(gate for gate in histories if gate.startswith("DRA"))
    rows = []
    for gate in ("DynamicResourceAllocation", *named, "GenericWorkload"):
        specs = [latest(histories[gate], release) for release in RELEASES]
        cells = [f"{STAGES[stage]} {state(gate, on, locked)}" if stage != "-" else "" for stage, on, locked in specs]
        rows.append((gate, *cells, guards.get(gate, "?")))
    return table(("feature gate", *map(str, RELEASES), "guards"), *rows)


def previews_table() -> str:
    """Return the table of previews, with their gates whose stage or default is not that of the release before."""
    histories = json.loads((PACKAGE / "schemas/feature_gates.json").read_text())
    rows = []
    for preview in previews():
        changed = {gate: latest(history, preview) for gate, history in histories.items()}
        cells = [
            f"{gate} {STAGES[stage]} {state(gate, on, locked)}" if stage != "-" else f"without {gate}"
            for gate, (stage, on, locked) in changed.items()
            if (stage, on, locked) != latest(histories[gate], preview.previous)
        ]
        rows.append((str(preview), Release.of(preview).version_info["gitVersion"], ", ".join(cells)))
    return table(("preview", "recorded from", "feature gates, other than in the release before"), *rows)


def latest(history: list[list[Any]], release: Version) -> tuple[str, bool, bool]:
    """Return the stage of a gate in a release, its default, and whether it is locked; the stage is "-" without one."""
    since = [entry[1:] for entry in history if Version.parse(entry[0]) <= release]
    stage, on, locked = since[-1] if since else ("-", False, False)
    return ("-" if stage == "REMOVED" else stage), on, locked


def state(gate: str, on: bool, locked: bool) -> str:
    return "locked" if locked else "on" if on or gate == "DynamicResourceAllocation" else "off"


def patches_table() -> str:
    """Return the table of the patch releases that were recorded, and of the Go with which they are published."""
    facts = [Release.of(release).version_info for release in RELEASES]
    rows = (("answers as", "gitVersion"), ("built with", "goVersion"))
    body = [(name, *(info[field] for info in facts)) for name, field in rows]
    return table(("release", *map(str, RELEASES)), *body)


def test_tables_of_releases_are_true(pytestconfig: pytest.Config) -> None:
    """docs/releases.md shows patch, kinds and gates of each release; `pytest tests/docs --redraw` mends it."""
    text = PAGE.read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    guards = {row[0]: row[-1] for row in rows}
    redrawn = text
    tables = {
        r"release \| 1": patches_table(),
        r"preview \| r": previews_table(),
        r"kind \| 1\.": kinds_table(),
        r"feature gate \| 1": gates_table(guards),
    }
    for head, new in tables.items():
        old = rf"(?m)^\| {head}(?:.*\n)(?:\|.*\n)+"
        redrawn, count = re.subn(old, new.replace("\\", r"\\"), redrawn)
        assert count == 1
    if pytestconfig.getoption("redraw"):
        PAGE.write_text(redrawn)
    assert PAGE.read_text() == redrawn
    assert "| ? |" not in redrawn, "say by hand what the gate guards"


# Where pages name the release that is the default, and all releases.
DEFAULTS = re.compile(
    r'(?<=Kubernetes )1\.\d+(?= (?:API at|at) http)|(?<=kubelet )1\.\d+(?= of node)|(?<=")1\.\d+(?=", register_node)'
)
ALL = re.compile(r"1\.\d+ to 1\.\d+ \(1\.\d+ is the default\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_releases_are_true(page: Path, pytestconfig: pytest.Config) -> None:
    """Pages name the default release, the oldest and the newest; `pytest tests/docs --redraw` mends them."""
    every = f"{RELEASES[0]} to {RELEASES[-1]} ({DEFAULT} is the default)"
    text = page.read_text()
    redrawn = ALL.sub(every, DEFAULTS.sub(DEFAULT, text))
    if pytestconfig.getoption("redraw"):
        page.write_text(redrawn)
    assert page.read_text() == redrawn


PREVIEWS = re.compile(r"(?<![\w.])1\.\d+-(?:alpha|beta|rc)\b(?!\.)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_previews_are_there(page: Path) -> None:
    """No page names a preview that has gone, as it does when its release comes."""
    assert set(PREVIEWS.findall(page.read_text())) <= set(map(str, previews()))
