"""The parts of answers that two servers must agree on, without the values that a server generates."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import yaml

from scripts.common.comparing import Answer
from scripts.compare.sequences.steps import Step

UID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
GENERATED = (
    (re.compile(UID), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000 UTC|Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "ADDRESS"),
    (re.compile(r"gen-[a-z0-9]{5}\b"), "gen-NAME"),
    (re.compile(r"\beyJ[\w-]+\.eyJ[\w-]+\.[\w-]+"), "TOKEN"),
    (re.compile(r"(version: |current: |meta: |record \(|precondition \(|version: \d+ \()\d+"), r"\1VERSION"),
    (re.compile(r"time\.Date\([^)]*\)"), "TIME"),
    (re.compile(r"((resourceVersion|annotations)\W+)\d{2,}"), r"\1VERSION"),  # a patch can move one to the other
    (re.compile("[\u00a0 ]+"), " "),  # go-cmp uses either space at random
    (re.compile(r"\b(m=[+-]\S+|local ServerTime:)"), ""),
    # Apply names one or more of several undeclared fields at random, since it stops in a map at the first, and with it
    # errors of other fields.
    (
        re.compile(r"(create typed patch object \([^)]*\)): .*field not declared in schema.*", re.DOTALL),
        r"\1: UNDECLARED",
    ),
)
HEADERS = ("content-type", "warning", "retry-after", "allow")
AGE = re.compile(r"(<?\d+(ms|s|m|h|d|y))+")


def mask(value: str) -> str:
    """Return a text with the values that a server generates replaced by words."""
    for pattern, replacement in GENERATED:
        value = pattern.sub(replacement, value)
    return value


def in_order(value: Any) -> str:
    """Return a text to sort values by, whatever the order of their fields."""
    return json.dumps(value, sort_keys=True)


def normalized(value: Any, name: str = "") -> Any:
    """Return a value of an answer without the values that a server generates, and with unordered lists sorted."""
    if isinstance(value, dict):
        return {mask(key): normalized(item, key) for key, item in value.items()}
    if isinstance(value, list):
        items = [normalized(item) for item in value]
        return sorted(items, key=in_order) if name in ("managedFields", "causes") else items
    if not isinstance(value, str):
        return value
    if name == "message":
        return sorted(re.split(r", |\[|\]|\n", mask(value)))
    if name == "resourceVersion" and len(value) > 1:
        return "VERSION" if value.isdigit() else value
    if name == "continue" and value:
        return "TOKEN"
    return "AGE" if AGE.fullmatch(value) else mask(value)


def comparable(answer: Answer, step: Step) -> Any:
    """Return the parts of an answer that two servers must agree on."""
    headers = {name: sorted(mask(v) for v in answer.all(name)) for name in HEADERS}
    kind = answer.all("content-type")[:1]
    body: Any = mask(answer.body.decode(errors="replace"))
    if kind == ["application/json"] and any(name == "watch" for name, _ in step.query) and answer.status == 200:
        body = watch_events(answer.body)
    elif kind == ["application/json"] and answer.body:
        body = normalized(json.loads(answer.body))
    elif kind == ["application/yaml"] and answer.status >= 400:  # the errors in a text have no fixed order
        body = normalized(yaml.safe_load(answer.body))
    elif kind == ["application/yaml"]:
        body = re.sub(r'(resourceVersion|continue): "?\w+"?', r"\1: X", body)
        body = sorted(body.splitlines())  # the entries of managedFields have no fixed order
    return {"status": answer.status, "headers": headers, "body": body}


def watch_events(body: bytes) -> list[Any]:
    """Return the events of a watch that two servers must agree on.

    Bookmarks without annotations come at any time, and the first objects come in any order.
    """
    events = []
    for line in body.splitlines():
        event = json.loads(line)
        if event["type"] != "BOOKMARK" or event["object"].get("metadata", {}).get("annotations"):
            events.append(normalized(event))
    first = list(itertools.takewhile(lambda event: event["type"] == "ADDED", events))
    return sorted(first, key=json.dumps) + events[len(first) :]
