"""Flags of programs that use an API server: which one, and the release and feature gates that it has."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import TYPE_CHECKING

from understudy.apiserver.serving.release import Release, release_names
from understudy.cli.flags import add_server_flags

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.machinery.releases.version import Version


def add_remote_server_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--server` and `--kubeconfig`, of which one is needed, `--emulated-version` and `--feature-gates`."""
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--server", metavar="URL", help="an API server that asks for no credentials")
    server.add_argument("--kubeconfig", metavar="PATH", help="server and user of its current context")
    text = f"{release_names()} (default: the server's)"
    parser.add_argument("--emulated-version", metavar="VERSION", help=text)
    add_server_flags(parser, ("feature_gates",))


def connection_of(args: argparse.Namespace) -> Connection:
    """Return the connection to the server that the flags name. Raises KubeconfigError."""
    from understudy.apiserver.client.connection import Connection
    from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig

    return read_kubeconfig(args.kubeconfig) if args.kubeconfig else Connection(url=args.server.rstrip("/"))


async def version_of(name: str | None, connection: Connection) -> Version:
    """Return a release by name, or that of the server. Raises ValueError and ConnectionError."""
    from understudy.controlplane.client.api_client import APIClient

    if name is not None:
        return Release.named(name).version
    async with APIClient(connection, "understudy") as client:
        return Release.named(str(await client.server_version())).version


def stopped_by_signal() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped
