"""Helpers of every module: conditions keep their places and times, and JSON is equal as Go has it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pickle
import typing
from typing import Any, Generic, TypeVar

import pytest

from understudy.machinery.golang.json_writer import with_source
from understudy.machinery.serializer.json_fast import WithEmptyFields
from understudy.machinery.types import NamedTuple, dataclass, same_json, share_equal_parts, with_condition

READY = {"type": "Ready", "status": "True", "reason": "a", "lastTransitionTime": "2020-01-01T00:00:00Z"}
OTHER = {"type": "Other", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
NOW = "2030-01-01T00:00:00Z"
T = TypeVar("T")


class Pair(NamedTuple, Generic[T]):
    """A named tuple with a default, a property and a type."""

    first: T
    second: int = 2

    @property
    def both(self) -> tuple[T, int]:
        """Return its fields."""
        return self.first, self.second


def test_a_new_condition_is_the_last() -> None:
    """A new condition stands last and bears the time at which it is set."""
    assert with_condition([OTHER], {"type": "Ready", "status": "True"}, NOW) == [
        OTHER,
        {"type": "Ready", "status": "True", "lastTransitionTime": NOW},
    ]


def test_the_time_is_that_of_the_last_change_of_status() -> None:
    """A new reason leaves the time, a new status does not; the condition keeps its place."""
    same = {"type": "Ready", "status": "True", "reason": "b"}
    assert with_condition([READY, OTHER], same, NOW) == [{**READY, "reason": "b"}, OTHER]
    changed = {"type": "Ready", "status": "False", "reason": "b"}
    assert with_condition([READY, OTHER], changed, NOW) == [{**changed, "lastTransitionTime": NOW}, OTHER]


def test_stored_conditions_are_not_edited() -> None:
    """The list and its conditions may belong to a stored object."""
    before = [dict(READY)]
    with_condition(before, {"type": "Ready", "status": "False"}, NOW)
    assert before == [READY]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (True, 1, False),
        (0, False, False),
        ([1], [True], False),
        ({"a": {"b": 0}}, {"a": {"b": False}}, False),
        (1, 1.0, True),
        (2**53 + 1, 2**53, False),
        (2**53 + 1, float(2**53), True),
        (2**63 - 1, 2**63, True),
        (2**64 - 1, 2**64, True),
        (12345678901234567890123, 1.2345678901234568e22, True),
        (10**400, 10**401, True),
        ("1", 1, False),
        (None, {}, False),
        ({"a": None}, {}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
    ],
)
def test_json_equality(a: Any, b: Any, same: bool) -> None:
    """Numbers are int64 or float64, and neither is a boolean."""
    assert same_json(a, b) is same
    assert same_json(b, a) is same


def test_equality_of_raw_values() -> None:
    """Raw values are equal to each other if their bytes are, and to others if they say the same."""
    spaced, tight = with_source({"a": 1}, b'{"a": 1}'), with_source({"a": 1}, b'{"a":1}')
    assert spaced != tight
    assert same_json(spaced, tight)
    assert spaced == {"a": 1}
    assert spaced != {"a": True}


def test_equal_parts_are_one_object() -> None:
    """Parts that are written in the same way are shared, at every depth; equal ones of other spelling are not."""
    value = {
        "a": {"type": "string", "enum": ["x", 1]},
        "b": {"type": "string", "enum": ["x", 1]},
        "c": {"type": "string", "enum": ["x", 1.0]},
        "d": {"enum": ["x", 1], "type": "string"},
        "e": {"type": "string", "enum": ["x", True]},
    }
    shared = share_equal_parts(value)
    assert json.dumps(shared) == json.dumps(value)
    assert shared["a"] is shared["b"]
    assert shared["a"]["enum"] is shared["d"]["enum"]
    assert len({id(part) for part in shared.values()}) == 4


def test_parts_that_note_what_they_were_sent_with_are_not_shared() -> None:
    """A struct that was sent with empty lists stays the object that it is."""
    sparse = WithEmptyFields({"type": "string"})
    assert share_equal_parts({"a": [sparse], "b": [{"type": "string"}]})["a"][0] is sparse


def points(decorator: Any, options: dict[str, bool]) -> tuple[Any, Any]:
    """Return a class with fields that only some methods look at, and one with methods of its own."""

    @decorator(**options)
    class Point:
        x: int
        y: int = dataclasses.field(default=0, compare=False)
        of: Any = dataclasses.field(default=None, repr=False)

    @decorator(**options)
    class Named:
        x: int
        y: int = 0

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "named"

    return Point, Named


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"slots": True}, {"eq": False}, {"repr": False}], ids=str)
def test_dataclasses_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    """Objects of a dataclass are equal, hashed and shown as those of the standard library."""
    for ours, theirs in zip(points(dataclass, options), points(dataclasses.dataclass, options), strict=True):
        seen = []
        for cls in (ours, theirs):
            one = cls(1, 2)
            equal = one == cls(1, 2), one == cls(1, 5), one == cls(2, 2), one == object()
            hashed = cls.__hash__ is not None and (hash(one) == hash(cls(1, 2)), hash(one) == hash(cls(1, 5)))
            shown = repr(one) if options.get("repr", True) else None
            seen.append((equal, hashed, shown, dataclasses.asdict(dataclasses.replace(one, y=9))))
        assert seen[0] == seen[1]


def derived(decorator: Any) -> Any:
    """Return a class that inherits a field with a factory."""

    @decorator
    class Base:
        x: int
        items: list[int] = dataclasses.field(default_factory=list)

    @decorator(kw_only=True, slots=True)
    class Derived(Base):
        y: int = 1
        both: int = dataclasses.field(init=False)
        seen: bool = dataclasses.field(default=False, init=False)

        def __post_init__(self) -> None:
            self.both = self.x + self.y

    return Derived


def test_initializers_are_those_of_the_standard_library() -> None:
    """An initializer takes what that of the standard library takes, for the first object and for later ones."""
    ours, theirs = derived(dataclass), derived(dataclasses.dataclass)
    with pytest.raises(TypeError, match=r"Derived.__init__\(\) missing 1 required positional argument: 'x'"):
        ours()
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert [dataclasses.asdict(cls(1, y=2)) for cls in (ours, ours)] == [dataclasses.asdict(theirs(1, y=2))] * 2
    assert ours(1).items is not ours(1).items

    @dataclass
    class Own:
        x: int

        def __init__(self) -> None:
            self.x = 3

    assert Own() == Own()
    assert Own().x == 3


def test_dataclasses_without_fields_and_with_themselves() -> None:
    """A dataclass without fields has equal objects only, and one that holds itself is shown without end."""

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass
    class Loop:
        of: Any = None

    assert Empty() == Empty()
    assert Empty() != object()
    loop = Loop()
    loop.of = loop
    assert repr(loop).endswith("Loop(of=...)")


def test_named_tuples_are_those_of_typing() -> None:
    """A named tuple has the fields, defaults, texts and methods that it would have of `typing.NamedTuple`."""

    class Standard(typing.NamedTuple):
        first: Any
        second: int = 2

    pair = Pair[str]("a")
    assert pair == ("a", 2) == tuple(Standard("a")) == pair.both
    assert repr(pair) == repr(Standard("a")).replace("Standard", "Pair")
    assert (Pair._fields, Pair._field_defaults) == (Standard._fields, Standard._field_defaults)
    assert pickle.loads(pickle.dumps(pair._replace(second=3))) == ("a", 3)
    assert not hasattr(pair, "__dict__")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'first'"):
        Pair()  # type: ignore[call-arg]
