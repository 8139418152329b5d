"""The certificate of a server is read again when its files change."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from tests.waiting import wait_until
from understudy import Server


class Files:
    """The files of a server's certificate and of the authority of its clients'."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key, self.clients = (folder / name for name in ("tls.crt", "tls.key", "ca.crt"))
        trustme.CA().cert_pem.write_to_path(self.clients)
        self.write(self.new())

    def new(self) -> trustme.LeafCert:
        return trustme.CA().issue_cert("127.0.0.1")

    def write(self, pair: trustme.LeafCert) -> None:
        """Write a certificate and its key, one after the other."""
        self.certificate.write_bytes(pair.cert_chain_pems[0].bytes())
        self.key.write_bytes(pair.private_key_pem.bytes())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture(params=["asks clients for certificates", "asks for none"])
def server(request: pytest.FixtureRequest, files: Files) -> Iterator[Server]:
    clients = files.clients if request.param.startswith("asks clients") else None
    with Server(tls_cert_file=files.certificate, tls_private_key_file=files.key, client_ca_file=clients) as running:
        yield running


def shown(server: Server) -> str:
    """Return the certificate that a new connection shows (PEM)."""
    address = urlsplit(server.url)
    return ssl.get_server_certificate((str(address.hostname), address.port or 0)).strip()


def test_new_files_are_shown(server: Server, files: Files) -> None:
    """New connections show the certificate that the files hold now."""
    assert shown(server) == files.certificate.read_text().strip()
    files.write(files.new())
    wait_until(lambda: shown(server) == files.certificate.read_text().strip())


def test_files_that_are_new_again(server: Server, files: Files) -> None:
    """Files may be removed before others are there."""
    new = files.new()
    files.key.unlink()
    files.certificate.unlink()
    files.write(new)
    wait_until(lambda: shown(server) == new.cert_chain_pems[0].bytes().decode().strip())


