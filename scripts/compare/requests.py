"""Compare a kube-apiserver with another API server by random sequences of requests.

    python -m scripts.compare requests https://127.0.0.1:6443 http://127.0.0.1:8001 --token T --seed 1 --sequences 100
    python -m scripts.compare requests … --replay requests.jsonl        the requests that an earlier run has printed

A sequence has a namespace of its own and uses every verb, patch type, selector and option of claims, slices, pods and
config maps. Status, body and the important headers must agree, except for values that a server generates: uids,
versions, times, generated names, tokens, addresses, the order of owners and of causes. The first difference of a
sequence is shrunk to the fewest requests, parameters and fields that still differ, and printed as lines for --replay.

A request can refer to an earlier answer: {{3.metadata.uid}} is that field of the answer to request 3 of the same
server. {{ns}} is the namespace of the sequence, {{run}} a prefix for names outside of it. The exit status is 1 if
anything differs, or if the real server left more than a few requests without an answer: these end their sequence, and
nothing after them is compared.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote

import yaml

from scripts.common.comparing import (
    MAX_UNANSWERED,
    MEDIA,
    UNANSWERED,
    Answer,
    Obj,
    Parts,
    Server,
    UnansweredError,
    add_server_arguments,
    differences,
    end_namespace,
    require_servers,
    sample_parts,
    set_at,
)

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
MISSING = "missing"  # the value of a reference to a field that is absent


@dataclass
class Step:
    """A request. With `base`, its body is the answer to that request after `edits`."""

    id: int
    method: str
    path: str
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    base: int = -1
    edits: list[tuple[str, Any]] = field(default_factory=list)


# --- the requests


@dataclass(frozen=True)
class Kind:
    """The values from which objects of a kind are made.

    `versions` has API versions with the paths of their collections. Every object has the `required` parts and some of
    `parts`; `status` are those of the status subresource.
    """

    name: str
    versions: tuple[tuple[str, str], ...]
    required: Parts
    parts: Parts
    status: Parts
    fields: tuple[str, ...]  # field selectors
    namespaced: bool = True


OBJECT_META: Parts = (
    ("metadata.labels", ({"a": "1"}, {"a": "2", "b": "x"}, {"b": "y"}, {"a": "not valid!"}, None)),
    ("metadata.annotations", ({"x": "1"}, {"x": "<&>"}, {"X/y/z": "1"}, {"x": ""})),
    ("metadata.finalizers", (["e.io/a"], ["e.io/b", "e.io/a"], ["plain"], [])),
    (
        "metadata.ownerReferences",
        (
            [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}],
            [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}],
            [{"apiVersion": "v1", "kind": "", "name": "o", "uid": "u"}],
        ),
    ),
    ("metadata.generation", (5, -1)),
    ("metadata.uid", ("made-up",)),
    ("metadata.creationTimestamp", ("2020-01-01T00:00:00Z", "yesterday", None)),
    ("metadata.deletionTimestamp", ("2020-01-01T00:00:00Z",)),
    ("metadata.namespace", ("elsewhere", "", "{{ns}}")),
    ("metadata.nonsense", (1,)),
    ("metadata.managedFields", ([], [{}], None)),
    ("metadata.resourceVersion", ("", "0", "1", "x")),
    ("nonsense", ({"a": 1}, None)),
    ("kind", ("Wrong", "")),
    ("apiVersion", ("wrong/v1", "v1", "", "resource.k8s.io/v1alpha3", "a/b/c")),
)


def devices(*changes: Obj) -> Obj:
    """Return a claim's devices with one request for each change.

    A request has its fields twice, for the versions until v1beta1 and for those with `exactly`; servers drop the form
    that a version does not have.
    """
    requests = []
    for i, change in enumerate(changes):
        fields = {"deviceClassName": "gpu.example.com", **change}
        name = fields.pop("name", f"r{i}")
        requests.append({"name": name, **fields, "exactly": fields})
    return {"requests": requests}


LIMITS = {"limits": {"cpu": 1}}
RESULT = {"request": "r0", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
POD = {"resource": "pods", "name": "p", "uid": "u1"}
FIELDS = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}}
DEVICE = {"name": "d0", "basic": FIELDS, **FIELDS}  # in the form of v1beta1 and in that of v1beta2 and v1
RESOURCE = tuple(f"resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1", "v1alpha3"))
SHARE = "0123abcd-4567-89ab-cdef-0123456789ab"
SHARED = {**RESULT, "shareID": SHARE, "consumedCapacity": {"memory": "1024Mi"}, "tolerations": [{"key": "a"}]}
SUBREQUESTS = [{"name": "s", "deviceClassName": "a"}, {"name": "t", "deviceClassName": "b", "count": 3}]


def paths(versions: tuple[str, ...], resource: str, namespaced: bool = True) -> tuple[tuple[str, str], ...]:
    """Return each API version with the path of a collection in it."""
    where = "/namespaces/{{ns}}/" if namespaced else "/"
    roots = (f"/apis/{v}" if "/" in v else f"/api/{v}" for v in versions)
    return tuple((v, root + where + resource) for v, root in zip(versions, roots, strict=True))


KINDS = (
    Kind(
        "ResourceClaim",
        paths(RESOURCE, "resourceclaims"),
        (("spec.devices", (devices({}), devices({}), devices({}, {"count": 2}))),),
        (
            *OBJECT_META,
            ("spec.devices", (devices({"adminAccess": True}), devices({"allocationMode": "All"}), {})),
            ("spec.devices", (devices({"allocationMode": "Some"}), devices({"name": "Bad_Name", "count": -1}))),
            ("spec.devices", (devices({"selectors": [{"cel": {"expression": "device.driver == 'a'"}}]}),)),
            ("spec.devices", (devices({"selectors": [{"cel": {"expression": "noSuch("}}]}), "text", None)),
            ("spec.devices.constraints", ([{"matchAttribute": "a.com/m"}], [{"requests": ["r9"]}], 5)),
            ("spec.devices.config", ([{"opaque": {"driver": "d", "parameters": {"b": 1, "a": [1.50]}}}], [{}])),
            ("spec.controller", ("c.example.com",)),
            ("spec.devices", ({"requests": [{"name": "f", "firstAvailable": SUBREQUESTS}]},)),
            ("spec.devices", (devices({"tolerations": [{"key": "k"}]}),)),
            ("spec.devices", (devices({"capacity": {"requests": {"memory": "1024Mi"}}}),)),
            ("spec.devices.constraints", ([{"distinctAttribute": "a.com/m"}],)),
        ),
        (
            ("status.allocation", ({"devices": {"results": [RESULT]}}, {}, None, {"devices": {"results": [{}]}})),
            ("status.reservedFor", ([POD], [POD, {**POD, "name": "q", "uid": "u2"}], [POD, POD], [], [{}])),
            ("status.devices", ([{"driver": "gpu.example.com", "pool": "p", "device": "d0", "data": {"a": 1}}], [])),
            ("status.allocation", ({"devices": {"results": [SHARED]}, "allocationTimestamp": "2026-01-01T00:00:00Z"},)),
            ("status.devices", ([{"driver": "gpu.example.com", "pool": "p", "device": "d0", "shareID": SHARE}],)),
            ("status.nonsense", (1,)),
            ("metadata.labels", ({"s": "1"},)),
            ("metadata.finalizers", (["e.io/s"],)),
            ("spec", ({"devices": {}},)),
        ),
        ("metadata.name", "metadata.namespace", "name", "spec.x"),
    ),
    Kind(
        "ResourceSlice",
        paths(RESOURCE, "resourceslices", False),
        (
            ("spec.driver", ("gpu.example.com", "nic.example.com")),
            ("spec.nodeName", ("node-1", "node-2")),
            ("spec.pool", ({"name": "p", "resourceSliceCount": 1},)),
            ("spec.devices", ([DEVICE], [])),
            ("metadata.labels", ({"run": "{{run}}"}, {"run": "{{run}}", "a": "1"})),
        ),
        (
            *(part for part in OBJECT_META if part[0] != "metadata.labels"),
            ("spec.driver", ("Not Valid", "")),
            ("spec.nodeName", ("", None)),
            ("spec.allNodes", (True, False)),
            ("spec.nodeSelector", ({"nodeSelectorTerms": [{"matchFields": []}]}, {})),
            ("spec.pool", ({"name": "p", "resourceSliceCount": 0}, {}, {"name": "q", "generation": 2})),
            ("spec.devices", ([DEVICE, DEVICE], [{"name": "d1"}], [{**DEVICE, "name": "D_"}], 7)),
            ("spec.devices", ([{**DEVICE, "taints": [{"key": "k", "effect": "NoSchedule"}]}],)),
            ("spec.perDeviceNodeSelection", (True,)),
            ("spec.sharedCounters", ([{"name": "c", "counters": {"memory": {"value": "1Gi"}}}], [{"name": "C_"}])),
        ),
        (),
        ("metadata.name", "spec.nodeName", "spec.driver", "spec.pool", "name"),
        namespaced=False,
    ),
    Kind(
        "Pod",
        paths(("v1",), "pods"),
        (("spec.containers", ([{"name": "c", "image": "i:1"}], [{"name": "c", "image": "i:2"}])),),
        (
            *OBJECT_META,
            ("spec.nodeName", ("node-1",)),
            ("spec.activeDeadlineSeconds", (5, 10, 0)),
            ("spec.terminationGracePeriodSeconds", (0, 30, -5)),
            ("spec.tolerations", ([{"key": "k", "operator": "Exists"}], [{"operator": "Sometimes"}])),
            (
                "spec.containers",
                ([], [{"name": "c"}], [{"name": "c", "image": "i", "resources": LIMITS}]),
            ),
            ("spec.resourceClaims", ([{"name": "x", "resourceClaimName": "a"}], [{"name": "x"}], [{"name": "X_"}])),
            ("spec.restartPolicy", ("Never", "Sometimes", "")),
            ("spec.schedulingGates", ([{"name": "e.io/g"}],)),
            ("spec.priority", (1, 0)),
            ("spec.nodeSelector", ({"a": "1"},)),
        ),
        (
            ("status.phase", ("Running", "Failed", "Odd")),
            (
                "status.conditions",
                ([{"type": "Ready", "status": "True"}], [{"type": "Odd", "status": "Maybe"}], [{}]),
            ),
            ("status.resourceClaimStatuses", ([{"name": "x", "resourceClaimName": "a"}], [{"name": "y"}])),
            ("status.podIP", ("10.0.0.1", "nowhere")),
            ("metadata.labels", ({"s": "1"},)),
            ("spec.nodeName", ("node-9",)),
        ),
        ("metadata.name", "spec.nodeName", "status.phase", "spec.restartPolicy", "metadata.namespace", "spec.x"),
    ),
    Kind(
        "ConfigMap",
        paths(("v1",), "configmaps"),
        (),
        (
            *OBJECT_META,
            ("data", ({"k": "1"}, {"k": "2", "l": "<&>"}, {"bad key": "1"}, {}, None, {"k": 1}, [])),
            ("binaryData", ({"b": "AAEC"}, {"k": "AA=="}, {"b": "not base64"})),
            ("immutable", (True, False, None, "yes")),
        ),
        (),
        ("metadata.name", "metadata.namespace", "data.k"),
    ),
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


# --- the answers

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


# --- the comparison


class Player:
    """Sends a sequence to one server, and keeps its answers, to which later requests refer."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server = server
        self.words = {"ns": namespace, "run": namespace}
        self.answers: dict[int, Any] = {}

    def send(self, step: Step) -> Answer:
        """Send a request with its references replaced, keep the answer and return it."""
        path = self.resolved(step.path)
        if step.query:
            path += "?" + "&".join(f"{quote(k)}={quote(self.resolved(v), safe='')}" for k, v in step.query)
        body = self.resolved(step.body)
        if step.base >= 0:
            body = copy.deepcopy(self.answers.get(step.base))
            body = body if isinstance(body, dict) and body.get("kind") != "Status" else {}
            for at, value in step.edits:
                set_at(body, at, self.resolved(value))
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({} if data is None else {"Content-Type": "application/json"})
        answer = self.server.exchange(step.method, path, headers | step.headers, data)
        try:
            self.answers[step.id] = json.loads(answer.body)
        except ValueError:  # YAML, events, text
            self.answers[step.id] = None
        return answer

    def resolved(self, value: Any) -> Any:
        """Return a value with its references replaced."""
        if isinstance(value, dict):
            return {key: self.resolved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item) for item in value]
        if not isinstance(value, str) or "{{" not in value:
            return value
        return re.sub(r"\{\{(.+?)\}\}", lambda match: self._reference(match.group(1)), value)

    def _reference(self, name: str) -> str:
        """Return the value of a reference, `MISSING` if the field is absent."""
        if name in self.words:
            return self.words[name]
        id_, *path = name.split(".")
        value = self.answers.get(int(id_))
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value if isinstance(value, str) else MISSING


