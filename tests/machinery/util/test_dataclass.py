"""Classes of `machinery.util.dataclass` behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import understudy
from understudy.machinery.util.dataclass import dataclass

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "order": True},
    {"frozen": True, "kw_only": True, "eq": False},
    {"eq": False, "slots": True},
]


def classes(decorate: Callable[..., Any], options: dict[str, bool]) -> tuple[type, type]:
    """Return a class with every kind of field, and one below it."""

    @decorate(**options)
    class Above:
        """A class."""

        first: int
        count: ClassVar[int] = 7
        unseen: int = field(default=1, repr=False, compare=False)
        items: list[int] = field(default_factory=list, hash=False)
        number: int = field(default=5, init=False)

    @decorate(**options)
    class Below(Above):
        """A class below."""

        more: str = "x"
        last: int = field(default=3, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "number", self.first + 1)

    return Above, Below


def outcome(do: Callable[[], object]) -> object:
    """Call a function; return its result or the error that it raises."""
    try:
        return do()
    except Exception as why:
        return type(why), str(why)


def told(decorate: Callable[..., Any], options: dict[str, bool]) -> list[object]:
    """Use two classes in every way; return their answers."""
    said = list[object]()
    cls: Any
    for cls in classes(decorate, options):
        one, same, other = cls(first=1), cls(first=1, unseen=9), cls(first=2, items=[1])
        said += [
            repr(one),
            one == same,
            one == other,
            one == 1,
            outcome(lambda: one < other),  # noqa: B023
            outcome(lambda: one >= 1),  # noqa: B023
            outcome(lambda: {one: 1}[same]),  # noqa: B023
            outcome(lambda: setattr(one, "first", 4)),  # noqa: B023
            outcome(lambda: delattr(one, "number")),  # noqa: B023
            outcome(lambda: repr(cls(1))),  # noqa: B023
            outcome(lambda: cls(1, 2, 3, 4, 5, 6, 7)),  # noqa: B023
            outcome(lambda: cls(first=1, number=2)),  # noqa: B023
            repr(dataclasses.replace(other, first=8)) if cls.__name__ == "Below" else None,
            dataclasses.asdict(other),
            [f.name for f in dataclasses.fields(cls)],
            repr(copy.copy(other)),
            hasattr(one, "__dict__"),
            cls.__match_args__,
            list(inspect.signature(cls).parameters),
            [parameter.kind for parameter in inspect.signature(cls).parameters.values()],
        ]
    return said


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_class_behaves_as_one_of_the_standard_library(options: dict[str, bool]) -> None:
    """Objects are made, shown, compared, hashed, ordered, frozen, copied and replaced as the standard library does."""
    assert told(dataclass, options) == told(dataclasses.dataclass, options)


@dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 0


def test_frozen_object_with_slots_is_pickled() -> None:
    """A frozen object with slots comes back from its pickle."""
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_methods_are_made_when_they_are_first_called() -> None:
    """The definition of a class compiles nothing: the first object makes `__init__` alone."""

    @dataclass(frozen=True)
    class Fresh:
        """A class."""

        x: int

    assert not inspect.isfunction(vars(Fresh)["__init__"])
    one = Fresh(1)
    assert inspect.isfunction(vars(Fresh)["__init__"])
    assert not inspect.isfunction(vars(Fresh)["__eq__"])
    assert one == Fresh(1)
    assert inspect.isfunction(vars(Fresh)["__eq__"])


def test_methods_of_the_class_stay() -> None:
    """A method that the class defines itself is not replaced."""

    @dataclass(frozen=True)
    class Own:
        """A class."""

        x: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(3))) == ("mine", True, 7)


def test_class_below_may_have_other_attributes() -> None:
    """A class below a frozen one that is no dataclass sets attributes of its own, and no field."""

    @dataclass(frozen=True)
    class Above:
        """A class."""

        x: int

    class Below(Above):
        """Has an attribute that is no field."""

    below = Below(1)
    below.name = "n"  # type: ignore[attr-defined]
    assert below.name == "n"  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.x = 2  # type: ignore[misc]


def test_all_dataclasses_of_understudy_are_these() -> None:
    """No other module asks the standard library for `dataclass`, whose classes would make every start slower."""
    folder = Path(understudy.__file__).parent
    asking = [
        file.relative_to(folder)
        for file in folder.rglob("*.py")
        if re.search(r"from dataclasses import .*\bdataclass\b|dataclasses\.dataclass\(", file.read_text())
    ]
    assert asking == [Path("machinery/util/dataclass.py")]
