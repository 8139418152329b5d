"""Give the rows of `tests/kinds/recorded` that have no `why` one: what a row is about, by which its test is named.

    python -m scripts.record names tests/kinds/recorded/created-1.37.jsonl

A refused object is named by the fields and reasons of its errors; an accepted one by its difference from the first
object of the kind. Names differ within the kind. They are written once: improve them by hand where you know better.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.common.comparing import Obj

SHOWN = 3  # fields or errors that a name tells
LONGEST = 100  # characters of the fields or errors that a name tells


def named(rows: list[Obj], bases: dict[str, Any]) -> list[Obj]:
    """Return rows with a `why`, in front; `bases` has the object of each kind that others are compared with."""
    taken = {(row["object"]["kind"], row["why"]) for row in rows if "why" in row}
    out = []
    for row in rows:
        kind = row["object"]["kind"]
        if "steps" in row:
            row = {**row, "steps": [step if "why" in step else {"why": of_step(step), **step} for step in row["steps"]]}
        if "why" not in row:
            row = {"why": unused(kind, list(names(row, bases.get(kind))), taken), **row}
        taken.add((kind, row["why"]))
        out.append(row)
    return out


def unused(kind: str, candidates: list[str], taken: set[tuple[str, str]]) -> str:
    """Return the first name that no other row of the kind has; the last one with a number, if need be."""
    for name in candidates:
        if (kind, name) not in taken:
            return name
    number = 2
    while (kind, f"{candidates[-1]} ({number})") in taken:
        number += 1
    return f"{candidates[-1]} ({number})"


def names(row: Obj, base: Any) -> Iterator[str]:
    """Yield names for a row, the shortest first."""
    difference = told(list(differences(base, row["object"]))) if base else ""
    if "steps" in row:
        fields = [change for step in row["steps"] for change, *_ in step["changes"]]
        yield f"changes of {told(fields)}"
        yield f"changes of {row['object']['metadata'].get('name')}: {told(fields)}"
        return
    switched = [f"{name} {'on' if on else 'off'}" for name, on in row.get("gates", {}).items()]
    gates = f", {told(switched)}" if switched else ""
    warns = ", with a warning" if row.get("warnings") else ""
    error = errors(row.get("causes", []))
    yield (error or difference or "the first one") + warns + gates
    if error and difference:
        yield f"{error} by {difference}" + warns + gates
    yield f"{error or difference or 'the first one'} by {told(list(leaves(row['object'])))}" + warns + gates


def of_step(step: Obj) -> str:
    """Return a name for a step of an update: its errors, or its changes."""
    changes = told([f"{path}={short(*values)}" if values else f"no {path}" for path, *values in step["changes"]])
    where = f"{step['subresource']}: " if step["subresource"] else ""
    return where + (errors(step.get("causes", [])) or changes or "no change")


def errors(causes: list[list[str]]) -> str:
    """Return the fields of errors with their reasons in words."""
    parts = (f"{field} {words(reason)}" if field else f"{words(reason)}: {text[:60]}" for reason, field, text in causes)
    return told(list(parts))


def words(reason: str) -> str:
    """Return "not supported" of FieldValueNotSupported."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason.removeprefix("FieldValue")).lower()


def told(parts: list[str]) -> str:
    """Return the first of some parts, each once, and how many there are more."""
    parts = list(dict.fromkeys(parts))
    shown = parts[:1]
    while len(shown) < min(SHOWN, len(parts)) and len(", ".join(parts[: len(shown) + 1])) <= LONGEST:
        shown.append(parts[len(shown)])
    more = f", {len(parts) - len(shown)} more" if len(parts) > len(shown) else ""
    return ", ".join(shown) + more


def differences(base: Any, obj: Any, path: str = "") -> Iterator[str]:
    """Yield the fields of an object that differ from those of another one, with their values."""
    if isinstance(base, dict) and isinstance(obj, dict):
        for name in [*obj, *(name for name in base if name not in obj)]:
            where = f"{path}.{name}" if path else name
            if name not in obj:
                yield f"no {where}"
            elif where not in ("metadata.name", "metadata.namespace"):
                yield from differences(base.get(name), obj[name], where)
    elif isinstance(base, list) and isinstance(obj, list) and len(base) == len(obj):
        for index, (one, other) in enumerate(zip(base, obj, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif base != obj:
        yield f"{path}={short(obj)}"


def leaves(obj: Any, path: str = "") -> Iterator[str]:
    """Yield every value of an object with its path, the last first, since names and kinds stand in front."""
    items = list(obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ())
    for name, value in reversed(items):
        yield from leaves(value, f"{path}.{name}" if path else str(name))
    if not items:
        yield f"{path}={short(obj)}"


def short(value: Any, *_: Any) -> str:
    """Return a value as JSON, cut."""
    text = json.dumps(value, separators=(",", ":"))
    return text if len(text) <= 30 else text[:29] + "…"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")


def run(options: argparse.Namespace) -> int:
    for path in options.files:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        first = path.with_name("created.jsonl")
        bases: dict[str, Any] = {}
        for row in (json.loads(line) for line in first.read_text().splitlines()):
            if row["status"] < 300:
                bases.setdefault(row["object"]["kind"], row["object"])
        path.write_text("".join(json.dumps(row) + "\n" for row in named(rows, bases)))
    return 0
