"""The authorizers by the names that `--authorization-mode` knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from understudy.apiserver.authorization.always_deny import AlwaysDeny
from understudy.apiserver.authorization.node.authorizer import NodeAuthorizer
from understudy.apiserver.authorization.rbac.authorizer import RBACAuthorizer
from understudy.apiserver.authorization.rbac.bootstrap_policy import node_rules
from understudy.apiserver.authorization.rbac.escalation import EscalationCheck
from understudy.apiserver.authorization.union import Union
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.authorization import Authorizer, StoredObjects
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.util.spelling import did_you_mean

ALWAYS_ALLOW, RBAC = "AlwaysAllow", "RBAC"
_NOT_HERE = ("ABAC", "Webhook")
_AUTHORIZERS: Mapping[str, Callable[[StoredObjects, Version, Gates], Authorizer]] = {
    ALWAYS_ALLOW: lambda objects, release, gates: AlwaysAllow(),
    "AlwaysDeny": lambda objects, release, gates: AlwaysDeny(),
    RBAC: lambda objects, release, gates: RBACAuthorizer(objects),
    "Node": lambda objects, release, gates: NodeAuthorizer(objects, release, gates, node_rules(release, gates)),
}
MODES = tuple(_AUTHORIZERS)


def check_modes(modes: Sequence[str]) -> None:
    """Raise ValueError with kube-apiserver's text for modes that make no sense, or that are not offered here."""
    if not modes:
        raise ValueError("at least one authorization-mode must be passed")
    for mode in modes:
        if mode in _NOT_HERE:
            raise ValueError(f"authorization-mode {go_quote(mode)} is not supported: {', '.join(MODES)} are")
        if mode not in _AUTHORIZERS:
            raise ValueError(f"authorization-mode {go_quote(mode)} is not a valid mode{did_you_mean(mode, MODES)}")
    if len(set(modes)) != len(modes):
        names = " ".join(go_quote(mode) for mode in modes)
        raise ValueError(f"authorization-mode [{names}] has mode specified more than once")


class Authorization(NamedTuple):
    """The authorizer of a server, and the check of who grants rights; None where roles grant none."""

    authorizer: Authorizer
    escalation: EscalationCheck | None = None


def new_authorization(modes: Sequence[str], objects: StoredObjects, version: Version, gates: Gates) -> Authorization:
    """Return the authorizers of these modes, asked in this order; `objects` and `gates` are those of the server."""
    if modes[0] == ALWAYS_ALLOW:  # the others are never asked
        return Authorization(AlwaysAllow())
    authorizers = {mode.lower(): _AUTHORIZERS[mode](objects, version, gates) for mode in modes}
    union = Union(authorizers, names=version >= V1_37)
    rbac = next((each for each in authorizers.values() if isinstance(each, RBACAuthorizer)), None)
    return Authorization(union, None if rbac is None else EscalationCheck(union, rbac, version))
