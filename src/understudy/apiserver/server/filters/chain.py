"""The chain of filters that every request passes before it is answered.

A filter completes the request (what is asked for, who asks) or refuses it: it raises StatusError, or
RequestInfoError or ImpersonationError, which are answered in plain text. It is called for every request, and is quick.

The order is kube-apiserver's (`DefaultBuildHandlerChain` in k8s.io/apiserver/pkg/server/config.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.controllers.replicas.storage_versions import StorageVersionManager
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.permissions.log import NotingAuthorizer, PermissionLog
from understudy.apiserver.server.filters.accept_hosts import with_accept_hosts
from understudy.apiserver.server.filters.authentication import with_authentication
from understudy.apiserver.server.filters.authorization import with_authorization, with_selectors
from understudy.apiserver.server.filters.impersonation.filter import with_impersonation
from understudy.apiserver.server.filters.limits.limiter import Limiter
from understudy.apiserver.server.filters.limits.priority_and_fairness import with_priority_and_fairness
from understudy.apiserver.server.filters.limits.storage_version import with_storage_version_precondition
from understudy.apiserver.server.filters.monitoring.filter_times import (
    AUDIT,
    AUTHENTICATION,
    AUTHORIZATION,
    FAIRNESS,
    FilterTimes,
)
from understudy.apiserver.server.filters.request_deadline import with_request_deadline
from understudy.apiserver.server.filters.request_info import with_request_info
from understudy.apiserver.server.pages.open_pages import with_open_pages
from understudy.machinery.auth.authorization import Authorizer
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease
from understudy.machinery.types import NamedTuple

if TYPE_CHECKING:
    from understudy.apiserver.server.filters.audit.filter import Auditor

CBOR_EVERYWHERE, CBOR_OF_RESOURCES = "everywhere", "of resources"
CBOR = ByRelease({V1_37: CBOR_EVERYWHERE, V1_31: CBOR_OF_RESOURCES})  # where the gate is on

Filter = Callable[[Request], None]
Step = tuple[str, Filter]  # its name in metrics, "" for none
Mark = Callable[[str], Sequence[Filter]]
CONSTRAINED = "constrainedimpersonation"


def mark_nothing(name: str) -> Sequence[Filter]:
    """Return no filter."""
    return ()


class Chain(NamedTuple):
    """The filters of one server, the outermost first: those until a request is admitted, and those behind."""

    before: tuple[Filter, ...]
    behind: tuple[Filter, ...]

    @classmethod
    def of(cls, before: Sequence[Step], behind: Sequence[Step]) -> Chain:
        """Return the chain of filters with the names under which they are measured, or without."""
        return cls(tuple(check for _, check in before), tuple(check for _, check in behind))


class Chains(NamedTuple):
    """The filters of one server twice: as they are, and so that each with a name is measured."""

    plain: Chain
    measured: Chain


def build_handler_chain(
    authenticator: Authenticator,
    authorizer: Authorizer,
    gates: Gates,
    flow_control: FlowControl | None,
    limiter: Limiter | None,
    permissions: PermissionLog,
    accepted_hosts: Sequence[re.Pattern[str]] | None = None,
    auditor: Auditor | None = None,
    storage_versions: StorageVersionManager | None = None,
    mark: Mark = mark_nothing,
    *,
    users: AuthenticationMetrics,
    decisions: AuthorizationMetrics,
    times: FilterTimes,
    has_ui: bool = False,
    tells_selectors: bool = False,
    cbor: str = "",
) -> Chains:
    """Return the filters of one server.

    flow_control    classifies requests, if they are classified
    limiter         admits requests, if they are limited, and classifies them then
    permissions     notes what clients ask for
    accepted_hosts  names of hosts that are accepted besides IP addresses and localhost; None accepts every host
    auditor         logs requests; it sees the answer in `Director`
    storage_versions
                    are written before anything that is stored in them, None where they are not
    mark            returns what notes that a filter begins, nothing where nobody wants to know
    tells_selectors whether the authorizer looks at label selectors
    cbor            what reads and writes CBOR, as `CBOR` says: "" for nothing
    users, decisions
                    count requests by who sends them, and whether they may
    times           are those of the filters
    has_ui          whether pages at /ui/ are shown to everybody who reaches the server
    """
    impersonation = CONSTRAINED if gates[features.CONSTRAINED_IMPERSONATION] else "impersonation"

    def unnamed(*filters: Filter) -> Sequence[Step]:
        return [("", check) for check in filters]

    before = [
        *unnamed(
            *((with_cbor,) if cbor == CBOR_EVERYWHERE else ()),
            with_request_info,
            *((with_selectors,) if tells_selectors else ()),
            *(() if accepted_hosts is None else (with_accept_hosts(accepted_hosts),)),
            *((with_open_pages,) if has_ui else ()),
            with_request_deadline,
            *mark(AUTHENTICATION),
        ),
        (AUTHENTICATION, with_authentication(authenticator, auditor, gates, users)),
        *unnamed(*mark(AUDIT)),
        *(() if auditor is None else ((AUDIT, auditor.receive),)),
        *unnamed(*mark(impersonation)),
        (impersonation, with_impersonation(NotingAuthorizer(authorizer, permissions), gates)),
    ]
    if limiter is not None:
        before += [*unnamed(*mark(FAIRNESS)), (FAIRNESS, limiter.admit)]
    elif flow_control is not None:
        before += [*unnamed(*mark(FAIRNESS)), (FAIRNESS, with_priority_and_fairness(flow_control))]
    behind = [
        *unnamed(*mark(AUTHORIZATION)),
        (AUTHORIZATION, with_authorization(authorizer, permissions, decisions)),
        *unnamed(
            *((with_cbor_of_resources,) if cbor == CBOR_OF_RESOURCES else ()),
            *(() if storage_versions is None else (with_storage_version_precondition(storage_versions),)),
        ),
    ]
    for name in (AUDIT, *(name for name, _ in (*before, *behind) if name)):
        times.add(name)

    def measured(steps: Sequence[Step]) -> Sequence[Step]:
        return [(name, times.measured(name, check) if name else check) for name, check in steps]

    return Chains(Chain.of(before, behind), Chain.of(measured(before), measured(behind)))


def with_cbor(request: Request) -> None:
    """Note that whatever answers the request reads and writes CBOR."""
    request.serves_cbor = True


def with_cbor_of_resources(request: Request) -> None:
    """Note that handlers of resources read and write CBOR, as little else does before 1.37."""
    request.serves_cbor = request.info.is_resource
