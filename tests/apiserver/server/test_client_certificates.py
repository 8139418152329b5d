"""Users of client certificates: the answers of kube-apiserver with `--client-ca-file`."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.apiserver.server.http2.client import Client
from tests.certificates import CN, SERVER, Holder, O, issue, new_authority
from understudy import Server
from understudy.apiserver.server.options.tls.client_certificates import AskingContext
from understudy.apiserver.server.worker import loop_thread
from understudy.machinery.auth.users import CREDENTIAL_ID

SSL = pytest.importorskip("OpenSSL.SSL", reason="client certificates need pyOpenSSL")

CA, OTHER = new_authority(), new_authority()
MIDDLE = new_authority("middle", CA)
ALICE = [(CN, "alice"), (O, "ops"), (O, "dev")]
SELF_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BOB = {"Authorization": "Bearer bob-token"}
WRONG = {"Authorization": "Bearer wrong"}


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("authority")
    (folder / "ca.crt").write_bytes(CA.pem)
    (folder / "tokens.csv").write_text("bob-token,bob,u-bob\n")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "asyncio":
            patch.setattr(loop_thread, "new_loop", asyncio.new_event_loop)
        options: Any = {"client_ca_file": folder / "ca.crt", "token_auth_file": folder / "tokens.csv"}
        with Server(authorization_mode="RBAC", **options) as running:
            yield running


@contextmanager
def connection(server: Server, folder: Path, *chain: Holder) -> Iterator[http.client.HTTPSConnection]:
    """Open a connection that shows a chain of certificates, none without any."""
    context = ssl._create_unverified_context()
    if chain:
        file = folder / "client.pem"
        file.write_bytes(b"".join([*(holder.pem for holder in chain), chain[0].key_pem]))
        context.load_cert_chain(file)
    with closing(http.client.HTTPSConnection(urlsplit(server.url).netloc, context=context, timeout=30)) as client:
        yield client


def send(client: http.client.HTTPSConnection, method: str, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    client.request(method, path, body if method == "POST" else None, {"Content-Type": "application/json", **headers})
    answer = client.getresponse()
    return answer.status, json.loads(answer.read())


def user_of(server: Server, folder: Path, *chain: Holder, **headers: str) -> tuple[str, list[str]] | int:
    """Return name and groups as which a request is answered, or the status of an error."""
    with connection(server, folder, *chain) as client:
        status, answer = send(client, "POST", SELF_REVIEW, headers)
    if status != 201:
        return status
    return answer["status"]["userInfo"]["username"], answer["status"]["userInfo"]["groups"]


def test_user_and_groups(server: Server, tmp_path: Path) -> None:
    """The common name is the user, organizations are the groups in their order; the certificate is in `extra`."""
    with connection(server, tmp_path, issue(ALICE, CA)) as client:
        status, answer = send(client, "POST", SELF_REVIEW, {})
    assert (status, answer["status"]["userInfo"]["groups"]) == (201, ["ops", "dev", "system:authenticated"])
    assert answer["status"]["userInfo"]["extra"][CREDENTIAL_ID][0].startswith("X509SHA256=")


@pytest.mark.parametrize(
    ("chain", "headers", "expected"),
    [
        ((), {}, 403),
        ((), BOB, "bob"),
        ((issue(ALICE, CA),), BOB, "alice"),
        ((issue(ALICE, CA),), WRONG, "alice"),
        ((issue(ALICE, MIDDLE), MIDDLE), {}, "alice"),
        ((issue(ALICE, MIDDLE),), {}, 401),
        ((issue(ALICE, OTHER),), {}, 401),
        ((issue(ALICE, OTHER),), WRONG, 401),
        ((issue(ALICE, OTHER),), BOB, "bob"),
        ((issue(ALICE),), {}, 401),
        ((issue(ALICE, CA, usages=(SERVER,)),), {}, 401),
        ((issue(ALICE, CA, days=(-9, -1)),), {}, 401),
        ((issue(ALICE, CA, days=(1, 9)),), {}, 401),
        ((issue([(O, "dev")], CA),), {}, 403),
        ((issue([(O, "dev")], CA),), BOB, "bob"),
        ((issue([(CN, "first"), (CN, "last")], CA),), {}, "last"),
    ],
)
def test_which_credentials_count(
    server: Server, tmp_path: Path, chain: tuple[Holder, ...], headers: dict[str, str], expected: str | int
) -> None:
    """A good certificate goes before a token, a wrong one is 401 unless the token is good, one without name is none."""
    answered = user_of(server, tmp_path, *chain, **headers)
    assert (answered if isinstance(answered, int) else answered[0]) == expected


def test_pages_are_refused_as_well(server: Server, tmp_path: Path) -> None:
    """A wrong certificate is 401 even where everybody may look."""
    for chain, expected in (((issue(ALICE, OTHER),), 401), ((), 200)):
        with connection(server, tmp_path, *chain) as client:
            assert send(client, "GET", "/version", {})[0] == expected


def test_many_requests_on_one_connection(server: Server, tmp_path: Path) -> None:
    """A connection lasts, with answers and bodies of many TLS records."""
    labels = {f"label-{number}": "x" * 60 for number in range(3000)}
    with connection(server, tmp_path, issue([(CN, "root"), (O, "system:masters")], CA)) as client:
        body = json.dumps({"metadata": {"generateName": "a", "labels": labels}})
        client.request("POST", "/api/v1/namespaces", body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert (answer.status, len(json.loads(answer.read())["metadata"]["labels"])) == (201, 3001)
        assert [send(client, "GET", "/version", {})[0] for _ in range(20)] == [200] * 20


def test_write_leaves_received_bytes_to_be_read() -> None:
    """Bytes that come while nothing is read can be read after an answer was sent: the event loop is told of them."""
    holder = issue([(CN, "server")], CA, usages=(SERVER,))

    def configure(context: Any) -> None:
        context.use_certificate(holder.certificate)
        context.use_privatekey(holder.key)

    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = AskingContext(configure, [], []).wrap_bio(incoming, outgoing)
    client = ssl._create_unverified_context().wrap_bio(outgoing, incoming)
    for side in (client, connection) * 2:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        connection.read(100)
    assert connection.pending() == 0
    client.write(b"the next request")
    connection.write(b"an answer")
    assert (incoming.pending, connection.pending()) == (0, 1)
    assert connection.read(100) == b"the next request"


def test_certificate_over_http2(server: Server, tmp_path: Path) -> None:
    """A client that shows a certificate may agree to HTTP/2."""
    alice = issue(ALICE, CA)
    (tmp_path / "client.pem").write_bytes(alice.pem + alice.key_pem)
    with Client(server.url, certificate=tmp_path / "client.pem") as client:
        review = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
        answer = client.ask("POST", SELF_REVIEW, [("content-type", "application/json")], review)
    assert json.loads(answer.body)["status"]["userInfo"]["username"] == "alice"


def test_resumed_session_keeps_the_chain(server: Server, tmp_path: Path) -> None:
    """A client that comes again with its TLS session is known by the intermediates that it sends along."""
    file = tmp_path / "client.pem"
    leaf = issue([(CN, "root"), (O, "system:masters")], MIDDLE)
    file.write_bytes(leaf.pem + MIDDLE.pem + leaf.key_pem)
    context = ssl._create_unverified_context()
    context.load_cert_chain(file)
    session: ssl.SSLSession | None = None
    for _ in range(2):
        client = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=context, timeout=30)
        client.sock = context.wrap_socket(plain(server), session=session)
        assert send(client, "GET", "/api/v1/nodes", {})[0] == 200
        session = client.sock.session
        client.close()


def plain(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((str(address.hostname), address.port or 0), timeout=30)


def test_clients_are_told_whose_certificates_are_asked_for(server: Server) -> None:
    """The names of the authorities are sent: Go's clients show no certificates of others."""
    client = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
    client.set_connect_state()
    with plain(server) as connection:
        for _ in range(20):
            with suppress(SSL.WantReadError):
                client.do_handshake()
                break
            connection.sendall(client.bio_read(65536))
            client.bio_write(connection.recv(65536))
    assert [name.CN for name in client.get_client_ca_list()] == ["ca"]
