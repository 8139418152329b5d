"""Finds the flow schema and the priority level of each request, from what is stored.

A flow schema whose priority level does not exist is left out. Of the two that must always be there a missing one has no
uid; a missing level keeps the uid that it had. Upstream: `configController` in k8s.io/apiserver/pkg/util/flowcontrol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from understudy.apiserver.flowcontrol.flows import Flow
from understudy.apiserver.flowcontrol.rules import RULES, Rule, matches_subject
from understudy.apiserver.flowcontrol.seats import SeatLimits, seat_limits
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.storage.interface import Watch
from understudy.kinds.flowcontrol.mandatory import CATCH_ALL, EXEMPT, MANDATORY, mandatory_objects
from understudy.kinds.flowcontrol.strategy import GROUP, precedence
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.auth.users import User
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, Obj, dataclass
from understudy.machinery.util.caches import are_short
from understudy.machinery.util.memory import gives_back

if TYPE_CHECKING:
    from understudy.apiserver.flowcontrol.fairqueuing.levels import PriorityLevels

SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
USERS = 4096  # users with remembered rules
GONE_LEVELS = 1024  # deleted levels that still show their limits


# The headers of an answer that name the flow schema and the priority level of the request by their uids.
Headers = tuple[tuple[str, str], tuple[str, str]]


@dataclass(eq=False, slots=True)
class Classification:
    """The flow schema and the priority level of requests: what answers say of them, and what is counted.

    distinguisher  what tells the flows of the schema apart: "ByUser", "ByNamespace" or ""
    """

    headers: Headers
    flow: Flow
    distinguisher: str = ""


def _headers(schema_uid: str, level_uid: str) -> Headers:
    return ("X-Kubernetes-Pf-Flowschema-Uid", schema_uid), ("X-Kubernetes-Pf-Prioritylevel-Uid", level_uid)


class _PolicyRule(NamedTuple):
    """The subjects and rules of a flow schema (`PolicyRulesWithSubjects`); the rules by `RULES`."""

    subjects: list[Obj]
    rules: dict[str, list[Rule]]
    classification: Classification


class _Sieve(NamedTuple):
    """The rules that may match a user's requests, in order, and the classification of those that no rule matches."""

    rules: tuple[tuple[Rule, Classification], ...]
    rest: Classification


class Usage(NamedTuple):
    """The state of flow control for /metrics.

    seats       {priority level: its seats}
    dispatched  {(flow schema, priority level): how many requests there were}
    """

    seats: Mapping[str, SeatLimits]
    dispatched: Mapping[tuple[str, str], int]


