#!/usr/bin/env python3
"""Compare two API servers by random admission policies, and by requests that these concern.

    scripts/differential_policies.py https://127.0.0.1:6443 https://127.0.0.1:8001 --token TOKEN --seed 1 --batches 10

A batch has policies of one kind (ValidatingAdmissionPolicy, or MutatingAdmissionPolicy if the left server serves it),
each with bindings, about the requests of one case. The answers to each are compared; those that the left server takes
are put in force on both, and random sequences of requests are sent, as `differential.py` sends them, of built-in kinds,
a custom one, and their subresources. The first difference of a sequence is shrunk and printed, after its policy. The
exit status is 1 if anything differs, if nothing agreed, or if the left server left more than a few requests without an
answer.

The token must be that of a member of `system:masters` on both servers; they may authorize by RBAC. For
MutatingAdmissionPolicy before 1.36, start them with its feature gate (and `--runtime-config` on a real one). A real
server asks policies and their parameters in any order: no case depends on it, since only one binding of it refuses.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
from collections import Counter

from admission_requests import (
    GROUP,
    REGISTRATION,
    AdmissionPair,
    AdmissionSequence,
    AdmittedKind,
    Marker,
    ensure,
    refuses_config_map,
    wait_until,
)
from comparing import MAX_UNANSWERED, Obj, Server, differences, require_servers
from differential import Player, Step, comparable, compare
from random_policies import PARAM_KINDS, SERVED_PARAM_KINDS, Policy, PolicyGenerator

ATTEMPTS = 6  # until a policy is taken by the left server
CONFIG_MAPS, THINGS = "/api/v1/namespaces/{{ns}}/configmaps", f"/apis/{GROUP}/v1/namespaces/{{{{ns}}}}/things"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
PARAMS: dict[str, tuple[str, Obj]] = {
    "ConfigMap": (CONFIG_MAPS, {"data": {"a": "1"}}),
    "Thing": (THINGS, {"spec": {"a": "1", "n": 2}}),
}
MARKED = {"apiVersion": f"{GROUP}/v1", "kind": "Thing"}, {"apiVersion": "v1", "kind": "ConfigMap"}

REMOVAL = '[JSONPatch{op: "remove", path: "/nothing"}]'  # of what is not there, so that the request is refused
MUTATIONS: Obj = {
    "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": REMOVAL}}],
}


def params_of(kind: str) -> list[tuple[str, Obj]]:
    """Return the parameters of a kind, by whose names and labels bindings find them, and then that of the markers."""
    path, fields = PARAMS[kind]
    names: tuple[tuple[str, Obj], ...] = (("p", {"p": "1"}), ("q", {"p": "2"}), ("marker", {}))
    typed = {"apiVersion": f"{GROUP}/v1", "kind": "Thing"} if kind == "Thing" else {}
    return [(path, {**typed, "metadata": {"name": name, "labels": labels}, **fields}) for name, labels in names]


class Batch:
    """Policies of one kind that are in force at the same time, each about the requests of a case."""

    def __init__(self, pair: AdmissionPair, rng: random.Random, name: str, api: str, *, mutating: bool) -> None:
        self.pair = pair
        self.rng = rng
        self.name = name
        self.mutating = mutating
        self.counts: Counter[str] = Counter()
        stem = f"{api}/{'mutating' if mutating else 'validating'}admissionpolic"
        self.policies, self.bindings = f"{stem}ies", f"{stem}ybindings"
        self._stored: list[str] = []  # paths of objects to delete
        self._players = [Player(server, f"{name}-params") for server in pair.servers]

    def run(self, policies: int, sequences: int, length: int, shrinking: bool) -> Counter[str]:
        """Compare policies, and sequences of requests about each, and count how many "agree" or "differ"."""
        pair = self.pair
        try:
            self.store_params()
            cases = {case: self.case(case) for case in (f"{self.name}-{n}" for n in range(policies))}
            markers = {kind["kind"]: self.marker(kind) for kind in MARKED}
            for case, (policy, kinds) in cases.items():
                if policy is None:
                    continue
                own = {policy.params, "ConfigMap"} - {""}
                pair.stored = tuple(item for kind in sorted(own) for item in params_of(kind))
                pair.markers = tuple(markers[kind] for kind in sorted(own))
                pair.labels = {"in-case": case, "batch": self.name, "team": self.rng.choice("abc")}
                seeds = [self.rng.randrange(10**9) for _ in range(sequences)]
                title = json.dumps([policy.policy, *policy.bindings])
                steps = {f"{n}: {title}": AdmissionSequence(n, kinds, case).write(length) for n in seeds}
                self.counts += compare(pair, steps, shrinking)
        finally:
            self.clean_up()
        return self.counts

    def store_params(self) -> None:
        """Store the parameters that bindings find in a namespace of the batch, or outside of namespaces."""
        for server in self.pair.servers:
            metadata = {"name": f"{self.name}-params", "labels": {"batch": self.name}}
            server.must("POST", "/api/v1/namespaces", {"metadata": metadata})
            for path, obj in (*params_of("ConfigMap"), *params_of("Thing")):
                server.must("POST", path.replace("{{ns}}", f"{self.name}-params"), obj)
            role = {"metadata": {"name": f"{self.name}-p", "labels": {"batch": self.name, "p": "1"}}}
            server.must("POST", ROLES, role)
        self._stored += [f"{ROLES}/{self.name}-p"]

    def case(self, case: str) -> tuple[Policy | None, list[AdmittedKind]]:
        """Compare the answers to random policies until one is taken; return it, and the kinds that it is about."""
        known = [kind for kind in self.pair.kinds if isinstance(kind, AdmittedKind)]
        kinds = self.rng.sample(known, self.rng.choice((1, 1, 1, 2)))
        generator = PolicyGenerator(self.rng, kinds, case, mutating=self.mutating)
        for _ in range(ATTEMPTS):
            policy = generator.policy(case)
            if self.store(self.policies, policy.policy):
                taken = [binding for binding in policy.bindings if self.store(self.bindings, binding)]
                return Policy(policy.policy, taken, policy.params), kinds
        return None, kinds

    def store(self, path: str, obj: Obj) -> bool:
        """Create an object on both servers, print how their answers differ, and report whether both have taken it."""
        step = Step(0, "POST", path, body=obj)
        self.pair.verbs["POST"] += 1
        real, other = (player.send(step) for player in self._players)
        lines = list(differences(comparable(real, step), comparable(other, step), ""))
        self.counts["policies that differ" if lines else f"policies answered {real.status}"] += 1
        if lines:
            print(f"--- POST {path} {json.dumps(obj)}", *(line[:1500] for line in lines), sep="\n    ", flush=True)
        self._stored.append(f"{path}/{obj['metadata']['name']}")
        return real.status == other.status == 201

    def marker(self, param_kind: Obj) -> Marker:
        """Store a policy that refuses a request of its own in namespaces with the batch's label and a parameter."""
        name = f"{self.name}-{param_kind['kind'].lower()}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
        selectors = {
            "namespaceSelector": {"matchLabels": {"batch": self.name}},
            "objectSelector": {"matchLabels": {"marker": name}},
        }
        spec: Obj = {"matchConstraints": {"resourceRules": [rule], **selectors}, "paramKind": param_kind}
        if self.mutating:
            spec |= MUTATIONS
        else:
            spec |= {"validations": [{"expression": "false"}]}
        bound: Obj = {"policyName": name, "paramRef": {"name": "marker", "parameterNotFoundAction": "Allow"}}
        bound |= {} if self.mutating else {"validationActions": ["Deny"]}
        for path, fields in ((self.policies, spec), (self.bindings, bound)):
            for server in self.pair.servers:
                server.must("POST", path, {"metadata": {"name": name}, "spec": fields})
            self._stored.append(f"{path}/{name}")
        return refuses_config_map(name)

    def clean_up(self) -> None:
        """Delete what the batch has stored, wait until it is no longer in force, and delete its namespaces."""
        for server in self.pair.servers:
            for path in self._stored:
                server.call("DELETE", path)
        self.pair.close_namespace(self.pair.servers[0], f"{self.name}-params")
        for server in self.pair.servers:
            for kind in MARKED:
                marker = refuses_config_map(f"{self.name}-{kind['kind'].lower()}")
                wait_until(server, f"{self.name}-params", marker, False)
        self.pair.clean_up()


