"""Lets a user act as another one, as the Impersonate-* headers ask. Upstream: `WithImpersonation`.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from urllib.parse import unquote

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.permissions.audit.latencies import IMPERSONATION
from understudy.apiserver.server.filters.impersonation.modes import API_GROUP, API_VERSION, ConstrainedModes, legacy
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.auth.users import User
from understudy.machinery.errors import bad_request
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.validation.bad_values import strings

PREFIX, GROUP, EXTRA = "impersonate-", "impersonate-group", "impersonate-extra-"


class ImpersonationError(ValueError):
    """Headers that name groups, extra fields or a uid, but not the user that they belong to; answered with 500."""


def with_impersonation(authorizer: Authorizer, gates: Gates) -> Callable[[Request], None]:
    """Return the filter that replaces `request.user` by whom the headers name.

    It raises 403 where the authorizer does not let the user `impersonate` that user, group, uid or extra field, and 400
    (before 1.35 ImpersonationError) if they name no user. The gate ConstrainedImpersonation adds narrower ways to be
    allowed.
    """
    modes = ConstrainedModes(authorizer)

    def impersonate(request: Request) -> None:
        if PREFIX not in "\n".join(request.headers).lower():  # on every request, hence cheap
            return
        user, begun = requested_user(request.headers), monotonic()
        if user.name:
            constrained = gates[features.CONSTRAINED_IMPERSONATION]
            if constrained:
                request.user, constraint = modes.impersonated(request, user)
            else:
                request.user, constraint = legacy(authorizer, request, user), ""
            if request.audit is not None:
                request.audit.impersonate(request.user, constraint)
                if constrained:
                    request.audit.latencies.since(IMPERSONATION, begun)
        elif user.groups or user.extra or user.uid:
            raise _nobody(user, request.release, constrained=gates[features.CONSTRAINED_IMPERSONATION])

    return impersonate


def _nobody(user: User, version: Version, *, constrained: bool) -> Exception:
    """Return the error for headers that name groups, extra fields or a uid, but no user."""
    if constrained:
        return bad_request(f"requested {_default_info(user)} without impersonating a user name")
    text = f"requested [{' '.join(_references(user))}] without impersonating a user"
    return bad_request(text) if version >= V1_35 else ImpersonationError(text)


def requested_user(headers: Mapping[str, str]) -> User:
    """Return the user that the headers name, with the groups that they name; its name may be empty.

    Upstream: `buildImpersonationRequests`.
    """
    pairs = [(name.lower(), value) for name, value in headers.items()]
    extra: dict[str, list[str]] = {}
    for name, value in pairs:
        if name.startswith(EXTRA):
            extra.setdefault(unquote(name.removeprefix(EXTRA)), []).append(value)
    groups = [value for name, value in pairs if name == GROUP]
    return User(headers.get("Impersonate-User", ""), groups, headers.get("Impersonate-Uid", ""), extra)


def _default_info(user: User) -> str:
    """Return a user as Go prints a `&user.DefaultInfo`."""
    groups = strings(user.groups) if user.groups else "[]string(nil)"
    lists = ", ".join(f"{go_quote(key)}:{strings(user.extra[key])}" for key in sorted(user.extra))
    extra = f"map[string][]string{{{lists}}}" if lists else "map[string][]string(nil)"
    return f"&user.DefaultInfo{{Name:{go_quote(user.name)}, UID:{go_quote(user.uid)}, Groups:{groups}, Extra:{extra}}}"


def _references(user: User) -> Iterator[str]:
    """List what was asked for as Go prints an ObjectReference: kind, namespace, name, uid, API version, and so on."""
    api = f"{API_GROUP}/{API_VERSION}"
    yield from (f"{{Group  {group}    }}" for group in user.groups)
    yield from (f"{{UserExtra  {value}  {api}  {key}}}" for key, values in user.extra.items() for value in values)
    if user.uid:
        yield f"{{UID  {user.uid}  {api}  }}"
