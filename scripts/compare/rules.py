"""Compare two API servers by random CEL rules of custom resources.

    python -m scripts.compare rules https://127.0.0.1:6443 http://127.0.0.1:8001 --token TOKEN --seed 1 --definitions 20

A definition has a random schema with rules. Rules that the left server refuses, in dry runs, are compared by its
answer; those that it takes are stored with the definition, and random objects are created and updated by dry runs.
Status, warnings and body must agree, with the order of causes, but for values that a server generates. The exit status
is 1 if anything differs, if nothing agreed, or if the left server left more than a few requests without an answer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections.abc import Iterator
from typing import Any

from scripts.common.comparing import (
    Answer,
    Obj,
    Server,
    Tally,
    add_server_arguments,
    require_servers,
)
from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.compare.cases.rules import random_rule, random_schema, random_value
from scripts.compare.sequences.answers import normalized

RULES = 12  # of a definition
OBJECTS = 12
PATIENCE = 30  # seconds until a definition is served


def widgets(group: str, schema: Obj) -> Obj:
    """Return a definition with a schema for `spec`."""
    return definition(group, "Widget", served_version({"type": "object", "properties": {"spec": schema}}))


def comparable(answer: Answer) -> Any:
    """Return the parts of an answer that must be the same on both servers: the real one has no order of fields."""
    text = re.sub(r"selfType\d+", "selfType", answer.body.decode())
    body = normalized(json.loads(text)) if text.startswith("{") else text
    return answer.status, sorted(answer.all("warning")), body


class Comparison:
    """The comparison of two servers; `tally` has how many answers agree and differ."""

    def __init__(self, servers: tuple[Server, Server], rng: random.Random) -> None:
        self.servers = servers
        self.tally = Tally()
        self._rng = rng

    def compare(self, group: str) -> None:
        """Compare the answers to one random definition and to objects of it."""
        schema = random_schema(self._rng)
        rules = [
            random_rule(self._rng, schema, transition=self._rng.random() < 0.3)
            for _ in range(self._rng.randint(1, RULES))
        ]
        taken = [rule for rule in rules if self._is_taken(group, schema, rule)]
        created = widgets(group, {**schema, "x-kubernetes-validations": taken})
        if not taken or self._send("POST", DEFINITIONS, created) != 201:
            return
        path = f"/apis/{group}/v1/widgets"
        try:
            for server in self.servers:
                self._wait(server, path)
            self._compare_objects(path, group, schema)
        finally:
            for server in self.servers:
                server.call("DELETE", f"{DEFINITIONS}/widgets.{group}")

    def _is_taken(self, group: str, schema: Obj, rule: Obj) -> bool:
        """Compare the answers to a definition with one rule, and report whether the left server takes it."""
        one = widgets(group, {**schema, "x-kubernetes-validations": [rule]})
        return self._send("POST", f"{DEFINITIONS}?dryRun=All", one) == 201

    def _compare_objects(self, path: str, group: str, schema: Obj) -> None:
        """Compare the answers to random objects: new ones, and ones that replace another."""
        stored = self._object(group, schema, "stored")
        for _ in range(OBJECTS):
            stored = self._object(group, schema, "stored")
            if self._send("POST", path, stored) == 201:
                break
        for _ in range(OBJECTS):
            self._send("POST", f"{path}?dryRun=All", self._object(group, schema, "new"))
            spec = self._object(group, schema, "stored")["spec"]
            patch = [{"op": "replace", "path": "/spec", "value": spec}]
            self._send("PATCH", f"{path}/stored?dryRun=All", patch)

    def _object(self, group: str, schema: Obj, name: str) -> Obj:
        spec = random_value(self._rng, {**schema, "nullable": False})
        return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}

    def _wait(self, server: Server, path: str) -> None:
        """Wait until a resource is served."""
        deadline = time.monotonic() + PATIENCE
        while server.call("GET", path)[0] != 200 and time.monotonic() < deadline:
            time.sleep(0.1)

    def _send(self, method: str, path: str, body: Any) -> int:
        """Send a request to both servers, print how their answers differ, and return the left one's status."""
        media = "application/json-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": media, "Accept": "application/json"}
        left, right = (server.exchange(method, path, headers, json.dumps(body).encode()) for server in self.servers)
        if not self.tally.lacks_answer(left):
            self.tally.compare(f"{method} {path} {json.dumps(body)[:2000]}", comparable(left), comparable(right))
        return left.status


def groups() -> Iterator[str]:
    """Yield names of groups that no other run has."""
    number = 0
    while True:
        number += 1
        yield f"r{os.getpid():x}-{number}.example.com"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--definitions", type=int, default=20, help="how many")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    comparison = Comparison(servers, random.Random(options.seed))
    for _, group in zip(range(options.definitions), groups(), strict=False):
        comparison.compare(group)
    print(f"{comparison.tally.total} requests: {comparison.tally}")
    return comparison.tally.exit_status
