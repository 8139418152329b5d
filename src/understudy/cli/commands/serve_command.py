"""`understudy serve`: serve the Kubernetes API until stopped."""

from __future__ import annotations

import argparse
import asyncio
import logging
from typing import TYPE_CHECKING

from understudy.cli.flags import add_server_flags, server_options
from understudy.cli.program import PORT, run_server

if TYPE_CHECKING:
    from concurrent.futures import Future

    from understudy.cli.program import AddParser
    from understudy.controlplane.server import Server


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    parser = add_parser(description="Serves the Kubernetes API until stopped.")
    add_server_flags(parser)
    parser.add_argument("--kubeconfig", metavar="PATH", help="write a kubeconfig that points here (mode 0600)")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line on stderr per request")
    parser.set_defaults(run=_serve, port=PORT)


def _serve(args: argparse.Namespace) -> int:
    logging.basicConfig(format="%(message)s", level=logging.DEBUG if args.verbose else logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)

    async def announce(server: Server, stopped: Future[None]) -> None:
        if args.kubeconfig:
            server.write_kubeconfig(args.kubeconfig)
        print(f"understudy: Kubernetes {server.state.release.version} API at {server.url}", flush=True)
        if args.ui:
            print(f"understudy: {server.url}/ui/ shows it in a browser", flush=True)
        await asyncio.wrap_future(stopped)

    return run_server(lambda: server_options(args), announce)
