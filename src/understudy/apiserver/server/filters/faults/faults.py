"""The faults of one server, as tests and the control API ask for them: `Server.faults`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, TypedDict, TypeVar, Unpack

from understudy.apiserver.authentication.loopback import APISERVER
from understudy.apiserver.client.kind_names import find
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.routing import Answer
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.server.filters.faults.fault import Fault
from understudy.apiserver.server.filters.faults.meeting import Meeting
from understudy.apiserver.server.filters.faults.rules import CHAOS, Chaos, FaultRule, Rule, Selector
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.spelling import did_you_mean

R = TypeVar("R", bound=Rule)
KEPT = 10_000  # faults that have fired
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
PATTERNS = ("namespace", "name", "user", "user_agent", "path")


class Where(TypedDict, total=False):
    """Chooses requests by what they ask for; what is left out does not matter.

    verb         get, list, watch, create, update, patch, delete or deletecollection, or several of them
    resource     a kind, resource, singular or short name, as for `Server.get`
    subresource  "" for requests of the object itself
    namespace, name, user, user_agent
                 may have `*` and `?`. Users of the server's own controllers, scheduler and kubelets are chosen by
                 `user` only
    path         may have `*` and `?`, too; without it, only requests for resources are chosen
    """

    verb: str | Collection[str]
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    path: str


@dataclass(frozen=True, slots=True)
class FiredFault:
    """A fault that has taken effect, and the request that met it; `rule` is the number of the rule."""

    rule: int
    fault: Fault
    verb: str
    path: str
    user: str

    def __str__(self) -> str:
        return f"{self.fault}: {self.verb} {self.path} by {self.user}"


class Faults:
    """The faults of one server. A test asks for them:

        apiserver.faults.add(Fault.conflict(), verb="patch", resource="resourceclaims", subresource="status", nth=2)
        with apiserver.faults.add(Fault.service_unavailable()):
            ...                                                  # an outage
        apiserver.faults.chaos(seed=7, share=0.1)
        apiserver.faults.assert_fired()

    Requests of other programs meet them, and those of `Server.user`; never those of the server's own methods, of what
    runs inside it, or for /understudy/. Rules are asked in their order; of several faults of a request each takes
    effect that the ones before let through. They are gone after `reset` of the server, and in the next test.
    """

    def __init__(
        self,
        serving: Callable[[], Serving],
        components: Collection[str],
        initial: Callable[[Faults], Iterable[Rule]] = lambda faults: (),
    ) -> None:
        """Let no request meet a fault yet; `initial` makes the rules that there are after `reset`."""
        self.rules: tuple[Rule, ...] = ()  # replaced as a whole: threads add while the event loop reads
        self._lock = Lock()
        self._serving = serving
        self._components = components
        self._spares_components = True
        self._initial = initial
        self._numbers = count(1)
        self._fired: deque[FiredFault] = deque(maxlen=KEPT)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __bool__(self) -> bool:
        return True

    def add(
        self, fault: Fault, *, nth: int | None = None, times: int | None = None, **where: Unpack[Where]
    ) -> FaultRule:
        """Let chosen requests meet a fault.

        nth    number, from 1, of the first one that does
        times  how many do; by default all, or one where `nth` is given

        Raises ValueError for what no request can be, StatusError (404) for an unknown resource.
        """
        __tracebackhide__ = True  # so that pytest shows the line of the test, and the error
        return self.put(self.new_rule(fault, nth=nth, times=times, **where))

    def new_rule(
        self, fault: Fault, *, nth: int | None = None, times: int | None = None, **where: Unpack[Where]
    ) -> FaultRule:
        """Return the rule that `add` makes, which is not in force yet."""
        __tracebackhide__ = True
        for name, number in {"nth": nth, "times": times}.items():
            if number is not None and number < 1:
                raise ValueError(f"want {name} from 1 on, not {number}")
        selector = self._selector(where)
        if fault.verbs and selector.verbs and not set(fault.verbs) & set(selector.verbs):
            can, asked = ", ".join(fault.verbs), ", ".join(selector.verbs)
            raise ValueError(f"no {asked} meets {fault}: {can} can")
        if nth is not None and times is None:
            times = 1
        return FaultRule(next(self._numbers), selector, self._remove, fault, nth or 1, times)

    def chaos(self, seed: int, share: float, *, faults: Sequence[Fault] = CHAOS, **where: Unpack[Where]) -> Chaos:
        """Let a share (0 to 1) of the chosen requests meet one of several faults each, as a seed decides.

        What a request meets depends on the seed, on what it asks for (user, verb, resource, namespace, name) and on how
        many have asked for the same before: the same seed and the same requests give the same faults.

        faults  to choose from; by default all that last for less than a second
        """
        return self.put(self.new_chaos(seed, share, faults=faults, **where))

    def new_chaos(self, seed: int, share: float, *, faults: Sequence[Fault] = CHAOS, **where: Unpack[Where]) -> Chaos:
        """Return the rule that `chaos` makes, which is not in force yet."""
        if not 0 <= share <= 1:
            raise ValueError(f"want a share from 0 to 1, not {share}")
        if not faults:
            raise ValueError("want some faults to choose from")
        selector = self._selector(where)
        return Chaos(next(self._numbers), selector, self._remove, seed, share, tuple(faults))

    def meet_components(self) -> None:
        """Let controllers, scheduler and kubelets of the server's process meet faults as other programs do."""
        self._components = ()
        self._spares_components = False

    def spares(self, request: Request) -> bool:
        """Report whether a request meets no fault, whatever rules say: the server itself sends it."""
        return request.is_internal and (self._spares_components or request.user.name == APISERVER.name)

    def put(self, rule: R) -> R:
        """Let a rule be in force; return it."""
        with self._lock:
            self.rules = (*self.rules, rule)
        return rule

    @property
    def version(self) -> Version:
        """Return the release of the server."""
        return self._serving().version

    @property
    def fired(self) -> list[FiredFault]:
        """Return the faults that have taken effect, in their order; the last 10,000, if many."""
        return list(self._fired)

    def assert_fired(self) -> None:
        """Raise AssertionError if a rule has not fired."""
        for rule in self.rules:
            rule.assert_fired()

    def clear(self) -> None:
        """Remove all rules, and forget what has fired."""
        with self._lock:
            self.rules = ()
            self._fired.clear()
            self._numbers = count(1)

    def reset(self) -> None:
        """Have the rules that the server began with, as new, and no others; forget what has fired."""
        self.clear()
        for rule in self._initial(self):
            self.put(rule)

    def _remove(self, rule: Rule) -> None:
        with self._lock:
            self.rules = tuple(each for each in self.rules if each is not rule)

    def _selector(self, where: Where) -> Selector:
        """Return the selector of some requests. Raises ValueError, StatusError (404)."""
        __tracebackhide__ = True
        given: Mapping[str, Any] = {name: value for name, value in where.items() if value not in ("", None, ())}
        if where.get("subresource") == "":
            given = {**given, "subresource": ""}
        for name in given:
            if name not in Where.__annotations__:
                raise TypeError(f"requests are not chosen by {name!r}{did_you_mean(name, Where.__annotations__)}")
        verb = given.get("verb", ())
        verbs = (verb,) if isinstance(verb, str) else tuple(verb)
        for each in verbs:
            if each not in VERBS and "path" not in given:
                raise ValueError(f"no request for a resource has the verb {each!r}{did_you_mean(each, VERBS)}")
        return Selector(
            given,
            verbs,
            self._resource(given["resource"]) if "resource" in given else None,
            given.get("subresource"),
            {name: given[name] for name in PATTERNS if name in given},
            self._components,
        )

    def _resource(self, text: str) -> tuple[str, str]:
        """Return group and resource of a name; `widgets.example.com` may be defined later. Raises StatusError (404)."""
        serving = self._serving()
        try:
            kind = find(serving, text).kind
        except StatusError:
            resource, _, group = text.partition(".")
            if "." not in group or any(kind.group == group for kind in serving.kinds):
                raise
            return group, resource
        return kind.group, kind.resource

    # --- requests ---------------------------------------------------------------------------------------------

    async def interfere(self, meeting: Meeting) -> Answer:
        """Answer a request, with the faults that it meets. `meeting.fire` is not used."""
        met = [(rule, fault) for rule in self.rules if (fault := rule.fault_for(meeting.request)) is not None]
        for rule, fault in reversed(met):
            meeting = meeting._replace(fire=partial(self._note, rule, fault, meeting.request))
            meeting = meeting._replace(proceed=partial(fault.effect, meeting))
        return await meeting.proceed()

    def _note(self, rule: Rule, fault: Fault, request: Request) -> None:
        """Keep that a fault has taken effect."""
        rule.fired += 1
        info = request.info
        self._fired.append(FiredFault(rule.id, fault, info.verb, info.path, request.user.name))
