"""Compare how two API servers proxy requests to pods, services and nodes.

    python -m scripts.compare proxies https://127.0.0.1:6443 https://127.0.0.1:8001 --token T --host 192.0.2.2

The script plays the pod and the kubelet itself, at an address of this machine other than those of the loopback, which
kube-apiserver refuses. Both tell what they were asked. Compared are whole answers, but for dates and what names a
build; upgraded connections are relayed, a line in each direction. Differences are printed, then how many exchanges
agree. With `--save FILE` the exchanges of the left server are written there. The exit status is 1 if there are
differences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.common.comparing import Obj, Server, add_saving_arguments, require_servers
from scripts.compare.aggregation import Scene, judge
from scripts.compare.cases.aggregated_server import AggregatedServer
from scripts.compare.cases.proxy_requests import steps


@contextmanager
def backends(host: str) -> Iterator[tuple[AggregatedServer, AggregatedServer]]:
    """Run a plain server and a kubelet at an address."""
    with AggregatedServer(answers="/", host=host, plain=True) as plain, AggregatedServer(answers="/", host=host) as tls:
        yield plain, tls


def exchanges(server: Server, host: str, plain: AggregatedServer, kubelet: AggregatedServer) -> Iterator[Obj]:
    """Yield the exchanges with a server."""
    words = {str(kubelet.port): "KUBELET", host: "HOST"}
    yield from Scene(server, server.token, plain, words=words).exchanges(steps(host, plain, kubelet))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_saving_arguments(parser)
    parser.add_argument("--host", required=True, help="an address of this machine")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    with backends(options.host) as (plain, kubelet):
        left, right = (list(exchanges(server, options.host, plain, kubelet)) for server in servers)
    return judge(left, right, options.save)
