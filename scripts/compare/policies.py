"""Compare two API servers by random admission policies, and by requests that these concern.

    python -m scripts.compare policies https://127.0.0.1:6443 https://127.0.0.1:8001 --token TOKEN --seed 1 --batches 10

A batch has policies of one kind (ValidatingAdmissionPolicy, or MutatingAdmissionPolicy if the left server serves it),
each with bindings, about the requests of one case. The answers to each are compared; those that the left server takes
are put in force on both, and random sequences of requests are sent, as `compare requests` does, of built-in kinds,
a custom one, and their subresources. The first difference of a sequence is shrunk and printed, after its policy. The
exit status is 1 if anything differs, if nothing agreed, or if the left server left more than a few requests without an
answer.

The token must be that of a member of `system:masters` on both servers; they may authorize by RBAC. For
MutatingAdmissionPolicy before 1.36, start them with its feature gate (and `--runtime-config` on a real one). A real
server asks policies and their parameters in any order: no case depends on it, since only one binding of it refuses.
Only one script may compare a pair of servers at a time.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Sequence

from scripts.common.comparing import Obj, Server, require_servers
from scripts.compare.cases.admission import (
    GROUP,
    REGISTRATION,
    AdmissionPair,
    AdmittedKind,
    Batch,
    Case,
    Marker,
    add_admission_arguments,
    ensure,
    refuses_config_map,
    run_batches,
)
from scripts.compare.cases.policies import PARAM_KINDS, SERVED_PARAM_KINDS, PolicyGenerator

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


class PolicyBatch(Batch):
    """Policies of one kind, one in each case."""

    def __init__(self, pair: AdmissionPair, rng: random.Random, name: str, api: str, *, mutating: bool) -> None:
        super().__init__(pair, rng, name)
        self.mutating = mutating
        stem = f"{api}/{'mutating' if mutating else 'validating'}admissionpolic"
        self.policies, self.bindings = f"{stem}ies", f"{stem}ybindings"

    def prepare(self) -> None:
        """Store the parameters that bindings find in a namespace of the batch, or outside of namespaces."""
        super().prepare()
        for path, obj in (*params_of("ConfigMap"), *params_of("Thing")):
            self.must_store(path, obj)
        self.must_store(ROLES, {"metadata": {"name": f"{self.name}-p", "labels": {"batch": self.name, "p": "1"}}})

    def case(self, name: str, kinds: Sequence[AdmittedKind]) -> Case | None:
        """Compare the answers to random policies until one is taken."""
        generator = PolicyGenerator(self.rng, kinds, name, mutating=self.mutating)
        for _ in range(ATTEMPTS):
            made = generator.policy(name)
            if self.store(self.policies, made.policy):
                taken = [binding for binding in made.bindings if self.store(self.bindings, binding)]
                return Case([made.policy, *taken], kinds, made.params)
        return None

    def held(self, kind: str) -> list[tuple[str, Obj]]:
        """Return the parameters of a kind that bindings find in the namespace of a request."""
        return params_of(kind)

    def markers(self) -> dict[str, tuple[Marker, ...]]:
        """Store policies that refuse a request of their own in namespaces that have a parameter of a kind."""
        return {kind["kind"]: (self._marker(kind),) for kind in MARKED}

    def _marker(self, param_kind: Obj) -> Marker:
        name = f"{self.name}-{param_kind['kind'].lower()}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
        selectors = {
            "namespaceSelector": {"matchLabels": {"batch": self.name}},
            "objectSelector": {"matchLabels": {"marker": name}},
        }
        spec: Obj = {"matchConstraints": {"resourceRules": [rule], **selectors}, "paramKind": param_kind}
        spec |= MUTATIONS if self.mutating else {"validations": [{"expression": "false"}]}
        bound: Obj = {"policyName": name, "paramRef": {"name": "marker", "parameterNotFoundAction": "Allow"}}
        bound |= {} if self.mutating else {"validationActions": ["Deny"]}
        self.must_store(self.policies, {"metadata": {"name": name}, "spec": spec})
        self.must_store(self.bindings, {"metadata": {"name": name}, "spec": bound})
        return refuses_config_map(name)


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_admission_arguments(parser)
    parser.add_argument("--only", choices=("validating", "mutating"), help="policies of one kind")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    pair = AdmissionPair(*servers, options.known)
    served = served_policies(servers[0])
    for server, (api, mutating) in itertools.product(servers, served):
        keep_params(server, api, mutating=mutating)
    apis = [(api, mutating) for api, mutating in served if options.only in (None, ("validating", "mutating")[mutating])]

    def batch(seed: int, rng: random.Random, name: str) -> PolicyBatch:
        api, mutating = apis[seed % len(apis)]
        return PolicyBatch(pair, rng, name, api, mutating=mutating)

    return run_batches(pair, batch, options)
