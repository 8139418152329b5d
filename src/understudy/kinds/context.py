"""The parts of a request that validation, strategies and admission plugins may know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field
from math import inf
from typing import Any, Protocol

from understudy.kinds.number_range import NumberRange
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.authorization import Attributes, Authorizer
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass

# What takes the seconds that `Context.observe` counts: CEL in schemas, and custom resources that are compared with
# those that they replace.
COMPILATION, EVALUATION = (f"apiserver_cel_{what}_duration_seconds" for what in ("compilation", "evaluation"))
RATCHETING = "apiextensions_apiserver_validation_ratcheting_seconds"
MOST_WARNINGS = 1000  # of one request; an answer has room for 4,096 characters of them, see `warning_headers`
_NO_ACTION, _ALWAYS_ALLOW = Attributes("", ""), AlwaysAllow()


class Annotate(Protocol):
    """Sets an annotation of the request in the audit log.

    detailed  whether it is only set where the bodies of requests are logged
    """

    def __call__(self, key: str, value: str, *, detailed: bool = False) -> None: ...


def _annotate_nothing(key: str, value: str, *, detailed: bool = False) -> None:
    """Do nothing: there is no audit log."""


def observe_nothing(name: str, seconds: float, *labels: str) -> None:
    """Do nothing: there is no page of metrics."""


async def _wait_for_nobody() -> None:
    """Do nothing: there is nobody else who writes."""


@dataclass(slots=True)
class Context:
    """The parts of a request that rules may know.

    lookup   returns the object of (group, resource, namespace, name), None if there is none
    listing  returns every object of (group, resource, namespace); "" means all namespaces
    catch_up waits until those two know what other servers of the same etcd have written
    pending_services
             returns the Services that other requests are about to store: their addresses and ports are not free
    allocated
             returns the bitmap of the numbers of a range that are taken
    allocate calls what allocates addresses and ports for a Service, while no other request does
    seconds_left
             returns the seconds that are left for the request, 0 or less if they are over
    payload  bytes that the request has brought: its body, and the patches that webhooks have made of its object
    action, authorizer
             the action that the user asks to take, and who decides about further ones that a rule asks about

    annotate sets an annotation of the request in the audit log
    track    notes there the seconds that a layer of the server took, such as "mutating-webhook"
    count    adds one to a counter of /metrics: its name, and the values of its labels
    observe  counts seconds in a histogram of /metrics: its name, the seconds, and the values of its labels
    writes   takes the entries that the request writes; None if nobody wants to know

    `catch_up` waits, the others read the store as this process knows it. Without a store, as in offline validation,
    nothing exists.
    """

    release: Version
    gates: Gates
    version: str  # the API version of the request
    requester: Obj = field(default_factory=dict)  # as in UserInfo: username, uid, groups, extra
    subresource: str = ""
    dry_run: bool = False
    offline: bool = False  # no server: what its configuration decides (addresses, ports, families) is left open
    now: str = ""  # RFC 3339, seconds
    payload: int = 0
    seconds_left: Callable[[], float] = lambda: inf
    metadata_validated: bool = False  # the registry checked the metadata already, so kinds skip that
    warnings: list[str] = field(default_factory=list)
    lookup: Callable[[str, str, str, str], Obj | None] = lambda group, resource, namespace, name: None
    listing: Callable[[str, str, str], Iterable[Obj]] = lambda group, resource, namespace: ()
    catch_up: Callable[[], Awaitable[None]] = _wait_for_nobody
    pending_services: Callable[[], Iterable[Obj]] = lambda: ()
    allocated: Callable[[NumberRange], int] = lambda numbers: 0
    allocate: Callable[[Obj, Callable[[], None]], None] = lambda service, allocate: allocate()
    action: Attributes = _NO_ACTION
    authorizer: Authorizer = _ALWAYS_ALLOW
    annotate: Annotate = _annotate_nothing
    track: Callable[[str, float], None] = lambda layer, seconds: None
    count: Callable[..., None] = lambda name, *labels: None
    observe: Callable[..., None] = observe_nothing
    writes: list[Any] | None = None

    @property
    def is_audited(self) -> bool:
        """Report whether annotations are noted."""
        return self.annotate is not _annotate_nothing

    def warn(self, text: str) -> None:
        """Add a warning to the answer (Warning header, code 299), each text once."""
        if len(self.warnings) < MOST_WARNINGS and text not in self.warnings:
            self.warnings.append(text)
