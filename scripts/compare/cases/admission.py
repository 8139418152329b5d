"""Requests about which admission can be asked, and batches of cases, in which policies or webhooks are in force.

Shared by `compare policies` and `compare webhooks`. A case is one set of policies or webhooks, which
select namespaces with the label `in-case` and objects with the label `case`, so that cases do not disturb each other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from scripts.common.comparing import (
    MAX_UNANSWERED,
    MEDIA,
    Obj,
    Parts,
    Server,
    add_server_arguments,
    differences,
    set_at,
)
from scripts.common.custom_resources import definition, served_version
from scripts.compare.sequences.generator import SequenceGenerator
from scripts.compare.sequences.kinds import Kind, clean, paths, served_kinds
from scripts.compare.sequences.report import compare
from scripts.compare.sequences.server_pair import Difference, ServerPair
from scripts.compare.sequences.steps import Player, Step

PATIENCE = 60  # seconds until a policy, webhook or definition is in force; a real server's mapper needs 45
GROUP = "admission.example.com"
REGISTRATION = "/apis/admissionregistration.k8s.io"
_SCALE = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
_SPEC = {
    "a": {"type": "string", "maxLength": 20},
    "n": {"type": "integer", "default": 1},
    "l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "m": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": _SPEC},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    },
}
_SUBRESOURCES = {"status": {}, "scale": _SCALE}
DEFINITION = definition(
    GROUP,
    "Thing",
    served_version(_SCHEMA, subresources=_SUBRESOURCES),
    served_version(_SCHEMA, "v2", storage=False, subresources=_SUBRESOURCES),
    scope="Namespaced",
)
META: Parts = (
    ("metadata.annotations", ({"x": "1"}, {"x": "<&>"}, {"e.io/a": "1"})),
    ("metadata.finalizers", (["e.io/a"], [])),
    ("metadata.labels.a", ("1", "2", "not valid!")),
    ("metadata.labels.b", ("x", "y")),
    ("metadata.nonsense", (1,)),
)
CONTAINERS = ([{"name": "c", "image": "i:1"}], [{"name": "c", "image": "i:2", "env": [{"name": "A", "value": "1"}]}])
TEMPLATE = {"metadata": {"labels": {"k": "v"}}, "spec": {"containers": CONTAINERS[0]}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "node-1"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}
EPHEMERAL = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}
TOKENS = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}


@dataclass(frozen=True)
class Subresource:
    """A subresource of a kind, with the methods and bodies that it is asked with; PATCH is a merge patch."""

    name: str
    methods: tuple[str, ...]
    bodies: tuple[Any, ...] = (None,)
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class AdmittedKind(Kind):
    """A kind with the subresources that no other sequences use."""

    subresources: tuple[Subresource, ...] = ()

    @property
    def resource(self) -> str:
        """Return the name of the resource."""
        return self.versions[0][1].rpartition("/")[2]


SCALE = Subresource("scale", ("GET", "PATCH", "PATCH"), ({"spec": {"replicas": 2}}, {"spec": {"replicas": -1}}))
CONNECT = (("GET", "POST"), (None,), (("command", "x"), ("container", "c"), ("stdout", "true")))
KINDS = (
    AdmittedKind(
        "ConfigMap",
        paths(("v1",), "configmaps"),
        (("data", ({"a": "1"}, {"a": "abc", "b": "x"}, {"a": "1", "b": "10.0.0.1"})),),
        (*META, ("data", ({"k": "2", "l": "<&>"}, None, {"bad key": "1"})), ("immutable", (True,))),
        (),
        ("metadata.name",),
    ),
    AdmittedKind(
        "Secret",
        paths(("v1",), "secrets"),
        (("data", ({"a": "YQ=="}, {"a": "YWJj", "b": ""})),),
        (*META, ("stringData", ({"k": "2"}, {"a": "x"})), ("type", ("Opaque", "e.io/t"))),
        (),
        ("metadata.name", "type"),
    ),
    AdmittedKind(
        "Pod",
        paths(("v1",), "pods"),
        (("spec.containers", CONTAINERS),),
        (*META, ("spec.activeDeadlineSeconds", (5, 10)), ("spec.tolerations", ([{"key": "k", "operator": "Exists"}],))),
        (("status.phase", ("Running", "Failed")), ("status.podIP", ("10.0.0.1",)), ("metadata.labels.s", ("1",))),
        ("metadata.name", "status.phase"),
        subresources=(
            Subresource("binding", ("POST",), (BINDING,)),
            Subresource("eviction", ("POST",), (EVICTION, {**EVICTION, "deleteOptions": {"dryRun": ["All"]}})),
            Subresource("ephemeralcontainers", ("GET", "PATCH", "PATCH"), (EPHEMERAL,)),
            Subresource("exec", *CONNECT),
            Subresource("attach", *CONNECT),
            Subresource("portforward", ("GET", "POST")),
            Subresource("proxy", ("GET", "POST", "DELETE")),
            Subresource("log", ("GET",)),
            Subresource("resize", ("GET", "PATCH"), ({"spec": {"containers": CONTAINERS[0]}},)),
        ),
    ),
    AdmittedKind(
        "Service",
        paths(("v1",), "services"),
        (
            ("spec.clusterIP", ("None",)),
            ("spec.ports", ([{"port": 80}], [{"name": "x", "port": 81, "targetPort": "y"}])),
        ),
        (*META, ("spec.selector", ({"a": "1"}, None))),
        (("status.loadBalancer", ({"ingress": [{"ip": "10.0.0.1"}]},)), ("metadata.labels.s", ("1",))),
        ("metadata.name",),
        subresources=(Subresource("proxy", ("GET", "PUT", "DELETE")),),
    ),
    AdmittedKind(
        "ServiceAccount",
        paths(("v1",), "serviceaccounts"),
        (),
        (*META, ("automountServiceAccountToken", (True, False))),
        (),
        ("metadata.name",),
        subresources=(Subresource("token", ("POST",), (TOKENS,), (("dryRun", "All"),)),),
    ),
    AdmittedKind(
        "Deployment",
        paths(("apps/v1",), "deployments"),
        (
            ("spec.selector", ({"matchLabels": {"k": "v"}},)),
            ("spec.template", (TEMPLATE,)),
            ("spec.replicas", (0, 2, 3)),
        ),
        (*META, ("spec.paused", (True,)), ("spec.revisionHistoryLimit", (5,))),
        (("status.replicas", (1,)), ("status.observedGeneration", (1,))),
        ("metadata.name",),
        subresources=(SCALE, SCALE),
    ),
    AdmittedKind(
        "HorizontalPodAutoscaler",
        paths(("autoscaling/v2", "autoscaling/v1"), "horizontalpodautoscalers"),
        (("spec.scaleTargetRef", ({"kind": "Deployment", "name": "a"},)), ("spec.maxReplicas", (3, 5))),
        (*META, ("spec.minReplicas", (1, 2)), ("spec.targetCPUUtilizationPercentage", (50,))),
        (("status.currentReplicas", (1,)), ("status.desiredReplicas", (2,))),
        ("metadata.name",),
    ),
    AdmittedKind(
        "Event",
        paths(("v1", "events.k8s.io/v1"), "events"),
        (
            ("involvedObject", ({"namespace": "{{ns}}"},)),
            ("regarding", ({"namespace": "{{ns}}"},)),
            ("reason", ("R", "S")),
        ),
        (*META, ("type", ("Normal",)), ("message", ("text",)), ("note", ("text",))),
        (),
        ("metadata.name", "reason"),
    ),
    AdmittedKind(
        "Thing",
        paths((f"{GROUP}/v1", f"{GROUP}/v2"), "things"),
        (("spec.a", ("1", "abc", "x")), ("spec.n", (0, 2, 3))),
        (
            *META,
            ("spec.l", (["p"], ["p", "q"])),
            ("spec.m", ({"k": {"z": 1.5}}, {})),
            ("spec.unknown", (1,)),
            ("spec", ({},)),
        ),
        (("status.n", (1, 2)), ("metadata.labels.s", ("1",))),
        ("metadata.name",),
        subresources=(SCALE, SCALE),
    ),
    AdmittedKind(
        "Lease",
        paths(("coordination.k8s.io/v1",), "leases"),
        (("spec.holderIdentity", ("a", "b")),),
        (*META, ("spec.leaseDurationSeconds", (5, -1))),
        (),
        ("metadata.name",),
    ),
    AdmittedKind(
        "ClusterRole",
        paths(("rbac.authorization.k8s.io/v1",), "clusterroles", False),
        (
            ("metadata.labels.run", ("{{run}}",)),
            ("rules", ([], [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])),
        ),
        META,
        (),
        ("metadata.name",),
        namespaced=False,
    ),
    AdmittedKind(
        "Namespace",
        paths(("v1",), "namespaces", False),
        (("metadata.labels.run", ("{{run}}",)),),
        META,
        (("status.conditions", ([{"type": "E", "status": "True"}],)),),
        ("metadata.name",),
        namespaced=False,
        subresources=(
            Subresource("finalize", ("PUT",), ({"metadata": {"name": "{{run}}-a"}, "spec": {"finalizers": []}},)),
        ),
    ),
)
PEOPLE: tuple[dict[str, str], ...] = (
    {"Impersonate-User": "jane", "Impersonate-Group": "admission:dev"},
    {"Impersonate-User": "system:serviceaccount:default:robot", "Impersonate-Extra-Scopes": "a"},
)
GRANT: Obj = {
    "metadata": {"name": "admission-dev"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
    "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "admission:dev"}],
}


class AdmissionSequence(SequenceGenerator):
    """Generates the requests of a sequence about objects with the label of a case."""

    def __init__(self, seed: int, kinds: Sequence[AdmittedKind], case: str) -> None:
        super().__init__(seed, tuple(kinds))
        self.case = case

    def write(self, length: int) -> list[Step]:
        """Return a sequence of a length, which begins with a creation."""
        verbs: tuple[tuple[Callable[[Any], Step], int], ...] = (
            (self.create, 30), (self.put, 15), (self.patch, 25), (self.get, 2), (self.delete, 10), (self.delete_all, 4),
            (self.subresource, 14),
        )  # fmt: skip
        for _ in range(length):
            verb = self.create if not self.steps else self.rng.choices(*zip(*verbs, strict=True))[0]
            self.steps.append(verb(self.rng.choice(self.kinds)))
        return self.steps

    def step(self, method: str, path: str, **more: Any) -> Step:
        """Return a request, now and then by somebody else."""
        step = super().step(method, path, **more)
        if self.chance(0.06):
            step.headers.update(self.rng.choice(PEOPLE))
        return step

    def body(self, kind: Kind, version: str, status: bool = False, few: int = 2) -> Obj:
        """Return an object, which mostly has the label of the case."""
        body = super().body(kind, version, status, few)
        if self.chance(0.93):
            set_at(body, "metadata.labels.case", self.case)
            set_at(body, "metadata.labels.in-case", self.case)  # a namespace is in itself
        return body

    def subresource(self, kind: AdmittedKind) -> Step:
        """Return a request about a subresource, or a creation if the kind has none."""
        if not kind.subresources:
            return self.create(kind)
        part = self.rng.choice(kind.subresources)
        method, (_, collection) = self.rng.choice(part.methods), self.at(kind)
        step = self.step(
            method, f"{collection}/{quote(self.name(kind), safe='{}')}/{part.name}", query=list(part.query)
        )
        if method in ("POST", "PUT", "PATCH"):
            step.body = self.rng.choice(part.bodies)
        if part.name in ("eviction", "binding"):
            step.body = {**step.body, "metadata": {"name": "a"}}
        if method == "PATCH":
            step.headers["Content-Type"] = MEDIA["merge" if part.name == "scale" else "strategic"]
            step.query += self.write_options()
        return step


Marker = Callable[[Server, str], bool]  # reports whether a server refuses a request of its own in a namespace


def refuses_config_map(label: str) -> Marker:
    """Return a marker that creates a config map with a label `marker`, in a dry run."""

    def refuses(server: Server, namespace: str) -> bool:
        body = {"metadata": {"name": "probe", "labels": {"marker": label}}}
        return server.call("POST", f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All", body)[0] != 201

    return refuses


def wait_until(server: Server, namespace: str, marker: Marker, refused: bool) -> None:
    """Wait until the request of a marker is refused, or no longer is. Raises SystemExit if that takes too long."""
    until = time.monotonic() + PATIENCE
    while marker(server, namespace) is not refused:
        if time.monotonic() > until:
            raise SystemExit(
                f"{server.url}: {namespace}: not in force as written after {PATIENCE} s (expected: {refused})"
            )
        time.sleep(0.02)


class AdmissionPair(ServerPair):
    """Two servers whose namespaces are labelled with a case, and left until its policies or webhooks are gone."""

    def __init__(self, real: Server, other: Server, known: str = "") -> None:
        super().__init__(real, other, known)
        self.labels: Obj = {}
        self.markers: tuple[Marker, ...] = ()  # refuse once everything that was written before is known
        self.stored: tuple[tuple[str, Obj], ...] = ()  # paths and objects that each namespace holds before the requests
        self._left: list[str] = []
        for server in self.servers:
            install(server)
        self.admitted = served_kinds(real, KINDS)
        self.kinds = self.admitted

    def player(self, server: Server, namespace: str) -> Player:
        """Return a sender of requests to a server, outside of sequences."""
        return Player(server, namespace)

    def open_namespace(self, server: Server, namespace: str) -> None:
        """Create a namespace with its objects, then give it the labels, and wait until they are known."""
        super().open_namespace(server, namespace)
        for path, obj in self.stored:
            server.must("POST", path.replace("{{ns}}", namespace), obj)
        labels = {"metadata": {"labels": self.labels}}
        status, _ = server.call("PATCH", f"/api/v1/namespaces/{namespace}", labels, MEDIA["merge"])
        assert status == 200, status
        for marker in self.markers:
            wait_until(server, namespace, marker, True)

    def close_namespace(self, server: Server, namespace: str) -> None:
        """Note that the namespace has to be deleted; policies and webhooks may refuse that as yet."""
        self._left.append(namespace)

    def difference(self, sequence: list[Step]) -> Difference | None:
        """Return the first difference of a sequence that is sent twice, if it differs: a cache may have been behind."""
        return super().difference(sequence) and super().difference(sequence)

    def clean_up(self) -> None:
        """Delete the namespaces of all sequences."""
        for namespace in sorted(set(self._left)):
            list(self.both.map(lambda server, namespace=namespace: clean(server, namespace, self.kinds), self.servers))
        self._left.clear()


@dataclass(frozen=True)
class Case:
    """Policies or webhooks that are in force, and the kinds that they are about.

    held  the kind of which each namespace holds objects, beside config maps ("": none); see `Batch.held`
    """

    objects: list[Obj]
    kinds: Sequence[AdmittedKind]
    held: str = ""


class Batch:
    """Cases whose policies or webhooks are in force at the same time."""

    def __init__(self, pair: AdmissionPair, rng: random.Random, name: str) -> None:
        self.pair = pair
        self.rng = rng
        self.name = name
        self.counts: Counter[str] = Counter()
        self._stored: list[str] = []  # paths of objects to delete
        self._players = [pair.player(server, self.home) for server in pair.servers]

    @property
    def home(self) -> str:
        """Return the name of the batch's own namespace."""
        return f"{self.name}-home"

    def prepare(self) -> None:
        """Store what the cases need."""
        for server in self.pair.servers:
            metadata = {"name": self.home, "labels": {"batch": self.name}}
            server.must("POST", "/api/v1/namespaces", {"metadata": metadata})

    def case(self, name: str, kinds: Sequence[AdmittedKind]) -> Case | None:
        """Put random policies or webhooks in force; return None if the left server takes none."""
        raise NotImplementedError

    def markers(self) -> dict[str, tuple[Marker, ...]]:
        """Store the markers for each kind of objects that namespaces hold, and return them by that kind."""
        raise NotImplementedError

    def held(self, kind: str) -> list[tuple[str, Obj]]:
        """Return the objects of a kind that namespaces hold before their requests, with paths."""
        raise NotImplementedError

    def run(self, cases: int, sequences: int, length: int, shrinking: bool) -> Counter[str]:
        """Compare random cases, and sequences of requests about each, and count how many "agree" or "differ"."""
        pair, markers = self.pair, dict[str, tuple[Marker, ...]]()
        try:
            self.prepare()
            names = [f"{self.name}-{n}" for n in range(cases)]
            made = {
                name: self.case(name, self.rng.sample(pair.admitted, self.rng.choice((1, 1, 1, 2)))) for name in names
            }
            markers = self.markers()
            for name, case in made.items():
                if case is not None:
                    self.compare(
                        name, case, markers, [self.rng.randrange(10**9) for _ in range(sequences)], length, shrinking
                    )
        finally:
            self.clean_up(markers)
        return self.counts

    def compare(
        self,
        name: str,
        case: Case,
        markers: Mapping[str, tuple[Marker, ...]],
        seeds: list[int],
        length: int,
        shrinking: bool,
    ) -> None:
        """Compare sequences of requests about a case."""
        pair, kinds = self.pair, sorted({"ConfigMap", case.held} - {""})
        pair.stored = tuple(item for kind in kinds for item in self.held(kind))
        pair.markers = tuple(marker for kind in kinds for marker in markers[kind])
        pair.labels = {"in-case": name, "batch": self.name, "team": self.rng.choice("abc")}
        title = json.dumps(case.objects)
        steps = {f"{seed}: {title}": AdmissionSequence(seed, case.kinds, name).write(length) for seed in seeds}
        self.counts += compare(pair, steps, shrinking)

    def store(self, path: str, obj: Obj) -> bool:
        """Create an object on both servers, print how their answers differ, and report whether both have taken it."""
        step = Step(0, "POST", path, body=obj)
        self.pair.verbs["POST"] += 1
        answers = [player.send(step) for player in self._players]
        left, right = map(self.pair.comparable, self.pair.servers, answers, (step, step))
        lines = list(differences(left, right, ""))
        self.counts["objects that differ" if lines else f"objects answered {answers[0].status}"] += 1
        if lines:
            print(f"--- POST {path} {json.dumps(obj)}", *(line[:1500] for line in lines), sep="\n    ", flush=True)
        self._stored.append(f"{path}/{obj['metadata']['name']}")
        return {answer.status for answer in answers} == {201}

    def must_store(self, path: str, obj: Obj) -> None:
        """Create an object on both servers. Raises SystemExit if one does not do it."""
        for player in self._players:
            player.server.must("POST", player.resolved(path), player.resolved(obj))
        self._stored.append(f"{path}/{obj['metadata']['name']}")

    def clean_up(self, markers: Mapping[str, tuple[Marker, ...]]) -> None:
        """Delete what the batch has stored, wait until it is no longer in force, and delete its namespaces."""
        for server in self.pair.servers:
            for path in self._stored:
                server.call("DELETE", path)
        self.pair.close_namespace(self.pair.servers[0], self.home)
        for server in self.pair.servers:
            for marker in itertools.chain(*markers.values()):
                wait_until(server, self.home, marker, False)
        self.pair.clean_up()


