"""Compare two API servers by random custom resources: definitions with random schemas, requests about their objects.

    python -m scripts.compare custom https://127.0.0.1:6443 http://127.0.0.1:8001 --token T --seed 1 --definitions 10

Each definition is created on both servers; they must agree whether it is valid. Then random sequences of requests are
sent, as `compare requests` sends those of built-in kinds, with values that fit the schema of the definition or nearly
do. The first difference of a sequence is shrunk and printed. The exit status is 1 if anything differs, if nothing
agreed, or if the left server left more than a few requests without an answer.

Most of the time is spent waiting for the left server to serve a definition, so several runs with different seeds may
go on at once. These differences stay:

- kube-apiserver reports one of several wrong embedded resources, any, and orders objects to delete at random
- a list's resourceVersion, sent as a precondition, fits the last write only if nobody else has written since
- before 1.35 a value of another type passes a schema with a format that is not of its type (a list as a boolean with
  the format date-time); kube-apiserver then gives up the managed fields of the object
- a body of another kind that is refused for an unknown field: the text names its own kind twice
- keys of list maps beyond 2**53 lose digits in managed fields that are read again
- a patch that removes `apiVersion` and sets resourceVersion to "0" is 422, not 500
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import Counter
from typing import Any

from scripts.common.comparing import (
    MAX_UNANSWERED,
    Obj,
    Parts,
    Server,
    add_server_arguments,
    differences,
    require_servers,
)
from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.compare.sequences.answers import normalized
from scripts.compare.sequences.generator import SequenceGenerator
from scripts.compare.sequences.kinds import OBJECT_META, Kind
from scripts.compare.sequences.report import compare
from scripts.compare.sequences.server_pair import ServerPair

PATIENCE = 30  # seconds until a definition is served
NUMBERS = (0, 1, 2, 3, -1, 1.5, 2.0, 0.1, 1e3, 97, 2**31, 2**53, 2**63 - 1, 2**63, 1e20)
TEXTS = ("", "a", "b", "abc", "A", "1", "é日", "xxxxx", "2026-01-01", "10.0.0.1", "a@b.c", "a.b")
FORMATS = ("date", "date-time", "ipv4", "int32", "int64", "float", "double", "byte", "uuid", "odd", "email", "hostname")
FIELDS = ("a", "b", "c", "d", "k")
SCALARS = ("string", "integer", "number", "boolean")
METADATA: tuple[Any, ...] = (
    {"name": "x"}, {"name": "X_"}, {"name": "a", "odd": 1}, {"labels": {"a": 1}}, {"name": 1}, None, [],
    {"labels": {"a b": "c"}}, {"creationTimestamp": None, "name": "y"}, {"ownerReferences": [{"x": 1}]},
)  # fmt: skip


class SchemaGenerator:
    """Generates schemas and values for them, always the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.rng.random() < probability

    # --- schemas

    def schema(self, depth: int = 0) -> Obj:
        """Return a structural schema. Few of them have a mistake."""
        made = self.typed(self.rng.choice((*SCALARS, "object", "object", "array", "any", "either")), depth)
        made |= self.limits(made)
        for name in ("allOf", "anyOf", "oneOf"):
            if name not in made and self.chance(0.08):
                made[name] = [self.clause(made, depth + 1) for _ in range(self.rng.randint(1, 3))]
        if self.chance(0.05):
            made["not"] = self.clause(made, depth + 1)
        if self.chance(0.1):
            made["nullable"] = True
        if self.chance(0.15):
            made["default"] = self.value(made)
        return made

    def typed(self, kind: str, depth: int) -> Obj:
        """Return a schema of a type; "any" preserves unknown fields, "either" is an integer or a string."""
        if kind == "either":
            spelt = {"anyOf": [{"type": "integer"}, {"type": "string"}]} if self.chance(0.5) else {}
            return {"x-kubernetes-int-or-string": True, **spelt}
        if kind == "any":
            preserving = {"x-kubernetes-preserve-unknown-fields": True}
            embedded = {"type": "object", "x-kubernetes-embedded-resource": True} if self.chance(0.4) else {}
            return preserving | embedded
        if depth > 3 or kind in SCALARS:
            return {"type": kind if kind in SCALARS else "string"}
        return self.array(depth) if kind == "array" else self.object(depth)

    def object(self, depth: int) -> Obj:
        """Return the schema of a map or of an object with properties."""
        made: Obj = {"type": "object"}
        if self.chance(0.25):
            made["additionalProperties"] = self.schema(depth + 1)
        else:
            made["properties"] = {n: self.schema(depth + 1) for n in self.rng.sample(FIELDS, self.rng.randint(1, 4))}
        if self.chance(0.1):
            made["x-kubernetes-map-type"] = "atomic"
        return made

    def array(self, depth: int) -> Obj:
        """Return the schema of a list, a set or a list map."""
        made: Obj = {"type": "array", "items": self.schema(depth + 1)}
        kind = self.rng.choice(("", "", "set", "map", "map"))
        if kind == "set":
            made |= {"x-kubernetes-list-type": "set", "items": {"type": self.rng.choice(SCALARS)}}
        if kind == "map":
            keys = self.rng.sample(("a", "b", "k"), self.rng.randint(1, 2))
            properties = {name: {"type": self.rng.choice(("string", "integer"))} for name in keys}
            items = {"type": "object", "required": keys, "properties": properties | {"c": self.schema(depth + 2)}}
            made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}
        return made

    def limits(self, schema: Obj) -> Obj:
        """Return some rules that concern the type of a schema, and now and then others."""
        kind = self.rng.choice(SCALARS) if self.chance(0.05) else schema.get("type", "")
        rng, made = self.rng, {}
        rules: dict[str, tuple[tuple[str, Any], ...]] = {
            "string": (("maxLength", rng.randint(0, 4)), ("minLength", rng.randint(0, 3)), ("pattern", "^[a-c]+$")),
            "integer": (("minimum", rng.choice((0, 1, 1.5, 1e20))), ("multipleOf", rng.choice((1, 2, 0.5)))),
            "number": (("maximum", rng.choice((1, 2.5, 1e20))), ("multipleOf", rng.choice((1, 0.1, 1.5)))),
            "array": (("maxItems", rng.randint(0, 2)), ("minItems", rng.randint(0, 2))),
            "object": (("maxProperties", rng.randint(0, 3)), ("minProperties", rng.randint(0, 2))),
        }
        made = {name: value for name, value in rules.get(kind, ()) if self.chance(0.2)}
        if "minimum" in made and self.chance(0.3):
            made["exclusiveMinimum"] = True
        if self.chance(0.15):
            made["format"] = rng.choice(FORMATS)
        if self.chance(0.06):
            made["enum"] = [self.any_value() for _ in range(rng.randint(1, 3))]
        if schema.get("properties") and self.chance(0.15):
            made["required"] = rng.sample(sorted(schema["properties"]), 1)
        return made

    def clause(self, schema: Obj, depth: int) -> Obj:
        """Return a schema for `allOf`, `anyOf`, `oneOf` or `not` about the same fields as another one."""
        made = self.limits(schema)
        properties = schema.get("properties")
        if properties and depth < 4 and self.chance(0.5):
            name = self.rng.choice(sorted(properties))
            made["properties"] = {name: self.clause(properties[name], depth + 1)}
            if self.chance(0.5):
                made["required"] = [name]
        return made

    # --- values

    def any_value(self, depth: int = 0) -> Any:
        """Return a value of any type."""
        if depth > 1 or self.chance(0.7):
            return self.rng.choice((self.rng.choice(NUMBERS), self.rng.choice(TEXTS), True, False, None))
        if self.chance(0.5):
            return [self.any_value(depth + 1) for _ in range(self.rng.randint(0, 2))]
        return {name: self.any_value(depth + 1) for name in self.rng.sample(FIELDS, self.rng.randint(0, 2))}

    def value(self, schema: Obj) -> Any:
        """Return a value that mostly fits a schema."""
        if self.chance(0.08):
            return self.any_value()
        if "enum" in schema and self.chance(0.6):
            return self.rng.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "array":
            items = [self.value(schema["items"]) for _ in range(self.rng.randint(0, 3))]
            return [*items, self.rng.choice(items)] if items and self.chance(0.15) else items
        if kind == "object":
            return self.object_value(schema)
        of_type = {"string": TEXTS, "integer": NUMBERS, "number": NUMBERS, "boolean": (True, False)}.get(kind or "")
        if schema.get("x-kubernetes-int-or-string"):
            of_type = (1, 97, "a", "50%", 1.5)
        return self.any_value() if of_type is None else self.rng.choice(of_type)

    def object_value(self, schema: Obj) -> Obj:
        """Return an object with most of the fields of a schema."""
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        made = {name: self.value(part) for name, part in properties.items() if self.chance(0.75)}
        if others is not None:
            made |= {name: self.value(others) for name in self.rng.sample(FIELDS, self.rng.randint(0, 3))}
        if schema.get("x-kubernetes-embedded-resource"):
            made |= {
                "apiVersion": self.rng.choice(("v1", "v1", "a/b/c", "")),
                "kind": self.rng.choice(("Pod", "p_", 1)),
            }
            if made["kind"] != 1 and self.chance(0.6):  # kube-apiserver reports one of several wrong types, any
                made["metadata"] = self.rng.choice(METADATA)
        if self.chance(0.08):
            made["unknown"] = self.any_value()
        return made


