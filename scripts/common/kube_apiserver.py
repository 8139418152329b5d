"""Runs understudy with the flags of kube-apiserver, on an etcd.

What kube-apiserver does and `understudy serve` leaves to its user is as there: requests wait for seats, and versions
that are not stable are served only if `--runtime-config` says so. Controllers run elsewhere, if at all.
"""

import asyncio
import os
import sys
from concurrent.futures import Future
from typing import Any

from understudy.cli.envtest.command_line import FlagError, Flags, parse_pflags, recorded_flags
from understudy.cli.envtest.options import server_options, without_effect
from understudy.cli.program import run_server
from understudy.controlplane.server import Server

OWN_FLAGS = {"storage": "string", "apiserver-count": "int"}  # which is deprecated, and not listed


def options(argv: list[str]) -> dict[str, Any]:
    """Return the options of a server for flags of kube-apiserver. Raises ValueError."""
    try:
        flags, _ = parse_pflags(argv, {**recorded_flags("kube-apiserver"), **OWN_FLAGS})
    except FlagError as why:
        raise ValueError(str(why)) from None
    if "storage" in flags:
        flags.pop("etcd-servers", None)
    for flag in without_effect(flags):
        print(f"{flag} has no effect", file=sys.stderr)
    return server_options(as_kube_apiserver(flags), os.getcwd())


def as_kube_apiserver(flags: Flags) -> Flags:
    """Return flags with kube-apiserver's defaults for those whose default is another one here."""
    return {
        "controllers": [""],
        "enable-priority-and-fairness": ["true"],
        **flags,
        "runtime-config": _with_stable_versions(flags.get("runtime-config", [])),
    }


def main() -> int:
    """Run a server until a signal comes; return the exit code."""
    return run_server(lambda: options(sys.argv[1:]), _until)


def _with_stable_versions(served: list[str]) -> list[str]:
    """Return values of `--runtime-config` that leave out versions which are not stable unless they say otherwise."""
    return served if "api/all=" in ",".join(served) else ["api/alpha=false,api/beta=false", *served]


async def _until(server: Server, stopped: Future[None]) -> None:
    print(f"understudy: Kubernetes {server.state.release.version} API at {server.url}", flush=True)
    await asyncio.wrap_future(stopped)
