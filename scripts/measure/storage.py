"""Measure what it costs to keep objects: in memory, in a file, in etcd, and beside kube-apiserver on the same etcd.

    python -m scripts.measure storage                          memory, SQLite and etcd
    python -m scripts.measure storage --kube-apiserver v1.32.5          and a kube-apiserver on the etcd
    python -m scripts.measure storage --quick

All servers are measured in the same run, in turns, by the client of `python -m scripts.measure server`. The first table
has the CPU that the server takes for a request, its children included, but not etcd; the second one requests per
second, which depend on what else the machine does. Then many claims: the memory that each takes, and the CPU of a
server that starts with them.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from scripts.common.etcd import installed_etcd, running_etcd, urls_of
from scripts.common.server_process import ProcessTree, ServerProcess
from scripts.measure import server as measured
from scripts.measure.client import CONNECTIONS, Pump, Target, Workload
from scripts.measure.server import claim, row
from scripts.record.upstream.modules import Modules, build_etcd
from scripts.record.upstream.server import api_server
from understudy.apiserver.storage.engine import Contents, Engine, Write
from understudy.apiserver.storage.engines.etcd.engine import EtcdEngine
from understudy.apiserver.storage.engines.sqlite import SQLiteEngine
from understudy.machinery.releases.version import Version

MEASUREMENTS: dict[str, Callable[[Target, Workload], Any]] = {
    "GET a claim": measured.get,
    f"LIST {measured.OBJECTS} claims": measured.list_,
    "CREATE a configmap": measured.create,
    "PATCH a deployment, strategic": measured.patch,
}
KUBE_APISERVER = "kube-apiserver"
API = "v1beta1"  # of resource.k8s.io, which all releases serve


@dataclass
class Measured:
    """A server that is measured, and the process that uses the CPU for it."""

    target: Target
    tree: ProcessTree


def place(name: str, folder: Path, etcd: str) -> tuple[str, ...]:
    """Return the flags of `understudy serve` for an engine."""
    flags = {
        "memory": (),
        "sqlite": ("--storage", f"sqlite:{folder}/normal"),
        "sqlite full": ("--storage", f"sqlite:{folder}/full", "--sqlite-synchronous", "full"),
        "etcd": ("--etcd-servers", etcd),
    }
    return flags[name]


ENGINES = ("memory", "sqlite", "sqlite full", "etcd")


async def measure_requests(args: argparse.Namespace, folder: Path, etcd: str) -> None:
    """Print what requests cost with each engine."""
    with ExitStack() as stack:
        version = f"{Version.of_build(args.kube_apiserver)}" if args.kube_apiserver else ""
        release = ("--emulated-version", version) if version else ()
        servers = []
        for name in ENGINES:
            process = stack.enter_context(ServerProcess(*place(name, folder, etcd), *release))
            servers.append(Measured(Target(name, process.url), process))
        if args.kube_apiserver:
            program = Modules(args.kube_apiserver).build((KUBE_APISERVER,)) / KUBE_APISERVER
            enabled = f"--runtime-config=resource.k8s.io/{API}=true"
            gates = "--feature-gates=DynamicResourceAllocation=true"
            flags = (enabled, gates, f"--etcd-servers={etcd}", "--etcd-prefix=/kube-apiserver")
            real = stack.enter_context(api_server(program, None, *flags))
            head = f"Authorization: Bearer {real.token}\r\n"
            target = Target(KUBE_APISERVER, real.url, head, real.context)
            servers.append(Measured(target, ProcessTree(real.pid)))
        work, rounds = Workload(0.3 if args.quick else 1.0, API), 3 if args.quick else 5
        for each in servers:
            await measured.create_objects(each.target, work)
        await print_requests(MEASUREMENTS, servers, work, rounds)


async def print_requests(
    measurements: dict[str, Callable[[Target, Workload], Any]], servers: list[Measured], work: Workload, rounds: int
) -> None:
    """Measure each request at each server, in turns, and print the tables."""
    cpu: dict[str, dict[str, list[float]]] = {}
    rates: dict[str, dict[str, list[float]]] = {}
    for what, run in measurements.items():
        names = [each.target.name for each in servers]
        cpu[what], rates[what] = {name: [] for name in names}, {name: [] for name in names}
        for _ in range(rounds):
            for each in servers:
                before, counted = each.tree.cpu_seconds(), Counted(each.target)
                rate = await run(counted, work)
                used = each.tree.cpu_seconds() - before
                rates[what][each.target.name].append(rate)
                cpu[what][each.target.name].append(used / counted.count * 1e6)
    print_table("µs of CPU per request", cpu, lambda mine, memory: mine / memory)
    print()
    print_table("requests per second", rates, lambda mine, memory: memory / mine)


class Counted(Target):
    """A target that counts the requests which were answered."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.name, target.url, target.head, target.tls)
        self._made: list[asyncio.Protocol] = []

    async def connect(self, protocol: Callable[[], Any]) -> Any:
        made = await super().connect(protocol)
        self._made.append(made)
        return made

    @property
    def count(self) -> int:
        return sum(made.count for made in self._made if isinstance(made, Pump))


