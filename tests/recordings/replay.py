"""Replay a recording against a live server, with one verdict for each step.

A recording is JSON lines. The first tells where it was taken (see `recorded.py`), the last the order of the resource
versions seen (`resource_versions`); between them are the steps, of which `case` says what they are about:

    request       one exchange: `request` (method, path, headers, body or its `base64`, pad) and the `response` wanted;
                  `only` keeps the entries of a document that hold a text; `within` seconds it may take until the
                  answer is that one
    watch         a watch and the `events` that came within its window
    start_watch   opens a watch under which the next steps happen; `collect` takes its events and closes it
    until         asks for a path until it answers with a status and, if it says so, a body that holds what it `has`
    probe         repeats a request until it is answered with a `status` and holds a text, as it `contains`, if so said
    pause         lets time pass
    control       changes the running server: {"feature-gates": {"A": false}}
    hook          how the webhook answers, `forget` and `calls` what it was asked: see `webhooks.py`
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .client import KEPT_HEADERS, Client, Watch
from .compare import Memory

PATIENCE = 30.0  # seconds beyond a recorded window before an event counts as missing
ORDER = 0  # the line under which the order of resource versions counts
Line = dict[str, Any]
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
    """Send the steps of a recording to a server, with the live values of what earlier answers held."""

    def __init__(self, client: Client, control: Control, pause: Pause = time.sleep, patience: float = PATIENCE) -> None:
        self.client, self.control, self.pause, self.patience = client, control, pause, patience
        self.memory = Memory()
        self.watches: dict[int, Watch] = {}

    def run(self, lines: list[Any]) -> Outcome:
        outcome = Outcome()
        self.prepare(lines[0])
        for number, line in enumerate(lines[1:], 2):
            if "resource_versions" in line:
                if not self.memory.in_order(line["resource_versions"]):
                    outcome.add(ORDER, "the resource versions", ["they do not stand in the recorded order"])
            elif is_counted(line):
                outcome.add(number, described(line), self.step(line)[1])
            else:
                self.pass_by(line)
        return outcome

    def prepare(self, head: Line) -> int:
        """Make the namespace of a recording, if it has one; return the status of the answer, else 0."""
        if not (name := head.get("namespace")):
            return 0
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
        return self.client.exchange("POST", "/api/v1/namespaces", {"Content-Type": "application/json"}, body)[0]

    # --- steps without an answer that counts

    def pass_by(self, line: Line) -> bool:
        """Carry out such a step; report whether what it waits for came."""
        if "pause" in line:
            self.pause(line["pause"])
        elif "until" in line:
            return self._wait(**line["until"])
        elif "probe" in line:
            return self._probe(line["probe"])
        elif "control" in line:
            for what, body in line["control"].items():
                self.control(what, body)
        else:
            raise ValueError(f"a step of an unknown kind: {sorted(line)}")
        return True

    def _wait(self, path: str, status: int, seconds: float, has: Any = None) -> bool:
        """Ask for a path until it answers as wanted. The steps that follow show whether it ever did."""

        def answered() -> bool:
            got, _, body = self.client.exchange("GET", self.memory.path(path), {}, None)
            return got == status and (has is None or holds(body, has))

        return repeated(answered, seconds)

    def _probe(self, probe: Line) -> bool:
        def answered() -> bool:
            status, headers, body = self._exchange(probe)
            text = json.dumps([body, headers], ensure_ascii=False)
            wanted = json.dumps(probe.get("contains", ""), ensure_ascii=False)[1:-1]
            return status == probe.get("status", status) and wanted in text

        return repeated(answered, probe["seconds"])

    # --- steps with one

    def step(self, line: Line) -> tuple[Line, list[str]]:
        """Carry out a step; return what is live in it, under the names of the recording, and the differences."""
        known = dict(self.memory.values)
        end = time.monotonic() + line.get("within", 0)
        while True:
            live = self.play(line)
            differences = self.compare(line, live)
            if not differences or time.monotonic() > end:
                return live, differences
            self.memory.values = dict(known)
            time.sleep(0.02)

    def play(self, line: Line) -> Line:
        """Carry out a step that has an answer, and return that."""
        if "request" in line:
            request, want = line["request"], line["response"]
            status, headers, answer = self._exchange(request)
            if "body" not in want:
                return {"response": {"status": status, "headers": headers}}
            self.memory.note(answer)
            body = entries_with(answer, request["only"]) if "only" in request else answer
            return {"response": {"status": status, "headers": headers, "body": body}}
        if "watch" in line:
            live = self._open(line["watch"])
            return {**answered_by(live, line), "events": self._events(live, line["watch"], line["events"])}
        if "start_watch" in line:
            live = self.watches[line["start_watch"]["id"]] = self._open(line["start_watch"])
            return answered_by(live, line)
        return {"events": self._events(self.watches.pop(line["collect"]["id"]), line["collect"], line["events"])}

    def _exchange(self, request: Line) -> tuple[int, dict[str, Any], Any]:
        raw = None
        if "base64" in request:
            raw = base64.b64decode(request["base64"])
        elif (body := request.get("body")) is not None:
            body = self.memory.fill(body)
            raw = (body if isinstance(body, str) else json.dumps(body)).encode() + b" " * request.get("pad", 0)
        headers = self.memory.headers(request["headers"])
        return self.client.exchange(request["method"], self.memory.path(request["path"]), headers, raw)

    def _open(self, watch: Line) -> Watch:
        return self.client.watch(self.memory.path(watch["path"]), self.memory.headers(watch["headers"]))

    def _events(self, live: Watch, window: Line, want: list[Any]) -> list[Any]:
        return live.collect(len(want), window["seconds"] + self.patience, window["count"])

    def compare(self, line: Line, live: Line) -> list[str]:
        """Return the differences of what is live from what was recorded; bind the placeholders that are new."""
        differences = self._answer(line["response"], live["response"]) if "response" in live else []
        if "events" in live:
            differences += self.memory.differences(line["events"], live["events"], "events")
        return differences

    def _answer(self, want: Line, got: Line) -> list[str]:
        differences = []
        if got["status"] != want["status"]:
            differences.append(f"status: {got['status']}{message(got.get('body'))}, want {want['status']}")
        if "body" in want:
            differences += self.memory.body(want["body"], got.get("body"))
        for name in KEPT_HEADERS:
            expected, have = in_order(want["headers"].get(name)), in_order(got["headers"].get(name))
            if self.memory.differences(expected, have):
                differences.append(f"header {name}: {have!r}, want {expected!r}")
        return differences


def is_counted(line: Line) -> bool:
    """Report whether a step has an answer that counts."""
    return not line.keys() & {"pause", "until", "probe", "control", "hook", "forget"}


def repeated(answered: Callable[[], bool], seconds: float) -> bool:
    """Repeat what reports success, for so many seconds; report whether it came."""
    end = time.monotonic() + seconds
    while not answered():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def answered_by(watch: Watch, line: Line) -> Line:
    """Return the response to opening a watch; events have no body."""
    response = {"status": watch.status, "headers": watch.headers}
    return {"response": {**response, "body": watch.error} if "body" in line["response"] or watch.error else response}


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


def described(line: Line) -> str:
    """Return a few words that tell which step it is."""
    if "request" in line:
        case = f" ({line['case']})" if "case" in line else ""
        return f"{line['request']['method']} {line['request']['path']}{case}"
    if "calls" in line:
        return f"what the webhook was asked ({line.get('case', '')})"
    kind = next(kind for kind in ("watch", "start_watch", "collect") if kind in line)
    return f"{kind} {line[kind].get('path') or json.dumps(line[kind])}"
