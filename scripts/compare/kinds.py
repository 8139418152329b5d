"""Compare two API servers by random changes in valid objects of every kind.

    python -m scripts.compare kinds https://127.0.0.1:6443 http://127.0.0.1:8001 --token TOKEN --seed 1 --requests 3000
    python -m scripts.compare kinds … --only /pods --skip /services    only some collections, by regular expressions

An object has a few fields set, removed, emptied or doubled at random, by the OpenAPI document of the left server. It is
created, or it replaces the stored object or its status, by PUT or by a patch, as dry runs. Status, warnings and body
must agree, but for values that a server generates and for differences in KNOWN, which are counted. The valid objects
are those of the tests. Another difference is printed once, with the changes that lead to it, then how many requests
agree. The exit status is 1 if there are such differences, if nothing agreed, or if the left server left more than a few
requests without an answer.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

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
from scripts.compare.sequences.answers import normalized
from scripts.compare.sequences.server_pair import Difference, signature
from scripts.torture.inputs.requests import Corpus, Resource, read_corpus

JSON = "application/json"
SENT_BACK = ("resourceVersion", "uid", "managedFields", "creationTimestamp", "generation")  # not in a patch
ALLOCATED = ("nodePort", "healthCheckNodePort", "clusterIP", "clusterIPs")  # values that servers choose at random
DEPTH = 6  # of random values
TEXTS = (
    "", "a", "A", "x.y", "-a", "a/b", "a b", "10.0.0.1", "010.1.2.3", "::1", "fe80::1", "10.0.0.0/24", "10.0.0.1/24",
    "2001:DB8::/32", "1", "100%", "-1", "kubernetes.io/x", "Example.com/Foo", "v1", "apps/v1", "True", "False",
    "Exists", "In", "Always", "x" * 70, "a.b.c.example.com", "1h", "*", "a=b", "TCP", "None", "/x", "../x", "é",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 5, 80, 100, 65536, 2**31 - 1, 3600, 86400, 604800)
QUANTITIES = ("0", "1", "-1", "100m", "1Gi", "abc", "0.05", 1)
TIMES = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "yesterday")
KEYS = ("a", "b", "k.io/x", "A b", "cpu")


class Known(NamedTuple):
    """A difference that is known, by patterns for the path of the collection and for a line of the difference."""

    path: str
    line: str
    reason: str


KNOWN = (
    Known(
        "/(apiservices|customresourcedefinitions|flowschemas)",
        r"409|Conflict|f:status|\bstatus\.(conditions|acceptedNames)",
        "controllers of kube-apiserver set the status meanwhile: later than ours, and of services that are missing",
    ),
    Known(
        "/statefulsets",
        r"template\.spec\.volumes\[\d+\]",
        "volumes of claim templates are checked in the random order of a Go map",
    ),
    Known("/validatingadmissionpolicies", "invalid JSONPath", "the path of a warning in the status is not parsed"),
    Known(
        "",
        r"\.causes\[\d+\]\.message.*(null|\bnil\b|\\n *[-+] )",
        "errors print Go values, where an empty list is not nil",
    ),
)


class Edit(NamedTuple):
    """A change at a place in an object: `set` or `remove` a key, or `append` a value to the list at the path."""

    path: tuple[str | int, ...]
    verb: str
    value: Any = None


def edited(obj: Obj, edits: list[Edit]) -> Obj:
    """Return the object after the edits. An edit whose place is not there, in this object, changes nothing."""
    new = copy.deepcopy(obj)
    for edit in edits:
        *parents, last = edit.path
        at: Any = new
        for key in parents:
            at = at[key] if (key in at if isinstance(at, dict) else int(key) < len(at)) else {}
        if edit.verb == "append":
            at[last].append(copy.deepcopy(edit.value))
        elif edit.verb == "set":
            at[last] = copy.deepcopy(edit.value)
        elif isinstance(at, list):
            at.pop(int(last))
        else:
            at.pop(last, None)
    return new


class Changes:
    """Makes random changes that the schemas of a release suggest."""

    def __init__(self, corpus: Corpus, rng: random.Random) -> None:
        self.definitions = corpus.definitions
        self.rng = rng

    def edits(self, obj: Obj, definition: str, below: str = "") -> list[Edit]:
        """Return some edits of an object; with `below`, of that field only."""
        made: list[Edit] = []
        schema = {"$ref": definition}
        if below and below not in obj:
            value = self.value(self.resolved(schema).get("properties", {}).get(below, {}), 0)
            made.append(Edit((below,), "set", value))
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3))):
            places = [
                place for place in self.places(edited(obj, made), schema) if not below or place[0][:1] == (below,)
            ]
            if not below:  # fewer changes of the status, which a create resets, and deep in templates of pods
                places = [place for place in places if "status" not in place[0]] or places
                outside = [place for place in places if not {"template", "jobTemplate"} & set(place[0])]
                places = outside if outside and self.rng.random() < 0.7 else places
            if places:
                made += self.edit(*self.rng.choice(places))
        return made

    def places(self, value: Any, schema: Obj, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any, Obj]]:
        """Yield (path, container, schema) of each object and list in a value."""
        schema = self.resolved(schema)
        if isinstance(value, dict):
            yield path, value, schema
            for key, item in value.items():
                if (not path and key in ("kind", "apiVersion")) or key == "managedFields":
                    continue
                inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties") or {}
                yield from self.places(item, inner, (*path, key))
        elif isinstance(value, list) and path:
            yield path, value, schema
            for index, item in enumerate(value):
                yield from self.places(item, schema.get("items", {}), (*path, index))

    def edit(self, path: tuple[str | int, ...], container: Any, schema: Obj) -> list[Edit]:
        """Return an edit of a container: of one of its fields, entries or items."""
        if isinstance(container, list):
            if container and self.rng.random() < 0.3:
                return [Edit(path, "append", self.rng.choice(container))]
            if container and self.rng.random() < 0.4:
                return [Edit((*path, self.rng.randrange(len(container))), "remove")]
            return [Edit(path, "append", self.value(schema.get("items", {}), len(path)))]
        names = [
            name for name in schema.get("properties", {}) if path or name not in ("kind", "apiVersion", "metadata")
        ]
        if "properties" in schema and not names:
            return []
        key = self.rng.choice(names or KEYS)
        inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties") or {}
        chance = self.rng.random()
        if chance < 0.2:
            return [Edit((*path, key), "remove")]
        return [Edit((*path, key), "set", None if chance < 0.25 else self.value(inner, len(path)))]

    def resolved(self, schema: Obj) -> Obj:
        """Return a schema, or the one that it refers to."""
        return self.definitions.get(schema["$ref"].rpartition("/")[2], {}) if "$ref" in schema else schema

    def value(self, schema: Obj | bool, depth: int) -> Any:
        """Return a value of a schema's type, mostly one of those that it lists, if it does. True is any type."""
        if isinstance(schema, bool):
            return self.rng.choice(TEXTS)
        name, schema = schema.get("$ref", ""), self.resolved(schema)
        choice = self.rng.choice
        if schema.get("enum") and self.rng.random() < 0.7:
            return choice(schema["enum"])
        match schema.get("type", "object"):
            case "string" if name.endswith(".Quantity"):
                return choice(QUANTITIES)
            case "string" if schema.get("format") == "int-or-string":
                return choice((0, 1, -1, "10%", "http", "120%", ""))
            case "string" if schema.get("format") == "date-time":
                return choice(TIMES)
            case "string" if schema.get("format") == "byte":
                return choice(("YWJj", "", "not base64!"))
            case "string":
                return choice(TEXTS)
            case "boolean":
                return self.rng.random() < 0.5
            case "integer":
                return choice(NUMBERS)
            case "number":
                return choice((0, 1.5, -1))
            case "array":
                length = choice((0, 1, 1, 2)) if depth < DEPTH else 0
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(length)]
        if "properties" not in schema or depth >= DEPTH:
            entry = schema.get("additionalProperties", {"type": "string"})
            return {choice(KEYS): self.value(entry, depth + 1) for _ in range(choice((0, 1, 2)))}
        share = 0.6 if depth < 3 else 0.3
        return {
            key: self.value(inner, depth + 1)
            for key, inner in schema["properties"].items()
            if key in schema.get("required", ()) or self.rng.random() < share
        }


