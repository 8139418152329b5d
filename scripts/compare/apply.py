"""Compare two API servers by random creates, updates, patches and applies of a few managers over the same objects.

    python -m scripts.compare apply https://127.0.0.1:6443 http://127.0.0.1:8001 --token TOKEN --seed 1 --sequences 20

Every request goes to both servers. They must agree in the status code, the message and causes of an error, and in the
whole object with its managed fields; values that a server generates (uid, versions, times) are ignored. The first
difference of a sequence is printed with the requests before it, and ends that sequence. The exit status is 1 if there
was one, if no sequence agreed, or if the left server left more than a few requests without an answer.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from scripts.common.comparing import (
    MAX_UNANSWERED,
    MEDIA,
    UNANSWERED,
    Obj,
    Parts,
    Server,
    add_server_arguments,
    differences,
    require_servers,
    sample_parts,
    set_at,
)

NAMESPACE = "differential"
MANAGERS = ("one", "two", "three", "kubectl")


@dataclass(frozen=True)
class Kind:
    """The values from which objects of a kind are made, as (path, values).

    Every object has the `required` parts and some of `parts`; `status` are those of the status subresource.
    """

    path: str  # of the collection
    api_version: str
    kind: str
    parts: Parts
    required: Parts = ()
    status: Parts = ()
    versions: tuple[tuple[str, str], ...] = ()  # other API versions and their collections


META: Parts = (
    ("metadata.labels.a", ("1", "2")),
    ("metadata.labels.b", ("1", "2", None)),
    ("metadata.annotations.x", ("1", "2", "<&>")),
    ("metadata.finalizers", ([], ["e.io/a"], ["e.io/b", "e.io/a"], ["e.io/c", "e.io/b"])),
)
REQUESTS = ([{"name": "r0", "deviceClassName": "gpu.example.com"}],)
CONSUMERS = [{"resource": "pods", "name": f"p{i}", "uid": f"uid-{i}"} for i in range(4)]
RESULTS = [{"request": "r0", "driver": "gpu.example.com", "pool": "p", "device": "d0"}]
NAMESPACED = "/namespaces/" + NAMESPACE
CLAIMS = NAMESPACED + "/resourceclaims"
KINDS = (
    Kind(
        "/api/v1" + NAMESPACED + "/configmaps",
        "v1",
        "ConfigMap",
        (*META, ("data.k", ("1", "2", "")), ("data.l", ("1", None)), ("data", ({}, None)), ("immutable", (False,))),
    ),
    Kind(
        "/apis/resource.k8s.io/v1beta1" + CLAIMS,
        "resource.k8s.io/v1beta1",
        "ResourceClaim",
        META,
        (("spec.devices.requests", REQUESTS),),
        (
            ("status.allocation.devices.results", (RESULTS,)),
            ("status.reservedFor", ([], CONSUMERS[:1], CONSUMERS[:2], CONSUMERS[1:3], CONSUMERS[2::-1])),
            ("metadata.labels.s", ("1",)),
        ),
        (("resource.k8s.io/v1alpha3", "/apis/resource.k8s.io/v1alpha3" + CLAIMS),),
    ),
    Kind(
        "/api/v1" + NAMESPACED + "/pods",
        "v1",
        "Pod",
        (*META, ("spec.activeDeadlineSeconds", (5,)), ("spec.terminationGracePeriodSeconds", (30,))),
        (("spec.containers", ([{"name": "c", "image": "i:1"}], [{"name": "c", "image": "i:2"}])),),
        (
            ("status.phase", ("Pending", "Running")),
            (
                "status.conditions",
                (
                    [{"type": "Ready", "status": "True"}],
                    [{"type": "Ready", "status": "False", "reason": "R"}],
                    [{"type": "Other", "status": "True"}, {"type": "Ready", "status": "True"}],
                ),
            ),
        ),
    ),
    Kind(
        "/api/v1" + NAMESPACED + "/services",
        "v1",
        "Service",
        (
            *META,
            ("spec.selector", ({"a": "1"}, {"a": "2", "b": "1"})),
            ("spec.sessionAffinity", ("None", "ClientIP")),
        ),
        (
            ("spec.clusterIP", ("None",)),
            (
                "spec.ports",
                (
                    [{"name": "a", "port": 80}],
                    [{"name": "u", "port": 80, "protocol": "UDP"}],
                    [{"name": "b", "port": 81, "targetPort": "x"}, {"name": "a", "port": 80}],
                    [{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "c", "port": 80, "protocol": "UDP"}],
                ),
            ),
        ),
    ),
    Kind(
        "/apis/apps/v1" + NAMESPACED + "/deployments",
        "apps/v1",
        "Deployment",
        (
            *META,
            ("spec.replicas", (1, 2)),
            ("spec.paused", (True, False)),
            ("spec.template.spec.containers", ([{"name": "c", "image": "i:1", "env": [{"name": "E", "value": "1"}]}],)),
            (
                "spec.template.spec.containers",
                (
                    [
                        {"name": "d", "image": "i:2", "resources": {"limits": {"cpu": "1000m"}}},
                        {"name": "c", "image": "i:3"},
                    ],
                ),
            ),
            ("spec.template.spec.nodeSelector", ({"a": "1"}, {"b": "2"})),
            ("spec.template.spec.tolerations", ([{"key": "k", "operator": "Exists"}],)),
        ),
        (
            ("spec.selector", ({"matchLabels": {"app": "x"}},)),
            ("spec.template.metadata.labels", ({"app": "x"}, {"app": "x", "v": "2"})),
            ("spec.template.spec.containers", ([{"name": "c", "image": "i:1"}],)),
        ),
    ),
)


@dataclass
class Step:
    """A request; `edits` change the object that the server has, for PUT."""

    method: str
    path: str
    media: str
    body: Any = None
    edits: list[tuple[str, Any]] = field(default_factory=list)  # of what the server has, for PUT


def first_step(rng: random.Random, kind: Kind, name: str) -> Step:
    """Return the request that creates an object, by POST or by apply."""
    body: Obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    for at, value in sample_parts(rng, kind.required, len(kind.required)) + sample_parts(rng, kind.parts, 2):
        set_at(body, at, value)
    query = f"?fieldManager={rng.choice(MANAGERS)}"
    if rng.random() < 0.5:
        return Step("PATCH", f"{kind.path}/{name}{query}", MEDIA["apply"], body)
    return Step("POST", kind.path + query, "application/json", body)


def later_steps(rng: random.Random, kind: Kind, name: str, count: int) -> Iterator[Step]:
    """Yield random requests that change the object or its status."""
    for _ in range(count):
        status = bool(kind.status) and rng.random() < 0.3
        version, collection = kind.api_version, kind.path
        if kind.versions and rng.random() < 0.4:
            version, collection = rng.choice(kind.versions)
        parts = kind.status if status else kind.parts
        picked = sample_parts(rng, parts, rng.randint(0, 3))
        path = f"{collection}/{name}" + ("/status" if status else "")
        query = f"?fieldManager={rng.choice(MANAGERS)}"
        form = rng.choice(("apply", "apply", "apply", "merge", "strategic", "json", "put"))
        if form == "apply":
            required = [] if status or rng.random() < 0.3 else sample_parts(rng, kind.required, len(kind.required))
            body: Obj = {"apiVersion": version, "kind": kind.kind, "metadata": {"name": name}}
            for at, value in required + picked:
                set_at(body, at, value)
            force = "&force=true" if rng.random() < 0.4 else ""
            yield Step("PATCH", path + query + force, MEDIA["apply"], body)
        elif form == "put":
            yield Step("PUT", path + query, "application/json", edits=picked)
        elif form == "json":
            operations = [{"op": "add", "path": "/" + at.replace(".", "/"), "value": value} for at, value in picked]
            yield Step("PATCH", path + query, MEDIA["json"], operations)
        else:
            patch: Obj = {}
            for at, value in picked:
                set_at(patch, at, rng.choice((value, value, None)))
            yield Step("PATCH", path + query, MEDIA[form], patch)


def send_step(server: Server, step: Step) -> tuple[int, Any]:
    """Send a request; return the status code and the parts of the answer that servers must agree on."""
    body = step.body
    if step.method == "PUT":
        code, body = server.call("GET", step.path.partition("?")[0])
        if code != 200:
            return code, comparable(body)
        for at, value in step.edits:
            set_at(body, at, value)
    code, answer = server.call(step.method, step.path, body, step.media)
    return code, comparable(answer)


def comparable(obj: Obj) -> Any:
    """Return the parts of an answer that two servers must agree on."""
    obj = copy.deepcopy(obj)
    if obj.get("kind") == "Status":
        details = obj.get("details") or {}
        if obj["code"] == 422:  # other scripts compare the errors of validation
            return obj.get("reason")
        causes = sorted(details.get("causes", ()), key=json.dumps)
        return {"reason": obj.get("reason"), "message": obj.get("message"), "causes": causes}
    metadata = obj.get("metadata", {})
    for name in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(name, None)
    entries = metadata.pop("managedFields", [])
    for entry in entries:
        entry["time"] = bool(entry.get("time"))
    metadata["managedFields"] = sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
    return obj


def served_versions(kind: Kind, server: Server) -> Kind:
    """Return the kind with the versions that the server's release has."""
    every = ((kind.api_version, kind.path), *kind.versions)
    (api_version, path), *others = (known for known in every if server.call("GET", known[1])[0] == 200)
    return replace(kind, api_version=api_version, path=path, versions=tuple(others))


