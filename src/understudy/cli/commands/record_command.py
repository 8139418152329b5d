"""`understudy record`: writes the objects of a running cluster as a world, to begin with them later.

    understudy record --context kind-dev -o world.yaml
    understudy serve --load world.yaml

Exit code 0: recorded; 1: some kinds could not be read; 2: wrong flags, or a server that does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.server.options.values import names
from understudy.cli.output import print_error

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.cli.program import AddParser
    from understudy.controlplane.recorder.recording import Recording

RECORDED, INCOMPLETE, UNUSABLE = 0, 1, 2


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Writes the objects of a running cluster, without its secrets, as a file that --load takes."
    parser = add_parser(description=about)
    add = parser.add_argument
    add("--kubeconfig", metavar="PATH", help="the way to the cluster (default: KUBECONFIG, or ~/.kube/config)")
    add("--context", metavar="NAME", default="", help="a context of that file (default: its current one)")
    add("--server", metavar="URL", help="a server that asks for no credentials, in place of a kubeconfig")
    text = "only objects of these namespaces, and those of none (default: all)"
    add("-n", "--namespace", action="extend", type=names, default=[], metavar="NAME,NAME", help=text)
    text = "only objects of these kinds: ResourceSlice,nodes (default: all but secrets and what controllers derive)"
    add("--kinds", action="extend", type=names, default=[], metavar="KIND,KIND", help=text)
    add("-o", "--output", metavar="FILE", help="where to write (default: standard output)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Record a cluster; return the exit code. A line on stderr says what was recorded and left out."""
    from understudy.machinery.errors import StatusError

    try:
        recording = asyncio.run(_recorded(args, _connection(args)))
        text = recording.text()
        if args.output:
            Path(args.output).write_text(text)
        else:
            sys.stdout.write(text)
    except (ValueError, ConnectionError, StatusError, OSError) as why:
        print_error(why)
        return UNUSABLE
    for error in recording.unread:
        print_error(error)
    print(f"understudy: {recording.summary()}", file=sys.stderr)
    return INCOMPLETE if recording.unread else RECORDED


def _connection(args: argparse.Namespace) -> Connection:
    """Return the way to the cluster. Raises ValueError, KubeconfigError."""
    from understudy.apiserver.client.connection import Connection
    from understudy.apiserver.client.external.kubeconfig_reader import default_kubeconfig, read_kubeconfig

    if args.server:
        if args.kubeconfig or args.context:
            raise ValueError("name either a server or a context of a kubeconfig")
        return Connection(url=args.server.rstrip("/"))
    return read_kubeconfig(args.kubeconfig or default_kubeconfig(), args.context)


async def _recorded(args: argparse.Namespace, connection: Connection) -> Recording:
    """Return the recording of a cluster. Raises ValueError, ConnectionError, StatusError."""
    from understudy.controlplane.client.api_client import APIClient
    from understudy.controlplane.recorder.recording import Choice, record

    async with APIClient(connection, "understudy-record") as client:
        return await record(client.get_path, Choice(args.namespace, args.kinds))
