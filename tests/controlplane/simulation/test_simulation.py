"""A control plane on a clock that jumps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.clock import FixedDate
from understudy import Failures, Server, Simulation, Workload
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.resources import PODS, Resource, resource_claims
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.simulation.history import changes
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.types import Obj

pytest.importorskip("grpc")

WORKLOAD = Workload(per_hour=30, minutes=5, device_class="gpu.example.com")


def history(folder: Path, seed: int, minutes: float = 12, **options: Any) -> bytes:
    """Run a simulation; return its history."""
    file = folder / "history"
    simulation = Simulation(seed, load=["gpu-cluster"], workload=WORKLOAD, **options)
    simulation.run(minutes=minutes, history=file)
    return file.read_bytes()


def test_histories_differ_by_the_seed_alone(tmp_path: Path) -> None:
    """Simulations with one seed have the same history, to the byte; with another seed another one."""
    with Server(clock=FixedDate()):
        first = history(tmp_path, 7)
    assert history(tmp_path, 7) == first
    assert history(tmp_path, 8) != first
    lines = [orjson.loads(line) for line in first.splitlines()]
    assert lines[0]["time"] == "2030-01-01T00:00:00Z"
    deleted = [line["key"] for line in lines if line["type"] == "DELETED"]
    assert [key for key in deleted if key.startswith("/registry/pods/default/workload-")]
    assert [key for key in deleted if key.startswith("/registry/resourceclaims/default/workload-")]


@pytest.mark.maintenance
def test_the_order_of_sets_does_not_matter(tmp_path: Path) -> None:
    """A process that puts sets into another order writes the same history, by the command line too."""
    file = tmp_path / "other"
    workload = "per_hour=30,minutes=5,device_class=gpu.example.com"
    words = ["dev", "--load", "gpu-cluster", "--simulate", "6m", "--seed", "7", "--workload", workload]
    command = [sys.executable, "-m", "understudy", *words, "--history", str(file)]
    done = subprocess.run(command, env={"PYTHONHASHSEED": "2"}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("understudy: 6m in ")
    assert file.read_bytes() == history(tmp_path, 7, minutes=6)


def test_audit_logs_do_not_take_part_in_histories(tmp_path: Path) -> None:
    """The thread that writes an audit log decides nothing; a webhook would, and is refused."""
    options = {"audit_policy": "Metadata", "audit_log_path": tmp_path / "audit.log"}
    assert history(tmp_path, 7, minutes=3, **options) == history(tmp_path, 7, minutes=3, **options)
    assert (tmp_path / "audit.log").stat().st_size
    kubeconfig = tmp_path / "kubeconfig"
    cluster, context = '{"name": "c", "cluster": {"server": "https://h"}}', '{"name": "x", "context": {"cluster": "c"}}'
    kubeconfig.write_text(f'{{"clusters": [{cluster}], "contexts": [{context}], "current-context": "x"}}')
    with pytest.raises(ValueError, match=r"^a server without a network sends no events: "):
        history(tmp_path, 7, audit_policy="Metadata", audit_webhook_config_file=kubeconfig)


def test_changes_are_a_merge_patch() -> None:
    """Changes name what is new, what is gone (null), and what is inside of objects; managed fields are left out."""
    old = {"a": 1, "b": {"c": 1, "d": 2}, "e": 3, "managedFields": [1]}
    new = {"a": 1, "b": {"c": 1, "d": 3}, "f": None, "managedFields": [2]}
    assert changes(old, new) == {"b": {"d": 3}, "e": None, "f": None}


class Follower:
    """A program that follows pods and claims, and keeps what it is told: (key, resourceVersion), None for deletions."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None]] = []
        self.known: dict[str, str] = {}

    async def run(self, context: ComponentContext) -> None:
        async with APIClient(context.connection(User("follower", [MASTERS])), "follower", context.clock) as client:
            informers = Informers(client)
            for resource in (PODS, resource_claims(context.version)):
                self._follow(informers, resource)
            await informers.run()

    def _follow(self, informers: Informers, resource: Resource) -> None:
        def put(obj: Obj) -> None:
            self.known[key(obj)] = obj["metadata"]["resourceVersion"]
            self.told.append((key(obj), self.known[key(obj)]))

        def remove(obj: Obj) -> None:
            del self.known[key(obj)]
            self.told.append((key(obj), None))

        def key(obj: Obj) -> str:
            return f"/registry/{resource.plural}/{obj['metadata']['namespace']}/{obj['metadata']['name']}"

        informers.of(resource).add_handler(put, lambda _, new: put(new), remove)