def compare(left: Server, right: Server, kind: Kind, seed: int, length: int, validation: bool) -> str:
    """Send a random sequence to both servers and print the first difference.

    Return how it ended: "agree", "differ", "unanswered" by the left server, or "invalid", if it does not go on then.
    """
    rng = random.Random(seed)
    name = f"d{seed}"
    for server in (left, right):
        server.call("PATCH", f"{kind.path}/{name}", {"metadata": {"finalizers": None}}, MEDIA["merge"])
        server.call("DELETE", f"{kind.path}/{name}?gracePeriodSeconds=0")
        if (status := server.call("GET", f"{kind.path}/{name}")[0]) != 404:
            raise SystemExit(f"{server.url}: {kind.path}/{name} is left from before: {status}")
    sequence = [first_step(rng, kind, name), *later_steps(rng, kind, name, length)]
    for index, step in enumerate(sequence):
        expected, answer = send_step(left, step), send_step(right, step)
        if expected[0] == UNANSWERED:
            print(f"--- {kind.kind}, seed {seed}: the left server did not answer {step.method} {step.path}")
            return "unanswered"
        if lines := list(differences(expected, answer, "")):
            print(f"--- {kind.kind}, seed {seed}")
            for earlier in sequence[: index + 1]:
                print(f"{earlier.method} {earlier.path} {json.dumps(earlier.body or earlier.edits)}")
            for line in lines:
                print(f"    {line}")
            return "differ"
        if expected[0] == 422 and not validation:
            return "invalid"
    return "agree"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--sequences", type=int, default=20, help="per kind")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--kind", default="", help="only this kind")
    parser.add_argument(
        "--no-validation", action="store_true", help="stop where the left server finds an object invalid"
    )


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    for server in servers:
        if server.call("GET", f"/api/v1/namespaces/{NAMESPACE}")[0] != 200:
            server.must("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    kinds = [served_versions(kind, servers[0]) for kind in KINDS if options.kind in ("", kind.kind)]
    outcomes = Counter(
        compare(*servers, kind, options.seed + n, options.steps, not options.no_validation)
        for n in range(options.sequences)
        for kind in kinds
    )
    print(f"{outcomes.total()} sequences: {dict(outcomes)}")
    return 0 if outcomes["agree"] and not outcomes["differ"] and outcomes["unanswered"] <= MAX_UNANSWERED else 1
