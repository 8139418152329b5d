"""`understudy controllers`: controllers for a server that runs already, a real one too, until they are stopped.

Exit code 0: stopped by SIGINT or SIGTERM; 1: a controller has ended with an error; 2: wrong flags, or a server that
does not tell its release.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from understudy.apiserver.server.options.values import names
from understudy.cli.output import print_error
from understudy.cli.remote_server import add_remote_server_flags, connection_of, stopped_by_signal, version_of

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.controlplane.components import Component, ComponentContext
    from understudy.machinery.types import Obj

SCHEDULER, NOT_READY = "scheduler", "node.kubernetes.io/not-ready"
STOPPED, FAILED, UNUSABLE = 0, 1, 2


def add_command(commands: Any) -> None:
    """Add `understudy controllers` to the commands of a parser."""
    about = "Runs controllers that reach an API server over HTTP, all as the user of the kubeconfig."
    parser = commands.add_parser("controllers", help="run controllers beside any API server", description=about)
    add_remote_server_flags(parser)
    text = "resourceclaim, device-taint-eviction, scheduler: some of them, separated by commas"
    parser.add_argument("--controllers", metavar="A,B", required=True, help=text)
    parser.add_argument("-v", "--verbose", action="store_true", help="tell on stderr what is tried again")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run until a signal comes, or until a controller fails; return the exit code."""
    from understudy.machinery.errors import StatusError

    level = logging.INFO if args.verbose else logging.WARNING
    logging.basicConfig(format="%(asctime)s %(name)s: %(message)s", level=level)
    try:
        return asyncio.run(_until_stopped(args, connection_of(args)))
    except (ValueError, ConnectionError, StatusError, OSError) as why:
        print_error(why)
        return UNUSABLE


async def _until_stopped(args: argparse.Namespace, connection: Connection) -> int:
    from understudy.controlplane.components import ComponentContext
    from understudy.machinery.releases.features import Gates

    stopped = stopped_by_signal()
    version = await version_of(args.emulated_version, connection)
    context = ComponentContext(lambda user: connection, version, Gates.of(version, args.feature_gates))
    components = _components(names(args.controllers), context)
    if SCHEDULER in components:
        await _warn_of_taints(connection)
    print(f"understudy: {', '.join(components)} of {version} at {connection.url}", flush=True)
    tasks = [asyncio.create_task(component(context), name=name) for name, component in components.items()]
    try:
        return await _wait(stopped, tasks)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):  # it has been told, or the program ends anyway
                await task


async def _warn_of_taints(connection: Connection) -> None:
    """Say which nodes get no pods, since the taint was not removed that admission gives to new ones."""
    from understudy.controlplane.client.api_client import APIClient
    from understudy.controlplane.client.resources import NODES

    async with APIClient(connection, "understudy") as client:
        nodes = (await client.list(NODES))["items"]
    tainted = [node["metadata"]["name"] for node in nodes if any(map(_is_not_ready, node["spec"].get("taints") or ()))]
    if tainted:
        who = "kube-controller-manager does it, or the server with --controllers=node-lifecycle"
        print_error(f"nobody has removed the taint {NOT_READY} from {', '.join(tainted)}: {who}")


def _is_not_ready(taint: Obj) -> bool:
    return bool(taint["key"] == NOT_READY)


def _components(chosen: list[str], context: ComponentContext) -> dict[str, Component]:
    """Return components by name. Raises ValueError for a name that none has, or none of the release."""
    from understudy.controlplane.components import component_names, load_component, short_name
    from understudy.machinery.util.spelling import did_you_mean

    known = component_names()
    if not chosen:
        raise ValueError(f"no controller is named: known are {', '.join(known)}")
    for name in chosen:
        if name not in known and short_name(name) not in known:
            raise ValueError(f"unknown controller {name!r}: known are {', '.join(known)}{did_you_mean(name, known)}")
    short = (name if name in known else short_name(name) for name in chosen)
    return {name: load_component(name, context.version) for name in short}


async def _wait(stopped: asyncio.Event, tasks: list[asyncio.Task[None]]) -> int:
    """Wait for the signal, or for a controller that ends with an error; one that has nothing to do may end."""
    signal = asyncio.create_task(stopped.wait())
    running: set[asyncio.Task[Any]] = {signal, *tasks}
    try:
        while not signal.done():
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {signal}:
                if (error := task.exception()) is not None:
                    print_error(f"controller {task.get_name()}: {error!r}")
                    return FAILED
        return STOPPED
    finally:
        signal.cancel()
