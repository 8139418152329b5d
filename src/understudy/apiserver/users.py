"""The users and groups that the server itself knows by name, service accounts among them.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

ANONYMOUS = "system:anonymous"
AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"
ACCOUNT, ACCOUNTS = "system:serviceaccount:", "system:serviceaccounts"


def account_name(namespace: str, name: str) -> str:
    """The user that a service account is."""
    return f"{ACCOUNT}{namespace}:{name}"


def account_groups(namespace: str) -> list[str]:
    """Of every service account in a namespace."""
    return [ACCOUNTS, f"{ACCOUNTS}:{namespace}"]
