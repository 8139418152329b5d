"""What web pages may not do to a server without tokens, whose every client is an administrator."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.http import TIMEOUT, exchange, send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"
ADVICE = (
    "is not accepted by a server that asks for no tokens; name its host in --accept-hosts, or use --token-auth-file"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(control=True, accept_hosts=["understudy", r".*\.corp"]) as running:
        yield running


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8001", 200),
        ("10.1.2.3:8001", 200),
        ("[::1]", 200),
        ("[fe80::1]:8001", 200),
        ("localhost", 200),
        ("LocalHost:8001", 200),
        ("localhost.:8001", 200),
        ("api.localhost:8001", 200),
        ("understudy", 200),
        ("Understudy:8001", 200),
        ("a.corp", 200),
        ("", 200),
        ("evil.example:8001", 403),
        ("understudy.evil.example", 403),
        ("a.corp.evil.example", 403),
        ("notlocalhost", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[evil.example]", 403),
        (":8001", 403),
    ],
)
def test_host_is_an_address_or_named(server: Server, host: str, status: int) -> None:
    """A name is refused unless a flag names it: a page may have been loaded by that name, of the same address."""
    answer = send(server, "GET", MAPS, headers={"Host": host})
    assert answer.status == status
    if status == 403:
        body = answer.json()
        assert (body["kind"], body["reason"]) == ("Status", "Forbidden")
        assert body["message"] == f'forbidden: host "{host}" {ADVICE}'


def test_http_1_0_needs_no_host(server: Server) -> None:
    """A request without a Host is none of a browser's."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT)
    connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"  # type: ignore[attr-defined]
    connection.putrequest("GET", MAPS, skip_host=True)
    connection.endheaders()
    assert connection.getresponse().status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://understudy"}, 200),
        ({"Origin": "https://a.corp:3000", "Sec-Fetch-Site": "cross-site"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_pages_of_other_origins_are_refused(server: Server, headers: dict[str, str], status: int) -> None:
    """A browser says where a request comes from: elsewhere on the same machine is elsewhere, too."""
    assert send(server, "GET", MAPS, headers=headers).status == status
    assert send(server, "POST", "/understudy/compact", headers=headers).status == status


def test_own_origin_is_accepted(server: Server) -> None:
    """A request whose Origin is the server itself passes, as those of WebSocket clients that make the Origin up."""
    assert send(server, "GET", MAPS, headers={"Origin": server.url}).status == 200


def test_a_page_writes_nothing(server: Server) -> None:
    """A form or a text without a media type needs no permission of the server (CORS), and is refused all the same."""
    answer = send(server, "POST", MAPS, b'{"metadata": {"name": "x"}}', "", headers={"Origin": "http://evil.example"})
    message = f'forbidden: a request from a web page of "http://evil.example" {ADVICE}'
    assert (answer.status, answer.json()["message"]) == (403, message)
    assert exchange(server, "GET", f"{MAPS}/x")[0] == 404


@pytest.mark.parametrize(("origin", "status"), [("", 101), ("http://evil.example", 403), ("http://localhost", 403)])
async def test_a_page_watches_nothing(server: Server, origin: str, status: int) -> None:
    """A WebSocket is refused to pages of other origins: a browser lets them read what it answers."""
    url = f"{server.url}{MAPS}?watch=true&timeoutSeconds=1"
    try:
        async with aiohttp.ClientSession() as session, session.ws_connect(url, origin=origin or server.url):
            got = 101
    except aiohttp.WSServerHandshakeError as error:
        got = error.status
    assert got == status


def test_tokens_make_pages_harmless(tmp_path: Path) -> None:
    """A server with a token file takes any Host and Origin, as kube-apiserver does: a page knows no token."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,ann,1\n")
    foreign = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    with Server(token_auth_file=tokens, tls=False) as server:
        assert send(server, "GET", MAPS, headers=foreign).status == 401
        assert send(server, "GET", MAPS, headers={**foreign, "Authorization": "Bearer secret"}).status == 200


def test_wrong_pattern_is_refused() -> None:
    """A pattern that is no regular expression is refused at once."""
    with pytest.raises(ValueError, match=r"--accept-hosts: '\[' is no regular expression"):
        Server(accept_hosts=["["])