@dataclass(frozen=True)
class Difference:
    """The first request of a sequence that is answered differently, by its index, and a line for each difference."""

    index: int
    lines: list[str]


class ServerPair:
    """The real server and the other one, which are compared; every sequence gets a new namespace."""

    def __init__(self, real: Server, other: Server, known: str = "") -> None:
        self.servers = (real, other)
        self.kinds = served_kinds(real, KINDS)
        self._known = re.compile(known) if known else None
        self.verbs: Counter[str] = Counter()
        self.unanswered = 0
        self.both = ThreadPoolExecutor(2)
        self.run = f"d{os.getpid():x}"
        self._names = itertools.count()

    def difference(self, sequence: list[Step]) -> Difference | None:
        """Return the first difference; None if all requests agree. Raises UnansweredError if the real server does not
        answer one, and SystemExit if a server does not create the namespace.
        """
        namespace = f"{self.run}-{next(self._names)}"
        players = [Player(server, namespace) for server in self.servers]
        for server in self.servers:
            self.open_namespace(server, namespace)
        try:
            for index, step in enumerate(sequence):
                self.verbs[step.method] += 1
                real, other = self.both.map(lambda player, step=step: player.send(step), players)
                if real.status == UNANSWERED:
                    self.unanswered += 1
                    raise UnansweredError(f"{step.method} {step.path}: {real.body.decode()}")
                left, right = map(self.comparable, self.servers, (real, other), (step, step))
                lines = list(differences(left, right, ""))
                if self._known is not None:
                    lines = [line for line in lines if not self._known.search(line)]
                if lines:
                    return Difference(index, lines)
            return None
        finally:
            list(self.both.map(lambda server: self.close_namespace(server, namespace), self.servers))

    def comparable(self, server: Server, answer: Answer, step: Step) -> Any:
        """Return the state in which servers must agree after a request."""
        return comparable(answer, step)

    def open_namespace(self, server: Server, namespace: str) -> None:
        """Create the namespace of a sequence. Raises SystemExit if the server does not do it."""
        server.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    def close_namespace(self, server: Server, namespace: str) -> None:
        """Delete the namespace of a sequence with everything that the sequence has left."""
        clean(server, namespace, self.kinds)

    def shrink(self, sequence: list[Step], budget: int = 150) -> list[Step]:
        """Return the shortest sequence, of those tried within the budget, whose last request still differs."""
        progress = True
        while progress and budget > 0:
            progress = False
            for smaller in smaller_sequences(sequence):
                budget -= 1
                try:
                    difference = self.difference(smaller)
                except UnansweredError:
                    continue
                if difference is not None:
                    sequence = smaller[: difference.index + 1]
                    progress = True
                    break
                if budget <= 0:
                    break
        return sequence


