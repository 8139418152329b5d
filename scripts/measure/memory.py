"""Measure the memory that history takes, in this process: updates of one large object, and a day of a small cluster.

python -m scripts.measure memory [--quick]

Each measurement runs in a process of its own, which prints its resident memory before, on the way, and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
from typing import Any

import orjson

from scripts.measure import micro
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.director import Director
from understudy.apiserver.storage.compaction import compact_periodically
from understudy.machinery.options import Query

MERGE = "application/merge-patch+json"
NODES = 10
INTERVAL = 300  # seconds between compactions, and between the statuses of a node
RENEWALS = INTERVAL // 10  # of a lease in an interval


def resident() -> float:
    """Return this process's resident memory in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


async def send(director: Director, method: str, path: str, body: Any, media: str = "application/json") -> None:
    """Send a request and check that it succeeds."""
    headers = {"Accept": "application/json", "Content-Type": media}
    raw = orjson.dumps(body)
    answer: Any = await director(Request(method, path, headers, raw, Query(""), director.state.release.version))
    assert answer.status in (200, 201), answer.body


async def update_slice(count: int) -> None:
    """Update a slice of 128 devices."""
    _, director = await micro.prepared()
    path = f"/apis/{micro.GROUP}/{micro.VERSION}/resourceslices"
    await send(director, "POST", path, micro.slice_of(128))
    figures = [resident()]
    for number in range(count):
        await send(director, "PATCH", f"{path}/slice", {"metadata": {"labels": {"update": str(number)}}}, MERGE)
        if (number + 1) % (count // 4) == 0:
            figures.append(resident())
    print_figures(f"{count:,} updates of a slice of 128 devices", figures)


async def live_a_day(hours: int) -> None:
    """Let nodes renew leases every 10 seconds and report their status every 5 minutes, and compact as often."""
    api, director = await micro.prepared()
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    names = [f"node-{number}" for number in range(NODES)]
    for name in names:
        metadata = {"name": name}
        await send(director, "POST", "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": metadata})
        lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata}
        await send(director, "POST", leases, lease)
    figures = [resident()]
    turns = hours * 3600 // INTERVAL

    async def live(_: float) -> None:
        nonlocal turns
        for name in names:
            for _ in range(RENEWALS):
                spec = {"renewTime": f"2026-01-01T00:00:00.{api.registry.store.revision:06d}Z"}
                await send(director, "PATCH", f"{leases}/{name}", {"spec": spec}, MERGE)
            status = {"nodeInfo": {"bootID": str(api.registry.store.revision)}}
            await send(director, "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)
        turns -= 1
        if turns % (hours * 3600 // INTERVAL // 4) == 0:
            figures.append(resident())
        if not turns:
            raise asyncio.CancelledError

    try:
        await compact_periodically(api.registry.store, INTERVAL, live)
    except asyncio.CancelledError:
        print_figures(f"{hours} hours of leases and statuses of {NODES} nodes", figures)


def print_figures(what: str, figures: list[float]) -> None:
    """Print the memory of a measurement, in MiB."""
    print(f"{what:52s} {' -> '.join(f'{figure:.0f}' for figure in figures)} MiB", flush=True)


def measure(name: str, amount: int) -> None:
    """Run one measurement."""
    asyncio.run(globals()[name](amount))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer updates and hours")


def run(options: argparse.Namespace) -> int:
    quick = options.quick
    spawn = multiprocessing.get_context("spawn")
    for name, amount in (("update_slice", 1000 if quick else 10_000), ("live_a_day", 4 if quick else 24)):
        process = spawn.Process(target=measure, args=(name, amount))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{name} failed")
    return 0
