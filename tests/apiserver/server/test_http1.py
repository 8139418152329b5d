"""Requests as nobody should send them, and what a real server answered: status lines, headers, bodies, closing.

`recorded/http1.jsonl` has one exchange a line: its name, the parts that were sent with a pause between them (a text in
Latin-1, or a text and how often it is repeated), the answers, and whether the server then closed the connection.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.raw_http import converse
from understudy import Server
from understudy.apiserver.server.http1 import parser

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "recorded" / "http1.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("admintoken,admin,admin,system:masters\n")
    with Server(emulated_version="1.32", token_auth_file=tokens, tls=False) as running:
        yield running


@pytest.mark.parametrize("exchange", RECORDED, ids=[exchange["case"] for exchange in RECORDED])
def test_odd_request(server: Server, exchange: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """An odd request is answered as by the real server, and nothing above the level of -v is logged."""
    with caplog.at_level(logging.INFO):
        answers, closed = converse(server.url, exchange["send"], len(exchange["answers"]), exchange["closed"])
    assert (answers, closed) == (exchange["answers"], exchange["closed"])
    assert not caplog.records


def test_head_that_takes_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is closed without an answer if the head of a request does not come in time."""
    assert parser.HEADER_TIMEOUT == 32
    monkeypatch.setattr(parser, "HEADER_TIMEOUT", 0.1)
    assert converse(server.url, ["GET /healthz HTTP/1.1\r\nHost:"], silence=10) == ([], True)