def run_batches(
    pair: AdmissionPair, make: Callable[[int, random.Random, str], Batch], options: argparse.Namespace
) -> int:
    """Compare the batches of some seeds, print the counts, and return the exit status."""
    total: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.batches):
        batch = make(seed, random.Random(seed), f"p{os.getpid():x}-{seed}")
        total += batch.run(options.cases, options.sequences, options.length, not options.no_shrinking)
        print(f"batch {seed}: {dict(total)}", flush=True)
    print(f"sequences: {dict(total)}; {pair.verbs.total()} requests")
    differ = total["differ"] + total["objects that differ"]
    return 0 if total["agree"] and not differ and pair.unanswered <= MAX_UNANSWERED else 1


def add_admission_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of both commands that compare what batches of cases do."""
    add_server_arguments(parser)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--cases", type=int, default=12, help="in a batch")
    parser.add_argument("--sequences", type=int, default=3, help="of requests about each case")
    parser.add_argument("--length", type=int, default=12, help="requests in a sequence")
    parser.add_argument("--known", default="", metavar="REGEX", help="hides the lines of differences that match")
    parser.add_argument("--no-shrinking", action="store_true")


def ensure(server: Server, path: str, obj: Obj) -> None:
    """Create an object that an earlier run may have left. Raises SystemExit if the server does not do it."""
    status, answer = server.call("POST", path, obj)
    if status not in (201, 409):
        raise SystemExit(f"{server.url}: POST {path}: {status} {answer.get('message', answer)}")


def install(server: Server) -> None:
    """Define the custom kind and grant rights to a group, unless that is done already. Raises SystemExit."""
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path, obj in ((definitions, DEFINITION), (bindings, GRANT)):
        ensure(server, path, obj)
    until = time.monotonic() + PATIENCE
    while any(server.call("GET", f"/apis/{GROUP}/{version}/things")[0] != 200 for version in ("v1", "v2")):
        if time.monotonic() > until:
            raise SystemExit(f"{server.url}: things.{GROUP} is not served")
        time.sleep(0.1)