def written(lines: list[Obj], key: str) -> list[str | None]:
    """Return the versions of an object in a history, None for its deletion."""
    of_key = [line for line in lines if line.get("key") == key]
    return [None if line["type"] == "DELETED" else str(line["revision"]) for line in of_key]


def troubled(file: Path, hours: float) -> tuple[Simulation, Follower, list[Obj]]:
    """Run a simulation in which a tenth of all requests meet a fault, and nodes and drivers fail; return its lines."""
    follower = Follower()
    failures = Failures(nodes_per_day=60, node_minutes=8, drivers_per_day=120)
    workload = Workload(per_hour=30, minutes=5, hours=hours / 2, device_class="gpu.example.com")
    worlds = ["gpu-cluster"]
    simulation = Simulation(
        7, load=worlds, workload=workload, failures=failures, programs=[follower.run], chaos="seed=7,share=0.1"
    )
    simulation.run(hours=hours, history=file)
    return simulation, follower, [orjson.loads(line) for line in file.read_bytes().splitlines()]


@pytest.mark.maintenance
def test_nothing_is_lost_in_trouble(tmp_path: Path) -> None:
    """Claims are freed in the end and no event is lost, whatever fails; the same seed repeats it all."""
    simulation, follower, lines = troubled(tmp_path / "a", 1)
    assert simulation.faults > 50
    happened = {incident["type"] for incident in simulation.incidents}
    assert happened == {"NODE_DOWN", "NODE_UP", "DRIVER_DOWN", "DRIVER_UP", "PREPARE", "UNPREPARE"}
    reasons = {line["object"]["reason"] for line in lines if "/events/" in line.get("key", "") and "object" in line}
    assert "TaintManagerEviction" in reasons

    names = {name: [obj["metadata"]["name"] for obj in simulation.objects(name)] for name in ("pods", "resourceclaims")}
    assert not [name for found in names.values() for name in found if name.startswith("workload-")]
    stored = {
        f"/registry/{name}/{obj['metadata']['namespace']}/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
        for name in names
        for obj in simulation.objects(name)
    }
    assert follower.known == stored
    for key in {key for key, _ in follower.told}:
        told = [version for each, version in follower.told if each == key]
        versions = iter(written(lines, key))
        assert all(version in versions for version in told), key  # in the order of the writes

    troubled(tmp_path / "b", 1)
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_end_of_a_program_ends_the_simulation() -> None:
    """An error of a program is raised by `run`."""

    async def fail(context: ComponentContext) -> None:
        raise LookupError(f"no device in {context.version}")

    with pytest.raises(LookupError, match=r"no device in 1\.36"):
        Simulation(emulated_version="1.36", programs=[fail]).run(hours=1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (["--simulate", "soon"], "want a time to simulate such as 24h, not 'soon'"),
        (["--simulate", "1h", "--workload", "per_day=1"], "a workload has no 'per_day'"),
        (["--simulate", "1h", "--workload", "minutes=0"], "want minutes of a workload above 0, not 0.0"),
        (["--simulate", "1h", "--workload", "minutes=x"], "want a number as minutes, not 'x'"),
        (["--simulate", "1h", "--failures", "node_per_day=1"], "failures have no 'node_per_day'"),
        (["--simulate", "1h", "--failures", "drivers_per_day=-1"], "drivers_per_day of failures from 0 on, not -1.0"),
        (["--history", "h"], "--history goes with --simulate"),
        (["--simulate", "1h", "--report", "r.html"], "--report does not go with --simulate"),
        (["--report", "none/r.html"], "--report: there is no folder none"),
    ],
)
def test_wrong_flags_are_refused(wrong: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that makes no sense is one line and exit code 2."""
    from understudy.cli.main import main

    assert main(["dev", *wrong]) == 2
    assert text in capsys.readouterr().err
