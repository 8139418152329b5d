"""`understudy dev`: a server, its controllers, a scheduler and a kubelet for each node, until it is stopped.

It prints one line for each step of a claim. Exit code 0: stopped by SIGINT or SIGTERM; 2: wrong flags or manifests.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from understudy.apiserver.cmd.cli import PORT
from understudy.apiserver.cmd.flags import add_server_flags, server_options

STOPPED, UNUSABLE = 0, 2


def add_command(commands: Any) -> None:
    """Add `understudy dev` to the commands of a parser."""
    about = "Serves the API with controllers, scheduler and kubelets, and tells what happens to each claim."
    parser = commands.add_parser("dev", help="run a whole control plane for DRA on a laptop", description=about)
    add_server_flags(parser)
    parser.add_argument("--kubeconfig", metavar="PATH", help="write a kubeconfig that points here (mode 0600)")
    parser.add_argument(
        "--root", metavar="DIR", type=Path, help="folder of the kubelets, one in it for each node (default: a new one)"
    )
    parser.set_defaults(run=run, port=PORT)


def run(args: argparse.Namespace) -> int:
    """Run until a signal comes; return the exit code."""
    from understudy.apiserver.client.manifests import LoadError
    from understudy.apiserver.server.server import new_loop

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_until_stopped(args))
    except (ValueError, LoadError, OSError) as why:
        print("understudy:", " ".join(str(why).splitlines()), file=sys.stderr)
        return UNUSABLE
    return STOPPED


async def _until_stopped(args: argparse.Namespace) -> None:
    from understudy.apiserver.kinds.release import Release
    from understudy.apiserver.server.server import Server
    from understudy.controlplane.dev.cluster import Cluster, controllers_of, until

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    options = server_options(args)
    release = Release.named(args.emulated_version).version
    options["controllers"] = controllers_of(release, list(options.get("controllers") or ()))
    server = Server(**options)
    await server.start()
    try:
        kubeconfig = args.kubeconfig or server.kubeconfig
        if args.kubeconfig:
            server.write_kubeconfig(args.kubeconfig)
        print(f"understudy: Kubernetes {release} API at {server.url}", flush=True)
        print(f"understudy: kubectl --kubeconfig {kubeconfig} …", flush=True)
        if not _has_grpc():
            print("understudy: no kubelets run: pip install 'understudy[kubelet]'", flush=True)
        with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
            await until(stopped, Cluster(server, args.root or Path(folder), _tell))
    finally:
        await server.stop()


def _has_grpc() -> bool:
    """Report whether the library is installed that kubelets need."""
    from importlib.util import find_spec

    return find_spec("grpc") is not None


def _tell(line: str) -> None:
    """Print a line of the account with the time; lines that go on with another one are indented."""
    print(f"{' ' * 8 if line.startswith(' ') else time.strftime('%H:%M:%S')} {line}", flush=True)
