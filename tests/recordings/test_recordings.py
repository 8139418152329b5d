"""Replay the recorded answers of real kube-apiservers: no step may differ that is not known to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clock import FixedDate
from tests.releases import RELEASES, often
from understudy import Server
from understudy.machinery.util.clock import SystemClock

from . import replay, selectors, sessions
from .client import Client
from .conftest import Agreement
from .known import KNOWN
from .recorded import TOKEN, Recording, Started, recordings

RECORDINGS = recordings()
EMULATED = {str(release) for release in RELEASES}
# Every run replays the newest release of each corpus; -m every_recording replays the others.
# Sessions of many commands, replayed with -m every_recording: they take half of the time of all recordings.
LONG_SESSIONS = "apply change-delete core create-get describe-auth discovery errors watch-wait"
LONG = {f"kubectl/1.32/{session}" for session in LONG_SESSIONS.split()}
OTHER_STEPS = {"cel", "kubectl"}  # corpora whose lines are no exchanges


def recorded(corpora: Collection[str]) -> pytest.MarkDecorator:
    """Parametrise a test by the recordings of corpora; those with equal servers share one."""
    chosen = [each for each in RECORDINGS if each.corpus in corpora and each.started.release in EMULATED]
    newest = {each.corpus: each.started.release for each in sorted(chosen, key=lambda each: each.version)}
    cases = []
    for each in chosen:
        marks = often(each.name not in LONG and each.started.release == newest[each.corpus])
        cases.append(pytest.param(each.started, each, id=each.name, marks=marks))
    return pytest.mark.parametrize(("server", "recording"), cases, indirect=["server"])


def options(started: Started, folder: Path) -> dict[str, Any]:
    """Return the options of a server like the recorded one; its token file is made in a folder."""
    tokens = folder / "tokens.csv"
    tokens.write_text(started.tokens)
    return {
        **{name.replace("-", "_"): value for name, value in started.flags},
        "emulated_version": started.release,
        "feature_gates": started.feature_gates,
        "token_auth_file": tokens,
    }


@contextmanager
def served(started: Started, folder: Path, **more: Any) -> Iterator[Server]:
    """Run a server like the recorded one, with more options."""
    for_kubectl = started.folder.startswith("kubectl/")
    with Server(
        **options(started, folder),
        **more,
        tls=for_kubectl,
        clock=SystemClock() if for_kubectl else FixedDate(),  # kubectl compares with its own clock
    ) as running:
        running.state.registry.wait_seconds = 0.02  # seconds; the answer is the same
        if started.compacted:
            running.compact()
        yield running


def replay_exchanges(server: Server, client: Client, recording: Recording) -> replay.Outcome:
    """Replay a recording whose lines are exchanges, against a server that `options` has started."""

    def control(what: str, body: dict[str, bool]) -> None:
        assert what == "feature-gates"
        server.set_feature_gates(body)

    clock = server.state.clock
    assert isinstance(clock, FixedDate)
    return replay.replay(recording.lines(), client, control, clock.skip)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(request.param, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(server.url, TOKEN)
    yield client
    client.close()


@recorded({each.corpus for each in RECORDINGS} - OTHER_STEPS)
def test_exchanges_agree(server: Server, client: Client, recording: Recording, agreement: Agreement) -> None:
    """A recorded request gets the recorded status, headers, body and watch events."""
    agreement.check(recording.name, replay_exchanges(server, client, recording))


@recorded({"cel"})
def test_selector_verdicts_agree(client: Client, recording: Recording, agreement: Agreement) -> None:
    """A recorded CEL selector is accepted, or refused in the recorded words."""
    agreement.check(recording.name, selectors.replay(recording.lines(), client))


@recorded({"kubectl"})
def test_kubectl_sessions_agree(
    server: Server, kubectl: str, recording: Recording, agreement: Agreement, tmp_path: Path
) -> None:
    """kubectl prints the same, to the letter, and ends with the same status."""
    store = server.state.registry.store
    session = sessions.Session(server.url, TOKEN, kubectl, tmp_path, lambda: store.watching("/registry/"))
    outcome = replay.Outcome()
    for number, step in enumerate(recording.lines()[1:], 2):
        outcome.add(number, f"kubectl {' '.join(step['argv'])}", session.differences(step))
    agreement.check(recording.name, outcome)


def test_known_differences_name_recordings() -> None:
    """Every file in the list of known differences is there, and every long one."""
    assert set(KNOWN) | LONG <= {each.name for each in RECORDINGS}


def test_folders_name_the_release() -> None:
    """A recording stands in a folder of its release, which its first line tells."""
    releases = {each.name: each.folder.split("/")[1].partition("-")[0] for each in RECORDINGS}
    assert {each.name: each.started.release for each in RECORDINGS} == releases
