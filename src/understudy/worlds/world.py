"""A world: a name, objects, and what they need of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from understudy.machinery.types import NamedTuple, Obj, dataclass
from understudy.machinery.util.spelling import did_you_mean

Value = int | str


class WorldError(ValueError):
    """A world that is not there, takes no such parameter, or needs what a release does not have; one line."""


class WorldObject(NamedTuple):
    """An object of a world, in the newest version of its API, and its place for people."""

    obj: Obj
    where: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that can be chosen of a generated world.

    default  its type is that of the value
    about    one line
    least, most  of a number
    choices      the texts that there are, () for any
    """

    default: Value
    about: str
    least: int = 0
    most: int = 100_000
    choices: tuple[str, ...] = ()

    def read(self, name: str, text: str) -> Value:
        """Return the value of a text. Raises WorldError."""
        if isinstance(self.default, int):
            if not text.isdecimal() or not self.least <= int(text) <= self.most:
                raise WorldError(f"{name} is a number from {self.least} to {self.most}, not {text!r}")
            return int(text)
        if not text:
            raise WorldError(f"{name} has no value")
        if self.choices and text not in self.choices:
            raise WorldError(
                f"{name} is one of {', '.join(self.choices)}, not {text!r}{did_you_mean(text, self.choices)}"
            )
        return text


@dataclass(frozen=True, slots=True)
class World:
    """A world by its name.

    summary     one line
    make        returns its objects for values of all its parameters
    needs       the feature gates without which it would lose what it is for
    parameters  those that a generated world takes
    """

    name: str
    summary: str
    make: Callable[[Mapping[str, Value]], Iterable[WorldObject]]
    needs: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
