"""Record the creates and updates of `tests/kinds/recorded` and the CEL pairs of `tests/cel` again.

`tests/kinds/test_recorded.py` and `tests/cel/test_corpus.py` tell what a line holds. Only rows that the server answers
differently make the new file, as the files that end in a release hold them; of CEL pairs, all.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.common.comparing import Answer, Obj, Server
from tests.kinds import rows

INVALID = re.compile(r'^Invalid value: "(?:\\.|[^"\\])*": ', re.DOTALL)
AGE = re.compile(r"(\d+[ydhms])+")
SELECTOR = "spec.selectors[0].cel.expression"


def again(path: Path, lines: list[Any], server: Server) -> list[Any]:
    """Return the lines of a file of rows, or of CEL pairs, as this server answers them."""
    if isinstance(lines[0], list):
        return [[expression, selector_error(server, expression)] for expression, _ in lines]
    if "steps" in lines[0]:
        answered = ((row, updated(row, server)) for row in lines)
    else:
        answered = ((row, created(row, server)) for row in lines)
    return [new for row, new in answered if new != row]


def selector_error(server: Server, expression: str) -> str | None:
    """Return the error of a class with a selector, None if it is accepted."""
    group = server.must("GET", "/apis/resource.k8s.io")
    version = group["preferredVersion"]["groupVersion"]
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    body = {"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "cel"}, "spec": spec}
    status, answer = server.call("POST", f"/apis/{version}/deviceclasses?dryRun=All", body)
    if status == 201:
        return None
    causes = [cause for cause in answer["details"]["causes"] if cause["field"] == SELECTOR]
    return INVALID.sub("", causes[0]["message"]) if causes else str(answer["message"])


def created(row: Obj, server: Server) -> Obj:
    """Return a row of `created.jsonl` as a server answers it."""
    answer = sent(server, "POST", f"{row['path']}?dryRun=All", row["object"])
    new = {**{name: row[name] for name in row if name in ("why", "path", "object", "gates")}, **described(answer)}
    if "answer" in new and "cells" in row:
        table = sent(server, "POST", f"{row['path']}?dryRun=All", row["object"], rows.TABLE)
        cells = json.loads(table.body)["rows"][0]["cells"]
        now = [rows.masked_cell(cell) for cell in rows.masked(cells)]
        new["cells"] = [*map(same_age, row["cells"], now)] if len(now) == len(row["cells"]) else now
    return ordered_as(row, new)


def same_age(recorded: Any, now: Any) -> Any:
    """Return the recorded cell if both are ages: rows are replayed at the time at which they were recorded."""
    return recorded if AGE.fullmatch(str(recorded)) and AGE.fullmatch(str(now)) else now


def updated(row: Obj, server: Server) -> Obj:
    """Return a row of `updated.jsonl` as a server answers it, which keeps nothing of it."""
    answer = sent(server, "POST", row["path"], row["object"])
    if answer.status != 201:
        print(f"{row['path']}: not created, so left as it was: {answer.body.decode()[:300]}", file=sys.stderr)
        return row
    stored = json.loads(answer.body)
    where = f"{row['path']}/{stored['metadata']['name']}"
    steps = list(_steps(row, stored, where, server))
    sent(server, "PATCH", where, {"metadata": {"finalizers": None}})
    sent(server, "DELETE", f"{where}?gracePeriodSeconds=0&propagationPolicy=Background", None)
    return {**row, "steps": steps}


def _steps(row: Obj, stored: Obj, where: str, server: Server) -> Iterator[Obj]:
    for step in row["steps"]:
        path = where + (f"/{step['subresource']}" if step["subresource"] else "")
        query = "" if step.get("write") else "?dryRun=All"
        answer = sent(server, "PUT", path + query, rows.changed(stored, step["changes"]))
        new = {**{name: step[name] for name in ("subresource", "changes", "write") if name in step}}
        said = described(answer)
        yield ordered_as(step, new | {k: v for k, v in said.items() if k != "answer" or "answer" in step})
        if step.get("write") and answer.status < 300:
            stored = json.loads(answer.body)


def described(answer: Answer) -> Obj:
    """Return the part of a row that an answer makes."""
    body = json.loads(answer.body)
    told: Obj = {"status": answer.status}
    if answer.status < 300:
        told["answer"] = rows.without_server_fields(body)
    else:
        told["causes"] = rows.masked(rows.causes(body))
    warnings = [json.loads(value.removeprefix("299 - ")) for value in answer.all("warning")]
    return told | ({"warnings": rows.masked(warnings)} if warnings else {})


def ordered_as(old: Obj, new: Obj) -> Obj:
    """Return a row whose fields, causes and warnings stand in the recorded order as far as they are there."""
    for name in ("causes", "warnings"):
        if name in new and sorted(map(str, new[name])) == sorted(map(str, old.get(name, []))):
            new[name] = old[name]
    return {name: new[name] for name in [*old, *new] if name in new}


def sent(server: Server, method: str, path: str, body: Any, accept: str = "application/json") -> Answer:
    """Send a request as the recorder does: errors show the bytes of opaque data, spaces included."""
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    raw = None if body is None else rows.spaced(body)
    return server.exchange(method, path, {"Content-Type": media, "Accept": accept}, raw)
