"""Exchanges of HTTP/2 with real servers are answered alike, but for those that docs/limits.md names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver.server.http2.client import Client
from tests.apiserver.server.http2.exchanges import Outcome, cases
from understudy import Server

TOKEN = "admintoken"
RECORDED = {path.stem: path.read_text().splitlines() for path in (Path(__file__).parent / "recorded").glob("*.jsonl")}
KNOWN = {
    "body shorter than declared": "h2 ends the connection",
    "body longer than declared": "h2 ends the connection",
    "length that is no number": "h2 ends the connection",
    "1 MB of headers": "Go counts while headers come; here they are answered with 431",
}


@pytest.fixture(scope="module", params=sorted(RECORDED))
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield the release of a recording, and the URL of a server of that release."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    with Server(emulated_version=request.param, token_auth_file=tokens) as server:
        yield request.param, server.url


@pytest.mark.parametrize("name", cases())
def test_recorded_exchange(recorded: tuple[str, str], name: str) -> None:
    """Answer, resets and the end of the connection are those of the real server."""
    release, url = recorded
    answers: dict[str, Outcome] = {line["case"]: line["answer"] for line in map(json.loads, RECORDED[release])}
    with Client(url) as client:
        answer = json.loads(json.dumps(cases()[name](client, [("authorization", f"Bearer {TOKEN}")])))
    assert (answer == answers[name]) is (name not in KNOWN), answer
