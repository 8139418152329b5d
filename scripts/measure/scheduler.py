"""Measure how many claims a scheduler allocates per second, and check that no device is ever in two allocations.

    python -m scripts.measure scheduler                                 ours
    python -m scripts.measure scheduler --binary PATH/kube-scheduler    and that of the release, on the same terms
    python -m scripts.measure scheduler --pods 200 --nodes 10 --emulated-version 1.34

Each scheduler is a process of its own beside an understudy of its own. All pods and claims are there before it starts,
one claim for each pod, and as many devices as claims. Time runs from the first allocation that a watch shows to the
last. kube-scheduler may send as many requests as it likes (by default it sends 50 a second).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.common.kubeconfig import write_kubeconfig
from scripts.common.server_process import ServerProcess
from scripts.compare.cases.scheduler_stories import DRIVER, Maker
from scripts.compare.schedulers import DRA
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NODES, PODS, resource_claims
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.scheduler import run as run_scheduler
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version

Obj = dict[str, Any]
ROOT = Path(__file__).parents[2]
NAMESPACE = "default"
PARALLEL = 16  # objects that are created at a time


@dataclass
class Ledger:
    """Notes which claim has which device, from the events of a watch."""

    held: dict[str, str] = field(default_factory=dict)
    devices_of: dict[str, list[str]] = field(default_factory=dict)
    moments: list[float] = field(default_factory=list)  # when claims were allocated

    def take(self, event: Obj) -> None:
        """Take in an event of a claim. Raises SystemExit for a device that two claims have."""
        claim = event["object"]
        name = claim["metadata"]["name"]
        had = self.devices_of.pop(name, [])
        for device in had:
            del self.held[device]
        allocation = (claim.get("status") or {}).get("allocation") if event["type"] != "DELETED" else None
        devices = [
            f"{r['driver']}/{r['pool']}/{r['device']}"
            for r in (allocation or {"devices": {}})["devices"].get("results", ())
        ]
        for device in devices:
            if device in self.held:
                raise SystemExit(f"{device} is allocated to {self.held[device]} and to {name}")
            self.held[device] = name
        if devices:
            self.devices_of[name] = devices
            if not had:
                self.moments.append(time.perf_counter())


async def fill(client: APIClient, maker: Maker, pods: int, nodes: int) -> None:
    """Create nodes with devices, claims, and pods that use them."""
    per_node = -(-pods // nodes)
    limit = asyncio.Semaphore(PARALLEL)

    async def create(change: Any) -> None:
        async with limit:
            body = {**change.body, "metadata": {**change.body["metadata"], "name": change.name}}
            await client.create(change.resource, body, NAMESPACE if change.resource.namespaced else "")

    await create(maker.device_class())
    for i in range(nodes):
        node, untaint = maker.node(f"n{i}", allocatable={"pods": "110", "cpu": "64"})
        await create(node)
        await client.patch(NODES, untaint.name, untaint.body)
        await create(maker.slice(f"n{i}", per_node))
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].index >= 0"}}
    await asyncio.gather(*(create(maker.claim(f"c{i}", selectors=[selector])) for i in range(pods)))
    await asyncio.gather(*(create(maker.pod(f"p{i}", f"c{i}", requests={"cpu": "1m"})) for i in range(pods)))


async def follow(client: APIClient, version: Version, ledger: Ledger, pods: int) -> None:
    """Watch claims until all are allocated."""
    async for event in client.watch(resource_claims(version), NAMESPACE, query={"resourceVersion": "0"}):
        ledger.take(event)
        if len(ledger.devices_of) == pods:
            return


async def bound(client: APIClient, pods: int) -> None:
    """Wait until all pods are bound."""
    while sum(bool(pod["spec"].get("nodeName")) for pod in (await client.list(PODS))["items"]) < pods:
        await asyncio.sleep(0.5)


async def measure(options: argparse.Namespace, binary: str) -> None:
    """Print how fast one scheduler is."""
    release = Version.parse(options.emulated_version)
    with (
        ServerProcess("--emulated-version", options.emulated_version) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        connection = Connection(url=server.url)
        async with APIClient(connection, "bench") as client:
            await fill(client, Maker(release), options.pods, options.nodes)
            ledger = Ledger()
            with scheduler_process(options, binary, connection, Path(folder)):
                await asyncio.wait_for(follow(client, release, ledger, options.pods), options.patience)
                allocated = time.perf_counter()
                await asyncio.wait_for(bound(client, options.pods), options.patience)
    seconds = ledger.moments[-1] - ledger.moments[0]
    rate = (options.pods - 1) / seconds
    late = f"{time.perf_counter() - allocated:.1f} s later"
    name = "kube-scheduler" if binary else "ours"
    text = f"{options.pods} claims in {seconds:.2f} s, {rate:.1f} per second; last pod bound {late}"
    print(f"{name:15} {text}", flush=True)


@contextmanager
def scheduler_process(options: argparse.Namespace, binary: str, connection: Connection, folder: Path) -> Iterator[None]:
    """Run a scheduler until the block is left."""
    if binary:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", connection.url, connection.token)
        rates = ["--kube-api-qps=10000", "--kube-api-burst=10000"]
        gates = [] if Version.parse(options.emulated_version) >= V1_34 else [f"--feature-gates={DRA}=true"]
        argv = [binary, f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false", *rates, *gates]
    else:
        argv = [sys.executable, "-m", "scripts.measure", "scheduler", "--emulated-version", options.emulated_version]
        argv += ["--schedule", connection.url]
        argv += ["--profile"] * options.profile
    program = subprocess.Popen(argv, stderr=subprocess.DEVNULL if binary else None, cwd=ROOT)
    try:
        yield
    finally:
        program.terminate()
        program.wait(20)


async def schedule(options: argparse.Namespace) -> None:
    """Be our scheduler of a server until SIGTERM."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    release = Version.parse(options.emulated_version)
    gates = Gates.of(release) if release >= V1_34 else Gates.of(release, {DRA: True})
    await run_scheduler(ComponentContext(lambda _: Connection(url=options.schedule), release, gates))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--binary", default="", help="kube-scheduler of the release")
    parser.add_argument("--emulated-version", default="1.36")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--patience", type=float, default=600.0, help="seconds until it is given up")
    parser.add_argument("--profile", action="store_true", help="print where our scheduler spends its time")
    parser.add_argument("--schedule", default="", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Measure, or schedule for a measurement."""
    if options.schedule:
        be_scheduler(options)
        return 0
    for binary in ([options.binary] if options.binary else []) + [""]:
        asyncio.run(measure(options, binary))
    return 0


def be_scheduler(options: argparse.Namespace) -> None:
    """Schedule until SIGTERM, and print a profile if one is asked for."""
    profiler = cProfile.Profile()
    if options.profile:
        profiler.enable()
    with suppress(asyncio.CancelledError):
        asyncio.run(schedule(options))
    if options.profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)
