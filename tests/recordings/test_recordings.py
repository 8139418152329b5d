"""Replay the recorded answers of real kube-apiservers: no file may agree less than it did before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import FixedDate
from understudy import Server
from understudy.machinery.util.clock import SystemClock

from . import cel, replay, sessions
from .client import Client
from .conftest import AGREEMENT, Agreement

HERE = Path(__file__).parent
CLASSIC = {"DRAControlPlaneController": True}
ALL_OF_132 = {"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True}
ALL_OF_133 = {**ALL_OF_132, "DRADeviceTaints": True, "DRAPartitionableDevices": True, "DRAPrioritizedList": True}
ALL_OF_134 = {
    **ALL_OF_133,
    "DRAConsumableCapacity": True,
    "DRADeviceBindingConditions": True,
    "DRAExtendedResource": True,
}
ALL_OF_135 = {**ALL_OF_134, "DRADeviceTaintRules": True}
ALL_OF_136 = {
    **ALL_OF_135,
    "DRAListTypeAttributes": True,
    "DRANodeAllocatableResources": True,
    "DRAResourcePoolStatus": True,
    "DRAWorkloadResourceClaims": True,
    "GenericWorkload": True,
}
SERVERS: dict[str, tuple[str, dict[str, bool]]] = {
    "cel": ("1.32", ALL_OF_132),
    "custom-resources/1.32": ("1.32", ALL_OF_132),
    "custom-resources/1.36": ("1.36", ALL_OF_136),
    "gates/1.31": ("1.31", CLASSIC),
    "gates/1.32": ("1.32", ALL_OF_132),
    "gates/1.33": ("1.33", ALL_OF_133),
    "gates/1.34": ("1.34", ALL_OF_134),
    "kubectl": ("1.32", ALL_OF_132),
    "machinery/1.31": ("1.31", {}),
    "machinery/1.32": ("1.32", ALL_OF_132),
    "machinery/1.32-compacted": ("1.32", ALL_OF_132),
    "machinery/1.34": ("1.34", ALL_OF_134),
    "machinery/1.35": ("1.35", ALL_OF_135),
    "machinery/1.36": ("1.36", ALL_OF_136),
    "scenarios/1.32": ("1.32", {}),
    "validation/1.31": ("1.31", {}),
    "validation/1.31-classic": ("1.31", CLASSIC),
    "validation/1.32": ("1.32", ALL_OF_132),
    "validation/1.32-defaults": ("1.32", {}),
    "validation/1.33": ("1.33", ALL_OF_133),
    "validation/1.34": ("1.34", ALL_OF_134),
    "validation/1.35": ("1.35", ALL_OF_135),
    "validation/1.36": ("1.36", ALL_OF_136),
}
TOKEN = "admintoken"


def recorded(*folders: str) -> pytest.MarkDecorator:
    """Parametrise a test by the recorded files of folders; files of one folder share a server."""
    files = [(folder, path) for folder in folders for path in sorted((HERE / folder).glob("*.jsonl.xz"))]
    ids = [f"{folder}/{path.name.removesuffix('.jsonl.xz')}" for folder, path in files]
    cases = [pytest.param(folder, path, name, id=name) for (folder, path), name in zip(files, ids, strict=True)]
    return pytest.mark.parametrize(("server", "path", "name"), cases, indirect=["server"])


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    release, gates = SERVERS[request.param]
    tokens = tmp_path_factory.mktemp("server") / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    for_kubectl = request.param == "kubectl"
    clock = SystemClock() if for_kubectl else FixedDate()  # kubectl compares with its own clock
    with Server(
        emulated_version=release, feature_gates=gates, token_auth_file=tokens, tls=for_kubectl, clock=clock
    ) as running:
        running.state.registry.wait_seconds = 0.02  # seconds; the answer is the same
        if request.param.endswith("-compacted"):
            running.compact()
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(server.url, TOKEN)
    yield client
    client.close()


@recorded(*(folder for folder in SERVERS if "/" in folder))
def test_exchanges_agree(server: Server, client: Client, path: Path, name: str, agreement: Agreement) -> None:
    """A recorded request gets the recorded status, headers, body and watch events."""

    def control(what: str, body: dict[str, bool]) -> None:
        assert what == "feature-gates"
        server.set_feature_gates(body)

    agreement.check(name, replay.replay(replay.read(path), client, control))


@recorded("cel")
def test_selector_verdicts_agree(client: Client, path: Path, name: str, agreement: Agreement) -> None:
    """A recorded CEL selector is accepted, or refused in the recorded words."""
    agreement.check(name, cel.replay(replay.read(path), client))


@recorded("kubectl")
def test_kubectl_sessions_agree(
    server: Server, kubectl: str, path: Path, name: str, agreement: Agreement, tmp_path: Path
) -> None:
    """kubectl prints the same, to the letter, and ends with the same status."""
    store = server.state.registry.store
    session = sessions.Session(server.url, TOKEN, kubectl, tmp_path, lambda: store.watching("/registry/"))
    outcome = replay.Outcome()
    for number, step in enumerate(replay.read(path), 1):
        outcome.add(f"line {number}: kubectl {' '.join(step['argv'])}", session.differences(step))
    agreement.check(name, outcome)


def test_every_recording_is_replayed() -> None:
    """Every folder of recordings has a server that it is replayed against, and every file an agreement of its own."""
    names = {path.relative_to(HERE).as_posix().removesuffix(".jsonl.xz") for path in HERE.rglob("*.xz")}
    assert {name.rpartition("/")[0] for name in names} == set(SERVERS)
    assert set(json.loads(AGREEMENT.read_text())) == names