def print_table(title: str, figures: dict[str, dict[str, list[float]]], times: Callable[[float, float], float]) -> None:
    """Print the median of each figure, and how many times the cost of the first server that is."""
    names = list(next(iter(figures.values())))
    rows = [[title, *names]]
    for what, by_name in figures.items():
        medians = {name: statistics.median(values) for name, values in by_name.items()}
        ratios = {name: times(median, medians[names[0]]) for name, median in medians.items()}
        rows.append([what, *(f"{medians[name]:,.0f} (x{ratios[name]:.2f})" for name in names)])
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    print(*(row(cells, widths) for cells in rows), sep="\n", flush=True)


# --- many claims


class _NoReader:
    """Ignores writes: what was filled is read by a server."""

    def take(self, writes: Any, revision: int) -> None: ...

    def start_over(self, contents: Contents) -> None: ...


async def fill(engine: Engine, count: int) -> None:
    """Put copies of the claim that an engine holds beside it, with other names and uids."""
    contents = await engine.open(_NoReader())
    (sample,) = (each for each in contents.writes if each.key.endswith("/claim-0000000"))
    assert sample.value is not None
    value = bytes(sample.value)
    found = re.search(rb"[0-9a-f]{8}-[0-9a-f]{4}-", value)
    assert found is not None
    copies = []
    for number in range(1, count):
        name, uid = b"claim-%07d" % number, b"%08x-%04x-" % (number, number & 0xFFFF)
        raw = value.replace(b"claim-0000000", name).replace(found.group(), uid)
        key = sample.key.replace("claim-0000000", name.decode())
        copies.append(Write(key, raw, contents.revision + number))
    last = contents.revision + count
    await engine.replace(Contents([*contents.writes, *copies], last, contents.revision))
    await engine.close()


async def measure_claims(args: argparse.Namespace, folder: Path, etcd: str) -> None:
    """Print the memory of many claims, and what it takes to start with them."""
    claims = f"/apis/resource.k8s.io/{API}/namespaces/default/resourceclaims"
    print(f"\n{args.claims:,} claims")
    with ServerProcess() as server:
        target, empty = Target("memory", server.url), server.memory_mib()
        bodies = (target.request("POST", claims, claim(f"claim-{number:07}")) for number in range(args.claims))
        pumps = [await target.connect(lambda: Pump(bodies)) for _ in range(CONNECTIONS)]
        await asyncio.gather(*(pump.done for pump in pumps))
        print_memory("memory, created", server, empty, args.claims)
    places: dict[str, Callable[[], Engine]] = {
        "sqlite": lambda: SQLiteEngine(folder / "many"),
        "etcd": lambda: EtcdEngine([etcd], prefix="/many"),
    }
    for name, new in places.items():
        keep = ("--storage", f"sqlite:{folder}/many") if name == "sqlite" else ("--etcd-servers", etcd)
        flags = (*keep, "--etcd-prefix", "/many")
        with ServerProcess(*flags) as server:
            empty = server.memory_mib()
            await Target(name, server.url).exchange("POST", claims, claim("claim-0000000"))
        await fill(new(), args.claims)
        with ServerProcess(*flags) as server:
            started = server.cpu_seconds()
            print_memory(f"{name}, started in {started:.1f} s of CPU", server, empty, args.claims)
            await Target(name, server.url).exchange("GET", claims)
            listed = server.cpu_seconds() - started
            print_memory(f"{name}, listed in {listed:.1f} s of CPU", server, empty, args.claims)


def print_memory(what: str, server: ServerProcess, empty: float, count: int) -> None:
    """Print the memory that each claim takes."""
    print(f"  {what:40s} {(server.memory_mib() - empty) * 2**20 / count:8,.0f} bytes each", flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--claims", type=int, default=100_000, help="how many; 0 to measure requests only")
    parser.add_argument("--kube-apiserver", metavar="VERSION", help="of k8s.io/kubernetes, such as v1.32.5")


def run(args: argparse.Namespace) -> int:
    program = installed_etcd() or build_etcd()
    with tempfile.TemporaryDirectory() as name, running_etcd(program, Path(name)) as members:
        uvloop.run(measure_requests(args, Path(name), urls_of(members)))
        if args.claims:
            uvloop.run(measure_claims(args, Path(name), urls_of(members)))
    return 0
