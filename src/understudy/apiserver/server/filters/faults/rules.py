"""Rules that say which requests meet a fault: those of a test, one by one, and chaos, by the throw of a die."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from types import TracebackType
from typing import Any, Self

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.filters.faults.fault import Fault
from understudy.machinery.types import NamedTuple

# What chaos chooses from. Nothing here lasts long; whatever a client sees, it has to go on from.
CHAOS = (
    Fault.conflict(),
    Fault.too_many_requests(),
    Fault.server_error(),
    Fault.server_error(after_commit=True),
    Fault.service_unavailable(),
    Fault.timeout(),
    Fault.timeout(after_commit=True),
    Fault.reset(),
    Fault.reset(after_commit=True),
    Fault.reset(after_bytes=20),
    Fault.delay(0.1),
    Fault.stale(5),
    Fault.cut_watch(0),
    Fault.cut_watch(3),
    Fault.cut_watch(1, reset=True),
    Fault.expired(),
    Fault.expired(2),
    Fault.no_bookmarks(),
)


class Selector(NamedTuple):
    """Chooses requests. `given` are the texts that it was made of.

    resource    (group, resource), None for any
    subresource "" for requests of the object itself, None for any
    patterns    {attribute: pattern} with `*` and `?`, for the attributes that `_texts` returns
    components  users of the components of the server itself, which only a pattern for users chooses
    """

    given: Mapping[str, Any]
    verbs: Collection[str]
    resource: tuple[str, str] | None
    subresource: str | None
    patterns: Mapping[str, str]
    components: Collection[str]

    def matches(self, request: Request) -> bool:
        """Report whether a request is chosen."""
        info, patterns = request.info, self.patterns
        if not info.is_resource and "path" not in patterns:
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if self.resource is not None and (info.group, info.resource) != self.resource:
            return False
        if self.subresource is not None and info.subresource != self.subresource:
            return False
        if "user" not in patterns and request.user.name in self.components:
            return False
        return all(fnmatchcase(_texts(request, name), pattern) for name, pattern in patterns.items())


def _texts(request: Request, attribute: str) -> str:
    """Return the attribute of a request that a pattern is for."""
    if attribute == "user":
        return request.user.name
    if attribute == "user_agent":
        return request.headers.get("User-Agent", "")
    text: str = getattr(request.info, attribute)
    return text


class Rule(ABC):
    """Lets requests meet faults until it is removed. As a context manager it is removed at the end of the block.

    id       number of the rule in its server
    matched  number of requests that it has chosen from
    fired    number of faults that have taken effect
    """

    def __init__(self, number: int, selector: Selector, remove: Callable[[Rule], None]) -> None:
        self.id = number
        self.selector = selector
        self.matched = self.fired = 0
        self._remove = remove

    @abstractmethod
    def fault_for(self, request: Request) -> Fault | None:
        """Return the fault that a request meets, None for none. Called once for each request."""

    @abstractmethod
    def described(self) -> Mapping[str, Any]:
        """Return the options of the rule, besides those of its selector, by name."""

    def __repr__(self) -> str:
        said = {**self.described(), **self.selector.given}
        return f"<{type(self).__name__} {' '.join(f'{name}={value}' for name, value in said.items())}>"

    def remove(self) -> None:
        """Let no more requests meet it. A rule that is removed already stays so."""
        self._remove(self)

    def assert_fired(self) -> None:
        """Raise AssertionError, which says why, if no fault of the rule has taken effect."""
        if not self.fired:
            chosen = "1 request was" if self.matched == 1 else f"{self.matched or 'no'} requests were"
            raise AssertionError(f"{self!r} has not fired: {chosen} of its kind")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class FaultRule(Rule):
    """Lets chosen requests meet one fault.

    nth    number, from 1, of the first chosen request that meets it
    times  how many meet it from there on, None for all
    """

    def __init__(
        self,
        number: int,
        selector: Selector,
        remove: Callable[[Rule], None],
        fault: Fault,
        nth: int,
        times: int | None,
    ) -> None:
        super().__init__(number, selector, remove)
        self.fault = fault
        self.nth = nth
        self.times = times

    def fault_for(self, request: Request) -> Fault | None:
        if not self.selector.matches(request) or not _can_meet(request, self.fault):
            return None
        self.matched += 1
        is_due = self.nth <= self.matched and (self.times is None or self.matched < self.nth + self.times)
        return self.fault if is_due else None

    def described(self) -> Mapping[str, Any]:
        return {"fault": self.fault, "nth": self.nth, "times": self.times}


class Chaos(Rule):
    """Lets a share of all chosen requests meet a fault, which a seed decides.

    What a request meets depends on the seed, on what it asks for (user, verb, resource, namespace, name) and on how
    many asked for the same before: never on when it comes, nor on other requests. The same requests meet the same.
    """

    def __init__(
        self,
        number: int,
        selector: Selector,
        remove: Callable[[Rule], None],
        seed: int,
        share: float,
        faults: Sequence[Fault],
    ) -> None:
        super().__init__(number, selector, remove)
        self.seed = seed
        self.share = share
        self.faults = faults
        self._asked: Counter[bytes] = Counter()

    def fault_for(self, request: Request) -> Fault | None:
        if not self.selector.matches(request):
            return None
        self.matched += 1
        thrown = self._thrown(request)
        if (thrown >> 64) >= self.share * 2**64:
            return None
        faults = [fault for fault in self.faults if _can_meet(request, fault)]
        return faults[thrown % len(faults)] if faults else None

    def _thrown(self, request: Request) -> int:
        """Return the number of 128 bits that decides about a request."""
        info = request.info
        asked = (request.user.name, info.verb, info.group, info.resource, info.subresource, info.namespace, info.name)
        key = blake2b(repr((self.seed, *asked, info.path if not info.is_resource else "")).encode()).digest()
        self._asked[key] += 1
        return int.from_bytes(blake2b(b"%b %d" % (key, self._asked[key]), digest_size=16).digest())

    def described(self) -> Mapping[str, Any]:
        return {"seed": self.seed, "share": self.share}


def _can_meet(request: Request, fault: Fault) -> bool:
    return (not fault.verbs or request.info.verb in fault.verbs) and fault.concerns(request)
