"""Compare the decisions of two API servers that authorize by RBAC, with random roles, bindings, users and requests.

    python -m scripts.compare authorization https://127.0.0.1:6443 https://127.0.0.1:8001 --token T --decisions 10000

The token must be that of a member of `system:masters` on both. Each world of roles and bindings is asked
SubjectAccessReviews, rules reviews, real requests (dry runs, by impersonation) and new roles that may grant too much.
What is compared: whether it is allowed; why not, in any order; the whole answer to a request that is refused, and the
status of others. Which of several bindings allows something is not fixed on a real server, and not compared.
Differences are printed, then how many decisions agree. The exit status is 1 if there are differences, or if nothing
agreed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from scripts.common.comparing import (
    Answer,
    Obj,
    Server,
    Tally,
    add_server_arguments,
    end_namespace,
    require_servers,
)
from scripts.compare.cases.rights import GROUP, RBAC, Person, World, in_any_order

REVIEWS = "/apis/authorization.k8s.io/v1"
SHARES = {"reviews": 60, "requests": 20, "escalations": 15}  # of 100 decisions in a world; the rest are rules reviews
WORLD = 250  # decisions in each world
MISSING = re.compile(r'[\w.]+ "[^"]*" not found')  # a role that a binding names
LEARNING_SECONDS = 30.0  # that a server may take to learn of a new role


def ask_as(server: Server, person: Person | None, method: str, path: str, body: Obj | None = None) -> Answer:
    """Send a request as somebody else, or (None) as the administrator."""
    headers: Obj = {"Content-Type": "application/json", "Accept": "application/json"}
    headers |= person.headers if person else {}
    return server.exchange(method, path, headers, None if body is None else json.dumps(body).encode())


def settle(server: Server, world: World) -> None:
    """Store the roles and bindings of a world, and wait until the server decides by them."""
    for namespace in world.namespaces:
        server.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for path, obj in [*world.roles, *world.bindings]:
        server.must("POST", path, obj)
    for namespace in ("", world.namespaces[-1]):
        wait_for_last(server, world, namespace)


def wait_for_last(server: Server, world: World, namespace: str) -> None:
    """Store one more role and binding, and wait until they are in force: so are all that were stored before."""
    name, kind = {"name": f"{world.run}-zz"}, "Role" if namespace else "ClusterRole"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [kind.lower()]}]
    server.must("POST", world.path(namespace, "roles", "clusterroles"), {"metadata": name, "rules": rules})
    subject = {"apiGroup": GROUP, "kind": "User", "name": f"{world.run}-marker"}
    binding = {"metadata": name, "roleRef": {"apiGroup": GROUP, "kind": kind, **name}, "subjects": [subject]}
    server.must("POST", world.path(namespace, "rolebindings", "clusterrolebindings"), binding)
    asked = {"verb": kind.lower(), "resource": "pods", "namespace": namespace}
    question = {"spec": {"user": subject["name"], "resourceAttributes": asked}}
    end = time.monotonic() + LEARNING_SECONDS
    while not server.must("POST", f"{REVIEWS}/subjectaccessreviews", question)["status"]["allowed"]:
        if time.monotonic() > end:
            raise SystemExit(f"{server.url}: a new {kind} is not in force after {LEARNING_SECONDS} s")
        time.sleep(0.02)


def clean_up(server: Server, world: World) -> None:
    """Delete what a world has stored."""
    for path, obj in [*world.bindings, *world.roles]:
        server.call("DELETE", f"{path}/{obj['metadata']['name']}")
    for resource in ("clusterrolebindings", "clusterroles"):
        server.call("DELETE", f"{RBAC}/{resource}/{world.run}-zz")
    for namespace in world.namespaces:
        end_namespace(server, namespace)


def in_parts(text: str) -> tuple[str, list[str]]:
    """Return a text without the roles that it says are missing, and those, which may stand in any order."""
    return MISSING.sub("", text), sorted(MISSING.findall(text))


def review(answer: Answer) -> Any:
    """Return the answer of a SubjectAccessReview without the reason to allow, which may name any of several
    bindings."""
    body = json.loads(answer.body)
    if answer.status != 201:
        return body
    status = body["status"]
    texts = {name: in_parts(status.get(name, "")) for name in ("reason", "evaluationError")}
    return {**status, **texts, "reason": texts["reason"] if not status["allowed"] else ""}


def refusal(answer: Answer) -> Any:
    """Return a refusal as a whole, and the status of any other answer."""
    body = json.loads(answer.body) if answer.status == 403 else {}
    return {**body, "message": in_parts(body["message"])} if body else answer.status


def rules(answer: Answer) -> Any:
    """Return the rules of a rules review, in any order."""
    status = json.loads(answer.body)["status"]
    lists = {name: in_any_order(status[name]) for name in ("resourceRules", "nonResourceRules")}
    return {**status, **lists, "evaluationError": in_parts(status.get("evaluationError", ""))}


class Comparison:
    """Compares the decisions of two servers, and counts how many agree."""

    def __init__(self, servers: tuple[Server, Server]) -> None:
        self.servers = servers
        self.tally = Tally()

    def world(self, world: World, decisions: int) -> None:
        """Compare some decisions in one world."""
        for server in self.servers:
            settle(server, world)
        count = {name: decisions * share // 100 for name, share in SHARES.items()}
        for _ in range(count["reviews"]):
            body = {"spec": world.question()}
            self.compare(review, None, "POST", f"{REVIEWS}/subjectaccessreviews", body)
        for method, path, sent in islice(world.requests(), count["requests"]):
            self.compare(refusal, world.rng.choice(world.people), method, path, sent)
        for _ in range(count["escalations"]):
            path, role = world.escalation()
            self.compare(refusal, world.rng.choice(world.people), "POST", f"{path}?dryRun=All", role)
        for _ in range(decisions - sum(count.values())):
            body = {"spec": {"namespace": world.rng.choice(world.namespaces)}}
            self.compare(rules, world.rng.choice(world.people), "POST", f"{REVIEWS}/selfsubjectrulesreviews", body)
        for server in self.servers:
            clean_up(server, world)

    def compare(
        self, part: Callable[[Answer], Any], person: Person | None, method: str, path: str, body: Obj | None
    ) -> None:
        """Send a request to both servers, and print it if a part of their answers differs."""
        answers = [ask_as(server, person, method, path, body) for server in self.servers]
        if not self.tally.lacks_answer(answers[0]):
            self.tally.compare(f"{person}: {method} {path} {json.dumps(body)}", *map(part, answers))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--decisions", type=int, default=1000)


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    comparison, rng = Comparison(servers), random.Random(options.seed)
    number = 0
    while comparison.tally.total < options.decisions:
        comparison.world(World(f"z{os.getpid():x}-{number}", rng), min(WORLD, options.decisions))
        number += 1
    print(f"{comparison.tally.total} decisions in {number} worlds: {comparison.tally}")
    return comparison.tally.exit_status
