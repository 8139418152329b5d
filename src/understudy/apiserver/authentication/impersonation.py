"""Acting as somebody else: the Impersonate-* headers, which whoever may do everything may send.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from understudy.machinery.users import (
    ACCOUNT,
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    account_groups,
)
from understudy.machinery.validation.names import label_name, subdomain_name

PREFIX, GROUP, EXTRA = "impersonate-", "impersonate-group", "impersonate-extra-"


class ImpersonationError(ValueError):
    """Groups, extras or a uid, without the user that they are of."""


def impersonated(headers: Mapping[str, str]) -> User | None:
    """Who the headers want to act as, None where they name nobody. Raises ImpersonationError."""
    if PREFIX not in "\n".join(headers).lower():  # on every request, hence at once
        return None
    asked = [(name.lower(), value) for name, value in headers.items()]
    groups = [value for name, value in asked if name == GROUP]
    extra: dict[str, list[str]] = {}
    for name, value in asked:
        if name.startswith(EXTRA):
            extra.setdefault(unquote(name.removeprefix(EXTRA)), []).append(value)
    user, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    if user:
        return User(user, _groups(user, groups), uid, extra)
    if groups or extra or uid:
        wanted = " ".join(_references(groups, extra, uid))
        raise ImpersonationError(f"requested [{wanted}] without impersonating a user")
    return None


def _groups(user: str, asked: list[str]) -> list[str]:
    """The groups that were asked for, a service account's own ones where none were, and whether a user is known."""
    groups = asked or _account_groups(user)
    if user == ANONYMOUS:
        return groups if UNAUTHENTICATED in groups else [*groups, UNAUTHENTICATED]
    return groups if {AUTHENTICATED, UNAUTHENTICATED} & set(groups) else [*groups, AUTHENTICATED]


def _account_groups(user: str) -> list[str]:
    namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
    if not user.startswith(ACCOUNT) or label_name(namespace, False) or subdomain_name(name, False):
        return []
    return account_groups(namespace)


def _references(groups: Iterable[str], extra: Mapping[str, list[str]], uid: str) -> Iterable[str]:
    """What was asked for, as Go prints an ObjectReference: kind, namespace, name, uid, API version, version, field."""
    api = "authentication.k8s.io/v1"
    yield from (f"{{Group  {group}    }}" for group in groups)
    yield from (f"{{UserExtra  {value}  {api}  {key}}}" for key, values in extra.items() for value in values)
    if uid:
        yield f"{{UID  {uid}  {api}  }}"
