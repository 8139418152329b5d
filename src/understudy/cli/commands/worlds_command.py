"""`understudy worlds`: lists the worlds that understudy brings along, one on a line; with a name, prints its YAML.

Exit code 0: printed; 2: there is no such world, or it takes no such parameter, or the release lacks what it needs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from understudy.cli.flags import add_server_flags
from understudy.cli.output import print_error

if TYPE_CHECKING:
    from understudy.cli.program import AddParser
    from understudy.worlds.world import World

PRINTED, UNUSABLE = 0, 2


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Lists the worlds that --load takes by name; with a name, prints the manifests of one."
    parser = add_parser(description=about)
    text = "print this world as YAML, in versions that the release serves: almost-full, 'nodes?count=3&gpus=8'"
    parser.add_argument("world", nargs="?", metavar="WORLD", help=text)
    add_server_flags(parser, ("emulated_version", "feature_gates"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the list or a world; return the exit code."""
    from understudy.cli.world_text import WorldsIn, world_text
    from understudy.worlds.catalog import worlds

    if args.world is None:
        width = max(map(len, worlds()))
        for world in worlds().values():
            print(f"{world.name:{width}}  {_described(world)}")
        return PRINTED
    try:
        text = world_text(args.world, WorldsIn(args.emulated_version, args.feature_gates or {}))
    except ValueError as why:
        print_error(why)
        return UNUSABLE
    print(text, end="")
    return PRINTED


def _described(world: World) -> str:
    """Describe a world in a line: what it is and needs, and the parameters it takes with their defaults."""
    parts = [world.summary]
    if world.needs:
        parts.append(f"Needs {', '.join(world.needs)}.")
    if world.parameters:
        values = (f"{name}={parameter.default}" for name, parameter in world.parameters.items())
        parts.append(f"?{'&'.join(values)}")
    return " ".join(parts)