def test_files_that_make_no_pair(server: Server, files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate with the key of another one leaves in force what there was."""
    before = shown(server)
    files.certificate.write_bytes(files.new().cert_chain_pems[0].bytes())
    wait_until(lambda: "reloading the certificate" in caplog.text)
    assert shown(server) == before


def test_wrong_files_are_refused(files: Files) -> None:
    """A server does not start with them."""
    files.key.write_text("nonsense")
    with pytest.raises(ValueError, match=r"cannot read a certificate and key from .*tls\.crt and .*tls\.key"):
        Server(tls_cert_file=files.certificate, tls_private_key_file=files.key)


class Named:
    """A certificate in two files of a folder, which `--tls-sni-cert-key` names."""

    def __init__(self, folder: Path, file: str, *identities: str, common_name: str | None = None) -> None:
        self._certificate, self._key = folder / f"{file}.crt", folder / f"{file}.key"
        self.write(*identities, common_name=common_name)

    def write(self, *identities: str, common_name: str | None = None) -> None:
        """Write a new certificate with names."""
        pair = trustme.CA().issue_cert(*identities, common_name=common_name)
        self._certificate.write_bytes(pair.cert_chain_pems[0].bytes())
        self._key.write_bytes(pair.private_key_pem.bytes())

    def flag(self, *names: str) -> str:
        """Return the value of the flag with names."""
        return f"{self._certificate},{self._key}" + (f":{','.join(names)}" if names else "")

    @property
    def pem(self) -> str:
        return self._certificate.read_text().strip()


def shown_for(server: Server, name: str | None, address: str = "127.0.0.1") -> str:
    """Return the certificate (PEM) that a client sees which asks for a name at an address."""
    context = ssl._create_unverified_context()
    with (
        socket.create_connection((address, urlsplit(server.url).port or 0)) as plain,
        context.wrap_socket(plain, server_hostname=name) as connection,
    ):
        return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"").strip()


@pytest.mark.parametrize("asks", [True, False], ids=["asks clients for certificates", "asks for none"])
def test_clients_see_the_certificate_of_the_name_that_they_ask_for(tmp_path: Path, files: Files, asks: bool) -> None:
    """Names that the flag gives come before those in certificates, exact names before patterns, the first ones before
    others; a certificate is also found by the names in it."""
    given = Named(tmp_path, "given", "given.example.com")
    own = Named(tmp_path, "own", "own.example.com", "*.pattern.example.com", common_name="common.example.com")
    later = Named(tmp_path, "later", "own.example.com", "explicit.example.com")
    server = Server(
        tls_cert_file=files.certificate,
        tls_private_key_file=files.key,
        client_ca_file=files.clients if asks else None,
        tls_sni_cert_key=[given.flag("explicit.example.com", "*.wild.example.com"), own.flag(), later.flag()],
    )
    with server:
        seen = {
            name: shown_for(server, name)
            for name in (
                *("explicit.example.com", "EXPLICIT.example.com", "a.wild.example.com", "a.b.wild.example.com"),
                *("given.example.com", "own.example.com", "a.pattern.example.com", "common.example.com"),
                *("unknown.example.com", None),
            )
        }
    default = files.certificate.read_text().strip()
    assert seen == {
        "explicit.example.com": given.pem,
        "EXPLICIT.example.com": given.pem,
        "a.wild.example.com": given.pem,
        "a.b.wild.example.com": default,
        "given.example.com": given.pem,
        "own.example.com": own.pem,
        "a.pattern.example.com": own.pem,
        "common.example.com": own.pem,
        "unknown.example.com": default,
        None: default,
    }


@pytest.mark.parametrize("asks", [True, False], ids=["asks clients for certificates", "asks for none"])
@pytest.mark.parametrize("bind_address", ["0.0.0.0", "::"])
def test_clients_that_ask_for_no_name_see_the_certificate_of_the_address(
    tmp_path: Path, files: Files, asks: bool, bind_address: str
) -> None:
    """A certificate is named for an address of the server by the flag alone; who asks for a name gets that one's."""
    here = Named(tmp_path, "here", "here.example.com", "127.0.0.2")
    other = Named(tmp_path, "other", "other.example.com", common_name="127.0.0.3")
    server = Server(
        bind_address=bind_address,
        tls_cert_file=files.certificate,
        tls_private_key_file=files.key,
        client_ca_file=files.clients if asks else None,
        tls_sni_cert_key=[here.flag("127.0.0.1"), other.flag()],
    )
    asked = product(("127.0.0.1", "127.0.0.2", "127.0.0.3"), (None, "other.example.com", "unknown.example.com"))
    with server:
        seen = {(address, name): shown_for(server, name, address) for address, name in asked}
    default = files.certificate.read_text().strip()
    by_name = {"other.example.com": other.pem}
    assert seen == {
        (address, name): here.pem if (address, name) == ("127.0.0.1", None) else by_name.get(name or "", default)
        for address, name in seen
    }


def test_named_certificates_change_with_their_files(tmp_path: Path, files: Files) -> None:
    """Named certificates are read again like the server's own one, and a server with them speaks TLS."""
    named = Named(tmp_path, "named", "foo")
    with Server(client_ca_file=files.clients, tls_sni_cert_key=named.flag("foo")) as server:
        assert shown_for(server, "foo") == named.pem
        named.write("foo")
        wait_until(lambda: shown_for(server, "foo") == named.pem)


@pytest.mark.parametrize(
    ("text", "why"),
    [("a.crt", "expected comma separated certificate and key file paths"), ("a,b:", "empty names list is not allowed")],
)
def test_wrong_values_are_refused(text: str, why: str) -> None:
    """The error is that of the flag."""
    with pytest.raises(ValueError, match="tls-sni-cert-key") as refused:
        Server(tls_sni_cert_key=text)
    assert str(refused.value) == f'invalid argument "{text}" for "--tls-sni-cert-key" flag: {why}'
