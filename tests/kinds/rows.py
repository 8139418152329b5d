"""The rows of `recorded/created*.jsonl` and `updated*.jsonl`: how objects are changed and answers written down.

Tests compare them with the answers of understudy, `scripts/record/rows.py` makes them from those of a kube-apiserver.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

_MADE_UP = ("managedFields", "uid", "resourceVersion", "creationTimestamp", "namespace")
_UNKNOWN = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "<uid>"),
    (re.compile(r"0x[0-9a-f]{6,16}"), "<pointer>"),
    (re.compile(r'(?<=")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z(?=")'), "<time>"),
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


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
