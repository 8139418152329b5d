"""Validation of the status of Evictions and EvictionRequests (KEP-4563).

Most rules are declared by their types, see `kinds.declared_rules`; those here are upstream's hand-written ones. They
hold the writers of `status.targetResponders` and `status.responders` to what the eviction controller does: responders
become Active one after the other, in the order of their priorities, and each ends before the next one begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from understudy.kinds.common import conditions
from understudy.kinds.common.compose import all_of
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.objectmeta import CORE, IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.types import NamedTuple, Obj, condition_is_true, condition_of, dataclass, nested_field
from understudy.machinery.util.clock import parse_timestamp
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

EVICTED, FAILED = "TargetEvicted", "Failed"
ACTIVE, INACTIVE = "Active", "Inactive"
COMPLETED, CANCELED, INTERRUPTED = ENDED = ("Completed", "Canceled", "Interrupted")

_STATUS = Path("status")
_INTERNAL = "k8s.io/kubernetes/pkg/apis/lifecycle"
_MAX_RESPONDERS = 11  # ten of a pod, and the one that every pod has
_PRIORITIES = {"imperative-eviction.k8s.io/evictor": 100}  # of Kubernetes' own responders
_RESERVED_PRIORITIES = 1000
_HEARTBEAT_DEADLINE, _SKEW, _LONGEST = 20 * 60, 30, 10 * 365 * 24 * 3600  # seconds


def _conditions(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return conditions.validate(nested_field(obj, "status", "conditions", default=()), _STATUS.child("conditions"))


request_status = all_of(CORE.updated, _conditions)


def _eviction_status(eviction: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the status of an Eviction but for its conditions by themselves (upstream: `ValidateEvictionStatus`)."""
    status, before = eviction.get("status") or {}, old.get("status") or {}
    reverted = _reverted(eviction, before)
    text = "{} condition status cannot be reverted"
    bad_value = Typed.of_field(status, "conditions", "[]k8s.io/apimachinery/pkg/apis/meta/v1.Condition")
    errors = [invalid(_STATUS.child("conditions"), bad_value, text.format(kind)) for kind in reverted]
    final = any(kind in reverted or condition_is_true(eviction, kind) for kind in (EVICTED, FAILED))
    errors += _target_responders(status, before, final, ctx)
    return errors + _responders(status, before, ctx)


eviction_status = all_of(CORE.updated, _conditions, _eviction_status)


def _reverted(eviction: Obj, before: Obj) -> list[str]:
    """Return the types of final conditions that were true, and are no longer, or for another reason."""
    kinds = []
    for old in before.get("conditions") or ():
        kind = old.get("type")
        if kind in (EVICTED, FAILED) and old.get("status") == "True":
            new = condition_of(eviction, kind)
            if not new or new.get("status") == "False" or new.get("reason") != old.get("reason"):
                kinds.append(kind)
    return kinds


# --- Target responders ------------------------------------------------------------------------------------------------


class _Expected(NamedTuple):
    """The states that a responder may have, and why."""

    states: Collection[str]
    reason: str


def _target_responders(status: Obj, before: Obj, final: bool, ctx: Context) -> Errors:
    """Check which responder is active (upstream: `ValidateEvictionTargetResponders`).

    final  whether the eviction has ended
    """
    path, targets = _STATUS.child("targetResponders"), status.get("targetResponders") or []
    stored = before.get("targetResponders") or []
    names = [target.get("name", "") for target in targets]
    if stored and (changed := _changed_names(names, [target.get("name", "") for target in stored])):
        return [invalid(path, Typed.of_field(status, "targetResponders", f"[]{_INTERNAL}.TargetResponder"), changed)]
    if len(targets) > _MAX_RESPONDERS or len({*names}) < len(names):
        return []  # the declared rules say so
    responders = {responder.get("name", ""): responder for responder in status.get("responders") or ()}
    in_turn = sorted(targets, key=_turn)
    expected = _expected_states(in_turn, sorted(stored, key=_turn), final)
    errors: Errors = []
    for target, state in zip(in_turn, expected, strict=True):
        name = target.get("name", "")
        errors += _target(target, responders.get(name), state, path.index(names.index(name)), final, ctx)
    return errors


