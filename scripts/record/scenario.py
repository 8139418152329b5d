"""Record what a kube-apiserver answers to the requests of a scenario, for `tests/recordings` to replay.

    python -m scripts.record scenario tests/recordings/scenarios/config-maps.yaml \\
        --server https://127.0.0.1:6443 --token T --output tests/recordings/scenarios/1.32

A scenario is a list of steps in YAML:

    - request: POST /api/v1/namespaces/{{namespace}}/configmaps
      body: {metadata: {generateName: a-}, data: {k: v}}
    - request: PUT /api/v1/namespaces/{{namespace}}/configmaps/{{1.metadata.name}}
      body: "{{1}}"                     # the object that step 1 was answered with
      set: {data.k: w}                  # changes of the body, by path; null takes a field out
    - request: GET /api/v1/namespaces/{{namespace}}/configmaps
      headers: {Accept: "application/json;as=Table;v=v1;g=meta.k8s.io"}
    - watch: /api/v1/namespaces/{{namespace}}/configmaps?watch=1&timeoutSeconds=2&resourceVersion=0

`{{1.metadata.name}}` is that field of the answer to step 1, and `{{namespace}}` is a namespace that is made for the
scenario. A watch is read until the server ends it: give it `timeoutSeconds`. A body that is a text is sent as it is.

The recording is written to OUTPUT/SCENARIO.jsonl, in the format that `tests/recordings/replay.py` describes. Values
that the server makes up become placeholders, which `tests/recordings/compare.py` lists; what the scenario itself says
stays as it is.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scripts.common.comparing import UNANSWERED, Answer, Obj, Server, set_at
from scripts.common.references import REFERENCE, filled
from scripts.record.files import add_server_arguments, save, server_of
from scripts.record.placeholders import Placeholders
from understudy.machinery.golang.yaml_reader import load_yaml

USER_AGENT = "recorder/1.0"  # the name under which its writes stand in managedFields
KEPT_HEADERS = ("content-type", "warning", "allow", "retry-after")


class Recorder:
    """Send the steps of a scenario and collect the lines of its recording."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self.placeholders = Placeholders()
        self.lines: list[Obj] = []
        self._answers: list[Any] = []

    def record(self, scenario: str, steps: list[Obj]) -> list[Obj]:
        """Return the lines of the recording, the head and the order of resource versions included."""
        version = self.server.must("GET", "/version")["gitVersion"]
        status, answer = self.server.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        if status != 201:
            sys.exit(f"a scenario needs a namespace of its own: {answer['message']}")
        for step in steps:
            self.lines.append(self._watch(step) if "watch" in step else self._request(step))
        head = {"scenario": scenario, "server": version, "namespace": self.namespace}
        return [head, *self.lines, {"resource_versions": self.placeholders.resource_versions}]

    def _request(self, step: Obj) -> Obj:
        method, _, target = step["request"].partition(" ")
        path, recorded_path = self._paths(target)
        headers: Obj = step.get("headers", {})
        request: Obj = {"method": method, "path": recorded_path, "headers": headers}
        raw = None
        if "body" in step:
            body = copy.deepcopy(filled(step["body"], self._value))
            for place, value in step.get("set", {}).items():
                edit(body, place, value)
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            request["headers"] = headers = {"Content-Type": "application/json", **headers}
            request["body"] = self.placeholders.mask_request(body)
        answer = self._exchange(method, path, headers, raw)
        body = json_or_text(answer.body)
        self._answers.append(body)
        return {"request": request, "response": {**described(answer), "body": self.placeholders.mask_response(body)}}

    def _exchange(self, method: str, path: str, headers: Obj, body: bytes | None = None) -> Answer:
        """Send a request and return the answer. Raises SystemExit if there is none, which is nothing to record."""
        sent = {"User-Agent": USER_AGENT, "Accept": "application/json", **headers}
        answer = self.server.exchange(method, path, sent, body)
        if answer.status == UNANSWERED:
            sys.exit(f"step {len(self._answers) + 1}: no answer: {answer.body.decode()}")
        return answer

    def _watch(self, step: Obj) -> Obj:
        path, recorded_path = self._paths(step["watch"])
        headers: Obj = step.get("headers", {})
        answer = self._exchange("GET", path, headers)
        watch = {"path": recorded_path, "headers": headers, "seconds": 0, "count": None}
        response = described(answer)
        events: list[Any] = []
        if answer.status == 200:
            events = [json_or_text(line) for line in answer.body.splitlines() if line]
        else:
            response["body"] = self.placeholders.mask_response(json_or_text(answer.body))
        self._answers.append(events)
        return {"watch": watch, "response": response, "events": [self.placeholders.mask_response(e) for e in events]}

    def _paths(self, target: str) -> tuple[str, str]:
        """Return a path as it is sent and as it is recorded."""

        def recorded(match: re.Match[str]) -> str:
            return self.placeholders.mask_reference(match[1].rpartition(".")[2], str(self._value(match[1])))

        return REFERENCE.sub(lambda match: quote(str(self._value(match[1])), safe=""), target), REFERENCE.sub(
            recorded, target
        )

    def _value(self, reference: str) -> Any:
        """Return the value of a reference. Raises SystemExit where the scenario refers to nothing."""
        if reference == "namespace":
            return self.namespace
        number, *fields = reference.split(".")
        try:
            value = self._answers[int(number) - 1]
            for field in fields:
                value = value[int(field)] if isinstance(value, list) else value[field]
        except (ValueError, LookupError, TypeError):
            sys.exit(f"step {len(self._answers) + 1}: {{{{{reference}}}}} is not in the answers so far")
        return value


def edit(body: Any, place: str, value: Any) -> None:
    """Set the field of an object at a path, or take it out for None."""
    if value is not None:
        set_at(body, place, value)
        return
    *parents, last = place.split(".")
    for name in parents:
        body = body[name]
    del body[last]


def described(answer: Answer) -> Obj:
    """Return the status and the headers that count: `warning` as a list, the others joined."""
    headers: Obj = {}
    for name in KEPT_HEADERS:
        if values := answer.all(name):
            headers[name] = values if name == "warning" else ", ".join(values)
    return {"status": answer.status, "headers": headers}


def json_or_text(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO.yaml")
    add_server_arguments(parser)


def run(options: argparse.Namespace) -> int:
    server = server_of(options)
    for path in options.scenarios:
        recorder = Recorder(server, f"rec-{path.stem}")
        lines = recorder.record(path.stem, load_yaml(path.read_text())[0].value)
        save(options.output / f"{path.stem}.jsonl", lines)
    return 0
