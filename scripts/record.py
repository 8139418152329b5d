#!/usr/bin/env python3
"""Record what a kube-apiserver answers to the requests of a scenario, for `tests/recordings` to replay.

    scripts/record.py tests/recordings/scenarios/config-maps.yaml --server https://127.0.0.1:6443 --token T \\
        --output tests/recordings/scenarios/1.32

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
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from comparing import UNANSWERED, Answer, Obj, Server, set_at

from understudy.machinery.golang.yaml_reader import load_yaml

USER_AGENT = "recorder/1.0"  # the name under which its writes stand in managedFields
KEPT_HEADERS = ("content-type", "warning", "allow", "retry-after")
REFERENCE = re.compile(r"\{\{([\w.-]+)\}\}")
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
POINTER = re.compile(r"0x[0-9a-f]{8,16}")
REVISION = re.compile(r"(resource version: \d+, current: |too old resource version: \d+ \()\d+")
VERSION_IN_TEXT = re.compile(r'(?<="resourceVersion":")[1-9]\d*(?=")')
AGES = {"Age", "Last Seen", "First Seen", "Duration"}  # columns of tables that tell how long ago something was


class Placeholders:
    """Replace the values that a server makes up by placeholders, the same value by the same one.

    `resource_versions` holds the number behind each placeholder of a resourceVersion.
    """

    def __init__(self) -> None:
        self.resource_versions: dict[str, int] = {}
        self._known: dict[tuple[str, str], str] = {}  # (kind of placeholder, value) -> placeholder
        self._counts: Counter[str] = Counter()
        self._literals: set[str] = set()  # values that a request had before any answer: the client made them up
        self._columns: list[str] = []

    def mask_response(self, body: Any) -> Any:
        """Return the JSON value, or text, of an answer with placeholders."""
        self._find_generated_names(body)
        return self._mask(body)

    def mask_request(self, body: Any) -> Any:
        """Return the body of a request with placeholders for what earlier answers held; the rest is the client's."""
        self._literals |= self._unknown(body)
        return self._mask(body)

    def mask_reference(self, name: str, value: str) -> str:
        """Return the placeholder, or the text, of a field of an earlier answer that a path refers to."""
        return self._mask_field(name, value)

    def _find_generated_names(self, node: Any) -> None:
        if isinstance(node, dict):
            prefix, name = node.get("generateName"), node.get("name")
            if isinstance(prefix, str) and isinstance(name, str) and name.startswith(prefix) and "uid" in node:
                self._placeholder("name", name)
        for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self._find_generated_names(item)

    def _unknown(self, node: Any) -> set[str]:
        """Return the uids, times and resource versions of a request that no answer held."""
        if isinstance(node, dict):
            version = node.get("resourceVersion")
            own = {version} if isinstance(version, str) and ("rv", version) not in self._known else set()
            return own.union(*map(self._unknown, node.values()))
        if isinstance(node, list):
            return set().union(*map(self._unknown, node))
        texts = [match.group() for pattern in (UUID, TIME) for match in pattern.finditer(str(node))]
        return {text for text in texts if not any((kind, text) in self._known for kind in ("uid", "time"))}

    def _mask(self, node: Any, name: str = "") -> Any:
        if isinstance(node, dict):
            if node.get("kind") == "Table":
                node = self._mask_ages(node)
            if has_version_of_list(node):
                node = {**node, "metadata": {**node["metadata"], "resourceVersion": self._version_of_list(node)}}
            return {self._mask_text(key): self._mask(value, key) for key, value in node.items()}
        if isinstance(node, list):
            return [self._mask(item, name) for item in node]
        return self._mask_field(name, node) if isinstance(node, str) else node

    def _mask_field(self, name: str, text: str) -> str:
        if name == "resourceVersion" and text.isdigit() and text != "0":
            return self._placeholder("rv", text)
        if name == "continue" and text:
            return self._placeholder("continue", text)
        if name == "serverAddress":
            return "<address>"
        if name == "token":
            return "<token>"
        return self._mask_text(text)

    def _mask_text(self, text: str) -> str:
        for (kind, value), placeholder in sorted(self._known.items(), key=lambda item: -len(item[0][1])):
            if kind == "name":
                text = text.replace(value, placeholder)
        text = UUID.sub(lambda match: self._placeholder("uid", match.group()), text)
        text = TIME.sub(lambda match: self._mask_time(match), text)
        text = VERSION_IN_TEXT.sub(lambda match: self._placeholder("rv", match.group()), text)
        return REVISION.sub(r"\1<number>", POINTER.sub("<pointer>", text))

    def _mask_time(self, match: re.Match[str]) -> str:
        if match.group() in self._literals:
            return match.group()
        return self._known.setdefault(("time", match.group()), "<microtime>" if match[1] else "<time>")

    def _mask_ages(self, table: Obj) -> Obj:
        """Mask the cells that grow with time. Later events of a watch have no columns: the first event's count."""
        self._columns = [column["name"] for column in table.get("columnDefinitions") or ()] or self._columns
        if not table.get("rows"):
            return table
        rows = [{**row, "cells": [*map(masked_cell, self._columns, row["cells"])]} for row in table["rows"]]
        return {**table, "rows": rows}

    def _version_of_list(self, node: Obj) -> str:
        """Return a placeholder of its own: the server may write something else between an object and a list of it."""
        version = str(node["metadata"]["resourceVersion"])
        self._counts["rv"] += 1
        placeholder = f"<rv:{self._counts['rv']}>"
        self._known.setdefault(("rv", version), placeholder)
        self.resource_versions[placeholder] = int(version)
        return placeholder

    def _placeholder(self, kind: str, value: str) -> str:
        if value in self._literals:
            return value
        if (kind, value) not in self._known:
            self._counts[kind] += 1
            self._known[kind, value] = f"<{kind}:{self._counts[kind]}>"
            if kind == "rv":
                self.resource_versions[self._known[kind, value]] = int(value)
        return self._known[kind, value]