def _changed_names(names: Sequence[str], stored: Sequence[str]) -> str:
    """Return the detail of an error about a list that must keep its names, "" if it does."""
    if len(names) != len(stored):
        return "must preserve the same length and the same keys"
    return "" if {*stored} <= {*names} else "must preserve the same keys"


def _turn(target: Obj) -> tuple[float, list[str], str]:
    """Return the key by which responders take turns (upstream: `SortTargetResponders`).

    The highest priority comes first, then the domain is compared from its last label to its first.
    """
    priority = target.get("priority")
    domain, _, key = target.get("name", "").partition("/")
    return float("inf") if priority is None else -priority, domain.split(".")[::-1], key


def _expected_states(targets: Sequence[Obj], stored: Sequence[Obj], final: bool) -> list[_Expected]:
    """Return the states that each responder may have, both in turn, after what is stored."""
    states = [target.get("state", "") for target in stored]
    active = states.index(ACTIVE) if ACTIVE in states else -1
    ended = active >= 0 and targets[active].get("state", "") != ACTIVE
    unchangeable = bool(states) and active < 0 and (final or states[-1] in ENDED)
    expected = []
    for i in range(len(targets)):
        if i < active or unchangeable:
            expected.append(_Expected((states[i],), "final state is immutable"))
        elif i == active and ended:
            expected.append(_Expected(ENDED, "this responder must reach a final state"))
        elif i == active and final:
            expected.append(_Expected(ENDED, "the eviction request has finished processing"))
        elif i == active:
            expected.append(_Expected((ACTIVE,), "the eviction request stays active"))
        elif (i == 0 and not states) or (i == active + 1 and ended):
            next_one = _Expected((ACTIVE,), "this responder is next in line")
            over = _Expected((INACTIVE,), "the eviction request has finished processing")
            expected.append(over if final else next_one)
        else:
            expected.append(_Expected((INACTIVE,), "the previously active has not finished processing"))
    return expected


def _target(target: Obj, responder: Obj | None, expected: _Expected, path: Path, final: bool, ctx: Context) -> Errors:
    """Check a target responder, and its state by what the responder says (upstream: `ValidateTargetResponder`)."""
    name, state = target.get("name", ""), target.get("state", "")
    if responder is None:
        text = f'"{name}" has to be tracked in status.responders first'
        return [invalid(path, Typed(target, f"{_INTERNAL}.TargetResponder"), text)]
    errors = _priority(name, target.get("priority"), path.child("priority"))
    here = path.child("state")
    if state not in expected.states:
        text = f"must be one of: {', '.join(sorted(expected.states))}, because {expected.reason}"
        return [*errors, invalid(here, state, text)]
    if state != ACTIVE and not final and _in_progress(responder, ctx):
        text = "must stay Active because the responder is in progress and it should report"
        errors.append(forbidden(here, f"{text} status.responders.heartbeatTime or status.responders.completionTime"))
    if state == COMPLETED and not responder.get("completionTime"):
        text = "cannot become Completed because the responder didn't report status.responders.completionTime"
        errors.append(invalid(here, state, text))
    return errors


def _priority(name: str, priority: int | None, path: Path) -> Errors:
    if priority is None or priority < 0:
        return []
    if name in _PRIORITIES:
        text = f"core k8s responder is expected to have priority: {_PRIORITIES[name]}"
        return [invalid(path, priority, text)] if priority != _PRIORITIES[name] else []
    if priority >= _RESERVED_PRIORITIES:
        return []
    return [invalid(path, priority, "priorities 0-999 are reserved for responders with *.k8s.io suffix")]


def _in_progress(responder: Obj, ctx: Context) -> bool:
    """Report whether a responder has begun, and was heard of a short while ago."""
    begun = responder.get("startTime")
    if not begun or responder.get("completionTime"):
        return False
    heard = parse_timestamp(responder.get("heartbeatTime") or begun)
    return parse_timestamp(ctx.now) < heard + _HEARTBEAT_DEADLINE - _SKEW


# --- Responders -------------------------------------------------------------------------------------------------------


