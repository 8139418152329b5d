"""Judges requests as RBAC would: by the bootstrap policy alone, and by the stored roles as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from understudy.apiserver.authorization.rbac.authorizer import GROUP, RBACAuthorizer
from understudy.apiserver.authorization.rbac.bootstrap_policy import bootstrap_policy
from understudy.machinery.auth.authorization import Attributes, StoredObjects
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

_RESOURCES = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


class Judge:
    """Decides by RBAC, whatever authorizes the requests of the server."""

    def __init__(self, objects: StoredObjects, version: Version, gates: Gates) -> None:
        policy = list(bootstrap_policy(version, gates))
        self._policy = RBACAuthorizer(_Policy(policy))
        self._stored = RBACAuthorizer(_Policy(policy, objects))

    def has_from_start(self, user: User, action: Attributes) -> bool:
        """Report whether the bootstrap policy allows something to a user, whose groups are looked at but for
        `system:masters`: no role need say so."""
        groups = [group for group in user.groups if group != MASTERS]
        return self._policy.authorize(User(user.name, groups), action).allowed

    def would_refuse(self, user: User, action: Attributes) -> bool:
        """Report whether a server that authorizes by RBAC would refuse something, with the roles that are stored now
        and the bootstrap policy."""
        return MASTERS not in user.groups and not self._stored.authorize(user, action).allowed


class _Policy:
    """The objects of the bootstrap policy, and those that are stored, which go before them (`StoredObjects`)."""

    def __init__(self, policy: Iterable[Obj], objects: StoredObjects | None = None) -> None:
        self._policy: dict[str, list[Obj]] = {resource: [] for resource in _RESOURCES.values()}
        for obj in policy:
            self._policy[_RESOURCES[obj["kind"]]].append(obj)
        self._objects = objects

    def stored(self, group: str, resource: str) -> Sequence[Obj]:
        stored = self._objects.stored(group, resource) if self._objects is not None else ()
        names = {_key(obj) for obj in stored}
        return [*stored, *(obj for obj in self._policy[resource] if _key(obj) not in names)]

    def on_change(self, group: str, resource: str, call: Callable[[], None]) -> None:
        """Do nothing: a judge decides once, by what is stored then."""
        assert group == GROUP


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
