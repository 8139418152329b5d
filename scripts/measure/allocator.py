"""Measures the structured allocator, beside upstream's if there is one.

    python -m scripts.measure allocator [--emulated-version 1.36] [--oracle "oracle -once"]

Columns, in milliseconds of CPU for one claim on one node:

    kept     as the scheduler allocates: the inventory of devices is kept, the answers of selectors with it
    fresh    with a new inventory, so that slices are read and selectors evaluated
    command  as `understudy allocate` answers, with reading JSON
    oracle   as COMMAND answers the same cases; it reads and writes the same JSON lines
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

from scripts.common.commands import UsageError
from understudy.controlplane.allocator import AllocatedState, Allocator, Inventory, Rules
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version

DRIVER = "gpu.example.com"
DEVICES_OF_SLICE = 128
SECONDS = 1.0
MOST = 2**23  # bytes that a command reads at least, if it is not slow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--emulated-version", type=Version.parse, default=Version(1, 36), metavar="VERSION")
    parser.add_argument("--oracle", type=shlex.split, metavar="COMMAND")


def run(args: argparse.Namespace) -> int:
    """Print a row for each case."""
    if args.emulated_version < V1_34:
        raise UsageError("the cases are in v1, which releases have from 1.34 on")
    program = "import sys; from understudy.cli.main import main; sys.exit(main())"
    ours = [sys.executable, "-c", program, "allocate", "--emulated-version", str(args.emulated_version)]
    print(f"{'':44}{'kept':>10}{'fresh':>10}{'command':>10}{'oracle':>10}{'ratio':>8}")
    features = Gates.of(args.emulated_version).in_force()
    for case in cases():
        case["features"] = {gate: on for gate, on in features.items() if gate.startswith("DRA")}
        kept, fresh = in_process(case, args.emulated_version)
        command = per_case(ours, case)
        oracle = per_case(args.oracle, case) if args.oracle else None
        beside = f"{oracle * 1000:10.2f}{command / oracle:8.1f}" if oracle else ""
        print(f"{case['case']:44}{kept * 1000:10.2f}{fresh * 1000:10.2f}{command * 1000:10.2f}{beside}", flush=True)
    return 0


def in_process(case: dict[str, Any], version: Version) -> tuple[float, float]:
    """Return the seconds of an allocation with a kept inventory, and with a new one."""
    features = frozenset(gate for gate, on in case["features"].items() if on)
    rules, inventory = Rules.of(version, features), Inventory(version, features, case["slices"])

    def kept() -> None:
        allocator = Allocator(version, features, AllocatedState(rules), case["classes"], inventory)
        allocator.allocate(case["node"], case["claims"])

    def fresh() -> None:
        allocator = Allocator(version, features, [], case["classes"], case["slices"])
        allocator.allocate(case["node"], case["claims"])

    return seconds(kept), seconds(fresh)


def seconds(function: Callable[[], None]) -> float:
    """Return the shortest time of a call, of those that fit into a second, after a first one."""
    function()
    best, end = float("inf"), time.process_time() + SECONDS
    while time.process_time() < end or best == float("inf"):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def per_case(command: Sequence[str], case: dict[str, Any]) -> float:
    """Return the seconds that a command takes for a case, without those of its start."""
    line = json.dumps(case) + "\n"
    start = min(seconds_of(command, "") for _ in range(3))
    times = 1
    while (taken := seconds_of(command, line * times) - start) < SECONDS and len(line) * times < MOST:
        times *= 4
    return taken / times


def seconds_of(command: Sequence[str], text: str) -> float:
    """Return the seconds of CPU that a command takes for a text on its standard input."""
    before = cpu_of_children()
    subprocess.run(command, input=text, text=True, stdout=subprocess.DEVNULL, check=True)
    return cpu_of_children() - before


def cpu_of_children() -> float:
    """Return the seconds of CPU that all ended children took."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# --- cases ------------------------------------------------------------------------------------------------------------


def cases() -> Iterator[dict[str, Any]]:
    """Yield the cases: how it grows with the devices, and two that try many combinations."""
    model = f'device.attributes["{DRIVER}"].model'
    for count in (10, 100, 1_000, 10_000):
        yield case_of(f"{count:,} devices, the first", count, [request(1, f'{model} == "a"')])
    for count in (10, 100, 1_000, 10_000):
        yield case_of(f"{count:,} devices, only the last matches", count, [request(1, f'{model} == "z"')])
    yield case_of("1,000 devices, 32 of them", 1000, [request(32, f'{model} == "a"')])
    match = [{"matchAttribute": f"{DRIVER}/group"}]
    yield case_of("in vain: 48 devices, 7 of a group of 6", 48, [request(7)], match, group=6)
    requests = [request(4, name="a"), request(3, name="b")]
    yield case_of("in vain: 48 devices, 4 and 3 of a group of 6", 48, requests, match, group=6)


def request(count: int, expression: str = "true", name: str = "r") -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    return {"name": name, "exactly": exactly}


def case_of(
    name: str,
    count: int,
    requests: list[dict[str, Any]],
    constraints: Sequence[dict[str, Any]] = (),
    group: int = 1,
) -> dict[str, Any]:
    """Return a case of a claim on a node with some devices in one pool, of model a but for the last one."""
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {"model": {"string": "z" if i == count - 1 else "a"}, "group": {"int": i // group}},
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for i in range(count)
    ]
    parts = [devices[i : i + DEVICES_OF_SLICE] for i in range(0, count, DEVICES_OF_SLICE)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": len(parts)}
    slices = [
        api_object(
            "ResourceSlice", f"slice-{i:03}", {"driver": DRIVER, "pool": pool, "nodeName": "node", "devices": part}
        )
        for i, part in enumerate(parts)
    ]
    spec = {"devices": {"requests": requests, "constraints": list(constraints)}}
    return {
        "case": name,
        "node": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}},
        "claims": [api_object("ResourceClaim", "claim", spec)],
        "allocated": [],
        "classes": [api_object("DeviceClass", "any", {})],
        "slices": slices,
    }


def api_object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
