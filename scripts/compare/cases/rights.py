"""Random roles, bindings, users and questions, for `compare authorization`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
GROUPS = ("", "apps", "resource.k8s.io", "example.com")
RESOURCES = {
    "": ("pods", "pods/log", "pods/status", "configmaps", "secrets", "nodes", "serviceaccounts/token"),
    "apps": ("deployments", "deployments/scale", "daemonsets"),
    "resource.k8s.io": ("resourceclaims", "resourceclaims/status", "resourceslices"),
    "example.com": ("widgets", "widgets/status"),
}
NAMES = ("one", "two", "three")
PATHS = ("/metrics", "/healthz", "/healthz/etcd", "/livez", "/api", "/apis/apps", "/logs/x", "/")
RULE_PATHS = ("/metrics", "/healthz*", "/healthz/*", "/api*", "*", "/logs/*")


@dataclass(frozen=True)
class Person:
    """Somebody who asks."""

    name: str
    group: str = ""

    @property
    def headers(self) -> Obj:
        """Return the headers with which an administrator asks as this person."""
        return {"Impersonate-User": self.name, **({"Impersonate-Group": self.group} if self.group else {})}


@dataclass
class World:
    """Namespaces, and what is to be stored in them, as (path, object); names begin with `run`, which is unique."""

    run: str
    rng: random.Random
    namespaces: tuple[str, ...] = ()
    people: tuple[Person, ...] = ()
    groups: tuple[str, ...] = ()
    roles: list[tuple[str, Obj]] = field(default_factory=list)
    bindings: list[tuple[str, Obj]] = field(default_factory=list)
    _places: list[tuple[str, str]] = field(default_factory=list)  # of roles: kind with namespace, name

    def __post_init__(self) -> None:
        self.namespaces = tuple(f"{self.run}-{letter}" for letter in "ab")
        self.groups = (f"{self.run}:dev", f"{self.run}:ops")
        accounts = [f"system:serviceaccount:{namespace}:robot" for namespace in self.namespaces]
        self.people = (
            *(Person(f"{self.run}-{name}", self.rng.choice(("", *self.groups))) for name in NAMES),
            *map(Person, accounts),
        )
        self._let_all_write_roles()
        for number in range(self.rng.randint(4, 10)):
            self._add_role(f"{self.run}-r{number}")
        for number in range(self.rng.randint(6, 20)):
            self._add_binding(f"{self.run}-b{number}")

    def _let_all_write_roles(self) -> None:
        """Let everybody create roles and bindings, of which the check against escalation refuses some."""
        name = {"name": f"{self.run}-writers"}
        rule = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create"]}
        subjects = [{"apiGroup": GROUP, "kind": "User", "name": person.name} for person in self.people]
        reference = {"apiGroup": GROUP, "kind": "ClusterRole", **name}
        self.roles.append((f"{RBAC}/clusterroles", {"metadata": name, "rules": [rule]}))
        self.bindings.append(
            (f"{RBAC}/clusterrolebindings", {"metadata": name, "roleRef": reference, "subjects": subjects})
        )

    def _add_role(self, name: str) -> None:
        namespace = self.rng.choice(("", *self.namespaces))
        role = {"metadata": {"name": name}, "rules": [self.rule(namespace) for _ in range(self.rng.randint(0, 4))]}
        self._places.append((namespace, name))
        self.roles.append((self.path(namespace, "roles", "clusterroles"), role))

    def _add_binding(self, name: str) -> None:
        self.bindings.append(self._binding(name, self.rng.choice(("", *self.namespaces))))

    def _binding(self, name: str, namespace: str) -> tuple[str, Obj]:
        """Return path and body of the binding of a role to some subjects; now and then one that does not exist."""
        fitting = [place for place in self._places if place[0] in ("", namespace)]
        home, role = self.rng.choice([*fitting, (namespace, f"{self.run}-absent")])
        reference = {"apiGroup": GROUP, "kind": "Role" if home else "ClusterRole", "name": role}
        subjects = [self._subject() for _ in range(self.rng.randint(0, 4))]
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
        return self.path(namespace, "rolebindings", "clusterrolebindings"), binding

    def _subject(self) -> Obj:
        person = self.rng.choice(self.people)
        if person.name.startswith("system:serviceaccount:"):
            _, _, namespace, name = person.name.split(":")
            return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        kind, name = ("User", person.name) if self.rng.random() < 0.6 else ("Group", self.rng.choice(self.groups))
        return {"apiGroup": GROUP, "kind": kind, "name": name}

    def path(self, namespace: str, in_namespace: str, everywhere: str) -> str:
        """Return the path of one of two resources."""
        return f"{RBAC}/namespaces/{namespace}/{in_namespace}" if namespace else f"{RBAC}/{everywhere}"

    def rule(self, namespace: str = "") -> Obj:
        """Return a random rule; one of a ClusterRole may be about paths."""
        rng = self.rng
        verbs = ["*"] if rng.random() < 0.2 else rng.sample(VERBS, rng.randint(1, 6))
        if not namespace and rng.random() < 0.2:
            return {"nonResourceURLs": rng.sample(RULE_PATHS, rng.randint(1, 2)), "verbs": verbs}
        groups = ["*"] if rng.random() < 0.1 else rng.sample(GROUPS, rng.randint(1, 2))
        known = [resource for group in groups for resource in RESOURCES.get(group, ("pods",))]
        resources = rng.sample([*known, "*", "*/status", "*/scale"], rng.randint(1, 3))
        named = {"resourceNames": rng.sample(NAMES, rng.randint(1, 2))} if rng.random() < 0.25 else {}
        return {"apiGroups": groups, "resources": resources, "verbs": verbs, **named}

    def question(self) -> Obj:
        """Return the spec of a SubjectAccessReview."""
        rng, person = self.rng, self.rng.choice(self.people)
        who: Obj = {"user": person.name, "groups": rng.sample(self.groups, rng.randint(0, 2))}
        if rng.random() < 0.15:
            return {**who, "nonResourceAttributes": {"path": rng.choice(PATHS), "verb": rng.choice(("get", "post"))}}
        group = rng.choice(GROUPS)
        resource, _, subresource = rng.choice((*RESOURCES[group], "*")).partition("/")
        asked = {
            "verb": rng.choice((*VERBS, "*")),
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "name": rng.choice(("", "", *NAMES)),
            "namespace": rng.choice(("", *self.namespaces)),
        }
        return {**who, "resourceAttributes": {name: value for name, value in asked.items() if value}}

    def requests(self) -> Iterator[tuple[str, str, Obj | None]]:
        """Yield method, path and body of random requests, none of which changes anything."""
        rng = self.rng
        while True:
            group = rng.choice(("", "apps", "resource.k8s.io"))
            root = f"/apis/{group}/v1" if group else "/api/v1"
            resource, _, part = rng.choice(RESOURCES[group]).partition("/")
            is_cluster = resource in ("nodes", "resourceslices")
            place = "" if is_cluster or rng.random() < 0.2 else f"/namespaces/{rng.choice(self.namespaces)}"
            name = rng.choice(("", *NAMES))
            path = f"{root}{place}/{resource}" + (f"/{name}" if name else "") + (f"/{part}" if part and name else "")
            method = rng.choice(("GET", "GET", "POST", "PUT", "DELETE"))
            if method == "GET":
                yield method, path, None
            else:
                yield method, f"{path}?dryRun=All", {"metadata": {"name": name or "one"}}

    def escalation(self) -> tuple[str, Obj]:
        """Return path and body of a role or a binding that may grant more than whoever writes it holds."""
        namespace = self.rng.choice(("", *self.namespaces))
        if self.rng.random() < 0.5:
            return self._binding(f"{self.run}-new", namespace)
        role = {"metadata": {"name": f"{self.run}-new"}, "rules": [self.rule(namespace) for _ in range(2)]}
        return self.path(namespace, "roles", "clusterroles"), role


def in_any_order(rules: Sequence[Obj]) -> list[str]:
    """Return rules as texts, sorted: their order is not fixed."""
    return sorted(json.dumps(rule, sort_keys=True) for rule in rules)
