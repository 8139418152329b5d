# ruff: noqa: E501 - the tables of expressions read best with one in a line
"""Random admission policies, their bindings and mutations, for `compare policies`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scripts.common.comparing import Obj
from scripts.compare.cases.admission import GROUP, AdmittedKind
from scripts.compare.cases.matches import AUTHORIZER_NAMES, NAMESPACE_NAMES, OPERATIONS, MatchGenerator, names_for
from scripts.compare.cases.rules import Expressions

# Kinds of parameters, and whether they belong to namespaces; only the first `SERVED_PARAM_KINDS` are served.
PARAM_KINDS: tuple[tuple[Obj, bool], ...] = (
    ({"apiVersion": "v1", "kind": "ConfigMap"}, True),
    ({"apiVersion": f"{GROUP}/v1", "kind": "Thing"}, True),
    ({"apiVersion": f"{GROUP}/v2", "kind": "Thing"}, True),
    ({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}, False),
    ({"apiVersion": "v1", "kind": "Nothing"}, True),
    ({"apiVersion": f"{GROUP}/v9", "kind": "Thing"}, True),
)
SERVED_PARAM_KINDS = 4
PARAM_NAMES = (
    ("params.data.a", "string"), ("params.metadata.name", "string"), ("(params == null)", "bool"), ("params.spec.n", "int"),
    ("params.metadata.?labels.?p.orValue('-')", "string"), ("params.metadata.namespace", "string"), ("params.?data.?a.orValue('')", "string"),
    ("string(has(params.kind))", "string"), ("params.metadata.labels", "map(string)"), ("params.spec.a", "string"),
    ("params.apiVersion", "string"), ("(params.metadata.name == object.metadata.name)", "bool"),
)  # fmt: skip
VARIABLE_TYPES = ("bool", "string", "int", "list(string)", "map(string)")
REASONS = ("Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge")

# Expressions of mutations, by kind ("": of every kind); holes are types, as in the templates of rules.
CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "": (
        'Object{{metadata: Object.metadata{{labels: {{"m": {string}}}}}}}',
        'Object{{metadata: Object.metadata{{annotations: {{"m": {string}, "n": "2"}}}}}}',
        'Object{{metadata: Object.metadata{{finalizers: ["e.io/m"]}}}}',
        "Object{{metadata: Object.metadata{{?labels: object.metadata.?labels}}}}", "Object{{}}", "Object{{nothing: 1}}",
        'Object{{metadata: Object.metadata{{name: "other"}}}}', 'Object{{metadata: Object.metadata{{labels: {{"m": {int}}}}}}}',
        "Object{{metadata: Object.spec{{}}}}", "Object{{metadata: null}}", 'Object{{metadata: Object.metadata{{labels: {{"a b": "c"}}}}}}',
        "{bool} ? Object{{}} : Object{{metadata: Object.metadata{{generateName: \"gen-\"}}}}",
    ),
    "ConfigMap": (
        'Object{{data: {{"m": {string}}}}}', "Object{{immutable: {bool}}}", "Object{{data: {map(string)}}}", 'Object{{data: {{"m": {int}}}}}',
        "Object{{binaryData: {{'b': {bytes}}}}}",
    ),
    "Secret": ('Object{{stringData: {{"m": {string}}}}}', 'Object{{data: {{"m": "YQ=="}}}}', "Object{{type: {string}}}"),
    "Pod": (
        'Object{{spec: Object.spec{{containers: [Object.spec.containers{{name: "c", image: {string}}}]}}}}',
        'Object{{spec: Object.spec{{containers: [Object.spec.containers{{name: "d", image: "m", env: [Object.spec.containers.env{{name: "A", value: {string}}}]}}]}}}}',
        'Object{{spec: Object.spec{{initContainers: [Object.spec.initContainers{{name: "i", image: "m"}}]}}}}',
        'Object{{spec: Object.spec{{tolerations: [Object.spec.tolerations{{key: "t", operator: "Exists"}}]}}}}',
        "Object{{spec: Object.spec{{activeDeadlineSeconds: {int}}}}}", "Object{{spec: Object.spec{{nodeSelector: {{'a': {string}}}}}}}",
        "Object{{status: Object.status{{phase: {string}}}}}",
    ),
    "Service": (
        'Object{{spec: Object.spec{{ports: [Object.spec.ports{{port: 90, protocol: "TCP", name: {string}}}]}}}}',
        "Object{{spec: Object.spec{{selector: {{'a': {string}}}}}}}",
    ),
    "ServiceAccount": ("Object{{automountServiceAccountToken: {bool}}}", 'Object{{secrets: [Object.secrets{{name: {string}}}]}}'),
    "Deployment": (
        "Object{{spec: Object.spec{{replicas: {int}}}}}", "Object{{status: Object.status{{replicas: {int}}}}}",
        'Object{{spec: Object.spec{{template: Object.spec.template{{metadata: Object.spec.template.metadata{{labels: {{"m": {string}}}}}}}}}}}',
    ),
    "HorizontalPodAutoscaler": ("Object{{spec: Object.spec{{maxReplicas: {int}}}}}", "Object{{spec: Object.spec{{targetCPUUtilizationPercentage: 7}}}}"),
    "Event": ("Object{{message: {string}}}", "Object{{note: {string}}}", "Object{{reason: {string}}}"),
    "Thing": (
        "Object{{spec: Object.spec{{a: {string}}}}}", "Object{{spec: Object.spec{{n: {int}, l: {list(string)}}}}}",
        'Object{{spec: Object.spec{{m: Object.spec.m{{k: {string}}}}}}}', "Object{{spec: Object.spec{{n: {double}}}}}",
        "Object{{status: Object.status{{n: {int}}}}}", "Object{{spec: Object.spec{{replicas: {int}}}}}", "Object{{spec: Object.spec{{unknown: 1}}}}",
    ),
    "Lease": ("Object{{spec: Object.spec{{holderIdentity: {string}}}}}",),
    "ClusterRole": ('Object{{rules: [Object.rules{{verbs: ["get"], nonResourceURLs: ["/m"]}}]}}', "Object{{aggregationRule: null}}"),
    "Namespace": ('Object{{spec: Object.spec{{finalizers: ["e.io/m"]}}}}',),
}  # fmt: skip
PATCHES: dict[str, tuple[str, ...]] = {
    "": (
        'JSONPatch{{op: "add", path: "/metadata/labels/m", value: {string}}}',
        'JSONPatch{{op: "add", path: "/metadata/labels", value: {map(string)}}}',
        'JSONPatch{{op: "replace", path: "/metadata/labels/a", value: {string}}}', 'JSONPatch{{op: "remove", path: "/metadata/labels/a"}}',
        'JSONPatch{{op: "test", path: "/metadata/labels/a", value: {string}}}', 'JSONPatch{{op: "test", path: "/metadata/name", value: "a"}}',
        'JSONPatch{{op: "copy", from: "/metadata/name", path: "/metadata/labels/m"}}', 'JSONPatch{{op: "move", from: "/metadata/labels/a", path: "/metadata/labels/m"}}',
        'JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"x/y": {string}}}}}',
        'JSONPatch{{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("x/y~z"), value: {string}}}',
        'JSONPatch{{op: "add", path: "/metadata/nothing", value: 1}}', 'JSONPatch{{op: "odd", path: "/metadata", value: 1}}', 'JSONPatch{{op: "add", path: "x", value: 1}}',
        'JSONPatch{{op: "add", path: "/metadata/labels/m", value: {int}}}', 'JSONPatch{{op: "add", path: "/metadata/name", value: "other"}}', 'JSONPatch{{path: "/x"}}',
        'JSONPatch{{op: "remove", path: ""}}', 'JSONPatch{{op: "add", path: "/metadata/finalizers/-", value: "e.io/m"}}', 'JSONPatch{{op: "add", path: {string}, value: {string}}}',
        'JSONPatch{{op: "add", path: "/metadata/finalizers", value: ["e.io/m"]}}',
    ),
    "ConfigMap": (
        'JSONPatch{{op: "add", path: "/data/m", value: {string}}}', 'JSONPatch{{op: "remove", path: "/data/a"}}', 'JSONPatch{{op: "add", path: "/data", value: {map(string)}}}',
        'JSONPatch{{op: "add", path: "/data/m", value: {double}}}', 'JSONPatch{{op: "replace", path: "/data/b", value: null}}', 'JSONPatch{{op: "add", path: "/data", value: {list(int)}}}',
    ),
    "Secret": ('JSONPatch{{op: "add", path: "/data/m", value: "YQ=="}}', 'JSONPatch{{op: "add", path: "/data/m", value: {bytes}}}'),
    "Pod": (
        'JSONPatch{{op: "add", path: "/spec/containers/-", value: Object.spec.containers{{name: "d", image: {string}}}}}',
        'JSONPatch{{op: "replace", path: "/spec/containers/0/image", value: {string}}}', 'JSONPatch{{op: "add", path: "/spec/containers/7", value: {{"name": "x"}}}}',
        'JSONPatch{{op: "add", path: "/spec/activeDeadlineSeconds", value: {int}}}', 'JSONPatch{{op: "add", path: "/spec/tolerations", value: [{{"key": "t"}}]}}',
        'JSONPatch{{op: "remove", path: "/spec/containers/0"}}',
    ),
    "Service": ('JSONPatch{{op: "add", path: "/spec/ports/0/name", value: "p"}}', 'JSONPatch{{op: "replace", path: "/spec/ports/0/port", value: {int}}}'),
    "ServiceAccount": ('JSONPatch{{op: "add", path: "/automountServiceAccountToken", value: {bool}}}',),
    "Deployment": ('JSONPatch{{op: "replace", path: "/spec/replicas", value: {int}}}', 'JSONPatch{{op: "replace", path: "/spec/replicas", value: {string}}}'),
    "HorizontalPodAutoscaler": ('JSONPatch{{op: "replace", path: "/spec/maxReplicas", value: {int}}}',),
    "Event": ('JSONPatch{{op: "replace", path: "/reason", value: {string}}}',),
    "Thing": (
        'JSONPatch{{op: "add", path: "/spec/n", value: {int}}}', 'JSONPatch{{op: "add", path: "/spec/l", value: {list(string)}}}', 'JSONPatch{{op: "add", path: "/spec/a", value: {string}}}',
        'JSONPatch{{op: "add", path: "/spec/n", value: {double}}}', 'JSONPatch{{op: "remove", path: "/spec"}}', 'JSONPatch{{op: "add", path: "/spec/m", value: {map(string)}}}',
        'JSONPatch{{op: "add", path: "/spec/m", value: {{"d": {double}, "t": {time}, "s": {span}, "n": null}}}}',
    ),
    "Lease": ('JSONPatch{{op: "replace", path: "/spec/holderIdentity", value: {string}}}',),
    "ClusterRole": ('JSONPatch{{op: "add", path: "/rules", value: []}}',),
    "Namespace": ('JSONPatch{{op: "add", path: "/metadata/labels/kubernetes.io~1metadata.name", value: "x"}}',),
}  # fmt: skip


@dataclass(frozen=True)
class Policy:
    """A policy with its bindings; `params` is the kind of its parameters in the namespace of a request ("": none)."""

    policy: Obj
    bindings: list[Obj]
    params: str = ""


class PolicyGenerator(MatchGenerator):
    """Generates policies of one kind for a case, always the same for a seed."""

    def __init__(self, rng: random.Random, kinds: Sequence[AdmittedKind], case: str, *, mutating: bool) -> None:
        super().__init__(rng, kinds, case)
        self.mutating = mutating

    def policy(self, name: str) -> Policy:
        """Return a policy with its bindings. Few have a mistake."""
        rng, spec = self.rng, Obj()
        expressions = Expressions(rng, (*names_for(self.kinds), *AUTHORIZER_NAMES), ("object.metadata.labels",), 0.004)
        rules = self.rules(names=True, operations=("CREATE", "UPDATE", "CONNECT") if self.mutating else OPERATIONS)
        spec["matchConstraints"] = {"resourceRules": rules, **self.match_policy()}
        if self.chance(0.15):
            spec["matchConstraints"]["excludeResourceRules"] = [self.rule(True)]
        selectors, bound = self.selectors(rules), Obj()
        param_kind, namespaced = rng.choices(PARAM_KINDS, (6, 3, 2, 3, 1, 1))[0] if self.chance(0.35) else (None, False)
        # A policy with a kind of parameters that is not served refuses requests before its bindings are looked at.
        is_served = (param_kind, namespaced) in ((None, False), *PARAM_KINDS[:SERVED_PARAM_KINDS])
        (spec["matchConstraints"] if self.chance(0.8) or not is_served else bound).update(selectors)
        if param_kind is not None:
            spec["paramKind"] = param_kind
            expressions = self.with_names(expressions, PARAM_NAMES * 2)
        if self.chance(0.35):
            spec["matchConditions"] = self.conditions(expressions)
        expressions = self.with_names(expressions, NAMESPACE_NAMES)
        if self.chance(0.35):
            expressions = self.add_variables(spec, expressions)
        if self.chance(0.5):
            spec["failurePolicy"] = rng.choice(("Fail", "Ignore"))
        if self.mutating:
            spec["reinvocationPolicy"] = rng.choice(("Never", "IfNeeded"))
            spec["mutations"] = [self.mutation(expressions) for _ in range(rng.choice((1, 1, 2, 3)))]
        else:
            self.add_validations(spec, expressions)
        if self.chance(0.04):
            self.break_something(spec)
        policy = {"metadata": {"name": name}, "spec": spec}
        return self.bound(policy, bound, param_kind, namespaced)

    def with_names(self, expressions: Expressions, names: Sequence[tuple[str, str]]) -> Expressions:
        """Return expressions that may use more names."""
        return replace(expressions, names=(*expressions.names, *names))

    def add_variables(self, spec: Obj, expressions: Expressions) -> Expressions:
        """Add variables to a policy, and return the expressions that may use them."""
        spec["variables"] = []
        for i in range(self.rng.randint(1, 3)):
            kind = self.rng.choice(VARIABLE_TYPES)
            spec["variables"].append({"name": f"v{i}", "expression": expressions.of(kind, self.rng.randint(0, 2))})
            expressions = self.with_names(expressions, ((f"variables.v{i}", kind),) * 4)
        return expressions

    def add_validations(self, spec: Obj, expressions: Expressions) -> None:
        """Add validations and audit annotations to a policy."""
        rng = self.rng
        spec["validations"] = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            item: Obj = {"expression": expressions.of("bool", rng.randint(0, 3)) if self.chance(0.85) else "false"}
            if self.chance(0.3):
                item["message"] = rng.choice(("no good", " blank around ", "a: b"))
            if self.chance(0.4):
                item["messageExpression"] = rng.choice(("", "'x' + ")) + expressions.of("string", rng.randint(0, 2))
            if self.chance(0.3):
                item["reason"] = rng.choice(REASONS)
            spec["validations"].append(item)
        if self.chance(0.2) or not spec["validations"]:
            value = expressions.of("string", rng.randint(0, 2))
            spec["auditAnnotations"] = [{"key": "k", "valueExpression": value}]

    def mutation(self, expressions: Expressions) -> Obj:
        """Return a mutation for one of the kinds."""
        kind = self.rng.choice(self.kinds).name
        own = self.rng.choice(("", kind))
        if self.chance(0.5):
            text = expressions.filled(self.rng.choice(CONFIGURATIONS[own]), 2)
            return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
        templates = [self.rng.choice(PATCHES[own]) for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3)))]
        text = f"[{', '.join(expressions.filled(template, 2) for template in templates)}]"
        if self.chance(0.2):
            text = f"has(object.metadata.labels) ? {text} : []"
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}

    def bound(self, policy: Obj, matches: Obj, param_kind: Obj | None, namespaced: bool) -> Policy:
        """Return a policy with one or two bindings, of which at most one refuses requests."""
        rng, name = self.rng, policy["metadata"]["name"]
        spec: Obj = {"policyName": name}
        if matches or self.chance(0.3):
            rules = self.rules(names=True, operations=("CREATE", "UPDATE") if self.mutating else OPERATIONS)
            more = {"resourceRules": rules} if self.chance(0.4) else {}
            terms = (
                {"objectSelector": {"matchExpressions": [rng.choice(LABEL_TERMS_OF_BINDINGS)]}}
                if self.chance(0.4)
                else {}
            )
            spec["matchResources"] = {**self.match_policy(), **more, **terms, **matches}
        actions = (["Deny"], ["Deny"], ["Deny", "Audit"], ["Warn"], ["Audit"], ["Warn", "Audit"])
        if not self.mutating:
            spec["validationActions"] = rng.choice(actions)
        own = ""
        if param_kind is not None and self.chance(0.93):
            several = not self.mutating and "Deny" not in spec["validationActions"]
            spec["paramRef"], own = self.param_ref(param_kind, namespaced, several)
        bindings = [{"metadata": {"name": f"{name}-a"}, "spec": spec}]
        quiet = not self.mutating and "auditAnnotations" not in policy["spec"] and "paramKind" not in policy["spec"]
        if quiet and self.chance(0.2):
            other = {**spec, "validationActions": rng.choice((["Warn"], ["Audit"]))}
            bindings.append({"metadata": {"name": f"{name}-b"}, "spec": other})
        return Policy(policy, bindings, own)

    def param_ref(self, kind: Obj, namespaced: bool, several: bool) -> tuple[Obj, str]:
        """Return a reference to parameters, and their kind if they are in the namespace of the request.

        Requests change no parameters, since the servers learn of that at different times.
        """
        rng = self.rng
        ref: Obj = {"parameterNotFoundAction": rng.choice(("Deny", "Allow"))}
        if self.chance(0.6):
            ref["name"] = rng.choice(("p", "p", "q", "missing")) if namespaced else f"{self.case.rpartition('-')[0]}-p"
        else:
            values = ["1", "2"] if several and self.chance(0.6) else [rng.choice(("1", "2", "9"))]
            ref["selector"] = {"matchExpressions": [{"key": "p", "operator": "In", "values": values}]}
            if not namespaced:
                ref["selector"]["matchLabels"] = {"batch": self.case.rpartition("-")[0]}
        if not namespaced and self.chance(0.9):
            return ref, ""
        is_own = any(own.name == kind["kind"] for own in self.kinds)
        if is_own or self.chance(0.3):
            return {**ref, "namespace": f"{self.case.rpartition('-')[0]}-home"}, ""
        return ref, kind["kind"] if kind["kind"] in ("ConfigMap", "Thing") else ""

    def break_something(self, spec: Obj) -> None:
        """Make a policy invalid, or nearly so."""
        path, value = self.rng.choice(MISTAKES)
        *parents, last = path
        for name in parents:
            spec = spec.get(name) or {}
            spec = spec[0] if isinstance(spec, list) else spec
        if isinstance(spec, dict):
            spec[last] = value


LABEL_TERMS_OF_BINDINGS = (
    {"key": "b", "operator": "DoesNotExist"},
    {"key": "a", "operator": "In", "values": ["1", "2"]},
)
MISTAKES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("matchConstraints", "resourceRules"), []), (("matchConstraints",), None), (("failurePolicy",), "Odd"), (("paramKind",), {"kind": "X"}),
    (("paramKind",), {"apiVersion": "a/b/c", "kind": "x y"}), (("variables",), [{"name": "a b", "expression": "1"}]), (("variables",), [{"name": "v", "expression": ""}]),
    (("variables",), [{"name": "v", "expression": "1"}] * 2), (("validations",), []), (("mutations",), []), (("matchConditions",), [{"name": "", "expression": "true"}]),
    (("matchConditions",), [{"name": "a", "expression": "1"}]), (("matchConditions",), [{"name": "a", "expression": "variables.v0"}]), (("validations", "reason"), "Odd"),
    (("validations", "expression"), " "), (("validations", "message"), "a\nb"), (("validations", "messageExpression"), "1"), (("mutations", "patchType"), "Odd"),
    (("mutations", "jsonPatch"), {"expression": "1"}), (("mutations", "applyConfiguration"), {"expression": "Object{"}), (("reinvocationPolicy",), "Odd"),
    (("auditAnnotations",), [{"key": "a b", "valueExpression": "1"}]), (("matchConstraints", "matchPolicy"), "Odd"), (("matchConstraints", "resourceRules", "operations"), ["ODD"]),
)  # fmt: skip
