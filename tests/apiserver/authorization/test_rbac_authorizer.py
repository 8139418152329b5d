"""The authorizer of RBAC and its escalation check, asked directly: decisions, reasons, rules of a user, refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from understudy.apiserver.authorization.rbac import authorizer as rbac
from understudy.apiserver.authorization.rbac.authorizer import GROUP, RBACAuthorizer
from understudy.apiserver.authorization.rbac.bootstrap_policy import node_rules, with_gates
from understudy.apiserver.authorization.rbac.escalation import EscalationCheck
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_36
from understudy.machinery.types import Obj

PODS: Obj = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
SECRETS: Obj = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
HEALTH: Obj = {"nonResourceURLs": ["/healthz"], "verbs": ["get"]}


class Objects:
    """Roles and bindings, which count how often they are read."""

    def __init__(self, *objects: Obj) -> None:
        self.objects = list(objects)
        self.reads = 0
        self.changed: list[Callable[[], None]] = []

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        self.reads += 1
        return [obj for obj in self.objects if f"{obj['kind'].lower()}s" == resource]

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        self.changed.append(call)


def role(name: str, *rules: Obj, namespace: str = "", **fields: Obj) -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules), **fields}


def bound(name: str, to: str, *subjects: Obj, namespace: str = "", kind: str = "ClusterRole") -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    head = {"kind": "RoleBinding" if namespace else "ClusterRoleBinding", "metadata": metadata}
    return {**head, "roleRef": {"kind": kind, "name": to}, "subjects": list(subjects)}


def user(name: str, *groups: str) -> User:
    return User(name, groups=list(groups))


ANN: Obj = {"kind": "User", "name": "ann"}
DEV: Obj = {"kind": "Group", "name": "dev"}
ROBOT: Obj = {"kind": "ServiceAccount", "name": "robot"}
GUEST: Obj = {"kind": "ServiceAccount", "name": "robot", "namespace": "other"}
WORLD = (
    role("pods", PODS),
    role("health", HEALTH),
    role("secrets", SECRETS, namespace="ns"),
    bound("a", "pods", ANN, DEV),
    bound("b", "secrets", DEV, ROBOT, GUEST, namespace="ns", kind="Role"),
    bound("c", "health", DEV),
    bound("d", "absent", {"kind": "User", "name": "bob"}, namespace="ns", kind="Role"),
)


def of(resource: str, namespace: str = "", verb: str = "get", name: str = "") -> Attributes:
    return Attributes("", verb, True, "", "v1", namespace, resource, name=name)


@pytest.mark.parametrize(
    ("who", "request_", "reason"),
    [
        (user("ann"), of("pods"), 'ClusterRoleBinding "a" of ClusterRole "pods" to User "ann"'),
        (user("eve", "dev"), of("pods", "ns"), 'ClusterRoleBinding "a" of ClusterRole "pods" to Group "dev"'),
        (user("eve", "dev"), of("secrets", "ns"), 'RoleBinding "b/ns" of Role "secrets" to Group "dev"'),
        (user("eve", "dev"), of("secrets"), None),
        (user("eve", "dev"), of("secrets", "other"), None),
        (
            user("eve", "dev"),
            Attributes("/healthz", "get"),
            'ClusterRoleBinding "c" of ClusterRole "health" to Group "dev"',
        ),
        (
            user("system:serviceaccount:ns:robot"),
            of("secrets", "ns"),
            'RoleBinding "b/ns" of Role "secrets" to ServiceAccount "robot/ns"',
        ),
        (
            user("system:serviceaccount:other:robot"),
            of("secrets", "ns"),
            'RoleBinding "b/ns" of Role "secrets" to ServiceAccount "robot/other"',
        ),
        (user("ann"), Attributes("/healthz", "get"), None),
    ],
)
def test_decision_names_the_binding(who: User, request_: Attributes, reason: str | None) -> None:
    """A request is allowed by the first binding of the user, everywhere or in the namespace, which the reason names."""
    decision = RBACAuthorizer(Objects(*WORLD)).authorize(who, request_)
    assert (decision.allowed, decision.reason) == (reason is not None, f"RBAC: allowed by {reason}" if reason else "")


def test_missing_role_is_the_reason() -> None:
    """A binding to a role that does not exist is the reason of a refusal, in its namespace."""
    authorizer = RBACAuthorizer(Objects(*WORLD))
    text = 'RBAC: role.rbac.authorization.k8s.io "absent" not found'
    assert authorizer.authorize(user("bob"), of("pods", "ns")).reason == text
    assert authorizer.authorize(user("bob"), of("pods")).reason == ""


def test_decisions_are_remembered_until_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is made once for a user, groups and request; long ones and too many are not kept, a write ends all."""
    objects = Objects(*WORLD)
    authorizer = RBACAuthorizer(objects)
    first = authorizer.authorize(user("ann"), of("pods"))
    assert authorizer.authorize(user("ann"), of("pods")) is first
    assert not authorizer.authorize(user("ann"), of("secrets")).allowed
    reads = objects.reads
    assert authorizer.authorize(user("ann"), of("pods", name="x" * 1000)) is not authorizer.authorize(
        user("ann"), of("pods", name="x" * 1000)
    )
    assert objects.reads == reads
    monkeypatch.setattr(rbac, "DECISIONS", 3)
    assert authorizer.authorize(user("ann"), of("services")) is authorizer.authorize(user("ann"), of("services"))
    assert authorizer.authorize(user("ann"), of("pods")) is first
    authorizer.authorize(user("ann"), of("nodes"))
    assert authorizer.authorize(user("ann"), of("pods")) is not first
    for changed in objects.changed:
        changed()
    objects.objects.clear()
    assert not authorizer.authorize(user("ann"), of("pods")).allowed


