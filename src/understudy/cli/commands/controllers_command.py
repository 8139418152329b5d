"""`understudy controllers`: controllers for a server that runs already, a real one too, until they are stopped.

Exit code 0: stopped by SIGINT or SIGTERM; 1: a controller has ended with an error; 2: wrong flags, or a server that
does not tell its release.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from understudy.apiserver.server.options.replicas import ReplicaOptions
from understudy.apiserver.server.options.values import names
from understudy.cli.flags import add_server_flags
from understudy.cli.output import print_error
from understudy.cli.remote_server import add_remote_server_flags, connection_of, stopped_by_signal, version_of

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.apiserver.controllers.framework.leader_election import Election
    from understudy.cli.program import AddParser
    from understudy.controlplane.components import Component, ComponentContext
    from understudy.machinery.types import Obj

ELECTION = [option.name for option in fields(ReplicaOptions) if option.name.startswith("leader_elect")]
SCHEDULER, NOT_READY = "scheduler", "node.kubernetes.io/not-ready"
STOPPED, FAILED, UNUSABLE = 0, 1, 2


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Runs controllers that reach an API server over HTTP, all as the user of the kubeconfig."
    parser = add_parser(description=about)
    add_remote_server_flags(parser)
    text = "resourceclaim, device-taint-eviction, scheduler: some of them, separated by commas"
    parser.add_argument("--controllers", metavar="A,B", required=True, help=text)
    add_server_flags(parser, ELECTION, {"leader_elect": "false"})
    parser.add_argument("-v", "--verbose", action="store_true", help="tell on stderr what is tried again")
    parser.set_defaults(run=run, leader_elect=False)


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
    from understudy.apiserver.controllers.framework.leader_election import LeaderElector
    from understudy.controlplane.client.api_client import APIClient
    from understudy.controlplane.components import ComponentContext, lease_of
    from understudy.machinery.releases.features import Gates

    stopped, election = stopped_by_signal(), _election(args)
    version = await version_of(args.emulated_version, connection)
    context = ComponentContext(lambda user: connection, version, Gates.of(version, args.feature_gates))
    components = _components(names(args.controllers), context)
    if SCHEDULER in components:
        await _warn_of_taints(connection)
    print(f"understudy: {', '.join(components)} of {version} at {connection.url}", flush=True)
    async with AsyncExitStack() as clients:
        if election is None:
            runs = {name: component(context) for name, component in components.items()}
        else:
            runs = {}
            for lease in dict.fromkeys(map(lease_of, components)):
                client = await clients.enter_async_context(APIClient(connection, lease))
                elector = LeaderElector(client.verbs, context.clock, election, lease)
                elected = [component for name, component in components.items() if lease_of(name) == lease]
                runs[lease] = elector.run(partial(_run_all, elected, context))
        tasks = [asyncio.create_task(run, name=name) for name, run in runs.items()]
        try:
            return await _wait(stopped, tasks)
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):  # it has been told, or the program ends anyway
                    await task


async def _run_all(components: Iterable[Component], context: ComponentContext) -> None:
    """Run components until cancelled, or until one fails. Raises its error."""
    async with asyncio.TaskGroup() as tasks:
        for component in components:
            tasks.create_task(component(context))


def _election(args: argparse.Namespace) -> Election | None:
    """Return the times of the election of `--leader-elect`, None without it. Raises ValueError."""
    options = ReplicaOptions(**{name: getattr(args, name) for name in ELECTION})
    return options.leader_election if options.leader_elect else None


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
