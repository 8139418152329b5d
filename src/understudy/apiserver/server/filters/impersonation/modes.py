"""The ways in which a user may be allowed to act as another one.

    legacy            `impersonate` of the user, of each group, extra field and the uid
    user-info         the same with its own verbs, for anybody but nodes and service accounts
    serviceaccount    a service account, and arbitrary-node: a node, of which only the name is given
    associated-node   the node on which the service account's own pod runs

All but the first also need a permission for what the request itself asks for. They came with the feature gate
ConstrainedImpersonation. Upstream: k8s.io/apiserver/pkg/endpoints/filters/impersonation/mode.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from understudy.apiserver.endpoints.request import Request
from understudy.machinery.auth.authorization import Attributes, Authorizer
from understudy.machinery.auth.forbidden import forbidden
from understudy.machinery.auth.users import (
    ACCOUNT,
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE,
    NODES,
    UNAUTHENTICATED,
    User,
    account_groups,
)
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.caches import are_short
from understudy.machinery.validation.names import label_name, subdomain_name

API_GROUP, API_VERSION = "authentication.k8s.io", "v1"
NODE_NAME = "authentication.kubernetes.io/node-name"
NODE_KEYS = "authentication.kubernetes.io/associated-node-keys"
# The resources that stand for what is asked for, in the order in which they are checked.
RESOURCES = ("users", "serviceaccounts", "nodes", "uids", "groups", "userextras")
MANY = 4  # groups or extra values, from which on all of them may be allowed at once
USERS = 10_000  # users with a remembered mode


def legacy(authorizer: Authorizer, request: Request, user: User) -> User:
    """Return the user as whom a request is answered. Raises 403."""
    for each in _attributes(user, request.path, "impersonate", ""):
        attributes = each if each.group else replace(each, version="")
        decision = authorizer.authorize(request.user, attributes)
        if decision.error or not decision.allowed:
            raise forbidden(request.user, attributes, decision.reason)
    return _legacy_user(user)


def _legacy_user(user: User) -> User:
    return _completed(user, account_groups(_account(user.name)[0]) if _account(user.name)[1] else [])


class _Mode(NamedTuple):
    """A constrained mode, and whether a user can be impersonated in it by another."""

    name: str
    applies: Callable[[User, User], bool]


class ConstrainedModes:
    """The constrained modes and, behind them, the legacy one. The mode that last let a user pass is tried first."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last: dict[str, int] = {}

    def impersonated(self, request: Request, user: User) -> tuple[User, str]:
        """Return the user as whom a request is answered, and the verb of a constrained mode that has allowed it, "" in
        the legacy one. Raises 403: that of the first mode."""
        requestor = request.user.name
        order = list(range(len(MODES) + 1))
        if requestor in self._last:
            order.insert(0, order.pop(self._last[requestor]))
        first: StatusError | None = None
        for index in order:
            try:
                allowed = self._check(index, request, user)
            except StatusError as error:
                first = first or error
                continue
            if allowed is not None:
                if are_short((requestor,)):
                    if len(self._last) >= USERS:
                        self._last.clear()
                    self._last[requestor] = index
                return allowed, "" if index == len(MODES) else f"impersonate:{MODES[index][0]}"
        assert first is not None  # the last mode applies to everybody
        raise first

    def _check(self, index: int, request: Request, user: User) -> User | None:
        """Return the user in one of the modes, None if it does not apply. Raises 403."""
        if index == len(MODES):
            every = _attributes(user, request.path, "impersonate", "")
            _check_all(self._authorizer, request.user, sorted(every, key=lambda a: RESOURCES.index(a.resource)))
            return _legacy_user(user)
        mode, applies = MODES[index]
        requestor = request.user
        if not applies(user, requestor):
            return None
        verb, named = f"impersonate:{mode}", user
        if mode == ASSOCIATED_NODE:  # for every node at once, whatever the tokens of the account say besides
            requestor = User(requestor.name, requestor.groups, requestor.uid, {NODE_KEYS: sorted(requestor.extra)})
            named = replace(user, name=f"{NODE}*")
        on = replace(request.info, verb=f"impersonate-on:{mode}:{request.info.verb}")
        _check_all(self._authorizer, requestor, [on])
        attributes = _attributes(named, request.path, verb, API_GROUP, node=mode in (ASSOCIATED_NODE, ARBITRARY_NODE))
        self._check_fields(requestor, list(attributes))
        namespace, account = _account(user.name)
        return _completed(user, account_groups(namespace) if account else [NODES] if user.name.startswith(NODE) else [])

    def _check_fields(self, requestor: User, attributes: list[Attributes]) -> None:
        """Check the name, uid, groups and extra fields; many groups or fields may be allowed at once by a star."""
        for resource in RESOURCES:
            fields = [field for field in attributes if field.resource == resource]
            if not fields:
                continue
            _refuse_odd(requestor, fields)
            star = replace(fields[0], name="*", subresource="*" if resource == "userextras" else "")
            if len(fields) < MANY or not self._authorizer.authorize(requestor, star).allowed:
                _check_all(self._authorizer, requestor, fields)


