"""Requests over HTTP/2: they are answered as those of HTTP/1.1, many at once on a connection."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from tests.apiserver.server.http2.client import MAPS, Client, Headers
from understudy import Server

JSON = ("content-type", "application/json")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(tls=True) as running:
        yield running


def config_map(name: str, size: int = 1) -> bytes:
    metadata = {"name": name, "namespace": "default"}
    data = {"a": "x" * size}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).encode()


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [(("h2", "http/1.1"), "h2"), (("http/1.1", "h2"), "h2"), (("http/1.1",), "http/1.1"), ((), None)],
)
def test_protocol_is_negotiated(server: Server, offered: tuple[str, ...], agreed: str | None) -> None:
    """HTTP/2 is spoken with clients that offer it, whatever they prefer."""
    with Client(server.url, offered) as client:
        assert client.protocol == agreed


def test_settings_are_those_of_the_real_server(client: Client) -> None:
    """A client may have 100 requests at once, and send 256 KiB of each body before it is read."""
    client.ask("GET", "/healthz")
    settings = {
        code: client.settings[code]
        for code in (
            SettingCodes.MAX_FRAME_SIZE,
            SettingCodes.MAX_CONCURRENT_STREAMS,
            SettingCodes.MAX_HEADER_LIST_SIZE,
            SettingCodes.INITIAL_WINDOW_SIZE,
        )
    }
    assert [*settings.values()] == [262144, 100, 1048896, 262144]
    assert client.http2.outbound_flow_control_window == 100 * 262144


def test_object_is_written_and_read(client: Client) -> None:
    """Bodies go both ways, with the headers of HTTP/1.1 but for `Connection`."""
    created = client.ask("POST", MAPS, [JSON], config_map("written"))
    assert (created.status, json.loads(created.body)["data"]) == (201, {"a": "x"})
    read = client.ask("GET", f"{MAPS}/written", [("accept", "application/json")])
    assert (read.status, read.headers["content-type"]) == (200, "application/json")
    assert read.headers["content-length"] == str(len(read.body))
    assert {"audit-id", "cache-control", "date"} < set(read.headers)
    assert "connection" not in read.headers
    missing = client.ask("GET", f"{MAPS}/missing")
    assert (missing.status, json.loads(missing.body)["reason"]) == (404, "NotFound")


def test_head_has_no_body(client: Client) -> None:
    answer = client.ask("HEAD", f"{MAPS}/missing")
    assert (answer.status, answer.body) == (405, b"")


def test_requests_are_answered_in_any_order(client: Client) -> None:
    """A request whose body does not come holds up no other one."""
    slow = client.begin("POST", MAPS, [JSON], ends=False)
    assert client.ask("GET", "/healthz").body == b"ok"
    numbers = [client.begin("GET", "/healthz") for _ in range(50)]
    assert {client.answer(number).body for number in numbers} == {b"ok"}
    client.send(slow, config_map("slow"))
    assert client.answer(slow).status == 201


def test_large_bodies(client: Client) -> None:
    """Bodies beyond the windows of both sides are sent as they are read."""
    body = config_map("large", 900_000)
    created = client.ask("POST", MAPS, [JSON, ("content-length", str(len(body)))], body)
    assert (created.status, len(json.loads(created.body)["data"]["a"])) == (201, 900_000)


def test_body_is_asked_for(client: Client) -> None:
    """A client that expects to be told so sends its body then."""
    number = client.begin("POST", MAPS, [JSON, ("expect", "100-continue")], ends=False)
    client.until(lambda: client.answers[number].continues == 1)
    client.send(number, config_map("expected"))
    assert client.answer(number).status == 201


def test_unread_body_is_not_waited_for(client: Client) -> None:
    """A request that is answered without its body ends, and the client is told not to send the rest."""
    number = client.begin("GET", "/healthz", ends=False)
    answer = client.answer(number)
    client.until(lambda: answer.reset is not None)
    assert (answer.status, answer.body, answer.reset) == (200, b"ok", ErrorCodes.NO_ERROR)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (("connection", "keep-alive"), 'request header "Connection" is not valid in HTTP/2\n'),
        (("upgrade", "websocket"), 'request header "Upgrade" is not valid in HTTP/2\n'),
        (("transfer-encoding", "chunked"), 'request header "Transfer-Encoding" is not valid in HTTP/2\n'),
        (("te", "gzip"), 'request header "TE" may only be "trailers" in HTTP/2\n'),
    ],
    ids=lambda header: header[0],
)
def test_headers_of_connections_are_refused(client: Client, header: tuple[str, str], text: str) -> None:
    answer = client.ask("GET", "/healthz", [header])
    assert (answer.status, answer.body.decode()) == (400, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


GET: Headers = [(":method", "GET"), (":scheme", "https"), (":path", "/healthz")]


@pytest.mark.parametrize(
    "headers",
    [
        [*GET[:2]],
        [*GET[1:]],
        [*GET, ("accept", "*/*"), (":authority", "a")],
        [*GET, (":path", "/")],
        [*GET, (":status", "200")],
        [*GET, (":protocol", "websocket")],
        [*GET, ("Accept", "*/*")],
        [*GET, ("a b", "c")],
        [*GET, ("a", "b\nc")],
        [*GET, (":authority", "user@a")],
        [(":method", "GET"), (":scheme", "ftp"), (":path", "/")],
        [(":method", "GET"), (":scheme", "https"), (":path", "/%zz")],
        [(":method", "CONNECT"), (":authority", "a:443"), (":scheme", "https")],
        [(":method", "CONNECT")],
    ],
    ids=str,
)
def test_malformed_request_is_reset(client: Client, headers: Headers) -> None:
    """A request that breaks the rules ends without an answer; the connection goes on."""
    assert client.answer(client.begin_raw(headers)).reset == ErrorCodes.PROTOCOL_ERROR
    assert client.ask("GET", "/healthz").status == 200


def test_connect_finds_nothing(client: Client) -> None:
    assert client.answer(client.begin_raw([(":method", "CONNECT"), (":authority", "127.0.0.1:443")])).status == 404


def test_host_is_taken_for_a_missing_authority(client: Client) -> None:
    assert client.answer(client.begin_raw([*GET, ("host", "127.0.0.1")])).status == 200
    refused = client.answer(client.begin_raw([*GET[:2], (":path", MAPS), ("host", "evil.example")]))
    assert refused.status == 403
