"""`understudy kubelet`: the kubelet of one node, without containers, until it is stopped.

Exit code 0: stopped by SIGINT or SIGTERM; 2: wrong flags, a server that does not answer, a broken file of prepared
claims, or no gRPC library.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.server.options.values import pairs
from understudy.cli.output import print_error
from understudy.cli.remote_server import add_remote_server_flags, connection_of, stopped_by_signal, version_of

if TYPE_CHECKING:
    from understudy.apiserver.client.connection import Connection
    from understudy.cli.program import AddParser

STOPPED, UNUSABLE = 0, 2


def add_command(add_parser: AddParser) -> None:
    """Add the command with its flags."""
    about = "Prepares the claims of a node's pods with DRA drivers that register in DIR/plugins_registry."
    parser = add_parser(description=about)
    add_remote_server_flags(parser)
    parser.add_argument("--node", metavar="NAME", required=True, help="name of the node")
    parser.add_argument("--root", metavar="DIR", required=True, type=Path, help="folder of sockets and state")
    parser.add_argument(
        "--client-ca-file",
        metavar="FILE",
        type=Path,
        help="answer clients only whose certificate an authority in a file (PEM) has signed: the API server, by its "
        "--kubelet-client-certificate",
    )
    parser.add_argument(
        "--exec",
        metavar="HOST-COMMAND",
        type=shlex.split,
        help="run a command of this machine for commands in pods, which follow as arguments, and forward ports; the "
        "environment has POD_NAMESPACE, POD_NAME, POD_UID and CONTAINER_NAME. Needs --client-ca-file",
    )
    parser.add_argument(
        "--pod-addresses",
        metavar="NAMESPACE/NAME:PORT=HOST:PORT,...",
        type=pairs,
        help="where ports of pods are forwarded to (default: the same port of 127.0.0.1)",
    )
    parser.add_argument("--register-node", action="store_true", help="create the Node, ready, if it does not exist")
    parser.add_argument(
        "--sync-frequency",
        metavar="SECONDS",
        type=float,
        help="until failed claims are tried again (default: 60 to prepare them, 10 to unprepare them)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="tell on stderr what happens")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run until a signal comes; return the exit code."""
    from understudy.apiserver.client.external.kubeconfig_reader import KubeconfigError

    logging.basicConfig(
        format="%(asctime)s %(name)s: %(message)s", level=logging.INFO if args.verbose else logging.WARNING
    )
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the library reports every connection that a driver ends
    try:
        from understudy.controlplane.kubelet.dra.claim_info import CheckpointError
        from understudy.machinery.errors import StatusError

        return asyncio.run(_until_stopped(args, connection_of(args)))
    except ImportError as why:
        if why.name != "grpc":
            raise
        print_error(f"kubelet {why}")
    except (KubeconfigError, CheckpointError, StatusError, ValueError, OSError) as why:
        print_error(why)
    return UNUSABLE


async def _until_stopped(args: argparse.Namespace, connection: Connection) -> int:
    from understudy.controlplane.kubelet.kubelet import Kubelet
    from understudy.controlplane.kubelet.pods import BACKOFF_PERIOD, RESYNC_PERIOD
    from understudy.machinery.releases.features import Gates

    stopped = stopped_by_signal()
    version = await version_of(args.emulated_version, connection)
    resync_period = args.sync_frequency or RESYNC_PERIOD
    kubelet = Kubelet(
        connection,
        args.node,
        args.root,
        version,
        Gates.of(version, args.feature_gates),
        register_node=args.register_node,
        serves_logs=True,
        client_ca_file=args.client_ca_file,
        exec_command=args.exec,
        pod_addresses=args.pod_addresses,
        resync_period=resync_period,
        backoff_period=min(BACKOFF_PERIOD, resync_period),
    )
    async with kubelet:
        print(f"understudy: kubelet {version} of node {args.node}, plugins in {args.root}/plugins_registry", flush=True)
        await stopped.wait()
    return STOPPED