def comparable(answer: Answer, sent: Any) -> Any:
    """Return the parts of an answer to an object that two servers must agree on."""
    text = answer.body.decode(errors="replace")
    metadata = sent.get("metadata") if isinstance(sent, dict) else None
    if isinstance(metadata, dict) and metadata.get("generateName") and not metadata.get("name"):
        text = re.sub(re.escape(metadata["generateName"]) + r"[a-z0-9]{5}\b", "GENERATED", text)
    text = re.sub(r"\b10\.0\.0\.\d+\b", "10.0.0.IP", text)
    body = normalized(without_allocated(json.loads(text)) if text.startswith("{") else text)
    return {"status": answer.status, "warnings": sorted(answer.all("warning")), "body": body}


def without_allocated(value: Any) -> Any:
    """Return a value of an answer without the ports and addresses that a server has chosen."""
    if isinstance(value, dict):
        return {key: without_allocated(item) for key, item in value.items() if key not in ALLOCATED}
    return [without_allocated(item) for item in value] if isinstance(value, list) else value


def shortened(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two comparable answers without the causes that both have; the message only repeats the causes."""
    bodies: tuple[Any, Any] = copy.deepcopy(left["body"]), copy.deepcopy(right["body"])
    details = [(isinstance(body, dict) and body.get("details")) or {} for body in bodies]
    if not all("causes" in detail for detail in details) or details[0] == details[1]:
        return left, right
    both = Counter(map(json.dumps, details[0]["causes"])) & Counter(map(json.dumps, details[1]["causes"]))
    for body, detail in zip(bodies, details, strict=True):
        own = Counter(map(json.dumps, detail["causes"])) - both
        detail["causes"] = [json.loads(cause) for cause in own.elements()]
        del body["message"]
    return {**left, "body": bodies[0]}, {**right, "body": bodies[1]}


def known_reason(path: str, lines: list[str]) -> str:
    """Return the reason of a known difference, "" for one that is not known.

    Every line of it must match; where one server refuses what the other accepts, the other lines follow from that.
    """
    refused = any(line.startswith(".status:") for line in lines)
    for known in KNOWN:
        if re.search(known.path, path):
            matching = [bool(re.search(known.line, line)) for line in lines]
            if all(matching) or (refused and known.path and any(matching)):
                return known.reason
    return ""


class Comparison:
    """Compares the answers of two servers, and counts how many agree."""

    def __init__(self, servers: tuple[Server, Server], corpus: Corpus, rng: random.Random) -> None:
        self.servers = servers
        self.changes = Changes(corpus, rng)
        self.rng = rng
        self.tally = Tally()
        self.not_stored = 0
        self.causes: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self._names = (f"k{os.getpid():x}-{number}" for number in itertools.count())

    def compare(self, resource: Resource) -> None:
        """Compare the creation of a changed object, or a few changes of a stored one."""
        obj = json.loads(self.rng.choice(resource.samples))
        if re.fullmatch("[a-z0-9-]+", obj["metadata"].get("name", "")):
            obj["metadata"]["name"] = next(self._names)
        if self.rng.random() < 0.5:
            edits = self.changes.edits(obj, resource.definition)
            self.send("POST", resource.path, JSON, [edited(obj, edits)] * 2, edits)
            return
        created = [server.call("POST", resource.path, obj) for server in self.servers]
        if [status for status, _ in created] != [201, 201]:
            self.not_stored += 1  # another sample of the same name may be there; creations are compared above
            return
        name = created[0][1]["metadata"].get("name")
        if name is None:  # a review, which is not stored
            return
        path = f"{resource.path}/{name}"
        for _ in range(3):
            self.change(path, resource, [stored for _, stored in created])
        for server in self.servers:
            server.call("PATCH", path, {"metadata": {"finalizers": None}}, MEDIA["merge"])
            server.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def change(self, path: str, resource: Resource, stored: list[Obj]) -> None:
        """Compare one change of a stored object or of its status, by PUT or by a patch."""
        target = "status" if "status" in resource.subresources and self.rng.random() < 0.4 else ""
        edits = self.changes.edits(stored[0], resource.definition, target)
        bodies = [edited(obj, edits) for obj in stored]
        path += f"/{target}" if target else ""
        form = self.rng.choice(("put", "put", "put", "strategic", "merge", "apply"))
        if form == "put":
            self.send("PUT", path, JSON, bodies, edits)
            return
        for body in bodies:
            if isinstance(body.get("metadata"), dict):
                body["metadata"] = {name: value for name, value in body["metadata"].items() if name not in SENT_BACK}
        self.send("PATCH", path, MEDIA[form], bodies, edits)

    def send(self, method: str, path: str, media: str, bodies: list[Any], edits: list[Edit]) -> None:
        """Send a dry run to each server, and print how the answers differ, if they do not for a reason seen before."""
        query = "?dryRun=All&fieldManager=m&force=true" if media == MEDIA["apply"] else "?dryRun=All"
        headers = {"Content-Type": media, "Accept": JSON}
        answers = [
            server.exchange(method, path + query, headers, json.dumps(body).encode())
            for server, body in zip(self.servers, bodies, strict=True)
        ]
        if self.tally.lacks_answer(answers[0]):
            print(f"--- {method} {path} {media} {edits}: the left server did not answer: {answers[0].body.decode()}")
            return
        lines = list(differences(*shortened(*(comparable(answer, bodies[0]) for answer in answers)), ""))
        if lines and (reason := known_reason(path, lines)):
            self.known[reason] += 1
            return
        self.tally.count(lines)
        cause = re.sub(r"k[0-9a-f]+-[0-9]+|/(v\d\w*)/", "N", path) + signature(Difference(0, lines))
        self.causes[cause] += bool(lines)
        if self.causes[cause] == 1:
            sent = bodies[0] if method == "POST" else edits
            print_difference(f"{method} {path} {media} {json.dumps(sent)}", lines[:12])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--requests", type=int, default=2000, help="that are compared, at least")
    parser.add_argument("--only", default="", metavar="REGEX", help="the paths of collections")
    parser.add_argument("--skip", default="^$", metavar="REGEX", help="paths of collections that are left out")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    corpus = read_corpus(servers[0])
    chosen = [
        resource
        for resource in corpus.resources
        if re.search(options.only, resource.path) and not re.search(options.skip, resource.path) and resource.definition
    ]
    comparison = Comparison(servers, corpus, random.Random(options.seed))
    while chosen and comparison.tally.agree + comparison.tally.differ < options.requests:
        comparison.compare(comparison.rng.choice(chosen))
    tally = comparison.tally
    for reason, number in comparison.known.most_common():
        print(f"{number} known: {reason}")
    print(f"{comparison.not_stored} objects not stored")
    print(f"{tally.agree + tally.differ} requests to {len(chosen)} collections: {tally}")
    return tally.exit_status
