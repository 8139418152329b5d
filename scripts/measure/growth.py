"""Measure how the cost of requests grows with the objects that are stored, and with the watchers that are open.

    python -m scripts.measure growth
    python -m scripts.measure growth --objects 1000 10000 1000000 --watchers 10 5000
    python -m scripts.measure growth --plot docs/images             and draw it (needs matplotlib)

Costs are microseconds of the server's CPU per request, which hardly depend on what else the machine does. The objects
are claims, in a file that a server starts from. A selector asks for SELECTED of them by label; the first such list,
which makes the index, is not counted. Watchers of another namespace, label or name see nothing of what is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from scripts.common.commands import UsageError
from scripts.common.pauses import longest_pauses
from scripts.common.server_process import ServerProcess
from scripts.measure.beside import create_claim
from scripts.measure.client import (
    CORE,
    Target,
    Watcher,
    Workload,
    create_namespace,
    patch_each,
    repeat,
    send,
)
from scripts.measure.server import MERGE, claim, row
from scripts.measure.storage import Counted, fill
from understudy.apiserver.storage.engines.sqlite import SQLiteEngine

SELECTED = 100
ROUNDS = 3
API = "v1beta1"  # of resource.k8s.io, which all releases serve
Costs = dict[int, dict[str, float]]  # by number of objects or watchers and by measurement
Measurement = Callable[[Target, Workload], Awaitable[float]]


async def patch_claim(target: Target, work: Workload) -> float:
    """Patch the labels of claims."""

    def body(number: int) -> dict[str, Any]:
        return {"metadata": {"labels": {"number": str(number)}}}

    return await patch_each(target, work, f"{work.claims}/selected-", body, MERGE)


OF_OBJECTS: dict[str, Measurement] = {
    "GET a claim": lambda target, work: repeat(target, work, f"{work.claims}/selected-0"),
    f"LIST {SELECTED} by label": lambda target, work: repeat(target, work, f"{work.claims}?labelSelector=few%3Dyes"),
    "LIST, limit 500": lambda target, work: repeat(target, work, f"{work.claims}?limit=500"),
    "PATCH a claim": patch_claim,
    "CREATE a claim": create_claim,
}


async def cost(server: ServerProcess, target: Target, work: Workload, measurement: Measurement) -> float:
    """Return the microseconds of CPU per request, the median of some rounds."""
    figures = []
    for _ in range(ROUNDS):
        began, counted = server.cpu_seconds(), Counted(target)
        await measurement(counted, work)
        figures.append((server.cpu_seconds() - began) / counted.count * 1e6)
    return statistics.median(figures)


async def measure_objects(count: int, work: Workload, file: Path) -> dict[str, float]:
    """Measure a server that keeps a number of claims."""
    flags = ("--storage", f"sqlite:{file}")
    with ServerProcess(*flags) as server:
        target = Target("understudy", server.url)
        await create_namespace(target)
        await target.exchange("POST", work.claims, claim("claim-0000000"))
    await fill(SQLiteEngine(file), count)
    with ServerProcess(*flags) as server:
        costs = {"start": server.cpu_seconds() * 1e6}
        target = Target("understudy", server.url)
        selected = [claim(f"selected-{number}") for number in range(SELECTED)]
        for each in selected:
            each["metadata"]["labels"]["few"] = "yes"
        await send(target, (target.request("POST", work.claims, each) for each in selected))
        await target.exchange("GET", f"{work.claims}?labelSelector=few%3Dyes")
        for what, measurement in OF_OBJECTS.items():
            costs[what] = await cost(server, target, work, measurement)
        costs["busiest pause"] = busiest_pause(server) * 1e6
    return costs


def busiest_pause(server: ServerProcess) -> float:
    """Return the most seconds of CPU that a server took while its event loop answered nobody."""
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        return longest_pauses(answer.read().decode())[1]


# Watches, by their relation to the claims that are created meanwhile.
WATCHES = {
    "of another namespace": "/apis/resource.k8s.io/{api}/namespaces/default/resourceclaims?watch=true",
    "of another label": "{claims}?watch=true&labelSelector=app%3Dnone",
    "of another name": "{claims}?watch=true&fieldSelector=metadata.name%3Dnone",
    "that see it": "{claims}?watch=true",
}


async def measure_watchers(count: int, work: Workload) -> dict[str, float]:
    """Measure what it costs to create a claim beside a number of watchers."""
    return {
        what: await cost_beside(count, path.format(api=work.api, claims=work.claims), work)
        for what, path in WATCHES.items()
    }


async def cost_beside(count: int, watched: str, work: Workload) -> float:
    """Return the microseconds that it costs to create a claim beside watchers of a path."""
    with ServerProcess() as server:
        target = Target("understudy", server.url)
        await create_namespace(target)
        version = json.loads(await target.exchange("GET", f"{CORE}/configmaps?limit=1"))["metadata"]["resourceVersion"]
        request = target.request("GET", f"{watched}&resourceVersion={version}")
        watchers = [await target.connect(lambda: Watcher(request, b"}\n", lambda: None)) for _ in range(count)]
        await asyncio.gather(*(watcher.opened for watcher in watchers))
        figure = await cost(server, target, work, create_claim)
        for watcher in watchers:
            watcher.transport.close()
    return figure


def print_costs(title: str, costs: Costs) -> None:
    """Print a table with a column for each size."""
    sizes = list(costs)
    rows = [[title, *(f"{size:,}" for size in sizes)]]
    rows += [[what, *(f"{costs[size][what]:,.0f}" for size in sizes)] for what in costs[sizes[0]]]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    print(*(row(cells, widths) for cells in rows), sep="\n", flush=True)


def draw(path: Path, title: str, what_grows: str, costs: Costs) -> None:
    """Draw costs as lines over the sizes, into an SVG."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for what in next(iter(costs.values())):
        axes.plot(list(costs), [each[what] for each in costs.values()], marker="o", label=what)
    axes.set(title=title, xlabel=what_grows, ylabel="CPU per request (µs)", xscale="log", yscale="log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, metadata={"Date": None})


async def measure_all(args: argparse.Namespace) -> None:
    """Measure each number of objects, then each number of watchers; print and draw the costs."""
    work = Workload(args.seconds, API)
    by_objects: Costs = {}
    for count in args.objects:
        with tempfile.TemporaryDirectory() as folder:
            by_objects[count] = await measure_objects(count, work, Path(folder) / "store")
    by_watchers = {count: await measure_watchers(count, work) for count in args.watchers}
    print_costs("µs of CPU, by the claims that are stored", by_objects)
    print()
    print_costs("µs of CPU per CREATE, by watchers", by_watchers)
    if args.plot:
        for each in by_objects.values():
            del each["start"], each["busiest pause"]
        draw(args.plot / "growth-objects.svg", "What requests cost", "claims that are stored", by_objects)
        draw(args.plot / "growth-watchers.svg", "What CREATE costs beside watchers", "watchers", by_watchers)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000, 10_000, 100_000], metavar="N")
    parser.add_argument("--watchers", type=int, nargs="+", default=[10, 100, 1_000], metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, help="the length of a round (1)")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the figures into SVGs in this folder")


def run(args: argparse.Namespace) -> int:
    if args.plot:
        try:
            import matplotlib  # noqa: F401 - before minutes are spent
        except ImportError:
            raise UsageError("--plot needs matplotlib: pip install matplotlib") from None
    uvloop.run(measure_all(args))
    return 0
