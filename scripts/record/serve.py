"""Run a new kube-apiserver of any release until it is stopped, to record from it or to compare with it.

    python -m scripts.record serve v1.38.0
    python -m scripts.record serve v1.38.0 --flag=--feature-gates=AllAlpha=true --flag=--runtime-config=api/all=true

It prints the address, and the token of a member of system:masters. What it needs is built first, as
`python -m scripts.record release` does. Controllers, scheduler and kubelet do not run; everybody with a token may do
everything, unless flags say otherwise.
"""

from __future__ import annotations

import argparse
import signal
import threading
from contextlib import suppress

from scripts.record.release import add_build_arguments, modules_of
from scripts.record.upstream.modules import build_etcd
from scripts.record.upstream.server import TOKEN, api_server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_build_arguments(parser)
    parser.add_argument(
        "--flag", action="append", default=[], metavar="--NAME=VALUE", help="a flag of kube-apiserver; may be repeated"
    )


def run(options: argparse.Namespace) -> int:
    modules = modules_of(options)
    program, etcd = modules.build(("kube-apiserver",)) / "kube-apiserver", build_etcd(modules.cache)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with api_server(program, etcd, *options.flag) as server, suppress(KeyboardInterrupt):
        print(f"kube-apiserver {modules.version} at {server.url}, token {TOKEN}", flush=True)
        stopped.wait()
    return 0