def things(seed: int, group: str, generator: SchemaGenerator) -> Obj:
    """Return a definition with a random schema for `spec` and `status`."""
    schema = {"type": "object", "properties": {name: generator.object(1) for name in ("spec", "status")}}
    subresources: Obj = {"status": {}} if seed % 2 else {}
    return definition(group, "Thing", served_version(schema, subresources=subresources), scope="Namespaced")


def kind_of(obj: Obj, generator: SchemaGenerator) -> Kind:
    """Return the kind that a definition defines, with values from which its objects are made."""
    group, version = obj["spec"]["group"], obj["spec"]["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]

    def parts(name: str) -> Parts:
        schema = properties[name]
        fields = (schema.get("properties") or dict.fromkeys(FIELDS, schema.get("additionalProperties"))).items()
        inside = tuple((f"{name}.{n}", tuple(generator.value(part) for _ in range(4))) for n, part in fields)
        return ((name, tuple(generator.value(schema) for _ in range(4))), *inside)

    spec, status = parts("spec"), parts("status")
    return Kind(
        "Thing",
        ((f"{group}/v1", f"/apis/{group}/v1/namespaces/{{{{ns}}}}/things"),),
        spec[:1],
        (*OBJECT_META, *spec, *spec, *status[:1]),
        status if version["subresources"] else (),
        ("metadata.name", "metadata.namespace", "spec.a"),
    )


def install(server: Server, obj: Obj) -> tuple[int, Obj]:
    """Create a definition and wait until it is served. Return status and body of the answer. Raises SystemExit if it is
    accepted, but not served in time."""
    status, answer = server.call("POST", DEFINITIONS, obj)
    collection = f"/apis/{obj['spec']['group']}/v1/things"
    until = time.monotonic() + PATIENCE
    while status == 201 and server.call("GET", collection)[0] != 200:
        if time.monotonic() > until:
            raise SystemExit(f"{server.url}: {obj['metadata']['name']} is not served")
        time.sleep(0.1)
    return status, answer


def compare_definition(pair: ServerPair, seed: int, sequences: int, length: int, shrinking: bool) -> Counter[str]:
    """Compare the servers by one definition and its objects, and count how many sequences "agree" or "differ"."""
    generator = SchemaGenerator(seed)
    obj = things(seed, f"d{os.getpid()}-{seed}.example.com", generator)
    (real, answer), (status, other) = (install(server, obj) for server in pair.servers)
    try:
        lines = list(differences([real, refusal(answer)], [status, refusal(other)], ""))
        if lines:
            print(f"--- definition {seed}", json.dumps(obj), *lines, sep="\n    ")
        if lines or real != 201:
            return Counter({"differ" if lines else "refused": 1})
        pair.kinds = (kind_of(obj, generator),)
        seeds = range(seed * 1000, seed * 1000 + sequences)
        return compare(pair, {f"seed {n}": SequenceGenerator(n, pair.kinds).write(length) for n in seeds}, shrinking)
    finally:
        for server in pair.servers:
            server.call("DELETE", f"{DEFINITIONS}/{obj['metadata']['name']}")


def refusal(answer: Obj) -> Any:
    """Return the part of an answer to a definition in which two servers must agree: the reasons of a refusal."""
    return normalized({name: answer.get(name) for name in ("message", "reason", "details")})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--definitions", type=int, default=10)
    parser.add_argument("--sequences", type=int, default=10, help="of requests about the objects of each definition")
    parser.add_argument("--length", type=int, default=15, help="requests in a sequence")
    parser.add_argument("--known", default="", metavar="REGEX", help="hides the lines of differences that match")
    parser.add_argument("--no-shrinking", action="store_true")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    pair = ServerPair(*servers, options.known)
    total: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.definitions):
        total += compare_definition(pair, seed, options.sequences, options.length, not options.no_shrinking)
    print(f"sequences: {dict(total)}; {pair.verbs.total()} requests")
    return 0 if total["agree"] and not total["differ"] and pair.unanswered <= MAX_UNANSWERED else 1
