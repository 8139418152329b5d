"""The authorizers by the names that `--authorization-mode` knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.apiserver.authorization.always_deny import AlwaysDeny
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.authorization.union import Union
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.authorization import Authorizer, StoredObjects
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.spelling import did_you_mean

if TYPE_CHECKING:
    from understudy.admission.reloads import ReloadedFile
    from understudy.apiserver.authorization.rbac.escalation import EscalationCheck


def _rbac_authorizer(objects: StoredObjects, release: Version, gates: Gates) -> Authorizer:
    from understudy.apiserver.authorization.rbac.authorizer import RBACAuthorizer  # few servers need it

    return RBACAuthorizer(objects)


def _node_authorizer(objects: StoredObjects, release: Version, gates: Gates) -> Authorizer:
    from understudy.apiserver.authorization.node.authorizer import NodeAuthorizer  # few servers need it
    from understudy.apiserver.authorization.rbac.bootstrap_policy import node_rules

    return NodeAuthorizer(objects, release, gates, node_rules(release, gates))


ALWAYS_ALLOW, RBAC, ABAC, WEBHOOK = "AlwaysAllow", "RBAC", "ABAC", "Webhook"
DEFAULT = "default"  # the name of the one webhook that flags make
_AUTHORIZERS: Mapping[str, Callable[[StoredObjects, Version, Gates], Authorizer]] = {
    ALWAYS_ALLOW: lambda objects, release, gates: AlwaysAllow(),
    "AlwaysDeny": lambda objects, release, gates: AlwaysDeny(),
    RBAC: _rbac_authorizer,
    "Node": _node_authorizer,
}
NO_OTHERS: Mapping[str, Callable[[], Authorizer]] = {}
MODES = (*_AUTHORIZERS, ABAC, WEBHOOK)


def mode_problems(modes: Sequence[str], has_policy: bool, has_webhook: bool) -> list[str]:
    """Return kube-apiserver's texts about modes that make no sense.

    has_policy, has_webhook  whether there are files for the modes ABAC and Webhook
    """
    problems = [] if modes else ["at least one authorization-mode must be passed"]
    for mode in modes:
        if mode not in MODES:
            problems.append(f"authorization-mode {go_quote(mode)} is not a valid mode{did_you_mean(mode, MODES)}")
        elif mode == ABAC and not has_policy:
            problems.append("authorization-mode ABAC's authorization policy file not passed")
        elif mode == WEBHOOK and not has_webhook:
            problems.append("authorization-mode Webhook's authorization config file not passed")
    if has_policy and ABAC not in modes:
        problems.append("cannot specify --authorization-policy-file without mode ABAC")
    if has_webhook and WEBHOOK not in modes:
        problems.append("cannot specify --authorization-webhook-config-file without mode Webhook")
    if len(set(modes)) != len(modes):
        names = " ".join(go_quote(mode) for mode in modes)
        problems.append(f"authorization-mode [{names}] has mode specified more than once")
    return problems


class Authorization(NamedTuple):
    """The authorizer of a server.

    escalation  checks who grants rights; None where roles grant none
    waits       whether it may have to ask webhooks
    files       those that it is read from again when they change
    """

    authorizer: Authorizer
    escalation: EscalationCheck | None = None
    waits: bool = False
    files: Sequence[ReloadedFile] = ()


def new_authorizer(
    mode: str, objects: StoredObjects, version: Version, gates: Gates, others: Mapping[str, Callable[[], Authorizer]]
) -> Authorizer:
    """Return the authorizer of a mode; arguments as for `new_authorization`."""
    return others[mode]() if mode in others else _AUTHORIZERS[mode](objects, version, gates)


def new_authorization(
    modes: Sequence[str],
    objects: StoredObjects,
    version: Version,
    gates: Gates,
    metrics: AuthorizationMetrics,
    others: Mapping[str, Callable[[], Authorizer]] = NO_OTHERS,
) -> Authorization:
    """Return the authorizers of these modes, asked in this order.

    objects, gates  those of the server
    others          make the authorizers of the modes that need a file
    """
    if modes[0] == ALWAYS_ALLOW:  # the others are never asked
        return Authorization(new_union({ALWAYS_ALLOW.lower(): (ALWAYS_ALLOW, AlwaysAllow())}, version, metrics))
    authorizers = {mode: new_authorizer(mode, objects, version, gates, others) for mode in modes}
    named = {DEFAULT if mode == WEBHOOK else mode.lower(): (mode, each) for mode, each in authorizers.items()}
    union = new_union(named, version, metrics)
    return Authorization(union, escalation_check(union, authorizers.values(), version), WEBHOOK in modes)


def new_union(
    authorizers: Mapping[str, tuple[str, Authorizer]], version: Version, metrics: AuthorizationMetrics
) -> Union:
    """Return authorizers, with their types, as one, by the names that a release gives them."""
    return Union(authorizers, metrics, names=version >= V1_37)


def escalation_check(asked: Authorizer, authorizers: Iterable[Authorizer], version: Version) -> EscalationCheck | None:
    """Return the check of who grants rights, by RBAC's rules; None where it is not among the authorizers.

    asked  decides whether a user may grant others
    """
    from understudy.apiserver.authorization.rbac.authorizer import RBACAuthorizer
    from understudy.apiserver.authorization.rbac.escalation import EscalationCheck

    rbac = next((each for each in authorizers if isinstance(each, RBACAuthorizer)), None)
    return None if rbac is None else EscalationCheck(asked, rbac, version)
