"""Waits until a condition holds for an object, for `wait_for`; says what the object was like where it does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable

from understudy.apiserver.client.listing import ObjectList
from understudy.apiserver.client.watching import Watch
from understudy.machinery.errors import StatusError
from understudy.machinery.types import NamedTuple, Obj, nested_field

Condition = str | Callable[[Obj], object]
STATUSES = ("true", "false", "unknown")
EXPIRED = 410


class Expectation(NamedTuple):
    """A condition on an object.

    holds  whether it holds for a state of the object, which is None while there is none
    unmet  the end of a sentence about an object for which it does not hold: "is not deleted"
    """

    holds: Callable[[Obj | None], object]
    unmet: str


def states(
    read: Callable[[], ObjectList], watch: Callable[[str, float], Watch], timeout: float
) -> Generator[Obj | None, None, None]:
    """Yield an object as it is, and after each change, None while there is none, until the time is up.

    read     lists the object, if it is there
    watch    watches it from a resourceVersion on, for some seconds
    timeout  seconds
    """
    end = time.monotonic() + timeout
    uid = ""
    while True:
        objects = read()
        for obj in objects:
            if uid not in ("", obj["metadata"]["uid"]):
                yield None  # it was deleted and created again between two looks
            uid = obj["metadata"]["uid"]
            yield obj
        if not objects:
            yield None
        try:
            with watch(objects.resource_version, end - time.monotonic()) as events:
                for type_, obj in events:
                    uid = obj["metadata"]["uid"]
                    yield None if type_ == "DELETED" else obj
        except StatusError as error:
            if error.code != EXPIRED:
                raise
        if time.monotonic() >= end:
            return


def wait(states: Iterable[Obj | None], condition: Condition, subject: str, timeout: float) -> Obj:
    """Return the first state for which a condition holds; the one before the deletion, {} without one, for "deleted".

    A condition that raises KeyError or IndexError does not hold yet. Raises TimeoutError, which shows the object as it
    last was, when there are no more states; ValueError for a text that is no condition.

    subject  what the error calls the object; timeout: the seconds that it names
    """
    __tracebackhide__ = True
    expected, last, raised = expectation(condition), None, None
    state: Obj | None = None
    for state in states:
        raised = None
        last = state or last
        try:
            if expected.holds(state):
                return last or {}
        except LookupError as error:
            raised = error
    why = f" (it raised {raised!r})" if raised else ""
    raise TimeoutError(f"{subject} {expected.unmet} after {timeout:g} s{why}; {_shown(state, last)}")


def expectation(condition: Condition) -> Expectation:
    """Parse a condition. Raises ValueError for a text that is none."""
    __tracebackhide__ = True
    if callable(condition):
        name = getattr(condition, "__name__", "<lambda>")
        text = "the condition" if name == "<lambda>" else name
        return Expectation(lambda obj: obj is not None and condition(obj), f"does not fulfil {text}")
    if condition.lower() in ("deleted", "delete"):
        return Expectation(lambda obj: obj is None, "is not deleted")
    if condition.lower() in ("created", "create"):
        return Expectation(lambda obj: obj is not None, "is not created")
    type_, equals, status = condition.partition("=")
    if not type_ or (equals and status.lower() not in STATUSES):
        wants = 'a function, "created", "deleted", or a condition such as "Ready" or "Ready=False"'
        raise ValueError(f"want {wants}, not {condition!r}")
    status = status or "True"
    return Expectation(lambda obj: _has_condition(obj, type_, status), f"is not {type_}={status}")


def _has_condition(obj: Obj | None, type_: str, status: str) -> bool:
    """Report whether an object's status has a condition, in any case, that is about its last generation.

    Upstream: `ConditionalWait` of `kubectl wait`.
    """
    generation = nested_field(obj, "metadata", "generation", default=0)
    for condition in nested_field(obj, "status", "conditions", default=()):
        if str(nested_field(condition, "type")).lower() == type_.lower():
            of_all = nested_field(obj, "status", "observedGeneration", default=generation)
            observed = nested_field(condition, "observedGeneration", default=of_all)
            return observed >= generation and str(condition.get("status")).lower() == status.lower()
    return False


def _shown(state: Obj | None, last: Obj | None) -> str:
    """Return the end of the message of a TimeoutError: the object in YAML, without its managed fields."""
    from understudy.machinery.golang.yaml_writer import dump_yaml  # only failures need it

    if last is None:
        return "there is no such object"
    fields = {name: value for name, value in last["metadata"].items() if name != "managedFields"}
    was = "it is" if state else "it is gone, and was"
    return f"{was}:\n\n{dump_yaml({**last, 'metadata': fields})}"