class FlowControl:
    """Classifies the requests of one server, whose priority levels share `concurrency` seats.

    `levels` are told of each change of these, None where nothing is queued.

    The rules about a user are picked once, and all forgotten when a flow schema or a priority level is written; then it
    `is_stale`. `digests` is how often they were read.
    """

    def __init__(
        self, registry: Registry, version: Version, concurrency: int, levels: PriorityLevels | None = None
    ) -> None:
        self._registry = registry
        self._concurrency = concurrency
        self._levels = levels
        self._version = version
        self._policy_rules: list[_PolicyRule] = []
        self._flows: dict[tuple[str, str], Flow] = {}
        self._catch_all = Classification(_headers("", ""), Flow(CATCH_ALL, CATCH_ALL))
        self._mandatory_levels = dict.fromkeys(MANDATORY, "")
        mandatory = mandatory_objects(version, "PriorityLevelConfiguration")
        self._mandatory_specs: dict[str, Obj] = {name: mandatory[name]["spec"] for name in MANDATORY}
        self._limits: dict[str, SeatLimits] = {}
        self._digested = 0  # the revision of the store that was read
        self._sieves: dict[tuple[str, ...], tuple[_Sieve, _Sieve]] = {}
        self._watches: list[Watch] = []
        self._last_user: User | None = None  # None makes a new look necessary, after a write
        self._last_sieves: tuple[_Sieve, _Sieve]
        self.digests = 0
        self.is_stale = True
        gives_back(self)

    @property
    def usage(self) -> Usage:
        """Return the seats and the requests. A level that is gone keeps the seats that it had, as upstream."""
        self.refresh()
        if self._levels is not None:
            self._levels.before_change()
        dispatched = {names: flow.dispatched for names, flow in self._flows.items() if flow.dispatched}
        return Usage(self._limits, dispatched)

    @property
    def flows(self) -> Iterable[Flow]:
        """Return the requests of each flow schema, by the names of it and its priority level."""
        return (flow for _, flow in sorted(self._flows.items()))

    def classify(self, user: User, request: Attributes) -> Classification:
        """Return the flow schema and the priority level of a request of a user (`startRequest`)."""
        if user is not self._last_user:  # the same object comes again and again where no tokens are used
            self._last_user, self._last_sieves = user, self._sieves_of(user)
        rules, rest = self._last_sieves[request.is_resource]
        for rule, classification in rules:
            if rule.matches(request):
                return classification
        return rest

    def _sieves_of(self, user: User) -> tuple[_Sieve, _Sieve]:
        """Return the sieves of a user, for paths and for resources."""
        self.refresh()
        key = (user.name, *user.groups)
        sieves = self._sieves.get(key)
        if sieves is not None:
            return sieves
        own = [rule for rule in self._policy_rules if any(matches_subject(user, s) for s in rule.subjects)]
        sieves = self._sieve(own, "nonResourceRules"), self._sieve(own, "resourceRules")
        if are_short(key):
            if len(self._sieves) >= USERS:
                self._sieves.clear()
            self._sieves[key] = sieves
        return sieves

    def _sieve(self, policy_rules: list[_PolicyRule], field: str) -> _Sieve:
        """Return the sieve of policy rules, which ends at a rule that matches everything."""
        rules: list[tuple[Rule, Classification]] = []
        for policy_rule in policy_rules:
            for rule in policy_rule.rules[field]:
                if rule.everything:
                    return _Sieve(tuple(rules), policy_rule.classification)
                rules.append((rule, policy_rule.classification))
        return _Sieve(tuple(rules), self._catch_all)

    def refresh(self) -> None:
        """Read what is stored, if it has changed."""
        if self.is_stale:
            self._digest()

    def _digest(self) -> None:
        """Read the stored flow schemas and priority levels (`lockAndDigestConfigObjects`)."""
        self._watch()
        self._count_seats()
        levels = {
            level["metadata"]["name"]: level["metadata"]["uid"] for level in self._registry.listing(GROUP, LEVELS)
        }
        stored = sorted(self._registry.listing(GROUP, SCHEMAS), key=precedence)
        schemas = self._with_mandatory([schema for schema in stored if _level(schema) in levels])
        self._mandatory_levels |= {name: levels[name] for name in MANDATORY if name in levels}
        levels |= self._mandatory_levels
        self._policy_rules.clear()
        self._flows = {names: flow for names, flow in self._flows.items() if flow.is_known}
        for schema in schemas:
            names = schema["metadata"]["name"], _level(schema)
            headers = _headers(schema["metadata"].get("uid", ""), levels[_level(schema)])
            distinguisher = (schema["spec"].get("distinguisherMethod") or {}).get("type", "")
            classification = Classification(headers, self._flows.setdefault(names, Flow(*names)), distinguisher)
            self._policy_rules += [_policy_rule(rule, classification) for rule in schema["spec"].get("rules", [])]
            if schema["metadata"]["name"] == CATCH_ALL:
                self._catch_all = classification
        self._sieves.clear()
        self.digests += 1
        self.is_stale = False

    def _count_seats(self) -> None:
        """Read how many seats each priority level has now, and forget all that is gone if the store was emptied."""
        revision = self._registry.store.revision
        if revision < self._digested:
            self._limits.clear()
        self._digested = revision
        specs = {level["metadata"]["name"]: level["spec"] for level in self._registry.listing(GROUP, LEVELS)}
        self._mandatory_specs |= {name: specs[name] for name in MANDATORY if name in specs}
        specs |= self._mandatory_specs
        if self._levels is None:
            self._limits |= seat_limits(specs, self._concurrency)
        else:
            self._levels.digest(specs)
            self._limits |= {name: level.limits for name, level in self._levels.by_name.items()}
        gone = [name for name in self._limits if name not in specs]
        for name in gone[:-GONE_LEVELS]:
            del self._limits[name]

    def _with_mandatory(self, schemas: list[Obj]) -> list[Obj]:
        """Return flow schemas in their order with the mandatory ones, the missing of them as they are at the start."""
        missing = set(MANDATORY) - {schema["metadata"]["name"] for schema in schemas}
        made = mandatory_objects(self._version, "FlowSchema") if missing else {}  # their file is read if it must be
        first, last = ([made[name]] if name in missing else [] for name in (EXEMPT, CATCH_ALL))
        return [*first, *schemas, *last]

    def _watch(self) -> None:
        """Note the next write of a flow schema or priority level, but not those that were digested already."""
        store = self._registry.store
        for watch in self._watches:
            store.unwatch(watch)
        self._watches = [store.watch(f"/registry/{resource}/", store.revision) for resource in (SCHEMAS, LEVELS)]
        for watch in self._watches:
            watch.wake = self.give_back

    def give_back(self) -> None:
        """Forget the rules, which are read again for the next request."""
        self.is_stale = True
        self._last_user = None


def _level(schema: Obj) -> str:
    name: str = schema["spec"]["priorityLevelConfiguration"]["name"]
    return name


def _policy_rule(policy_rule: Obj, classification: Classification) -> _PolicyRule:
    rules = {field: [make(rule) for rule in policy_rule.get(field, [])] for field, make in RULES.items()}
    return _PolicyRule(policy_rule["subjects"], rules, classification)
