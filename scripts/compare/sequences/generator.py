"""Write random sequences of requests: every verb, patch type, selector and option."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from scripts.common.comparing import MEDIA, Obj, Parts, sample_parts, set_at
from scripts.compare.sequences.kinds import Kind
from scripts.compare.sequences.steps import Step

META = "g=meta.k8s.io;v=v1"
FORMS = (
    "application/yaml",
    f"application/json;as=Table;{META}",
    f"application/json;as=PartialObjectMetadata;{META}",
    f"application/json;as=PartialObjectMetadataList;{META}",
    f"application/json;as=Table;{META},application/json",
    "text/plain",
    "*/*",
)
NAMES = ("a", "b", "c", "not valid", "e" * 254)
LABELS = (
    "a=1", "a!=1", "a in (1,2)", "a notin (1)", "a", "!a", "a=1,b=x", "a==", "a>0", "a in ()", "a=1,", ",a", "a in (1",
    "=", "a<x", "b/c/d=1", "a = 1", "a in (1,,2)", "a!", "nope", "",
)  # fmt: skip
VALUES = ("a", "b", "gpu.example.com", "node-1", "Pending", "{{ns}}", "", "x\\,y", "x=y")
DURATIONS = ("0", "1", "-1", "30", "x", "")


class SequenceGenerator:
    """Generates the requests of one sequence, always the same for a seed."""

    def __init__(self, seed: int, kinds: tuple[Kind, ...]) -> None:
        self.rng = random.Random(seed)
        self.ids = itertools.count()
        self.steps: list[Step] = []
        self.kinds = self.rng.sample(kinds, min(len(kinds), self.rng.choice((1, 1, 1, 2))))
        self.objects: list[tuple[int, str]] = []  # requests that answer objects, and their kinds
        self.lists: list[int] = []

    def write(self, length: int) -> list[Step]:
        """Return a sequence of a length, which begins with a creation."""
        verbs: tuple[tuple[Callable[[Kind], Step], int], ...] = (
            (self.create, 25), (self.put, 15), (self.patch, 25), (self.get, 6), (self.list, 22), (self.watch, 4),
            (self.delete, 12), (self.delete_all, 4), (self.misplaced, 2),
        )  # fmt: skip
        for _ in range(length):
            verb = self.create if not self.steps else self.rng.choices(*zip(*verbs, strict=True))[0]
            self.steps.append(verb(self.rng.choice(self.kinds)))
        return self.steps

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.rng.random() < probability

    def step(self, method: str, path: str, **more: Any) -> Step:
        """Return a request, now and then for another encoding of the answer."""
        made = Step(next(self.ids), method, path, **more)
        if self.chance(0.08):
            made.headers["Accept"] = self.rng.choice(FORMS)
        if self.chance(0.03):
            made.query.append(("pretty", self.rng.choice(("true", "false", "1", ""))))
        return made

    # --- pieces

    def name(self, kind: Kind) -> str:
        """Return a name of an object; few names make requests meet the same objects."""
        name = self.rng.choices(NAMES, (10, 6, 3, 0.3, 0.1))[0]
        return name if kind.namespaced else "{{run}}-" + name

    def at(self, kind: Kind) -> tuple[str, str]:
        """Return an API version of a kind, and the path of its collection."""
        return self.rng.choice(kind.versions)

    def item(self, kind: Kind, subresource: bool = True) -> tuple[str, str, bool]:
        """Return (API version, path of an object or of its status, whether it is the status)."""
        version, collection = self.at(kind)
        status = bool(kind.status) and subresource and self.chance(0.25)
        path = f"{collection}/" + quote(self.name(kind), safe="{}")
        return version, path + ("/status" if status else ""), status

    def body(self, kind: Kind, version: str, status: bool = False, few: int = 2) -> Obj:
        """Return an object with its required parts and a few others."""
        body: Obj = {"apiVersion": version, "kind": kind.name}
        parts = kind.status if status else kind.parts
        for path, value in sample_parts(self.rng, kind.required, len(kind.required)) + self.random_parts(parts, few):
            set_at(body, path, value)
        return body

    def random_parts(self, parts: Parts, most: int) -> list[tuple[str, Any]]:
        """Return random values for at most `most` fields."""
        return sample_parts(self.rng, parts, self.rng.randint(0, most))

    def version(self) -> str:
        """Return a resourceVersion: of an earlier answer, or an unusual one."""
        known = [f"{{{{{id_}.metadata.resourceVersion}}}}" for id_, _ in self.objects[-4:]]
        known += [f"{{{{{id_}.metadata.resourceVersion}}}}" for id_ in self.lists[-2:]]
        return self.rng.choice(known) if known and self.chance(0.6) else self.rng.choice(("0", "", "x", "-1"))

    def write_options(self, apply: bool = False) -> list[tuple[str, str]]:
        """Return query parameters of a write."""
        options = (
            ("dryRun", ("All", "All", "Some", ""), 0.12),
            ("fieldManager", ("one", "two", "x" * 129, "a\tb", ""), 0.9 if apply else 0.2),
            ("fieldValidation", ("Strict", "Warn", "Ignore", "Nope"), 0.3),
            ("force", ("true", "false"), 0.4 if apply else 0.01),
        )
        return self.some_of(options)

    def some_of(self, options: Any) -> list[tuple[str, str]]:
        """Return a value for each option that its probability selects."""
        return [(name, self.rng.choice(values)) for name, values, chance in options if self.chance(chance)]

    def selectors(self, kind: Kind, chance: float = 0.3) -> list[tuple[str, str]]:
        """Return label and field selectors; those of cluster-scoped kinds always select the objects of this run."""
        query = []
        labels = self.rng.choice(LABELS) if self.chance(chance) else ""
        if not kind.namespaced:
            query.append(("labelSelector", "run={{run}}" + ("," + labels if labels else "")))
        elif labels:
            query.append(("labelSelector", labels))
        if self.chance(chance):
            terms = [
                f"{self.rng.choice(kind.fields)}{self.rng.choice(('=', '=', '==', '!=', '~'))}{self.rng.choice(VALUES)}"
                for _ in range(self.rng.choice((1, 1, 2)))
            ]
            query.append(("fieldSelector", ",".join(terms)))
        return query

    # --- verbs

    def create(self, kind: Kind) -> Step:
        """Return a request that creates an object."""
        version, collection = self.at(kind)
        body = self.body(kind, version)
        if self.chance(0.9):
            set_at(body, "metadata.name", self.name(kind))
        if self.chance(0.1):
            set_at(body, "metadata.generateName", ("" if kind.namespaced else "{{run}}-") + "gen-")
        step = self.step("POST", collection, query=self.write_options(), body=body)
        self.objects.append((step.id, kind.name))
        return step

    def get(self, kind: Kind) -> Step:
        """Return a request that reads an object."""
        step = self.step("GET", self.item(kind)[1])
        if self.chance(0.2):
            step.query.append(("resourceVersion", self.version()))
        self.objects.append((step.id, kind.name))
        return step

    def put(self, kind: Kind) -> Step:
        """Return a request that replaces an object by an earlier answer with edits, or by a new object."""
        version, path, status = self.item(kind)
        step = self.step("PUT", path, query=self.write_options())
        known = [id_ for id_, name in self.objects if name == kind.name]
        if known and self.chance(0.85):
            step.base = self.rng.choice(known[-3:])
            step.edits = self.random_parts(kind.status if status else kind.parts, 2)
            step.edits += [("metadata.resourceVersion", self.version())] if self.chance(0.2) else []
            step.edits += [("apiVersion", version)] if self.chance(0.8) else []
        else:
            step.body = self.body(kind, version, status)
            set_at(step.body, "metadata.name", self.name(kind))
        self.objects.append((step.id, kind.name))
        return step

    def patch(self, kind: Kind) -> Step:
        """Return a request that patches or applies an object."""
        version, path, status = self.item(kind)
        form = self.rng.choice(("apply", "merge", "strategic", "json"))
        step = self.step("PATCH", path, query=self.write_options(form == "apply"))
        step.headers["Content-Type"] = MEDIA[form]
        parts = kind.status if status else kind.parts
        picked = self.random_parts(parts, 3)
        if form == "apply":
            step.body = self.body(kind, version, status)
            if self.chance(0.3):
                set_at(step.body, "metadata.name", self.name(kind))
        elif form == "json":
            step.body = [self.operation(at, value) for at, value in picked]
        else:
            step.body = {}
            for at, value in picked:
                set_at(step.body, at, self.rng.choice((value, value, None)))
        if self.chance(0.01):
            step.headers["Content-Type"] = self.rng.choice(("application/json", "text/plain", *MEDIA.values()))
        self.objects.append((step.id, kind.name))
        return step

    def operation(self, at: str, value: Any) -> Obj:
        """Return an operation of a JSON patch."""
        verb = self.rng.choice(("add", "add", "replace", "remove", "test", "copy", "move"))
        where = "/" + at.replace(".", "/")
        if verb in ("copy", "move"):
            return {"op": verb, "from": where, "path": "/metadata/annotations"}
        return {"op": verb, "path": where} | ({} if verb == "remove" else {"value": value})

    def list(self, kind: Kind) -> Step:
        """Return a request that lists a collection."""
        collection = self.at(kind)[1]
        query = self.selectors(kind)
        options = (
            ("limit", ("1", "1", "2", "500", "0", "-1", "x", ""), 0.4),
            ("resourceVersion", (self.version(),), 0.25),
            ("resourceVersionMatch", ("Exact", "NotOlderThan", "Odd"), 0.15),
            ("timeoutSeconds", DURATIONS, 0.05),
            ("allowWatchBookmarks", ("true",), 0.03),
            ("sendInitialEvents", ("true", "false"), 0.03),
        )
        query += self.some_of(options)
        if self.lists and self.chance(0.35):
            query.append(("continue", f"{{{{{self.rng.choice(self.lists[-2:])}.metadata.continue}}}}"))
        step = self.step("GET", collection, query=query)
        self.lists.append(step.id)
        return step

    def watch(self, kind: Kind) -> Step:
        """Return a request that watches a collection for a second."""
        step = self.step("GET", self.at(kind)[1], query=[("watch", self.rng.choice(("true", "1", "")))])
        options = (
            ("resourceVersion", (self.version(),), 0.8),
            ("resourceVersionMatch", ("NotOlderThan", "Exact"), 0.15),
            ("allowWatchBookmarks", ("true", "false"), 0.3),
            ("sendInitialEvents", ("true", "false"), 0.15),
        )
        step.query += self.selectors(kind) + self.some_of(options)
        step.query.append(("timeoutSeconds", "1"))
        return step

    def delete(self, kind: Kind) -> Step:
        """Return a request that deletes an object."""
        step = self.step("DELETE", self.item(kind, subresource=False)[1])
        self.add_delete_options(step)
        self.objects.append((step.id, kind.name))
        return step

    def add_delete_options(self, step: Step) -> None:
        """Add options of a deletion to the query and the body of a request."""
        options = (
            ("gracePeriodSeconds", DURATIONS, 0.3),
            ("propagationPolicy", ("Foreground", "Background", "Orphan", "Odd", ""), 0.3),
            ("orphanDependents", ("true", "false"), 0.08),
            ("dryRun", ("All", "Some"), 0.15),
        )
        if self.chance(0.5):
            step.query += self.some_of(options)
        if self.chance(0.4):
            body: Obj = dict(self.some_of((*options[1:2],)))
            numbers: Any = (("gracePeriodSeconds", (0, 1, -1, 30), 0.3), ("orphanDependents", (True, False), 0.1))
            body |= dict(self.some_of(numbers))
            if self.chance(0.15):
                body["dryRun"] = [self.rng.choice(("All", "Some"))]
            if self.chance(0.3):
                body["preconditions"] = {"resourceVersion": self.version()}
            if self.chance(0.2) and self.objects:
                set_at(body, "preconditions.uid", f"{{{{{self.rng.choice(self.objects[-4:])[0]}.metadata.uid}}}}")
            if self.chance(0.7):
                body |= {"kind": self.rng.choice(("DeleteOptions",) * 9 + ("Odd",)), "apiVersion": "v1"}
            step.body = body

    def delete_all(self, kind: Kind) -> Step:
        """Return a request that deletes a collection."""
        step = self.step("DELETE", self.at(kind)[1], query=self.selectors(kind))
        step.query += self.some_of((("limit", ("1", "x"), 0.1), ("resourceVersion", (self.version(),), 0.1)))
        self.add_delete_options(step)
        return step

    def misplaced(self, kind: Kind) -> Step:
        """Return a request with a verb or subresource that does not exist there."""
        _, path, _ = self.item(kind)
        method = self.rng.choice(("POST", "OPTIONS", "TRACE", "DELETE"))
        path += self.rng.choice(("", "/", "/nonsense", "/status/x", "/finalize"))
        return self.step(method, path, body={} if method == "POST" else None)