def has_version_of_list(node: Obj) -> bool:
    """Report whether an object is a list, or stands in a bookmark: it has a resourceVersion and no uid."""
    metadata = node.get("metadata")
    return isinstance(metadata, dict) and "uid" not in metadata and str(metadata.get("resourceVersion", "")).isdigit()


def masked_cell(column: str, cell: Any) -> Any:
    return "<age>" if column in AGES and cell not in ("<none>", "<unknown>", None) else cell


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
            body = self._filled(step["body"])
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

    def _filled(self, node: Any) -> Any:
        """Return a body with the values that its references stand for; a text that is one reference gets the value."""
        if isinstance(node, dict):
            return {key: self._filled(value) for key, value in node.items()}
        if isinstance(node, list):
            return [self._filled(item) for item in node]
        if not isinstance(node, str):
            return node
        if whole := REFERENCE.fullmatch(node):
            return json.loads(json.dumps(self._value(whole[1])))
        return REFERENCE.sub(lambda match: str(self._value(match[1])), node)


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


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", type=Path, metavar="SCENARIO.yaml")
    parser.add_argument("--server", required=True, help="URL of the kube-apiserver")
    parser.add_argument("--token", default="", help="bearer token of a member of system:masters")
    parser.add_argument(
        "--ca", default="", help="file of the CA that signed its certificate; without one, any is taken"
    )
    parser.add_argument("--output", type=Path, default=Path(), help="folder of the recordings")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    for path in arguments.scenarios:
        recorder = Recorder(Server(arguments.server, arguments.token, arguments.ca), f"rec-{path.stem}")
        lines = recorder.record(path.stem, load_yaml(path.read_text())[0].value)
        arguments.output.mkdir(parents=True, exist_ok=True)
        target = arguments.output / f"{path.stem}.jsonl"
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
        target.write_text(text, encoding="utf-8")
        print(f"{target}: {len(recorder.lines)} steps")


if __name__ == "__main__":
    main()
