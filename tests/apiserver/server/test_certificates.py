"""The certificate of a server is read again when its files change."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
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