def _responders(status: Obj, before: Obj, ctx: Context) -> Errors:
    """Check what responders say about themselves (upstream: `ValidateEvictionStatusResponders`)."""
    path, responders = _STATUS.child("responders"), status.get("responders") or []
    states = {target.get("name", ""): target.get("state", "") for target in status.get("targetResponders") or ()}
    names = [responder.get("name", "") for responder in responders]
    bad_value = Typed.of_field(status, "responders", f"[]{_INTERNAL}.ResponderStatus")
    if len(status.get("targetResponders") or ()) != len(responders):
        text = "must be the same length as status.targetResponders and contain the same keys"
        return [invalid(path, bad_value, text)]
    if not states.keys() <= {*names}:
        return [invalid(path, bad_value, "must contain the same keys as status.targetResponders")]
    if len(responders) > _MAX_RESPONDERS or len({*names}) < len(names):
        return []  # the declared rules say so
    stored = {responder.get("name", ""): responder for responder in before.get("responders") or ()}
    errors: Errors = []
    for i, (name, responder) in enumerate(zip(names, responders, strict=True)):
        errors += _responder(responder, stored.get(name), states[name], path.index(i), ctx)
    return errors


def _responder(responder: Obj, stored: Obj | None, state: str, path: Path, ctx: Context) -> Errors:
    """Check one responder (upstream: `ValidateEvictionStatusResponder`); only an active one may change."""
    if stored is not None and state != ACTIVE and not semantic_deep_equal(responder, stored):
        return [invalid(path, Typed(responder, f"{_INTERNAL}.ResponderStatus"), IMMUTABLE)]
    times = _Times(responder, stored or {}, path, parse_timestamp(ctx.now))
    return times.start(state) + times.heartbeat() + times.expected_completion() + times.completion()


@dataclass(frozen=True, slots=True)
class _Times:
    """The times of a responder, and those that are stored."""

    new: Mapping[str, str]
    old: Mapping[str, str]
    path: Path
    now: float  # seconds since 1970

    def start(self, state: str) -> Errors:
        """Check that an active responder has begun, now."""
        new, old, path = self.new.get("startTime"), self.old.get("startTime"), self.path.child("startTime")
        if old and old != new:
            return []  # the declared rules say so
        if not new and state == ACTIVE:
            return [required(path, "is required for an active responder")]
        if new and new != old and not self._near(new):
            return [invalid(path, new, "must be set to the present time")]
        return []

    def heartbeat(self) -> Errors:
        """Check that the last sign of life is not taken back, and is one of now."""
        new, old = self.new.get("heartbeatTime"), self.old.get("heartbeatTime")
        path = self.path.child("heartbeatTime")
        if old and not new:
            return [required(path, "is required once set")]
        if not new or new == old:
            return []
        if self.new.get("startTime") and old and parse_timestamp(new) < parse_timestamp(old):
            return [invalid(path, new, "cannot be decreased")]
        return self._after_start("heartbeatTime") or (
            [] if self._near(new) else [invalid(path, new, "must be set to the present time")]
        )

    def expected_completion(self) -> Errors:
        """Check that the end that is expected lies in the future, and not too far in it."""
        new, path = self.new.get("expectedCompletionTime"), self.path.child("expectedCompletionTime")
        if not new or new == self.old.get("expectedCompletionTime"):
            return []
        if errors := self._after_start("expectedCompletionTime"):
            return errors
        if parse_timestamp(new) < self.now - _SKEW:
            return [invalid(path, new, "cannot be set to the past time")]
        if parse_timestamp(new) > self.now + _LONGEST:
            return [invalid(path, new, "must complete within 10 years")]
        return []

    def completion(self) -> Errors:
        """Check that the end comes after the begin, and is now when it is set."""
        new, old = self.new.get("completionTime"), self.old.get("completionTime")
        if not new or (old and old != new):
            return []  # the declared rules say what may not change
        if errors := self._after_start("completionTime"):
            return errors
        if new != old and not self._near(new):
            return [invalid(self.path.child("completionTime"), new, "must be set to the present time")]
        return []

    def _after_start(self, field: str) -> Errors:
        """Check that a time that is set comes after the begin."""
        new, start, path = self.new[field], self.new.get("startTime"), self.path.child(field)
        if not start:
            return [invalid(path, new, f"cannot be set before {self.path.child('startTime')} is set")]
        if parse_timestamp(new) < parse_timestamp(start):
            return [invalid(path, new, f"must occur after {self.path.child('startTime')}")]
        return []

    def _near(self, time: str) -> bool:
        return abs(parse_timestamp(time) - self.now) < _SKEW
