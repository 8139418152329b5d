"""Replay the recorded answers of real kube-apiservers through the aiohttp application: they agree there as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiohttp import hdrs, web

from tests.clock import FixedDate
from tests.releases import often
from understudy import Server
from understudy.aiohttp import SERVER, application
from understudy.apiserver.server.worker.loop_thread import LoopThread

from . import selectors
from .client import Client
from .conftest import Agreement
from .recorded import TOKEN, Recording, Started
from .test_recordings import EMULATED, OTHER_STEPS, RECORDINGS, options, replay_exchanges

KNOWN_METHODS = {*hdrs.METH_ALL, "PURGE"}
# A small recording of each area, replayed in every run; all others with -m every_recording.
OFTEN = {
    "authorization/1.37/forbidden-odd",
    "custom-resources/1.37/schema_strings",
    "gates/1.37/derived-claim-v1-01",
    "machinery/1.32/d01_paths",
    "machinery/1.37/d03_watchlist",
    "policies/1.37/kinds",
    "validation/1.37/resourceclaim-update-v1beta2-01",
}


@contextmanager
def served(app: web.Application) -> Iterator[str]:
    """Serve an application in a thread; yield its URL."""
    thread, runner = LoopThread(), web.AppRunner(app)

    async def start() -> str:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    try:
        yield thread.run(start())
    finally:
        thread.run(runner.cleanup())
        thread.end()


@pytest.fixture(scope="module")
def application_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    """Serve an application with the options of a recorded server; yield its server, and its own URL."""
    started: Started = request.param
    app = application(**options(started, tmp_path_factory.mktemp("application")), tls=False, clock=FixedDate())
    with served(app) as url:
        server = app[SERVER]
        server.state.registry.wait_seconds = 0.02  # seconds; the answer is the same
        if started.compacted:
            server.compact()
        yield server, url


def unread(recording: Recording) -> list[int]:
    """Return the lines of requests with methods that aiohttp's parser does not know: it refuses them itself."""
    requests = ((number, line.get("request")) for number, line in enumerate(recording.lines(), 1))
    return [number for number, asked in requests if asked and asked.get("method", "GET") not in KNOWN_METHODS]


def cases() -> list[object]:
    """Return the recordings with the servers that they need."""
    chosen = [each for each in RECORDINGS if each.corpus != "kubectl" and each.started.release in EMULATED]
    return [pytest.param(each.started, each, id=each.name, marks=often(each.name in OFTEN)) for each in chosen]


@pytest.mark.parametrize(("application_of", "recording"), cases(), indirect=["application_of"])
def test_exchanges_agree(application_of: tuple[Server, str], recording: Recording, agreement: Agreement) -> None:
    """A recorded request gets the recorded status, headers, body and watch events from the application."""
    server, url = application_of
    client = Client(url, TOKEN)
    try:
        if recording.corpus in OTHER_STEPS:
            outcome = selectors.replay(recording.lines(), client)
        else:
            outcome = replay_exchanges(server, client, recording)
    finally:
        client.close()
    for number in unread(recording):
        outcome.differences.pop(number, None)
    agreement.check(recording.name, outcome)
