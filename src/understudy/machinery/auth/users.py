"""Users and groups that the server itself knows by name, service accounts among them.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from understudy.machinery.types import dataclass

ANONYMOUS = "system:anonymous"
AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"
NODE, NODES = "system:node:", "system:nodes"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"  # key of `extra`: by what the user was known
ACCOUNT, ACCOUNTS = "system:serviceaccount:", "system:serviceaccounts"


def account_name(namespace: str, name: str) -> str:
    """Return the name of a service account's user. Upstream: `serviceaccount.MakeUsername`."""
    return f"{ACCOUNT}{namespace}:{name}"


def account_groups(namespace: str) -> list[str]:
    """Return the groups of every service account in a namespace. Upstream: `serviceaccount.MakeGroupNames`."""
    return [ACCOUNTS, f"{ACCOUNTS}:{namespace}"]


@dataclass(slots=True)
class User:
    """A user, as in UserInfo. Upstream: `user.Info`."""

    name: str
    groups: list[str]
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of_info(cls, info: Mapping[str, Any]) -> User:
        """Return the user of a UserInfo."""
        return cls(info.get("username", ""), info.get("groups") or [], info.get("uid", ""), info.get("extra") or {})

    @property
    def node(self) -> str | None:
        """Return the name of the node whose kubelet this is, None for other users. Upstream: `NodeIdentity`.

        It is empty for a kubelet that does not say which node is its own.
        """
        return self.name.removeprefix(NODE) if self.name.startswith(NODE) and NODES in self.groups else None

    def info(self) -> dict[str, Any]:
        """Return the user as a UserInfo, without what is empty."""
        every = {"username": self.name, "uid": self.uid, "groups": self.groups, "extra": self.extra}
        return {name: value for name, value in every.items() if value}
