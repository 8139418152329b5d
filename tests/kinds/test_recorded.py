"""Objects of the built-in kinds, created and changed: what kube-apiservers answered, of 1.32 if no release is named.

A line of `created.jsonl` is {"path", "object", "status", "answer" and "cells" or "causes", "warnings"}; what a server
makes up is `<uid>`, `<time>`, `<ip>`, `<age>`. A line of `updated.jsonl` creates an object and takes steps: {"changes":
[[path, value], …], "subresource", "status", "answer" or "causes", "warnings"}, where a path without a value is a field
that goes away; steps are dry runs except for those with "write". Of a cause of several lines the first is compared: the
rest is a difference of Go values, laid out at random. Errors and warnings are compared in sorted order, since maps have
none. Files that end in a release hold what it answers differently from 1.32; "gates" are those that are not as by
default.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.clock import FixedClock
from tests.http import send
from understudy import Server
from understudy.machinery.releases.version import V1_32, Version

# Rows were recorded on that day; they say how long ago the times in the objects were.
pytestmark = pytest.mark.apiserver(clock=FixedClock.at("2026-11-21T12:00:00Z"))

RECORDED = Path(__file__).parent / "recorded"
# Servers of 1.33 and later were recorded serving what is off by default, too.
_EVERYTHING: dict[str, Any] = {"runtime_config": {"api/all": True}}
_MADE_UP = ("managedFields", "uid", "resourceVersion", "creationTimestamp", "namespace")
_UNKNOWN = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "<uid>"),
    (re.compile(r"0x[0-9a-f]{6,16}"), "<pointer>"),
    (re.compile(r'(?<=")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z(?=")'), "<time>"),
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def lines(name: str, needed: str = "object") -> list[Any]:
    """Return the recorded cases that have a field: those of 1.32, and those that other releases answer differently."""
    cases = []
    for file in sorted(RECORDED.glob(f"{name}*.jsonl"), reverse=True):
        counts: dict[str, int] = {}
        release = file.stem.removeprefix(name).removeprefix("-") or "1.32"
        for line in map(json.loads, file.read_text().splitlines()):
            kind = line["object"]["kind"]
            counts[kind] = number = counts.get(kind, 0) + 1
            gates, served = line.get("gates", {}), _EVERYTHING if Version.parse(release) > V1_32 else {}
            mark = pytest.mark.apiserver(emulated_version=release, feature_gates=gates, **served)
            if needed in line:
                cases.append(pytest.param(line, marks=mark, id=f"{release}-{kind}-{number}"))
    return cases


def spaced(body: Any) -> bytes:
    """Return JSON as the recorder sent it: errors show the bytes of opaque data, spaces included."""
    return json.dumps(body).encode()


def masked(value: Any) -> Any:
    text = json.dumps(value)
    for pattern, replacement in _UNKNOWN:
        text = pattern.sub(replacement, text)
    return json.loads(text)


def causes(answer: Any) -> list[list[str]]:
    """Return [reason, field, message] of each cause, or of the whole Status where there are none."""
    listed = (answer.get("details") or {}).get("causes")
    if not listed:
        return [[answer["reason"], "", answer["message"]]]
    return [[cause["reason"], cause["field"], cause["message"].split("\n")[0]] for cause in listed]


def without_server_fields(obj: Any) -> Any:
    """Return an object without the values that servers make up."""
    answer = masked(obj)
    for name in _MADE_UP:
        answer["metadata"].pop(name, None)
    spec = answer.get("spec") or {}
    if answer["kind"] == "Service" and spec.get("clusterIP", "").startswith("10."):
        spec |= {"clusterIP": "<ip>", "clusterIPs": ["<ip>"]}
    return answer


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


def masked_cell(cell: Any) -> Any:
    if isinstance(cell, str) and re.fullmatch(r"\d+s", cell):
        return "<age>"
    return "<ip>" if isinstance(cell, str) and cell.startswith("10.0.") else cell


def changed(obj: Any, changes: list[Any]) -> Any:
    new = deepcopy(obj)
    for path, *values in changes:
        *names, last = path.split(".")
        part = new
        for name in names:
            part = part[int(name)] if isinstance(part, list) else part.setdefault(name, {})
        _set(part, last, values)
    return new


def _set(part: Any, name: str, values: list[Any]) -> None:
    if isinstance(part, list):
        if name == "+":
            part.extend(values)
        else:
            part[int(name) : int(name) + 1] = values
    elif values:
        part[name] = values[0]
    else:
        part.pop(name, None)


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
