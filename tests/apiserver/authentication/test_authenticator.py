"""Who may ask a server that has a token file: the answers of kube-apiserver 1.32.5, which authorizes everybody."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.http import TIMEOUT, send
from understudy import Server
from understudy.apiserver.authentication.authenticator import Authenticator, read_tokens
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.machinery.auth.users import AUTHENTICATED

NAMESPACES = "/api/v1/namespaces"
ORIGIN = {"Origin": "http://localhost"}
BINARY = "base64.binary.k8s.io"
UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    path.write_text('secret,ann,1,"dev"\n')
    return path


@pytest.fixture(scope="module")
def server(tokens: Path) -> Iterator[Server]:
    with Server(token_auth_file=tokens, tls=False, control=True) as running:
        yield running


@pytest.fixture(scope="module")
def tls_server(tokens: Path) -> Iterator[Server]:
    with Server(token_auth_file=tokens, control=True) as running:
        yield running


def protocol(token: str) -> str:
    """Return the protocol by which a WebSocket brings a token along."""
    return f"base64url.bearer.authorization.k8s.io.{urlsafe_b64encode(token.encode()).decode().rstrip('=')}"


def asked_over_tls(server: Server, path: str, headers: Mapping[str, str]) -> tuple[int, Any]:
    address = urlsplit(server.url).netloc
    connection = http.client.HTTPSConnection(address, context=ssl._create_unverified_context(), timeout=TIMEOUT)
    try:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


PATHS = [
    NAMESPACES,
    "/",
    "/index.html",
    "/healthz",
    "/livez/ping",
    "/readyz",
    "/version",
    "/api",
    "/apis",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/metrics",
    "/nothing",
    "/understudy/reset",
]


@pytest.mark.parametrize("path", PATHS)
def test_nobody_is_anonymous(server: Server, tls_server: Server, path: str) -> None:
    """A request without credentials is refused whatever it asks for, health checks and the control API included."""
    assert asked_over_tls(tls_server, path, {}) == (401, UNAUTHORIZED)
    for method in ("GET", "POST"):
        answer = send(server, method, path)
        assert (answer.status, answer.json()) == (401, UNAUTHORIZED)


def test_control_needs_a_token(server: Server) -> None:
    """The control API takes the tokens that the rest of the server takes."""
    answer = send(server, "POST", "/understudy/compact", headers={"Authorization": "Bearer secret"})
    assert answer.status == 200


@pytest.mark.parametrize("header", ["X-Remote-User", "Impersonate-User", "Impersonate-Group", "Cookie"])
def test_other_headers_are_no_credentials(tls_server: Server, header: str) -> None:
    """Names that a proxy would set, or that ask to act as somebody, count for nothing without a token."""
    assert asked_over_tls(tls_server, NAMESPACES, {header: "ann"}) == (401, UNAUTHORIZED)
    assert asked_over_tls(tls_server, NAMESPACES, {"Authorization": "Bearer secret"})[0] == 200


def test_kubectl_sends_its_token(tls_server: Server, kubectl: str) -> None:
    """The kubeconfig of a server with tokens lets kubectl in, as the user of the first token."""
    argv = [kubectl, f"--kubeconfig={tls_server.kubeconfig}", "auth", "whoami", "-o", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout or "{}").get("status", {}).get("userInfo", {}).get("username") == "ann", done.stderr


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer secret", 200),
        ("bearer secret", 200),
        ("BEARER secret ", 200),
        (" Bearer secret", 200),
        ("Bearer secret and more", 200),
        ("", 401),
        ("Bearer", 401),
        ("Bearer ", 401),
        ("Bearer\tsecret", 401),
        ("Bearer  secret", 401),
        ("Bearer wrong", 401),
        ("Basic c2VjcmV0", 401),
        ("Digest secret", 401),
        ("Token secret", 401),
        ("secret", 401),
    ],
)
def test_authorization_header_needs_a_bearer_token(server: Server, authorization: str, status: int) -> None:
    """With a token file, only one known bearer token behind one space is accepted."""
    assert send(server, "GET", NAMESPACES, headers={"Authorization": authorization}).status == status


def test_extra_space_before_the_token_warns(server: Server) -> None:
    """An extra space before the token makes it count as none, with a warning."""
    answer = send(server, "GET", NAMESPACES, headers={"Authorization": "Bearer  secret"})
    text = "the provided Authorization header contains extra space before the bearer token, and is ignored"
    assert answer.headers.get_all("Warning") == [f'299 - "{text}"']


async def websocket(server: Server, protocols: str, authorization: str = "") -> tuple[int, str | None]:
    """Return the status that opens a watch, and the protocol that is then spoken."""
    headers = {**ORIGIN, "Authorization": authorization} if authorization else ORIGIN
    url = f"{server.url}{NAMESPACES}?watch=true&timeoutSeconds=-1"
    names = [name.strip() for name in protocols.split(",") if name]
    try:
        async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=headers, protocols=names) as ws:
            return 101, ws.protocol
    except aiohttp.WSServerHandshakeError as error:
        return error.status, None


@pytest.mark.parametrize(
    ("protocols", "authorization", "status"),
    [
        (f"{protocol('secret')},{BINARY}", "", 101),
        (f"{BINARY},{protocol('secret')}", "", 101),
        (f"{protocol('secret')},{BINARY}", "Bearer wrong", 101),
        (BINARY, "", 401),
        (BINARY, "Bearer wrong", 401),
        (f"{protocol('wrong')},{BINARY}", "", 401),
        (protocol("secret"), "", 401),
        (f"{protocol('secret')},{protocol('secret')},{BINARY}", "", 401),
        (f"{protocol('')},{BINARY}", "", 401),
        (f"base64url.bearer.authorization.k8s.io.@@,{BINARY}", "", 401),
        (f"base64url.bearer.authorization.k8s.io.__4,{BINARY}", "", 401),
    ],
)
async def test_websocket_brings_its_token_as_a_protocol(
    server: Server, protocols: str, authorization: str, status: int
) -> None:
    """A WebSocket may offer its token as a protocol beside the one that is spoken; the token is never sent back."""
    expected = BINARY if status == 101 and BINARY in protocols else None
    assert await websocket(server, protocols, authorization) == (status, expected)


def test_websocket_token_makes_the_user(server: Server) -> None:
    """A WebSocket belongs to the user whose token is among its protocols."""
    authenticator = Authenticator(server.state.tokens.user_of, LoopbackTokens())
    headers = {"Upgrade": "websocket", "Sec-WebSocket-Protocol": f"{protocol('secret')}, {BINARY}"}
    user = authenticator.authenticate(headers, [])
    assert (user.name, user.groups) == ("ann", ["dev", AUTHENTICATED])


def test_protocol_token_needs_a_websocket(tls_server: Server) -> None:
    """A token in Sec-WebSocket-Protocol is ignored in a request that opens no WebSocket."""
    headers = {"Sec-WebSocket-Protocol": f"{protocol('secret')}, {BINARY}"}
    assert asked_over_tls(tls_server, NAMESPACES, headers) == (401, UNAUTHORIZED)


@pytest.mark.parametrize(
    ("line", "groups"),
    [
        ("t,ann,1", []),
        ("t,ann,1,", [""]),
        ('t,ann,1,""', [""]),
        ('t,ann,1,"dev,ops"', ["dev", "ops"]),
        ('t,ann,1,"dev, ops,"', ["dev", " ops", ""]),
        ("t,ann,1,dev,ops", ["dev"]),
    ],
)
def test_groups_of_a_token_file(tmp_path: Path, line: str, groups: list[str]) -> None:
    """Groups are what stands between the commas of the fourth column, be it nothing, and that of all who are known."""
    path = tmp_path / "tokens.csv"
    path.write_text(f"{line}\n")
    assert read_tokens(path)["t"].groups == [*groups, AUTHENTICATED]
