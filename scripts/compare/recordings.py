"""Compare two API servers by recorded scenarios whose requests are changed at random.

    python -m scripts.compare recordings https://127.0.0.1:6443 http://127.0.0.1:8001 --token TOKEN --seed 1
    python -m scripts.compare recordings … --only machinery --share 0.8

The steps of the recordings in tests/recordings of the release of the servers are sent to both as they are, under names
of their own. Before some of them, changed copies are sent as dry runs: with fields removed, added, or taken from other
recordings, with other parameters, headers, versions, subresources and methods. Lists are watched with changed
parameters, too. Status, body and the important headers must agree, but for values that a server generates. Each
difference is printed once. The exit status is 1 if there are any, if nothing agreed, or if the left server left more
than a few requests without an answer.

Start both servers with the flags of the recordings' first lines. Steps that change feature gates or ask for OpenAPI are
left out.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote

from scripts.common.comparing import (
    MEDIA,
    Answer,
    Obj,
    Server,
    Tally,
    add_server_arguments,
    differences,
    print_difference,
    require_servers,
)
from scripts.compare.kinds import shortened
from scripts.compare.sequences.answers import comparable
from scripts.compare.sequences.server_pair import Difference, signature
from scripts.compare.sequences.steps import Step
from tests.recordings.compare import Memory
from tests.recordings.recorded import Recording, recordings
from tests.recordings.replay import holds, repeated
from understudy.machinery.releases.version import Version

ODD: tuple[Any, ...] = (None, "", [], {}, 0, -1, "x", "A_b", True, "a" * 70, 1.5, 2**63, [None], {"a": "b"}, "é", "a/b")
OTHERS = ("kubectl", "cel", "gates", "webhooks")  # corpora that are no requests, or need more than a server
WRITES = ("POST", "PUT", "PATCH", "DELETE")
METHODS = (*WRITES, "GET")
MOST_VALUES = 60  # kept for a field


class Pool:
    """Remembers what the requests of some recordings are made of, to make others of it."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))  # by the name above
        self.headers: dict[str, list[str]] = defaultdict(list)
        self.query: dict[str, list[str]] = defaultdict(list)
        self.versions: dict[str, set[str]] = defaultdict(set)  # by group
        self.subresources: set[str] = {"/status", "/scale", ""}

    def note(self, request: Obj) -> None:
        """Remember the parts of a request."""
        self._note_body(request.get("body"), "")
        for name, value in request.get("headers", {}).items():
            if isinstance(value, str) and name in ("Accept", "Content-Type", "Authorization"):
                keep(self.headers[name], value)
        path, _, query = request["path"].partition("?")
        for name, value in parse_qsl(query, keep_blank_values=True):
            keep(self.query[name], value)
        if found := re.match(r"/apis/([^/]+)/([^/]+)/", path):
            self.versions[found[1]].add(found[2])

    def _note_body(self, value: Any, above: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                if key != "managedFields" and not key.startswith(("f:", "k:", "v:")):
                    keep(self.fields[above][key], item)
                    self._note_body(item, key)
        elif isinstance(value, list):
            for item in value:
                keep(self.fields[above]["[]"], item)
                self._note_body(item, above)


def keep(values: list[Any], value: Any) -> None:
    """Add a value to a list of different ones, unless that is long."""
    if len(values) < MOST_VALUES and value not in values:
        values.append(value)


class Changes:
    """Makes changed copies of requests."""

    def __init__(self, pool: Pool, rng: random.Random) -> None:
        self.pool = pool
        self.rng = rng

    def step(self, step: Step) -> Step:
        """Return a changed copy of a request."""
        new = copy.deepcopy(step)
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            ways = [self.query, self.headers, self.path] + [self.body] * (8 if new.body is not None else 0)
            self.rng.choice(ways)(new)
        if any(name == "watch" for name, _ in new.query):  # a watch without a limit does not end
            end_soon(new)
        if new.method in WRITES and not any(name == "dryRun" for name, _ in new.query):
            new.query.append(("dryRun", "All"))
        return new

    def query(self, step: Step) -> None:
        """Add, change or remove a parameter."""
        if step.query and self.rng.random() < 0.4:
            step.query.pop(self.rng.randrange(len(step.query)))
        if self.pool.query and self.rng.random() < 0.8:
            name = self.rng.choice(sorted(self.pool.query))
            if name not in ("watch", "timeoutSeconds", "timeout"):
                step.query.append((name, self.rng.choice((*self.pool.query[name], "", "x", "1"))))

    def headers(self, step: Step) -> None:
        """Ask for another form of the answer, as another user, or send the body as another one."""
        name = "Content-Type" if step.body is not None and self.rng.random() < 0.4 else "Accept"
        if self.pool.headers["Authorization"] and self.rng.random() < 0.7:
            name = "Authorization"
        step.headers[name] = self.rng.choice(self.pool.headers[name] or ["application/json"])

    def path(self, step: Step) -> None:
        """Ask for another version or subresource, or by another method."""
        chance = self.rng.random()
        if chance < 0.2:
            step.method = self.rng.choice(METHODS)
            if step.method == "PATCH":
                step.headers["Content-Type"] = self.rng.choice(list(MEDIA.values()))
        elif chance < 0.5:
            step.path += self.rng.choice(sorted(self.pool.subresources))
        elif found := re.match(r"/apis/([^/]+)/([^/]+)/", step.path):
            version = self.rng.choice(sorted(self.pool.versions[found[1]] or {"v1"}))
            step.path = f"/apis/{found[1]}/{version}/{step.path[found.end() :]}"
            if isinstance(step.body, dict) and self.rng.random() < 0.8:
                step.body["apiVersion"] = f"{found[1]}/{version}"

    def body(self, step: Step) -> None:
        """Change a place in a body, or a letter of a text."""
        if isinstance(step.body, str):
            at = self.rng.randrange(len(step.body) + 1)
            step.body = step.body[:at] + self.rng.choice(("", "\n", '"', "}", ": ")) + step.body[at + 1 :]
        elif places := [place for place in places_in(step.body) if place[0] != "managedFields"]:
            above, container = self.rng.choice(places)
            self.edit(above, container)

    def edit(self, above: str, container: Any) -> None:
        """Remove, add, replace or double an entry of an object or a list; `above` names its field."""
        rng, known = self.rng, self.pool.fields.get(above, {})
        if isinstance(container, list):
            values = [*known.get("[]", ()), *container, rng.choice(ODD)]
            chance = rng.random()
            if container and chance < 0.3:
                container.pop(rng.randrange(len(container)))
            elif container and chance < 0.5:
                container[rng.randrange(len(container))] = copy.deepcopy(rng.choice(values))
            else:
                container.insert(rng.randrange(len(container) + 1), copy.deepcopy(rng.choice(values)))
            return
        chance = rng.random()
        if container and chance < 0.2:
            container.pop(rng.choice(sorted(container)))
            return
        key = rng.choice(sorted(known if known and (not container or chance < 0.6) else container) or ["a"])
        values = [
            *known.get(key, ()),
            *(value for fields in self.pool.fields.values() for value in fields.get(key, ())[:3]),
        ]
        container[key] = copy.deepcopy(rng.choice(values) if values and rng.random() < 0.75 else rng.choice(ODD))


def places_in(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each object and list in a value, with the name of the field that holds it."""
    if isinstance(value, dict):
        yield above, value
        for key, item in value.items():
            if key != "managedFields":
                yield from places_in(item, key)
    elif isinstance(value, list):
        yield above, value
        for item in value:
            yield from places_in(item, above)


def step_of(request: Obj) -> Step:
    """Return a request of a recording."""
    path, _, query = request["path"].partition("?")
    headers, body = request.get("headers", {}), request.get("body")
    return Step(0, request.get("method", "GET"), path, parse_qsl(query, True), headers, body)


def end_soon(step: Step) -> None:
    """Let a watch end after a second."""
    step.query = [pair for pair in step.query if pair[0] != "timeoutSeconds"] + [("timeoutSeconds", "1")]


class Replayer:
    """Sends recorded requests to a server, with the values that this one has generated."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.memory = Memory()
        self.versions: list[str] = []  # of lists

    def send(self, step: Step) -> Answer:
        """Send a request and return the answer."""
        path = self.memory.path(step.path)
        if step.query:
            path += "?" + "&".join(f"{quote(k)}={quote(self.filled(v), safe='')}" for k, v in step.query)
        body = self.body(step.body)
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Accept": "application/json", **self.memory.headers(step.headers)}
        return self.server.exchange(step.method, path, headers, data)

    def body(self, body: Any) -> Any:
        """Return a body with live values; metadata that a change has broken is sent as it is."""
        try:
            return self.memory.fill(body)
        except (AttributeError, KeyError, TypeError):
            return body

    def filled(self, value: str) -> str:
        """Return a parameter with live values; {{version}} is that of the last list."""
        return self.memory.text(value.replace("{{version}}", (self.versions or ["0"])[-1]))

    def learn(self, answer: Answer, recorded: Obj) -> None:
        """Bind the placeholders of a recorded answer to what was answered."""
        try:
            body = json.loads(answer.body)
        except ValueError:
            return
        self.memory.note(body)
        if answer.status == recorded.get("status") and "body" in recorded:
            self.memory.body(recorded["body"], body)
        if isinstance(body, dict) and str(body.get("kind", "")).endswith("List") and body.get("metadata"):
            self.versions.append(body["metadata"].get("resourceVersion", ""))

    def wait(self, asked: Obj) -> None:
        """Ask until the answer is the wanted one, or the time is over."""
        step = step_of(asked)

        def answered() -> bool:
            answer = self.send(step)
            text = answer.body.decode() + " ".join(answer.all("warning"))
            if answer.status != asked.get("status", answer.status) or asked.get("contains", "") not in text:
                return False
            return "has" not in asked or holds(json.loads(answer.body), asked["has"])

        repeated(answered, min(asked["seconds"], 60))


def agreed(answer: Answer, step: Step, memory: Memory) -> Any:
    """Return the parts of an answer that two servers must agree on; of protobuf, not the body."""
    text = re.sub(rb"selfType\d+", b"selfType", answer.body)
    if any("protobuf" in value for value in answer.all("content-type")):
        text = b""
    for holder, value in memory.values.items():
        if holder.startswith("<name:"):
            text = text.replace(value.encode(), b"GENERATED")
    if generated := re.search('"generateName": "([^"]+)"', json.dumps(step.body, ensure_ascii=False)):
        text = re.sub(re.escape(generated[1][:58]).encode() + rb"(-|[xy]*)[a-z0-9]{5}\b", b"GENERATED", text)
    if b'"kind":"SelfSubjectRulesReview"' in text:  # rules have no order
        text = b"\n".join(sorted(text.split(b"}")))
        return {"status": answer.status, "body": text.decode()}
    try:
        return comparable(answer._replace(body=text), step)
    except KeyError:  # no watch, though a parameter asks for it
        return comparable(answer._replace(body=text), Step(0, step.method, step.path))
    except json.JSONDecodeError:  # a watch, though no parameter asks for it
        return comparable(answer._replace(body=text), replace(step, query=[("watch", "1")]))


class Comparison:
    """Sends recordings to two servers and compares the answers."""

    def __init__(self, servers: tuple[Server, Server], pool: Pool, rng: random.Random, share: float) -> None:
        self.servers = servers
        self.changes = Changes(pool, rng)
        self.rng = rng
        self.share = share
        self.tally = Tally()
        self.causes: Counter[str] = Counter()
        self.both = ThreadPoolExecutor(2)
        self._runs = itertools.count()

    def replay(self, recording: Recording) -> None:
        """Send a recording, with changed copies of some requests before them."""
        text = json.dumps(recording.lines(), ensure_ascii=False)
        namespace = recording.head.get("namespace", "")
        tag, run = namespace.removeprefix("rec-"), f"-{os.getpid():x}{next(self._runs)}"
        if tag:
            text = text.replace(tag, tag + run)
        head, *lines = json.loads(text)
        replayers = tuple(Replayer(server) for server in self.servers)
        if namespace:
            for server in self.servers:
                server.call("POST", "/api/v1/namespaces", {"metadata": {"name": head["namespace"]}})
        for number, line in enumerate(lines, 2):
            if waited := line.get("until") or line.get("probe"):
                list(self.both.map(lambda replayer, waited=waited: replayer.wait(waited), replayers))
            elif not self.line(replayers, line, f"{recording.name}:{number}"):
                return

    def line(self, replayers: tuple[Replayer, ...], line: Obj, title: str) -> bool:
        """Send a step and changed copies of it. Return False where the servers no longer hold the same."""
        request = line.get("request") or line.get("watch") or line.get("start_watch")
        if request is None or "/openapi" in request["path"]:
            return True
        if not all(isinstance(value, str) for value in request.get("headers", {}).values()):
            return True
        step = step_of(request)
        if "request" not in line:
            end_soon(step)
        while self.rng.random() < self.share:
            self.send(replayers, self.changes.step(step), f"{title} changed", {})
        if "within" in line:  # an authorizer learns of a new binding later
            asked = {**request, "seconds": line["within"], "status": line["response"]["status"]}
            list(self.both.map(lambda replayer: replayer.wait(asked), replayers))
        agree = self.send(replayers, step, title, line.get("response", {}))
        body = line.get("response", {}).get("body")
        if isinstance(body, dict) and "items" in body and self.rng.random() < self.share / 2:
            self.send(replayers, self.watch(step), f"{title} watched", {})
        return agree or step.method == "GET" or ("dryRun", "All") in step.query

    def watch(self, step: Step) -> Step:
        """Return a request that watches what another one lists."""
        query = [pair for pair in step.query if pair[0] in ("labelSelector", "fieldSelector")] + [("watch", "1")]
        options = (
            ("resourceVersion", ("{{version}}", "{{version}}", "0", ""), 0.8),
            ("resourceVersionMatch", ("NotOlderThan", "Exact"), 0.15),
            ("allowWatchBookmarks", ("true",), 0.4),
            ("sendInitialEvents", ("true", "true", "false"), 0.25),
        )
        query += [(name, self.rng.choice(values)) for name, values, chance in options if self.rng.random() < chance]
        new = Step(0, "GET", step.path, [*query, ("timeoutSeconds", "1")], dict(step.headers))
        if self.rng.random() < 0.3:
            self.changes.headers(new)
        return new

    def send(self, replayers: tuple[Replayer, ...], step: Step, title: str, recorded: Obj) -> bool:
        """Send a request to both servers, print how the answers differ, and return whether they agree."""
        answers = list(self.both.map(lambda replayer: replayer.send(step), replayers))
        if self.tally.lacks_answer(answers[0]):
            print(f"--- {title}: the left server did not answer: {answers[0].body.decode()}")
            return True
        for replayer, answer in zip(replayers, answers, strict=True):
            replayer.learn(answer, recorded)
        left, right = (
            agreed(answer, step, replayer.memory) for answer, replayer in zip(answers, replayers, strict=True)
        )
        lines = list(differences(*shortened(left, right), ""))
        self.tally.count(lines)
        self.causes[cause := signature(Difference(0, lines))] += bool(lines)
        if self.causes[cause] == 1:
            query = "&".join("=".join(pair) for pair in step.query)
            print_difference(
                f"{title}: {step.method} {step.path}?{query} {step.headers} {json.dumps(step.body)}", lines[:12]
            )
        return not lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--only", default="", metavar="REGEX", help="the names of recordings")
    parser.add_argument("--share", type=float, default=0.5, help="of the steps that have changed copies")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    version = servers[0].must("GET", "/version")
    release = Version.parse(f"{version.get('emulationMajor', '1')}.{version.get('emulationMinor') or version['minor']}")
    chosen = [
        recording
        for recording in recordings()
        if recording.corpus not in OTHERS
        and not recording.name.endswith("discovery-groups")  # which names all that a server serves
        and recording.version == release
        and re.search(options.only, recording.name)
    ]
    pool = Pool()
    for recording in chosen:
        for line in recording.lines()[1:]:
            if request := line.get("request"):
                pool.note(request)
    comparison = Comparison(servers, pool, random.Random(options.seed), options.share)
    for recording in chosen:
        comparison.replay(recording)
    print(f"{comparison.tally.total} requests of {len(chosen)} recordings: {comparison.tally}")
    return comparison.tally.exit_status
