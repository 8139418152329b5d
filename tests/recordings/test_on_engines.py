"""Replay the recorded answers of real kube-apiservers with a file and with an etcd: they agree as in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.etcd import running
from tests.releases import NEWEST, often
from understudy import Server

from .client import Client
from .conftest import Agreement
from .recorded import TOKEN, Recording, Started
from .test_recordings import RECORDINGS, replay_exchanges, served

ENGINES = ("sqlite", "etcd")
REPLAYED = {"1.32", str(NEWEST)}  # releases; between them, kinds changed and not how they are kept
CORPORA = {"machinery", "gates"}  # what the store shows in; the rules of kinds are above it
# Lists, watches and what is compacted, replayed in every run; all others with -m every_recording.
OFTEN = {"machinery/1.32-compacted/e01_expired", "machinery/1.37/d03_watchlist", "machinery/1.37/m02_versions"}


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started: Started
    started, engine = request.param
    folder: Path = tmp_path_factory.mktemp(engine)
    if engine == "sqlite":
        with served(started, folder, storage=f"sqlite:{folder}/store") as server:
            yield server
    else:
        with running(folder) as etcd, served(started, folder, etcd_servers=etcd.url) as server:
            yield server


def cases() -> list[object]:
    """Return the recordings with the servers that they need."""
    chosen = [each for each in RECORDINGS if each.corpus in CORPORA and each.started.release in REPLAYED]
    shared: dict[tuple[Started, str], tuple[Started, str]] = {}  # so that equal servers are the same to pytest
    return [
        pytest.param(
            shared.setdefault((each.started, engine), (each.started, engine)),
            each,
            id=f"{engine}-{each.name}",
            marks=often(each.name in OFTEN),
        )
        for engine in ENGINES
        for each in chosen
    ]


@pytest.mark.parametrize(("server", "recording"), cases(), indirect=["server"])
def test_exchanges_agree(server: Server, recording: Recording, agreement: Agreement) -> None:
    """A recorded request gets the recorded status, headers, body and watch events, whatever keeps the objects."""
    client = Client(server.url, TOKEN)
    try:
        agreement.check(recording.name, replay_exchanges(server, client, recording))
    finally:
        client.close()
