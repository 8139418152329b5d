"""Replay a recording against a live server, with one verdict for each step.

A recording is JSON lines. The first tells where it was taken (see `recorded.py`), the last the order of the resource
versions seen (`resource_versions`); between them are the steps, of which `case` says what they are about:

    request       one exchange: `request` (method, path, headers, body, pad) and the `response` wanted; `only` keeps
                  the entries of a document that hold a text
    watch         a watch and the `events` that came within its window
    start_watch   opens a watch under which the next steps happen; `collect` takes its events and closes it
    until         asks for a path until it answers with a status and, if it says so, a body that holds what it `has`
    pause         lets time pass
    control       changes the running server: {"feature-gates": {"A": false}}
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .client import KEPT_HEADERS, Client, Watch
from .compare import Memory

PATIENCE = 30.0  # seconds beyond a recorded window before an event counts as missing
ORDER = 0  # the line under which the order of resource versions counts
Control = Callable[[str, dict[str, bool]], None]
Pause = Callable[[float], None]


@dataclass
class Outcome:
    """Count the steps of a replay that agree; `differences` has the others by the line of the file."""

    same: int = 0
    total: int = 0
    differences: dict[int, str] = field(default_factory=dict)

    def add(self, line: int, what: str, differences: list[str]) -> None:
        self.total += 1
        if differences:
            self.differences[line] = "\n    ".join([what, *differences[:6]])
        else:
            self.same += 1


def replay(lines: list[Any], client: Client, control: Control, pause: Pause = time.sleep) -> Outcome:
    """Replay the lines of a recording.

    control   carries out a control step, given its name and body
    pause     lets seconds pass
    """
    return Replay(client, control, pause).run(lines)


class Replay:
    def __init__(self, client: Client, control: Control, pause: Pause = time.sleep) -> None:
        self.client, self.control, self.pause = client, control, pause
        self.memory = Memory()
        self.watches: dict[int, Watch] = {}

    def run(self, lines: list[Any]) -> Outcome:
        outcome = Outcome()
        if namespace := lines[0].get("namespace"):
            self._make_namespace(namespace)
        for number, line in enumerate(lines[1:], 2):
            if "resource_versions" in line:
                if not self.memory.in_order(line["resource_versions"]):
                    outcome.add(ORDER, "the resource versions", ["they do not stand in the recorded order"])
            elif "pause" in line:
                self.pause(line["pause"])
            elif "until" in line:
                self._wait(**line["until"])
            else:
                outcome.add(number, described(line), self.step(line))
        return outcome

    def _wait(self, path: str, status: int, seconds: float, has: Any = None) -> None:
        """Ask for a path until it answers as wanted. The steps that follow show whether it ever did."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answered, _, body = self.client.exchange("GET", path, {}, None)
            if answered == status and (has is None or holds(body, has)):
                return
            time.sleep(0.01)

    def _make_namespace(self, name: str) -> None:
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
        self.client.exchange("POST", "/api/v1/namespaces", {"Content-Type": "application/json"}, body)

    def step(self, line: dict[str, Any]) -> list[str]:
        for kind in ("request", "watch", "start_watch", "collect", "control"):
            if kind in line:
                differences: list[str] = getattr(self, f"_{kind}")(line[kind], line)
                return differences
        raise ValueError(f"a step of an unknown kind: {sorted(line)}")

    def _request(self, request: dict[str, Any], line: dict[str, Any]) -> list[str]:
        raw = None
        if (body := request.get("body")) is not None:
            body = self.memory.fill(body)
            raw = (body if isinstance(body, str) else json.dumps(body)).encode() + b" " * request.get("pad", 0)
        path = self.memory.path(request["path"])
        status, headers, answer = self.client.exchange(request["method"], path, request["headers"], raw)
        if "body" in line["response"]:
            self.memory.note(answer)
        if "only" in request:
            answer = entries_with(answer, request["only"])
        return self._answer(line["response"], status, headers, answer)

    def _answer(self, want: dict[str, Any], status: int, headers: dict[str, Any], body: Any) -> list[str]:
        differences = [] if status == want["status"] else [f"status: {status}{message(body)}, want {want['status']}"]
        if "body" in want:
            differences += self.memory.body(want["body"], body)
        for name in KEPT_HEADERS:
            expected, have = in_order(want["headers"].get(name)), in_order(headers.get(name))
            if expected != have:
                differences.append(f"header {name}: {have!r}, want {expected!r}")
        return differences

    def _open(self, watch: dict[str, Any]) -> Watch:
        return self.client.watch(self.memory.path(watch["path"]), watch["headers"])

    def _watch(self, watch: dict[str, Any], line: dict[str, Any]) -> list[str]:
        live = self._open(watch)
        differences = self._answer(line["response"], live.status, live.headers, live.error)
        return differences + self._events(live, watch, line["events"])

    def _start_watch(self, watch: dict[str, Any], line: dict[str, Any]) -> list[str]:
        live = self.watches[watch["id"]] = self._open(watch)
        return self._answer(line["response"], live.status, live.headers, live.error)

    def _collect(self, collect: dict[str, Any], line: dict[str, Any]) -> list[str]:
        return self._events(self.watches.pop(collect["id"]), collect, line["events"])

    def _events(self, live: Watch, window: dict[str, Any], want: list[Any]) -> list[str]:
        got = live.collect(len(want), window["seconds"] + PATIENCE, window["count"])
        return self.memory.differences(want, got, "events")

    def _control(self, control: dict[str, Any], line: dict[str, Any]) -> list[str]:
        for what, body in control.items():
            self.control(what, body)
        return []


def message(body: Any) -> str:
    """Return the message of a Status in brackets, "" for another answer."""
    return f" ({body['message']})" if isinstance(body, dict) and isinstance(body.get("message"), str) else ""


def in_order(values: Any) -> Any:
    """Return the values of a header that stands several times, the warnings, sorted: some come out of Go's maps."""
    return sorted(values) if isinstance(values, list) else values


def holds(body: Any, part: Any) -> bool:
    """Report whether a body has all that a part of it says; of a list, an element for each of its own."""
    if isinstance(part, dict):
        return isinstance(body, dict) and all(name in body and holds(body[name], part[name]) for name in part)
    if isinstance(part, list):
        return isinstance(body, list) and all(any(holds(item, wanted) for item in body) for wanted in part)
    return bool(body == part)


def entries_with(document: Any, text: str) -> Any:
    """Return a document with those entries of its lists and objects that hold a text."""
    if not isinstance(document, dict) or document.get("kind") == "Status":
        return document
    out = {}
    for name, part in document.items():
        if isinstance(part, dict):
            part = {key: value for key, value in part.items() if text in json.dumps({key: value})}
        elif isinstance(part, list):
            part = [item for item in part if text in json.dumps(item)]
        out[name] = part
    return out


def described(line: dict[str, Any]) -> str:
    if "request" in line:
        case = f" ({line['case']})" if "case" in line else ""
        return f"{line['request']['method']} {line['request']['path']}{case}"
    kind = next(kind for kind in ("watch", "start_watch", "collect", "control") if kind in line)
    return f"{kind} {line[kind].get('path') or json.dumps(line[kind])}"
