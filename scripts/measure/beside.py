"""Measure every verb beside other API servers: requests per second, and the CPU that a request costs.

    python -m scripts.measure beside --against 1.37 https://127.0.0.1:7443 PID --token T
    python -m scripts.measure beside --only CREATE --rounds 5

Understudy is measured twice, without and with TLS. The CPU of a server is that of the process PID and of all below it,
so that an etcd counts if one process has started both. The servers take turns, in rounds; figures are medians. Each
other server is asked with the same bearer token, and its certificate is not verified.
"""

from __future__ import annotations

import argparse
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import uvloop

from scripts.common.server_process import ProcessTree, ServerProcess
from scripts.measure import server as measured
from scripts.measure.client import CORE, NAMESPACE, Target, Workload, create_namespace, post_each, repeat, send
from scripts.measure.server import claim
from scripts.measure.storage import Measured, print_requests

CLAIMS = 2_000  # half of them have the label that is asked for
PAGE = 500


async def list_page(target: Target, work: Workload) -> float:
    """List the first claims again and again."""
    return await repeat(target, work, f"{work.claims}?limit={PAGE}")


async def list_by_label(target: Target, work: Workload) -> float:
    """List the claims with a label again and again."""
    return await repeat(target, work, f"{work.claims}?labelSelector=half%3Dfirst")


async def create_claim(target: Target, work: Workload) -> float:
    """Create claims."""
    return await post_each(target, work, work.claims, claim)


def over(connections: int, measurement: Callable[..., Any]) -> Callable[[Target, Workload], Any]:
    """Return a measurement over a number of connections."""
    return lambda target, work: measurement(target, replace(work, connections=connections))


# What makes claims comes after what lists them.
MEASUREMENTS: dict[str, Callable[[Target, Workload], Any]] = {
    "GET a claim, 16 connections": over(16, measured.get),
    "GET a claim, 1 connection": over(1, measured.get),
    f"LIST {PAGE} claims of {CLAIMS:,}, 4 connections": over(4, list_page),
    f"LIST by label, {CLAIMS // 2:,} of {CLAIMS:,}, 4 connections": over(4, list_by_label),
    "PATCH strategic, 16 connections": over(16, measured.patch),
    "CREATE a claim, 16 connections": over(16, create_claim),
    "CREATE a claim, 1 connection": over(1, create_claim),
    f"write with {measured.WATCHERS} watchers": measured.fan_out,
}


async def create_objects(target: Target, work: Workload) -> None:
    """Create the namespace, and the objects that are measured."""
    await create_namespace(target)
    await measured.create_deployments(target, work)

    def requests() -> Iterator[bytes]:
        for number in range(CLAIMS):
            body = claim(f"claim-{number}")
            body["metadata"]["labels"]["half"] = "second" if number % 2 else "first"
            yield target.request("POST", work.claims, body)

    await send(target, requests())
    page = json.loads(await target.exchange("GET", f"{work.claims}?labelSelector=half%3Dfirst"))
    if len(page["items"]) != CLAIMS // 2:
        raise SystemExit(f"{target.name}: {len(page['items'])} claims have the label")


async def measure_all(args: argparse.Namespace) -> None:
    """Start understudy, and print the tables."""
    work = Workload(args.seconds, args.api, connections=16)
    unverified = ssl._create_unverified_context()
    with ExitStack() as stack:
        plain = stack.enter_context(ServerProcess(*args.flag))
        secured = stack.enter_context(ServerProcess("--tls", *args.flag))
        servers = [
            Measured(Target("understudy", plain.url), plain),
            Measured(Target("with TLS", secured.url, tls=unverified), secured),
        ]
        head = f"Authorization: Bearer {args.token}\r\n" if args.token else ""
        for name, url, process in args.against:
            tls = unverified if url.startswith("https:") else None
            servers.append(Measured(Target(name, url, head, tls), ProcessTree(int(process))))
        for each in servers:
            await create_objects(each.target, work)
        chosen = {what: run for what, run in MEASUREMENTS.items() if args.only in what}
        await print_requests(chosen, servers, work, args.rounds)
        for each in servers[2:]:
            for path in (work.claims, f"{CORE}/configmaps", measured.DEPLOYMENTS):
                await each.target.exchange("DELETE", path)
            await each.target.exchange("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against", nargs=3, action="append", default=[], metavar=("NAME", "URL", "PID"), help="another API server"
    )
    parser.add_argument("--token", help="the bearer token of the other servers")
    parser.add_argument("--api", default="v1beta1", help="the version of resource.k8s.io that is used")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure what has this in its name")
    parser.add_argument("--rounds", type=int, default=3, help="the number of rounds (3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="the length of a round (2)")
    parser.add_argument(
        "--flag", action="append", default=[], metavar="FLAG", help="a flag of `understudy serve`; may be repeated"
    )


def run(args: argparse.Namespace) -> int:
    uvloop.run(measure_all(args))
    return 0
