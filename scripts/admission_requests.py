"""Requests about which admission can be asked: kinds, verbs and subresources, and namespaces that a policy selects.

Shared by `differential_policies.py` and `differential_webhooks.py`. A case is one set of policies or webhooks, which
select namespaces with the label `in-case` and objects with the label `case`, so that cases do not disturb each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from comparing import MEDIA, Obj, Parts, Server, set_at
from differential import Kind, SequenceGenerator, ServerPair, Step, clean, paths, served_kinds

PATIENCE = 60  # seconds until a policy, webhook or definition is in force; a real server's mapper needs 45
GROUP = "admission.example.com"
REGISTRATION = "/apis/admissionregistration.k8s.io"
DEFINITION: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"things.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "a": {"type": "string", "maxLength": 20},
                                    "n": {"type": "integer", "default": 1},
                                    "l": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "m": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
                        },
                    }
                },
            }
            for name in ("v1", "v2")
        ],
    },
}
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
        self.kinds = served_kinds(real, KINDS)

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

    def clean_up(self) -> None:
        """Delete the namespaces of all sequences."""
        for namespace in sorted(set(self._left)):
            list(self.both.map(lambda server, namespace=namespace: clean(server, namespace, self.kinds), self.servers))
        self._left.clear()


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
