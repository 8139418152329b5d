"""`understudy dev`: a server, its controllers, a scheduler and a kubelet for each node, until it is stopped.

It prints one line for each step of a claim, and on Ctrl-T who holds which device. Exit code 0: stopped by SIGINT or
SIGTERM; 2: wrong flags or manifests.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import tempfile
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.flags import add_server_flags, server_options
from understudy.cli.output import print_error
from understudy.cli.program import PORT, USAGE_ERROR, run_server
from understudy.cli.status_key import StatusKey
from understudy.controlplane.dev.controllers import CONTROLLERS, DEVICE_TAINT_EVICTION, controllers_of

if TYPE_CHECKING:
    from understudy.cli.program import AddParser
    from understudy.controlplane.server import Server


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Serves the API with controllers, scheduler and kubelets, and tells what happens to each claim."
    parser = add_parser(description=about)
    always = f"{', '.join(CONTROLLERS)} and, with its feature gate, {DEVICE_TAINT_EVICTION}, which run in any case"
    add_server_flags(parser, defaults={"controllers": always, "ui": "true"})
    parser.add_argument("--kubeconfig", metavar="PATH", help="write a kubeconfig that points here (mode 0600)")
    text = "write a page of all that there is at the end, a file that a browser opens"
    parser.add_argument("--report", metavar="FILE", type=Path, help=text)
    parser.add_argument(
        "--root", metavar="DIR", type=Path, help="folder of the kubelets, one in it for each node (default: a new one)"
    )
    text = "until failed claims are tried again (default: %(default)s)"
    parser.add_argument("--sync-frequency", metavar="SECONDS", type=float, default=10.0, help=text)
    simulation = parser.add_argument_group("simulation", "run on a clock that jumps, without sockets, and end")
    simulation.add_argument("--simulate", metavar="DURATION", help="how long, such as 24h: that takes seconds")
    text = "what chance decides: the same seed gives the same history (default: %(default)s)"
    simulation.add_argument("--seed", metavar="NUMBER", type=int, default=0, help=text)
    simulation.add_argument("--history", metavar="FILE", help="write a line of JSON for each write")
    text = "pods that come and go (default: none)"
    simulation.add_argument("--workload", metavar="per_hour=10,minutes=30,device_class=NAME,cpu=100m", help=text)
    text = "nodes and drivers that fail and come back; nodes have heartbeats then (default: none)"
    metavar = "nodes_per_day=2,node_minutes=15,drivers_per_day=12,driver_minutes=1"
    simulation.add_argument("--failures", metavar=metavar, help=text)
    parser.set_defaults(run=run, port=PORT, ui=True)


def run(args: argparse.Namespace) -> int:
    """Run until a signal comes, or for the time of a simulation; return the exit code."""
    if args.simulate is not None:
        if args.report is not None:
            print_error("--report does not go with --simulate")
            return USAGE_ERROR
        return simulate(args)
    for flag in ("history", "workload", "failures"):
        if getattr(args, flag) is not None:
            print_error(f"--{flag} goes with --simulate")
            return USAGE_ERROR
    if args.report is not None and not args.report.absolute().parent.is_dir():
        print_error(f"--report: there is no folder {args.report.parent}")
        return USAGE_ERROR
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the library reports every connection that a driver ends

    key = StatusKey()

    async def use(server: Server, stopped: Future[None]) -> None:
        from understudy.controlplane.dev.cluster import Cluster, until
        from understudy.machinery.serializer.rpc.installation import has_grpc, install_command

        if args.kubeconfig:
            server.write_kubeconfig(args.kubeconfig)
        print(f"understudy: Kubernetes {server.state.release.version} API at {server.url}", flush=True)
        print(f"understudy: kubectl --kubeconfig {args.kubeconfig or server.kubeconfig} …", flush=True)
        if args.ui:
            print(f"understudy: {server.url}/ui/ shows it in a browser", flush=True)
        if not has_grpc():
            print(f"understudy: no kubelets run, they need grpcio: {install_command()}", flush=True)
        with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
            cluster = Cluster(server, args.root or Path(folder), _tell, args.sync_frequency)
            key.calls(cluster.tell_devices)
            try:
                await until(asyncio.wrap_future(stopped), cluster)
            finally:
                key.forget()
        if args.report is not None:
            args.report.write_text(await server.report_page("understudy dev"), encoding="utf-8")
            print(f"understudy: {args.report} shows what there was", flush=True)

    with key:
        return run_server(lambda: _options(args), use)


def simulate(args: argparse.Namespace) -> int:
    """Run a simulation; return the exit code."""
    from understudy.apiserver.client.manifests import LoadError
    from understudy.controlplane.simulation.failures import Failures
    from understudy.controlplane.simulation.workload import Workload
    from understudy.machinery.golang.times import parse_duration

    logging.basicConfig(format="%(message)s", level=logging.ERROR)
    duration = parse_duration(args.simulate) or 0
    try:
        from understudy.controlplane.simulation.simulation import Simulation

        if duration <= 0:
            raise ValueError(f"want a time to simulate such as 24h, not {args.simulate!r}")
        workload = None if args.workload is None else Workload.parse(args.workload)
        failures = None if args.failures is None else Failures.parse(args.failures)
        simulation = Simulation(args.seed, workload=workload, failures=failures, **server_options(args))
        began = time.monotonic()
        simulation.run(minutes=duration / 60e9, history=args.history)
    except ImportError as why:
        if why.name != "grpc":
            raise
        print_error(f"--simulate {why}")
        return USAGE_ERROR
    except (ValueError, OSError, LoadError) as why:
        print_error(str(why))
        return USAGE_ERROR
    took, pods = time.monotonic() - began, simulation.objects("pods")
    running = sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)
    counts = [f"{len(pods)} pods, {running} running"]
    happened = Counter(incident["type"] for incident in simulation.incidents)
    if args.failures is not None:
        counts += [f"{happened['NODE_DOWN']} nodes and {happened['DRIVER_DOWN']} drivers failed"]
    if simulation.faults:
        counts += [f"{simulation.faults} faults"]
    print(f"understudy: {args.simulate} in {took:.1f} s, {simulation.writes} writes; {'; '.join(counts)}")
    return 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the server, with all controllers that its feature gates allow. Raises ValueError."""
    from understudy.apiserver.serving.release import Release
    from understudy.machinery.releases.features import Gates

    options = server_options(args)
    gates = Gates.of(Release.named(args.emulated_version).version, options.get("feature_gates"))
    return {**options, "controllers": controllers_of(gates, list(options.get("controllers") or ()))}


def _tell(line: str) -> None:
    """Print a line of the account with the time; lines that go on with another one are indented."""
    print(f"{' ' * 8 if line.startswith(' ') else time.strftime('%H:%M:%S')} {line}", flush=True)
