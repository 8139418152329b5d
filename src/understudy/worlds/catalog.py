"""Finds worlds by their names: `world:almost-full`, `world:nodes?count=5000&gpus=8`."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.spelling import did_you_mean
from understudy.worlds.generated.devices import DEVICE_WORLDS
from understudy.worlds.generated.nodes import NODES
from understudy.worlds.world import Value, World, WorldError
from understudy.worlds.written import written_worlds

PREFIX = "world:"


class Chosen(NamedTuple):
    """A world with values for all its parameters; `text` is how it was asked for."""

    world: World
    values: Mapping[str, Value]
    text: str


def worlds() -> dict[str, World]:
    """Return all worlds by name, in the order of their names."""
    generated = {world.name: world for world in (NODES, *DEVICE_WORLDS)}
    return dict(sorted({**written_worlds(), **generated}.items()))


def is_named(text: str) -> bool:
    """Report whether a text names a world: with the prefix whatever it is, without it if there is such a world."""
    return text.startswith(PREFIX) or text.partition("?")[0] in worlds()


def chosen(text: str) -> Chosen:
    """Return the world that a text names, with or without the prefix. Raises WorldError, which begins with the text."""
    name, question, query = text.removeprefix(PREFIX).partition("?")
    world = worlds().get(name)
    if world is None:
        nearest = did_you_mean(name, worlds()) or ";"
        raise WorldError(f"{text}: there is no world {name!r}{nearest} `understudy worlds` lists all")
    try:
        return Chosen(world, _values(world, query if question else None), text)
    except WorldError as why:
        raise WorldError(f"{text}: {why}") from None


def _values(world: World, query: str | None) -> dict[str, Value]:
    """Return the values of all parameters; those that a query leaves out have their defaults. Raises WorldError."""
    from urllib.parse import unquote_plus

    values = {name: parameter.default for name, parameter in world.parameters.items()}
    given: set[str] = set()
    for part in [] if query is None else query.split("&"):
        name, equals, text = part.partition("=")
        if name not in world.parameters:
            known = f"it takes {', '.join(world.parameters)}" if world.parameters else "it takes none"
            raise WorldError(f"there is no parameter {name!r}, {known}{did_you_mean(name, world.parameters)}")
        if not equals:
            raise WorldError(f"{name} has no value")
        if name in given:
            raise WorldError(f"{name} is given twice")
        given.add(name)
        values[name] = world.parameters[name].read(name, unquote_plus(text))
    return values
