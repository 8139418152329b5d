# ruff: noqa: E501 - the tables of expressions read best with many in few lines
"""Random rules, selectors and match conditions, as policies, their bindings and webhooks have them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from scripts.common.comparing import Obj
from scripts.compare.cases.admission import AdmittedKind
from scripts.compare.cases.rules import Expressions, Names

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
LABEL_TERMS: tuple[Obj, ...] = (
    {"key": "a", "operator": "In", "values": ["1", "2"]},
    {"key": "a", "operator": "NotIn", "values": ["2"]},
    {"key": "b", "operator": "Exists"},
    {"key": "b", "operator": "DoesNotExist"},
)
NAMESPACE_TERMS: tuple[Obj, ...] = (
    {"key": "team", "operator": "In", "values": ["a", "b"]},
    {"key": "team", "operator": "NotIn", "values": ["b"]},
    {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
    {"key": "other", "operator": "Exists"},
)
# Expressions that see every request, with their types; those of kinds follow.
NAMES: Names = (
    ("object.metadata.name", "string"), ("object.metadata.namespace", "string"), ("object.kind", "string"),
    ("object.apiVersion", "string"), ("oldObject.metadata.name", "string"), ("object.metadata.labels", "map(string)"),
    ("object.metadata.labels.a", "string"), ("object.metadata.?labels.?a.orValue('none')", "string"),
    ("oldObject.?metadata.?labels.?a.orValue('none')", "string"), ("object.metadata.annotations", "map(string)"),
    ("object.metadata.?finalizers.orValue([])", "list(string)"), ("string(object.metadata.?generation.orValue(0))", "string"),
    ("string(has(object.metadata.resourceVersion))", "string"), ("string(has(object.metadata.managedFields))", "string"),
    ("string(has(object.metadata.uid))", "string"), ("string(has(oldObject.metadata.deletionTimestamp))", "string"),
    ("string(size(object))", "string"), ("dyn(object).kind", "string"), ("object.metadata.size()", "int"),
    ("request.name", "string"), ("request.namespace", "string"), ("request.operation", "string"),
    ("request.subResource", "string"), ("request.resource.resource", "string"), ("request.resource.version", "string"),
    ("request.requestResource.version", "string"), ("request.requestSubResource", "string"), ("request.kind.kind", "string"),
    ("request.kind.group", "string"), ("request.requestKind.version", "string"), ("request.requestKind.kind", "string"),
    ("request.userInfo.username", "string"), ("request.userInfo.groups", "list(string)"), ("request.dryRun", "bool"),
    ("has(request.subResource)", "bool"), ("has(request.name)", "bool"), ("has(request.dryRun)", "bool"),
    ("has(request.options)", "bool"), ("request.options.kind", "string"), ("request.options.apiVersion", "string"),
    ("request.options.?fieldManager.orValue('nobody')", "string"), ("has(request.userInfo.extra)", "bool"),
    ("string(request.options)", "string"), ("request.userInfo.extra['scopes']", "list(string)"),
    ("(object == null)", "bool"), ("(oldObject == null)", "bool"), ("(object == oldObject)", "bool"),
    ("(object != null && oldObject != null)", "bool"), ("has(object.metadata.labels)", "bool"), ("has(object.spec)", "bool"),
    ("(has(object.metadata.labels) && 'a' in object.metadata.labels)", "bool"), ("has(object.metadata.deletionTimestamp)", "bool"),
    ("request.object.metadata.name", "string"), ("object.nothing", "string"), ("object.metadata.nothing", "string"),
)  # fmt: skip
NAMESPACE_NAMES: Names = (
    ("namespaceObject.metadata.name", "string"), ("namespaceObject.metadata.labels.team", "string"),
    ("namespaceObject.metadata.labels", "map(string)"), ("namespaceObject.status.phase", "string"),
    ("(namespaceObject == null)", "bool"), ("has(namespaceObject.spec)", "bool"), ("namespaceObject.spec.finalizers", "list(string)"),
    ("namespaceObject.metadata.nothing", "string"), ("has(namespaceObject.metadata.annotations)", "bool"),
)  # fmt: skip
_CHECK = "authorizer.group('{}').resource('{}').check('{}').allowed()"
AUTHORIZER_NAMES: Names = (
    *((_CHECK.format(*parts), "bool") for parts in (("", "configmaps", "create"), ("apps", "deployments", "get"), ("", "x", "*"))),
    ("authorizer.requestResource.check('get').allowed()", "bool"), ("authorizer.requestResource.check('delete').errored()", "bool"),
    ("authorizer.requestResource.check('update').reason()", "string"), ("authorizer.path('/metrics').check('get').allowed()", "bool"),
    ("authorizer.path('/healthz').check('get').allowed()", "bool"), ("authorizer.requestResource.check('list').error()", "string"),
    ("authorizer.serviceAccount('default', 'robot').group('').resource('pods').check('list').allowed()", "bool"),
    ("authorizer.group('').resource('nodes').name('a').subresource('status').check('update').allowed()", "bool"),
    ("authorizer.group('').resource('pods').namespace('default').labelSelector('a=1').check('list').allowed()", "bool"),
    ("authorizer.group('').resource('pods').fieldSelector('a').check('list').errored()", "bool"),
)  # fmt: skip
KIND_NAMES: dict[str, Names] = {
    "ConfigMap": (
        ("object.data.a", "string"), ("oldObject.data.a", "string"), ("object.data", "map(string)"), ("has(object.data.b)", "bool"),
        ("object.?data[?'b'].orValue('-')", "string"), ("has(object.immutable)", "bool"), ("object.immutable", "bool"),
    ),
    "Secret": (("object.data.a", "string"), ("has(object.stringData)", "bool"), ("object.type", "string"), ("object.data", "map(string)")),
    "Pod": (
        ("object.spec.containers.map(c, c.name)", "list(string)"), ("object.spec.containers[0].image", "string"),
        ("object.spec.restartPolicy", "string"), ("object.spec.activeDeadlineSeconds", "int"), ("object.status.phase", "string"),
        ("has(object.spec.nodeName)", "bool"), ("object.spec.terminationGracePeriodSeconds", "int"), ("object.command", "list(string)"),
        ("object.container", "string"), ("object.target.name", "string"), ("object.spec.?tolerations.orValue([]).size()", "int"),
    ),
    "Service": (("object.spec.ports.map(p, p.port)", "list(int)"), ("object.spec.clusterIP", "string"), ("object.spec.ports[0].targetPort", "dyn")),
    "ServiceAccount": (("object.automountServiceAccountToken", "bool"), ("object.spec.audiences", "list(string)")),
    "Deployment": (
        ("object.spec.replicas", "int"), ("oldObject.spec.replicas", "int"), ("object.status.replicas", "int"), ("has(object.spec.paused)", "bool"),
        ("object.spec.template.metadata.labels", "map(string)"), ("object.spec.template.spec.containers[0].name", "string"),
        ("object.spec.strategy.rollingUpdate.maxSurge", "dyn"), ("object.status.selector", "string"),
    ),
    "HorizontalPodAutoscaler": (
        ("object.spec.minReplicas", "int"), ("object.spec.maxReplicas", "int"), ("object.spec.metrics[0].resource.target.averageUtilization", "int"),
        ("object.spec.targetCPUUtilizationPercentage", "int"), ("object.spec.scaleTargetRef.name", "string"),
    ),
    "Event": (("object.reason", "string"), ("object.message", "string"), ("object.note", "string"), ("object.regarding.namespace", "string")),
    "Thing": (
        ("object.spec.a", "string"), ("object.spec.n", "int"), ("object.spec.l", "list(string)"), ("oldObject.spec.n", "int"),
        ("object.spec.m.k.z", "double"), ("object.status.n", "int"), ("object.spec.replicas", "int"), ("object.spec.?m.?k.hasValue()", "bool"),
        ("object.status.?selector.orValue('')", "string"),
    ),
    "Lease": (("object.spec.holderIdentity", "string"), ("object.spec.leaseDurationSeconds", "int")),
    "ClusterRole": (("object.rules.map(r, r.verbs[0])", "list(string)"), ("object.rules.size()", "int")),
    "Namespace": (("object.spec.finalizers", "list(string)"), ("object.status.phase", "string")),
}  # fmt: skip


def names_for(kinds: Sequence[AdmittedKind]) -> Names:
    """Return the expressions that see requests about some kinds, with their types."""
    own = tuple(name for kind in kinds for name in KIND_NAMES[kind.name])
    return (*NAMES, *own * 3)


class MatchGenerator:
    """Generates what policies and webhooks of a case are about: mostly requests about some kinds."""

    def __init__(self, rng: random.Random, kinds: Sequence[AdmittedKind], case: str) -> None:
        self.rng = rng
        self.kinds = kinds
        self.case = case

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.rng.random() < probability

    def rules(self, *, names: bool = False, operations: Sequence[str] = OPERATIONS) -> list[Obj]:
        """Return rules; with `names` those of policies, which may name objects."""
        return [self.rule(names, operations) for _ in range(self.rng.choice((1, 1, 1, 2)))]

    def rule(self, names: bool, operations: Sequence[str] = OPERATIONS) -> Obj:
        """Return a rule that includes many of the requests about a kind."""
        rng, kind = self.rng, self.rng.choice(self.kinds)
        group, _, version = rng.choice(kind.versions)[0].rpartition("/")
        resource = kind.resource
        parts = [f"{resource}/{part.name}" for part in kind.subresources] or [f"{resource}/status"]
        resources: tuple[list[str], ...] = (
            [resource], [resource], [resource, rng.choice(parts)], [resource, f"{resource}/*"], [f"{resource}/*"], ["*"], ["*/*"],
            [rng.choice(parts)], ["*/scale", resource], ["*/status"],
        )  # fmt: skip
        rule: Obj = {
            "apiGroups": rng.choice(([group], [group], ["*"], [group, "x"], ["x"])) if self.chance(0.3) else [group],
            "apiVersions": rng.choice(([version], ["*"], ["v1", "v2"], ["v9"])) if self.chance(0.3) else [version],
            "resources": rng.choice(resources),
            "operations": ["*"] if self.chance(0.3) and len(operations) == 4 else self.some(operations),
        }
        if self.chance(0.25):
            rule["scope"] = rng.choice(("*", "Namespaced", "Cluster"))
        if names and self.chance(0.15):
            rule["resourceNames"] = rng.choice((["a"], ["a", "b"], ["b"], ["no such"]))
        return rule

    def some(self, values: Sequence[str]) -> list[str]:
        """Return one or more of some values."""
        return self.rng.sample(list(values), self.rng.randint(1, len(values)))

    def selectors(self, rules: Sequence[Obj]) -> Obj:
        """Return the selectors of namespaces and objects, which keep requests of other cases out."""
        rng = self.rng
        namespaces: Obj = {"matchLabels": {"in-case": self.case}}
        if self.chance(0.15):
            namespaces["matchExpressions"] = [rng.choice(NAMESPACE_TERMS)]
        objects: Obj = {}
        stars = any("*" in text.partition("/")[0] for rule in rules for text in rule["resources"])
        if stars or not all(kind.namespaced for kind in self.kinds) or self.chance(0.15):
            objects["matchLabels"] = {"case": self.case}
        if self.chance(0.12):
            objects["matchExpressions"] = [rng.choice(LABEL_TERMS)]
        return {"namespaceSelector": namespaces, **({"objectSelector": objects} if objects else {})}

    def match_policy(self) -> Obj:
        """Return a match policy, or none."""
        return {"matchPolicy": self.rng.choice(("Exact", "Equivalent"))} if self.chance(0.5) else {}

    def conditions(self, expressions: Expressions) -> list[Obj]:
        """Return match conditions: few, most of which are true or fail seldom."""
        made: list[Obj] = []
        for i in range(self.rng.choice((1, 1, 2, 3))):
            text = expressions.of("bool", self.rng.randint(0, 2))
            made.append({"name": f"c{i}", "expression": text if self.chance(0.6) else f"true || {text}"})
        return made