def _refuse_odd(requestor: User, fields: list[Attributes]) -> None:
    """Raise 403 for groups and extra fields that only the legacy mode takes."""
    for field in fields:
        bare, reason = replace(field, name="", subresource=""), ""
        if field.resource == "groups" and not field.name:
            reason = "impersonating the empty string group is not allowed"
        elif field.resource == "groups" and field.name == MASTERS:
            bare, reason = field, "impersonating the system:masters group is not allowed"
        elif field.resource == "userextras":
            reason = _odd_extra(field.subresource, field.name)
        if reason:
            raise forbidden(requestor, bare, reason)


def _odd_extra(key: str, value: str) -> str:
    """Return the error of an extra field, "" for a good one."""
    host, _, path = key.partition("/")
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    prefix = "impersonating an invalid key in extra is not allowed: extra.key: Invalid value:"
    if not host or not path:
        return f'{prefix} {go_quote(key)}: must be a domain-prefixed path (such as "acme.io/foo")'
    if texts := subdomain_name(host, False):
        return f"{prefix} {go_quote(host)}: {texts[0]}"
    return "" if value else "impersonating the empty string value in extra is not allowed"


def _check_all(authorizer: Authorizer, user: User, every: Iterable[Attributes]) -> None:
    """Raise 403 for the first action that a user may not take."""
    for attributes in every:
        decision = authorizer.authorize(user, attributes)
        if not decision.allowed:
            raise forbidden(user, attributes, decision.refusal)


def _attributes(user: User, path: str, verb: str, group: str, *, node: bool = False) -> Iterator[Attributes]:
    """List what the authorizer has to allow, for the user, each group, extra field and the uid."""
    namespace, account = _account(user.name)
    if node:
        yield Attributes(path, verb, True, group, "v1", "", "nodes", name=user.name.removeprefix(NODE))
    elif account:
        yield Attributes(path, verb, True, group, "v1", namespace, "serviceaccounts", name=account)
    else:
        yield Attributes(path, verb, True, group, "v1", "", "users", name=user.name)
    for name in user.groups:
        yield Attributes(path, verb, True, group, "v1", "", "groups", name=name)
    for key, values in user.extra.items():
        for value in values:
            yield Attributes(path, verb, True, API_GROUP, API_VERSION, "", "userextras", key, value)
    if user.uid:
        yield Attributes(path, verb, True, API_GROUP, API_VERSION, "", "uids", name=user.uid)


def _completed(user: User, own: list[str]) -> User:
    """Return the user with the groups that it has anyway: its `own` if none are asked for, and whether it is known."""
    groups = user.groups or own
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


def _is_node(user: User) -> bool:
    return user.name.startswith(NODE) and not subdomain_name(user.name.removeprefix(NODE), False)


def _only_named(user: User) -> bool:
    """Report whether nothing but the name is asked for."""
    return not (user.uid or user.groups or user.extra)


def _is_associated(user: User, requestor: User) -> bool:
    """Report whether a user is the node that the tokens of a service account name."""
    return (
        _is_node(user)
        and bool(_account(requestor.name)[1])
        and requestor.extra.get(NODE_NAME) == [user.name.removeprefix(NODE)]
    )


ASSOCIATED_NODE, ARBITRARY_NODE = "associated-node", "arbitrary-node"
MODES = (
    _Mode(ASSOCIATED_NODE, lambda user, requestor: _only_named(user) and _is_associated(user, requestor)),
    _Mode(ARBITRARY_NODE, lambda user, requestor: _only_named(user) and _is_node(user)),
    _Mode("serviceaccount", lambda user, requestor: _only_named(user) and bool(_account(user.name)[1])),
    _Mode("user-info", lambda user, requestor: not _is_node(user) and not _account(user.name)[1]),
)