def keep_params(server: Server, api: str, *, mutating: bool) -> None:
    """Store a policy that is about nothing for each kind of parameters, and leave it there.

    Once no policy has parameters of a built-in kind, a real server never again learns of any such parameter.
    """
    stem = f"{api}/{'mutating' if mutating else 'validating'}admissionpolic"
    rule = {"apiGroups": ["none"], "apiVersions": ["v1"], "resources": ["none"], "operations": ["CREATE"]}
    rules: Obj = MUTATIONS if mutating else {"validations": [{"expression": "false"}]}
    actions: Obj = {} if mutating else {"validationActions": ["Deny"]}
    for kind, _ in PARAM_KINDS[:SERVED_PARAM_KINDS]:
        meta = {"name": f"admission-keeps-{kind['kind'].lower()}-{kind['apiVersion'].rpartition('/')[2]}"}
        spec = {"matchConstraints": {"resourceRules": [rule]}, "paramKind": kind, **rules}
        bound = {
            "policyName": meta["name"],
            "paramRef": {"name": "none", "parameterNotFoundAction": "Allow"},
            **actions,
        }
        ensure(server, f"{stem}ies", {"metadata": meta, "spec": spec})
        ensure(server, f"{stem}ybindings", {"metadata": meta, "spec": bound})


