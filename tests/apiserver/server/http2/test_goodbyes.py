"""How connections of HTTP/2 end: the client is told by a GOAWAY, and what has begun is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from h2.errors import ErrorCodes

from tests.apiserver.server.http2.client import MAPS, Client
from understudy import Server
from understudy.apiserver.server.http1 import served
from understudy.apiserver.server.http2 import connection
from understudy.apiserver.server.http2.frames import go_away_frame

ALICE = [("authorization", "Bearer alice")]


@pytest.fixture(autouse=True)
def short_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_GOODBYE", 0.1)


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "tokens.csv").write_text("alice,alice,alice,system:masters\n")
    return {"token_auth_file": tmp_path / "tokens.csv"}


@pytest.fixture
def rbac(tokens: dict[str, Any]) -> Iterator[Server]:
    with Server(authorization_mode="RBAC", **tokens) as running:
        yield running


@pytest.mark.parametrize(("headers", "status"), [([], 200), ([("authorization", "Bearer wrong")], 401)], ids=str)
def test_nobody_keeps_no_connection(rbac: Server, headers: list[tuple[str, str]], status: int) -> None:
    """Anonymous and refused clients get one answer on a connection, which goes away with it."""
    with Client(rbac.url) as client:
        assert client.ask("GET", "/healthz", headers).status == status
        client.until_closed()
        assert client.went_away == (1, ErrorCodes.NO_ERROR)


def test_gate_lets_nobody_keep_connections(tokens: dict[str, Any]) -> None:
    gates = {"UnauthenticatedHTTP2DOSMitigation": False}
    with Server(feature_gates=gates, **tokens) as server, Client(server.url) as client:
        assert [client.ask("GET", "/healthz").status for _ in range(2)] == [401, 401]
        assert client.went_away is None


def test_somebody_keeps_the_connection(rbac: Server) -> None:
    with Client(rbac.url) as client:
        assert [client.ask("GET", "/healthz", ALICE).status for _ in range(3)] == [200] * 3
        assert client.went_away is None


def test_streams_behind_a_goaway_are_refused(rbac: Server) -> None:
    """A request that has begun before goes on; others are for another connection."""
    with Client(rbac.url) as client:
        watch = client.begin("GET", f"{MAPS}?watch=true", ALICE)
        client.until(lambda: client.answers[watch].status == 200)
        client.ask("GET", "/healthz")
        client.until(lambda: client.went_away == (3, ErrorCodes.NO_ERROR))
        assert client.ask("GET", "/healthz", ALICE).reset == ErrorCodes.REFUSED_STREAM
        rbac.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
        client.until(lambda: b'"late"' in client.answers[watch].body)
        client.http2.reset_stream(watch)
        client.flush()
        client.until_closed()


def test_client_goes_away(server: Server) -> None:
    """The requests of a client that goes away are answered, then the connection closes."""
    with Client(server.url) as client:
        number = client.begin("POST", MAPS, [("content-type", "application/json")], ends=False)
        client.socket.sendall(go_away_frame(0, ErrorCodes.NO_ERROR))
        client.send(number, json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).encode())
        assert client.answer(number).status == 201
        client.until_closed()
        assert client.went_away == (1, ErrorCodes.NO_ERROR)


def test_server_stops() -> None:
    """Watches end and clients are told to go when the server stops."""
    with ExitStack() as life:
        server = life.enter_context(Server(tls=True))
        client = Client(server.url)
        number = client.begin("GET", f"{MAPS}?watch=true")
        client.until(lambda: client.answers[number].status == 200)
    with client:
        client.until_closed()
        assert client.answers[number].ended
        assert client.went_away == (1, ErrorCodes.NO_ERROR)


def test_chance_of_a_goaway() -> None:
    """`--goaway-chance` ends the connections of HTTP/2 alone."""
    with Server(tls=True, goaway_chance=0.02) as server, Client(server.url) as client:
        answered = 0
        while client.went_away is None:
            assert client.ask("GET", "/healthz").status == 200
            answered += 1
            assert answered < 2000
        client.until_closed()
    with pytest.raises(ValueError, match=r"^--goaway-chance can not be less than 0 or greater than 0\.02$"):
        Server(goaway_chance=0.03)


def test_idle_connection_is_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "IDLE_TIMEOUT", 0.2)
    monkeypatch.setattr(connection, "_GREETING", 0.1)
    with Client(server.url) as client:
        client.until_closed()
        assert client.went_away == (0, ErrorCodes.NO_ERROR)


def test_http2_may_be_switched_off() -> None:
    with Server(tls=True, disable_http2_serving=True) as server, Client(server.url, ("h2", "http/1.1")) as client:
        assert client.protocol == "http/1.1"
