"""Objects of the built-in kinds, created and changed: what kube-apiservers answered, of 1.32 if no release is named.

A line of `created.jsonl` is {"why", "path", "object", "status", "answer" and "cells" or "causes", "warnings"}; what a
server makes up is `<uid>`, `<time>`, `<ip>`, `<age>`. A line of `updated.jsonl` creates an object and takes steps:
{"why", "changes": [[path, value], …], "subresource", "status", "answer" or "causes", "warnings"}, where a path without
a value is a field that goes away; steps are dry runs except for those with "write". Of a cause of several lines the
first is compared: the rest is a difference of Go values, laid out at random. Errors and warnings are compared in sorted
order, since maps have none. Files that end in a release hold what it answers differently from 1.32; "gates" are those
that are not as by default. "why" says what a line is about and names its test.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clock import FixedClock
from tests.http import send
from tests.kinds.rows import TABLE, causes, changed, masked, masked_cell, spaced, without_server_fields
from tests.releases import NEWEST, RELEASES, often
from understudy import Server
from understudy.machinery.releases.version import V1_32, Version

# Rows were recorded on that day; they say how long ago the times in the objects were.
pytestmark = pytest.mark.apiserver(clock=FixedClock.at("2026-11-21T12:00:00Z"))

RECORDED = Path(__file__).parent / "recorded"
# Servers of 1.33 and later were recorded serving what is off by default, too.
_EVERYTHING: dict[str, Any] = {"runtime_config": {"api/all": True}}


def lines(name: str, needed: str = "object") -> list[Any]:
    """Return the recorded cases that have a field: those of 1.32, and those that other releases answer differently.

    In every run are those of 1.32 and the newest release.
    """
    cases = []
    for release, line in rows(name):
        served = _EVERYTHING if release > V1_32 else {}
        gates = line.get("gates", {})
        mark = pytest.mark.apiserver(emulated_version=str(release), feature_gates=gates, **served)
        if needed in line and release in RELEASES:
            marks = [mark, *often(release in {V1_32, NEWEST})]
            cases.append(pytest.param(line, marks=marks, id=f"{release}-{line['object']['kind']}: {line['why']}"))
    return cases


def rows(name: str) -> Iterator[tuple[Version, Any]]:
    """Yield (release, row) of the files of a name."""
    for file in sorted(RECORDED.glob(f"{name}*.jsonl"), reverse=True):
        release = Version.parse(file.stem.removeprefix(name).removeprefix("-") or "1.32")
        for line in file.read_text().splitlines():
            yield release, json.loads(line)


@pytest.mark.parametrize("name", ["created", "updated"])
def test_rows_say_what_they_are_about(name: str) -> None:
    """Rows of a kind and release have different `why`s: `python -m scripts.record names` gives them."""
    whys = Counter((release, line["object"]["kind"], line.get("why")) for release, line in rows(name))
    assert [why for why, count in whys.items() if count > 1 or not why[2]] == []


def ordered(line: Any, name: str) -> list[Any]:
    return sorted(line.get(name, []))


@pytest.mark.parametrize("line", lines("created"))
def test_create_is_answered_as_recorded(apiserver: Server, line: Any) -> None:
    """A dry run of a create is answered as a kube-apiserver answered it."""
    response = send(apiserver, "POST", line["path"] + "?dryRun=All", spaced(line["object"]))
    status, answer = response.status, response.json()
    errors = [] if status < 300 else masked(causes(answer))
    assert (status, sorted(errors)) == (
        line["status"],
        sorted([r, f, m.split("\n")[0]] for r, f, m in ordered(line, "causes")),
    )
    assert sorted(masked(response.warnings)) == ordered(line, "warnings")
    if status < 300:
        assert without_server_fields(answer) == line["answer"]


@pytest.mark.parametrize("line", lines("created", "cells"))
def test_table_row_is_as_recorded(apiserver: Server, line: Any) -> None:
    """The row of an object, as `kubectl get` prints it, has the recorded cells."""
    table = send(apiserver, "POST", line["path"] + "?dryRun=All", spaced(line["object"]), accept=TABLE).json()
    cells = [masked_cell(cell) for cell in masked(table["rows"][0]["cells"])]
    assert cells == line["cells"]


@pytest.mark.parametrize("line", lines("updated"))
def test_update_is_answered_as_recorded(apiserver: Server, line: Any) -> None:
    """Updates of a stored object are answered as a kube-apiserver answered them."""
    created = send(apiserver, "POST", line["path"], spaced(line["object"]))
    assert created.status == 201, created.body
    stored = created.json()
    where = f"{line['path']}/{stored['metadata']['name']}"
    for step in line["steps"]:
        path = where + (f"/{step['subresource']}" if step["subresource"] else "")
        query = "" if step.get("write") else "?dryRun=All"
        response = send(apiserver, "PUT", path + query, spaced(changed(stored, step["changes"])))
        status, answer = response.status, response.json()
        errors = [] if status < 300 else masked(causes(answer))
        assert (status, sorted(errors)) == (step["status"], ordered(step, "causes")), step
        assert sorted(response.warnings) == ordered(step, "warnings"), step
        if "answer" in step:
            assert without_server_fields(answer) == step["answer"], step
        if step.get("write"):
            stored = answer
