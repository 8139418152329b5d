"""The users and groups that the server itself knows by name, service accounts among them.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ANONYMOUS = "system:anonymous"
AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"
ACCOUNT, ACCOUNTS = "system:serviceaccount:", "system:serviceaccounts"


def account_name(namespace: str, name: str) -> str:
    """The user that a service account is."""
    return f"{ACCOUNT}{namespace}:{name}"


def account_groups(namespace: str) -> list[str]:
    """Of every service account in a namespace."""
    return [ACCOUNTS, f"{ACCOUNTS}:{namespace}"]


@dataclass(slots=True)
class User:
    """Who asks. `extra` as in UserInfo."""

    name: str
    groups: list[str]
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """As in UserInfo: without what is empty."""
        every = {"username": self.name, "uid": self.uid, "groups": self.groups, "extra": self.extra}
        return {name: value for name, value in every.items() if value}
