"""`understudy devices`: says who holds which device: node, device, claim, pod, since when, and whether it is prepared.

Exit code 0: printed, 2: wrong flags, or a server that does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING

from understudy.cli.output import print_error
from understudy.cli.remote_server import add_remote_server_flags, connection_of, version_of

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.cli.program import AddParser
    from understudy.machinery.types import Obj

PRINTED, UNUSABLE = 0, 2


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Says who holds which device: node, device, claim, pod, since when, and whether it is prepared."
    parser = add_parser(description=about)
    add_remote_server_flags(parser)
    text = "json: a list of the devices that are held (default: %(default)s)"
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help=text)
    parser.set_defaults(run=run, emulated_version=None)


def run(args: argparse.Namespace) -> int:
    """Print a line for each device that a claim has; return the exit code."""
    from understudy.controlplane.dev.holdings import holdings, published, table
    from understudy.machinery.errors import StatusError

    try:
        slices, claims, pods = asyncio.run(_objects(args, connection_of(args)))
    except (ValueError, ConnectionError, StatusError, OSError) as why:
        print_error(why)
        return UNUSABLE
    rows = holdings(slices, claims, pods)
    if args.output == "json":
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        print("\n".join(table(rows, published(slices))))
    return PRINTED


async def _objects(args: argparse.Namespace, connection: Connection) -> tuple[list[Obj], list[Obj], list[Obj]]:
    """Return the slices, claims and pods of a server. Raises ValueError, ConnectionError, StatusError."""
    from understudy.controlplane.client.api_client import APIClient
    from understudy.controlplane.client.resources import PODS, resource_claims, resource_slices

    release = await version_of(args.emulated_version, connection)
    async with APIClient(connection, "understudy-devices") as client:
        kinds = (resource_slices(release), resource_claims(release), PODS)
        slices, claims, pods = [(await client.list(kind)).get("items") or [] for kind in kinds]
    return slices, claims, pods
