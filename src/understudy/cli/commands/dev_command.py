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
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.flags import add_server_flags, server_options
from understudy.cli.program import PORT, run_server
from understudy.cli.status_key import StatusKey
from understudy.controlplane.dev.controllers import CONTROLLERS, DEVICE_TAINT_EVICTION, controllers_of

if TYPE_CHECKING:
    from understudy.controlplane.server import Server


def add_command(commands: Any) -> None:
    """Add `understudy dev` to the commands of a parser."""
    about = "Serves the API with controllers, scheduler and kubelets, and tells what happens to each claim."
    parser = commands.add_parser("dev", help="run a whole control plane for DRA on a laptop", description=about)
    always = f"{', '.join(CONTROLLERS)} and, with its feature gate, {DEVICE_TAINT_EVICTION}, which run in any case"
    add_server_flags(parser, defaults={"controllers": always})
    parser.add_argument("--kubeconfig", metavar="PATH", help="write a kubeconfig that points here (mode 0600)")
    parser.add_argument(
        "--root", metavar="DIR", type=Path, help="folder of the kubelets, one in it for each node (default: a new one)"
    )
    text = "until failed claims are tried again (default: %(default)s)"
    parser.add_argument("--sync-frequency", metavar="SECONDS", type=float, default=10.0, help=text)
    parser.set_defaults(run=run, port=PORT)


def run(args: argparse.Namespace) -> int:
    """Run until a signal comes; return the exit code."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the library reports every connection that a driver ends

    key = StatusKey()

    async def use(server: Server, stopped: Future[None]) -> None:
        from understudy.controlplane.dev.cluster import Cluster, until
        from understudy.controlplane.kubelet.installation import has_grpc, install_command

        if args.kubeconfig:
            server.write_kubeconfig(args.kubeconfig)
        print(f"understudy: Kubernetes {server.state.release.version} API at {server.url}", flush=True)
        print(f"understudy: kubectl --kubeconfig {args.kubeconfig or server.kubeconfig} …", flush=True)
        if not has_grpc():
            print(f"understudy: no kubelets run, they need grpcio: {install_command()}", flush=True)
        with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
            cluster = Cluster(server, args.root or Path(folder), _tell, args.sync_frequency)
            key.calls(cluster.tell_devices)
            try:
                await until(asyncio.wrap_future(stopped), cluster)
            finally:
                key.forget()

    with key:
        return run_server(lambda: _options(args), use)


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
