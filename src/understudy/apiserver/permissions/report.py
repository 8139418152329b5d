"""The permission report: what each user asked for, what it was refused, and the smallest roles for what it used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from understudy.apiserver.permissions.judge import Judge
from understudy.apiserver.permissions.log import Note, PermissionLog, UserNotes
from understudy.apiserver.permissions.roles import (
    binding,
    namespace_of,
    resource_of,
    role,
    role_name,
    rule_key,
    smallest_rules,
)
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.types import Obj

YAML = (".yaml", ".yml")


@dataclass(frozen=True, order=True)
class Permission:
    """An action that a user asked to take.

    resource   `pods`, `pods/status`, `resourceclaims.resource.k8s.io`; "" for a path that is no resource
    namespace  "" for what is asked of all namespaces, or is in none
    names      of the objects, sorted. They do not make permissions unequal, and neither does the count
    """

    verb: str
    resource: str = ""
    namespace: str = ""
    path: str = ""
    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    count: int = field(default=1, compare=False, repr=False)

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.path or self.resource}{where}"

    def entry(self) -> Obj:
        """Return the permission as reports hold it, without empty fields."""
        fields = {
            "verb": self.verb,
            "resource": self.resource,
            "namespace": self.namespace,
            "path": self.path,
            "names": list(self.names),
            "count": self.count,
        }
        return {name: value for name, value in fields.items() if value}


class Permissions:
    """A report of what a user has asked for.

    used     what it was allowed
    refused  what it was refused; on a server that allows everything, what RBAC would refuse

    Both are sorted. `role` and `manifests` are about what was used.
    """

    def __init__(self, notes: UserNotes, judge: Judge, *, allows_everything: bool) -> None:
        self._user = notes.user
        self._notes = list(notes.allowed.values())
        self._judge = judge
        refused: Iterable[Note] = notes.refused.values()
        if allows_everything:
            refused = (note for note in self._notes if judge.would_refuse(notes.user, note.action))
        self.used = sorted(map(_permission, self._notes))
        self.refused = sorted(map(_permission, refused))

    @property
    def user(self) -> str:
        """Return the name of the user."""
        return self._user.name

    def role(self) -> Obj:
        """Return the smallest Role for what was used, or a ClusterRole if that is not all in one namespace.

        What the bootstrap policy allows to the user anyway, such as discovery, is not in it.
        """
        needed = list(self._needed())
        namespaces = {namespace_of(note.action) for note in needed}
        return role(role_name(self.user), namespaces.pop() if len(namespaces) == 1 else "", smallest_rules(needed))

    def manifests(self) -> list[Obj]:
        """Return the smallest roles for what was used, each with its binding: a ClusterRole for what is not in a
        namespace, and a Role for each namespace.

        Members of `system:masters`, who need no roles, get no bindings: the roles are for others who do the same.
        """
        needed: dict[str, list[Note]] = {}
        for note in self._needed():
            needed.setdefault(namespace_of(note.action), []).append(note)
        everywhere = {rule_key(note.action) for note in needed.get("", ())}
        out: list[Obj] = []
        for namespace in sorted(needed):
            notes = [note for note in needed[namespace] if not namespace or rule_key(note.action) not in everywhere]
            if notes:
                made = role(role_name(self.user), namespace, smallest_rules(notes))
                out += [made] if MASTERS in self._user.groups else [made, binding(made, self.user)]
        return out

    def summary(self) -> Obj:
        """Return the used and the refused permissions in the form of reports."""
        both = {"used": self.used, "refused": self.refused}
        lists = {name: [permission.entry() for permission in permissions] for name, permissions in both.items()}
        return {"user": self.user, **lists}

    def _needed(self) -> Iterator[Note]:
        return (note for note in self._notes if not self._judge.has_from_start(self._user, note.action))


class PermissionReport:
    """The permissions of all users of a server, `log` being what it noted."""

    def __init__(self, log: PermissionLog, judge: Judge, *, allows_everything: bool) -> None:
        self._users = log.users
        self._missed = log.missed
        self._judge = judge
        self._allows_everything = allows_everything

    def of(self, user: str) -> Permissions:
        """Return the permissions of a user, who may have asked for nothing."""
        notes = self._users.get(user) or UserNotes(User(user, []))
        return Permissions(notes, self._judge, allows_everything=self._allows_everything)

    def list(self) -> Obj:
        """Return a List of all roles and bindings, as `kubectl apply -f` takes it, with what each user asked for.

        `missed` counts the requests of which something was not noted, if there are any.
        """
        every = [self.of(name) for name in sorted(self._users)]
        return {
            "apiVersion": "v1",
            "kind": "List",
            **({"missed": self._missed} if self._missed else {}),
            "permissions": [permissions.summary() for permissions in every],
            "items": [manifest for permissions in every for manifest in permissions.manifests()],
        }

    def write(self, path: Path) -> None:
        """Write the list to a file, in YAML or JSON by its suffix. Raises OSError."""
        if path.suffix in YAML:
            from understudy.machinery.golang.yaml_writer import dump_yaml  # few write YAML

            path.write_text(dump_yaml(self.list()))
        else:
            path.write_bytes(orjson.dumps(self.list(), option=orjson.OPT_INDENT_2) + b"\n")


def _permission(note: Note) -> Permission:
    action: Attributes = note.action
    if not action.is_resource:
        return Permission(action.verb, path=action.path, count=note.count)
    names = tuple(sorted(filter(None, note.names)))
    return Permission(action.verb, str(resource_of(action)), action.namespace, names=names, count=note.count)