def test_rules_of_a_user() -> None:
    """The rules of a user are those of all bindings, apart for resources and URLs, with an error for missing roles."""
    authorizer = RBACAuthorizer(Objects(*WORLD))
    everywhere, here = (authorizer.rules_for(user("eve", "dev", "dev"), namespace) for namespace in ("", "ns"))
    assert (everywhere.resource_rules, everywhere.non_resource_rules) == ([PODS], [HEALTH])
    assert (here.resource_rules, here.non_resource_rules) == ([PODS, SECRETS], [HEALTH])
    assert here.evaluation_error == ""
    missing = authorizer.rules_for(user("bob"), "ns")
    assert (missing.resource_rules, missing.non_resource_rules) == ([], [])
    assert missing.evaluation_error == 'role.rbac.authorization.k8s.io "absent" not found'


def test_binding_with_two_subjects_of_a_user_grants_once() -> None:
    """A binding that names a user and one of its groups grants its rules once."""
    authorizer = RBACAuthorizer(Objects(*WORLD))
    assert len(authorizer.grants(user("ann", "dev"), "")) == 2


def test_policy_of_the_gates() -> None:
    """Objects and rules of the recorded policy are left out unless every gate is as they need it."""
    on, off = {"rule": 1, "gates": {"A": True}}, {"rule": 2, "gates": {"A": False, "B": True}}
    policy: list[Obj] = [
        {"name": "x", "rules": [on, off, {"rule": 3}]},
        {"name": "y", "gates": {"B": False}},
        {"name": "z", "gates": {"A": True}, "rules": []},
    ]
    for gates, expected in (
        ({"A": True, "B": True}, [{"name": "x", "rules": [{"rule": 1}, {"rule": 3}]}, {"name": "z", "rules": []}]),
        ({"A": False, "B": True}, [{"name": "x", "rules": [{"rule": 2}, {"rule": 3}]}]),
        ({"A": False, "B": False}, [{"name": "x", "rules": [{"rule": 3}]}, {"name": "y"}]),
    ):
        assert list(with_gates(policy, gates)) == expected
    rules = node_rules(V1_36, Gates.of(V1_36, {}))
    assert any(rule.value.get("resources") == ["nodes"] for rule in rules)


# --- escalation

BINDER = role("binder", {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"]})
AGGREGATED: Obj = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


def check(request: Attributes, obj: Obj, old: Obj | None = None, who: User | None = None) -> str:
    """Return the message with which a write of a user, of ann by default, is refused, "" if it is not."""
    authorizer = RBACAuthorizer(Objects(*WORLD, BINDER, bound("e", "binder", {"kind": "User", "name": "carl"})))
    try:
        EscalationCheck(authorizer, authorizer, V1_32).check(who or user("ann"), request, obj, old)
    except StatusError as why:
        return why.message
    return ""


def writing(resource: str, namespace: str = "") -> Attributes:
    return Attributes("", "update", True, GROUP, "v1", namespace, resource, name="x")


NOT_HELD = (
    'user "ann" (groups=[]) is attempting to grant RBAC permissions not currently held:\n'
    '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
)


def test_rules_that_are_not_held_are_refused() -> None:
    """A role and a binding are refused that give more than their writer holds; the text lists the rules."""
    refused = f'clusterroles.{GROUP} "x" is forbidden: {NOT_HELD}'
    assert check(writing("clusterroles"), role("x", PODS, SECRETS)) == refused
    assert check(writing("clusterroles"), role("x", PODS)) == ""
    binding = bound("x", "secrets", namespace="ns", kind="Role")
    assert check(writing("rolebindings", "ns"), binding) == f'rolebindings.{GROUP} "x" is forbidden: {NOT_HELD}'
    assert check(writing("rolebindings", "ns"), bound("x", "pods", namespace="ns")) == ""
    assert check(writing("clusterroles"), role("x", SECRETS), who=user("root", "system:masters")) == ""


def test_missing_roles_of_the_writer_are_resolution_errors() -> None:
    """The text about missing rules names the roles that the writer is bound to and that do not exist."""
    message = check(writing("roles", "ns"), role("x", SECRETS, namespace="ns"), who=user("bob"))
    assert message.endswith(f'resolution errors: [roles.{GROUP} "absent" not found]')


def test_verb_bind_allows_any_rules() -> None:
    """A user with the verb bind may bind a role without its rules; others have to name a role of a known kind."""
    binding = bound("x", "health", namespace="ns")
    assert check(writing("rolebindings", "ns"), binding, who=user("carl")) == ""
    assert check(writing("rolebindings", "ns"), binding).startswith(f'rolebindings.{GROUP} "x" is forbidden')
    unknown = check(writing("rolebindings", "ns"), bound("x", "y", namespace="ns", kind="Thing"))
    assert unknown == 'unsupported role reference kind: "Thing"'
    assert check(writing("rolebindings", "ns"), bound("x", "", namespace="ns")) == "Name parameter required."


def test_aggregation_needs_full_authority() -> None:
    """A role that aggregates, or did before the update, is written by holders of all rules only."""
    text = f'clusterroles.{GROUP} "x" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    plain, aggregating = role("x", PODS), role("x", aggregationRule=AGGREGATED)
    assert check(writing("clusterroles"), aggregating) == text
    assert check(writing("clusterroles"), plain, aggregating) == text
    assert check(writing("clusterroles"), plain, role("x")) == ""