def smaller_sequences(sequence: list[Step]) -> Iterator[list[Step]]:
    """Yield the sequence without some requests, then with requests without some parameters, headers or fields."""
    for size in (len(sequence) // 2, len(sequence) // 4, 1):
        for start in range(0, len(sequence) - 1, size or 1) if size else ():
            yield sequence[:start] + (sequence[start + size :] or sequence[-1:])
    for index in reversed(range(len(sequence))):
        for step in smaller_steps(sequence[index]):
            yield [*sequence[:index], step, *sequence[index + 1 :]]


def smaller_steps(step: Step) -> Iterator[Step]:
    """Yield the request without one of its parameters, edits, headers or fields."""
    for i in range(len(step.query)):
        if step.query[i][0] == "timeoutSeconds":
            continue  # a watch without it does not end
        yield replace(step, query=step.query[:i] + step.query[i + 1 :])
    for i in range(len(step.edits)):
        yield replace(step, edits=step.edits[:i] + step.edits[i + 1 :])
    if "Accept" in step.headers:
        yield replace(step, headers={k: v for k, v in step.headers.items() if k != "Accept"})
    for body in smaller_values(step.body, 3):
        yield replace(step, body=body)


def smaller_values(value: Any, depth: int) -> Iterator[Any]:
    """Yield the value without one of its elements, down to a depth."""
    if not depth or not isinstance(value, dict | list):
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield value[:i] + value[i + 1 :]
            for smaller in smaller_values(item, depth - 1):
                yield [*value[:i], smaller, *value[i + 1 :]]
        return
    for key, item in value.items():
        yield {k: v for k, v in value.items() if k != key}
        for smaller in smaller_values(item, depth - 1):
            yield {**value, key: smaller}


K = TypeVar("K", bound=Kind)


def served_kinds(server: Server, known: Iterable[K]) -> tuple[K, ...]:
    """Return those of the known kinds that the server's release has, with the versions that it serves."""
    kinds = []
    for kind in known:
        collections = ((version, version[1].replace("{{ns}}", "default")) for version in kind.versions)
        versions = tuple(version for version, path in collections if server.call("GET", path)[0] == 200)
        kinds.append(replace(kind, versions=versions))
    return tuple(kind for kind in kinds if kind.versions)


def clean(server: Server, namespace: str, kinds: tuple[Kind, ...]) -> None:
    """Delete the objects that a sequence has left, and its namespace."""
    for kind in kinds:
        collection = kind.versions[0][1].replace("{{ns}}", namespace)
        selector = "" if kind.namespaced else f"?labelSelector=run%3D{namespace}"
        left = server.call("GET", collection + selector)[1].get("items") or []
        for item in left:
            path = f"{collection}/{item['metadata']['name']}"
            if item["metadata"].get("finalizers"):
                server.call("PATCH", path, {"metadata": {"finalizers": None}}, MEDIA["merge"])
            server.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    end_namespace(server, namespace)
    if (status := server.call("GET", f"/api/v1/namespaces/{namespace}")[0]) != 404:
        print(f"{server.url}: namespace {namespace} is left: {status}", file=sys.stderr)


def signature(difference: Difference) -> str:
    """Return a text that is equal for differences that probably have the same cause."""
    lines = "\n".join(sorted(difference.lines))[:300]
    return re.sub(r"[0-9]+|v1alpha3|v1beta[12]|Resource(Claim|Slice)|d[0-9a-f]+-N", "N", lines)


def print_difference(sequence: list[Step], difference: Difference, title: str) -> None:
    """Print the requests of a sequence up to the difference, and the difference."""
    print(f"--- {title}")
    for step in sequence[: difference.index + 1]:
        fields = {k: v for k, v in asdict(step).items() if v is not None and (k == "body" or v not in ([], {}, -1))}
        print(json.dumps(fields))
    for line in difference.lines:
        print(f"    {line[:1500]}")
    sys.stdout.flush()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--sequences", type=int, default=20)
    parser.add_argument("--length", type=int, default=25, help="requests in a sequence")
    parser.add_argument("--replay", type=argparse.FileType(), help="requests that were printed, instead of random ones")
    parser.add_argument("--known", default="", metavar="REGEX", help="hides the lines of differences that match")
    parser.add_argument("--no-shrinking", action="store_true")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    pair = ServerPair(*servers, options.known)
    if options.replay:
        replayed = [Step(**json.loads(line)) for line in options.replay if line.startswith("{")]
        sequences = {"replay": replayed} if replayed else {}
    else:
        seeds = range(options.seed, options.seed + options.sequences)
        sequences = {f"seed {seed}": SequenceGenerator(seed, pair.kinds).write(options.length) for seed in seeds}
    outcomes = compare(pair, sequences, not options.no_shrinking and not options.replay)
    verbs = ", ".join(f"{verb} {count}" for verb, count in pair.verbs.most_common())
    print(f"{outcomes['agree']} of {len(sequences)} sequences agree, {outcomes['unanswered']} were cut short; "
          f"{pair.verbs.total()} requests: {verbs}")  # fmt: skip
    return 0 if sequences and not outcomes["differ"] and pair.unanswered <= MAX_UNANSWERED else 1


def compare(pair: ServerPair, sequences: dict[str, list[Step]], shrinking: bool) -> Counter[str]:
    """Send the sequences, print the first difference of each, and count how many "agree", "differ", are "unanswered".

    A difference is shrunk first, if that is wanted, and printed only once if it has the same cause as an earlier one.
    """
    outcomes: Counter[str] = Counter()
    causes: set[str] = set()
    for title, sequence in sequences.items():
        try:
            difference = pair.difference(sequence)
        except UnansweredError as why:
            print(f"--- {title}: the real server did not answer {why}")
            outcomes["unanswered"] += 1
            continue
        outcomes["differ" if difference else "agree"] += 1
        if difference is None:
            continue
        if (cause := signature(difference)) in causes:
            print(f"--- {title}: as before")
            continue
        causes.add(cause)
        shortest = pair.shrink(sequence[: difference.index + 1]) if shrinking else sequence
        try:
            difference = pair.difference(shortest) or difference
        except UnansweredError:
            shortest = sequence
        print_difference(shortest, difference, title)
    return outcomes
