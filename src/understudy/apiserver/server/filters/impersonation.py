"""Lets a user act as another one, as the Impersonate-* headers ask. Upstream: `WithImpersonation`.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote

from understudy.apiserver.authorization.authorizer import Attributes, Authorizer
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.filters.authorization import forbidden
from understudy.machinery.users import ACCOUNT, ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, account_groups
from understudy.machinery.validation.names import label_name, subdomain_name

PREFIX, GROUP, EXTRA = "impersonate-", "impersonate-group", "impersonate-extra-"
API_GROUP, API_VERSION = "authentication.k8s.io", "v1"


class ImpersonationError(ValueError):
    """Headers that name groups, extra fields or a uid, but not the user that they belong to; answered with 500."""


def with_impersonation(authorizer: Authorizer) -> Callable[[Request], None]:
    """Return the filter that replaces `request.user` by whom the headers name.

    It raises 403 where the authorizer does not let the user `impersonate` that user, group, uid or extra field, and
    ImpersonationError.
    """

    def impersonate(request: Request) -> None:
        if PREFIX not in "\n".join(request.headers).lower():  # on every request, hence cheap
            return
        user = requested_user(request.headers)
        if user is None:
            return
        for attributes in _attributes(user, request.path):
            allowed, reason = authorizer.authorize(request.user, attributes)
            if not allowed:
                raise forbidden(request.user, attributes, reason)
        request.user = _completed(user)

    return impersonate


def requested_user(headers: Mapping[str, str]) -> User | None:
    """Return the user that the headers name, with the groups that they name; None if they name none.

    Upstream: `buildImpersonationRequests`. Raises ImpersonationError.
    """
    pairs = [(name.lower(), value) for name, value in headers.items()]
    extra: dict[str, list[str]] = {}
    for name, value in pairs:
        if name.startswith(EXTRA):
            extra.setdefault(unquote(name.removeprefix(EXTRA)), []).append(value)
    groups = [value for name, value in pairs if name == GROUP]
    user = User(headers.get("Impersonate-User", ""), groups, headers.get("Impersonate-Uid", ""), extra)
    if not user.name and (groups or extra or user.uid):
        raise ImpersonationError(f"requested [{' '.join(_references(user))}] without impersonating a user")
    return user if user.name else None


def _attributes(user: User, path: str) -> Iterator[Attributes]:
    """List what the authorizer has to allow, for the user, each group, extra field and the uid."""
    namespace, account = _account(user.name)
    if account:
        yield Attributes(path, "impersonate", True, "", "v1", namespace, "serviceaccounts", name=account)
    else:
        yield Attributes(path, "impersonate", True, "", "v1", "", "users", name=user.name)
    for group in user.groups:
        yield Attributes(path, "impersonate", True, "", "v1", "", "groups", name=group)
    for key, values in user.extra.items():
        for value in values:
            yield Attributes(path, "impersonate", True, API_GROUP, API_VERSION, "", "userextras", key, value)
    if user.uid:
        yield Attributes(path, "impersonate", True, API_GROUP, API_VERSION, "", "uids", name=user.uid)


def _completed(user: User) -> User:
    """Return the user with the groups that it has anyway: a service account's, and whether a user is known."""
    groups = user.groups or (account_groups(_account(user.name)[0]) if _account(user.name)[1] else [])
    if user.name == ANONYMOUS:
        standard = () if UNAUTHENTICATED in groups else (UNAUTHENTICATED,)
    else:
        standard = () if {AUTHENTICATED, UNAUTHENTICATED} & set(groups) else (AUTHENTICATED,)
    return User(user.name, [*groups, *standard], user.uid, user.extra)


def _account(user: str) -> tuple[str, str]:
    """Return namespace and name of the service account that a user is, empty for any other user."""
    namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
    if not user.startswith(ACCOUNT) or label_name(namespace, False) or subdomain_name(name, False):
        return "", ""
    return namespace, name


def _references(user: User) -> Iterator[str]:
    """List what was asked for as Go prints an ObjectReference: kind, namespace, name, uid, API version, and so on."""
    api = f"{API_GROUP}/{API_VERSION}"
    yield from (f"{{Group  {group}    }}" for group in user.groups)
    yield from (f"{{UserExtra  {value}  {api}  {key}}}" for key, values in user.extra.items() for value in values)
    if user.uid:
        yield f"{{UID  {user.uid}  {api}  }}"
