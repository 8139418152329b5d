"""The authorizer that asks the stored roles and bindings, and the index that makes its decisions quick.

Bindings are looked up by the users and groups that they name. The index is rebuilt after a write of a role or a
binding, when the next decision needs it; decisions are remembered until then.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from understudy.apiserver.authorization.rbac.rules import Rule
from understudy.machinery.auth.authorization import Attributes, Decision, StoredObjects, SubjectRules
from understudy.machinery.auth.users import User, account_name
from understudy.machinery.errors import group_resource_text
from understudy.machinery.golang.text import aggregate, go_quote
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.caches import Results, are_short

GROUP = "rbac.authorization.k8s.io"
RESOURCES = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
DECISIONS = 10_000  # that are remembered

Subject = tuple[str, str]  # ("User" or "Group", name)


class Grant(NamedTuple):
    """The rules that a binding gives to one of its subjects.

    order    the place of the binding among all, and of the subject in it
    source   describes the binding and the subject, for the reason of a decision
    rules    of the role; None for a role that does not exist
    role     kind and name of the role
    """

    order: tuple[int, int]
    source: str
    rules: tuple[Rule, ...] | None
    role: tuple[str, str]

    @property
    def error(self) -> str:
        """Return the error for a role that does not exist."""
        return f"{group_resource_text(GROUP, self.role[0].lower())} {go_quote(self.role[1])} not found"


class RBACAuthorizer:
    """Allows the actions in roles that are bound to the user, in the namespace or everywhere."""

    def __init__(self, objects: StoredObjects) -> None:
        self._objects = objects
        self._index: _Index | None = None
        self._decisions: Results[tuple[object, ...], Decision] = Results()
        for resource in RESOURCES:
            objects.on_change(GROUP, resource, self._forget)

    def _forget(self) -> None:
        self._index = None
        self._decisions.clear()

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Return whether a rule allows it. The reason names the binding, or the roles that are missing."""
        of = attributes
        question = (of.group, of.resource, of.subresource, of.namespace, of.name) if of.is_resource else (of.path,)
        key = (user.name, tuple(user.groups), of.verb, question)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(user, attributes)
            if are_short((user.name, of.verb, *user.groups, *question)):
                if len(self._decisions) >= DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = decision
        return decision

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        errors: dict[str, None] = {}
        for grant in self.grants(user, attributes.namespace):
            if grant.rules is None:
                errors[grant.error] = None
            elif any(rule.allows(attributes) for rule in grant.rules):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        return Decision(False, f"RBAC: {aggregate(errors)}" if errors else "")

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        """Return the rules of every role that is bound to the user in a namespace."""
        grants = self.grants(user, namespace)
        rules = [rule.value for grant in grants for rule in grant.rules or ()]
        errors = list(dict.fromkeys(grant.error for grant in grants if grant.rules is None))
        return SubjectRules(
            [_picked(rule, _RESOURCE_RULE) for rule in rules if rule.get("resources")],
            [_picked(rule, _NON_RESOURCE_RULE) for rule in rules if rule.get("nonResourceURLs")],
            incomplete=False,
            evaluation_error=aggregate(errors) if errors else "",
        )

    def grants(self, user: User, namespace: str) -> list[Grant]:
        """Return the grants of cluster role bindings, then those of a namespace ("" for none), in the order of
        names."""
        return self._current().grants(user, namespace)

    def role(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """Return the rules of a Role or ClusterRole, None if it does not exist."""
        return self._current().role(kind, namespace, name)

    def _current(self) -> _Index:
        if self._index is None:
            self._index = _Index(self._objects)
        return self._index


_RESOURCE_RULE = ("verbs", "apiGroups", "resources", "resourceNames")
_NON_RESOURCE_RULE = ("verbs", "nonResourceURLs")


def _picked(rule: Obj, names: Iterable[str]) -> Obj:
    return {name: rule[name] for name in names if rule.get(name)}


class _Index:
    """Roles and bindings at one moment: grants by namespace ("" for everywhere) and subject."""

    def __init__(self, objects: StoredObjects) -> None:
        self._roles = {
            (resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj
            for resource in ("clusterroles", "roles")
            for obj in objects.stored(GROUP, resource)
        }
        self._rules: dict[tuple[str, str, str], tuple[Rule, ...]] = {}
        self._grants: dict[str, dict[Subject, list[Grant]]] = {}
        for resource in ("clusterrolebindings", "rolebindings"):
            for number, binding in enumerate(objects.stored(GROUP, resource)):
                by_subject = self._grants.setdefault(binding["metadata"].get("namespace", ""), {})
                for subject, grant in self._granted(number, binding):
                    by_subject.setdefault(subject, []).append(grant)

    def role(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """Return the rules of a role, None if it does not exist."""
        key = ("roles", namespace, name) if kind == "Role" else ("clusterroles", "", name)
        if key not in self._rules:
            if key not in self._roles:
                return None
            self._rules[key] = tuple(map(Rule, self._roles[key].get("rules") or ()))
        return self._rules[key]

    def _granted(self, number: int, binding: Obj) -> Iterator[tuple[Subject, Grant]]:
        """Yield the subjects of a binding with what it grants them."""
        namespace, name = binding["metadata"].get("namespace", ""), binding["metadata"]["name"]
        role = (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        rules = self.role(role[0], namespace, role[1])
        what = f"RoleBinding {go_quote(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {go_quote(name)}"
        for place, subject in enumerate(binding.get("subjects") or ()):
            who, shown = (subject["kind"], subject["name"]), subject["name"]
            if subject["kind"] == "ServiceAccount":
                home = subject.get("namespace") or namespace
                who, shown = ("User", account_name(home, subject["name"])), f"{subject['name']}/{home}"
            source = f"{what} of {role[0]} {go_quote(role[1])} to {subject['kind']} {go_quote(shown)}"
            yield who, Grant((number, place), source, rules, role)

    def grants(self, user: User, namespace: str) -> list[Grant]:
        """Return the grants of cluster role bindings, then those of a namespace. A binding grants once."""
        subjects = [("User", user.name), *(("Group", group) for group in dict.fromkeys(user.groups))]
        grants: list[Grant] = []
        for place in ("", namespace) if namespace else ("",):
            by_subject = self._grants.get(place, {})
            every = (grant for subject in subjects for grant in by_subject.get(subject, ()))
            first: dict[int, Grant] = {}
            for grant in sorted(every, key=_order):
                first.setdefault(grant.order[0], grant)
            grants += first.values()
        return grants


def _order(grant: Grant) -> tuple[int, int]:
    return grant.order