def served_policies(server: Server) -> list[tuple[str, bool]]:
    """Return the group-versions with policies that a server has, the newest for each kind, and whether they mutate."""
    served = []
    for mutating, resource in ((False, "validatingadmissionpolicies"), (True, "mutatingadmissionpolicies")):
        versions = (f"{REGISTRATION}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
        api = next((path for path in versions if server.call("GET", f"{path}/{resource}")[0] == 200), "")
        served += [(api, mutating)] if api else []
    return served


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("left", help="URL of a real server")
    parser.add_argument("right", help="URL of the server to compare")
    parser.add_argument("--token", default="", help="bearer token for both")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--policies", type=int, default=12, help="in a batch")
    parser.add_argument("--sequences", type=int, default=3, help="of requests about each policy")
    parser.add_argument("--length", type=int, default=12, help="requests in a sequence")
    parser.add_argument("--only", choices=("validating", "mutating"), help="policies of one kind")
    parser.add_argument("--known", default="", metavar="REGEX", help="hides the lines of differences that match")
    parser.add_argument("--no-shrinking", action="store_true")
    options = parser.parse_args()
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    pair = AdmissionPair(*servers, options.known)
    served = served_policies(servers[0])
    apis = [(api, mutating) for api, mutating in served if options.only in (None, ("validating", "mutating")[mutating])]
    for server, (api, mutating) in itertools.product(servers, served):
        keep_params(server, api, mutating=mutating)
    total: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.batches):
        api, mutating = apis[seed % len(apis)]
        batch = Batch(pair, random.Random(seed), f"p{os.getpid():x}-{seed}", api, mutating=mutating)
        total += batch.run(options.policies, options.sequences, options.length, not options.no_shrinking)
        print(f"batch {seed}: {dict(total)}", flush=True)
    print(f"sequences: {dict(total)}; {pair.verbs.total()} requests")
    differ = total["differ"] + total["policies that differ"]
    return 0 if total["agree"] and not differ and pair.unanswered <= MAX_UNANSWERED else 1


if __name__ == "__main__":
    sys.exit(main())
