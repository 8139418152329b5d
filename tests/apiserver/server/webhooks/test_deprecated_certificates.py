"""Deprecated certificates of other servers: what counts them, and Go's words for those that are signed with SHA-1."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.http import send
from understudy import Server
from understudy.admission.webhooks import Call, Caller, CallError, Reply, Target
from understudy.apiserver.server.webhooks.certificates import UNKNOWN_AUTHORITY, CertificateCounts, authority_error
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.machinery.golang.x509.deprecated import Deprecated, deprecated_by, deprecated_ways
from understudy.machinery.releases.version import V1_36, V1_37, Version

SIGNED_WITH_SHA1 = Path(__file__).with_name("recorded") / "sha1"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    """Return a file with a certificate that has `localhost` as its common name only, and its key."""
    key, now = generate_private_key(SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    certificate = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "pair.pem").write_bytes(certificate + private)
    return tmp_path / "pair.pem"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n{}")
    writer.write(ANSWER)
    writer.close()


@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
async def test_missing_names_are_counted(nameless: Path, version: Version, insecure: bool) -> None:
    """A certificate without names is counted, be it refused or trusted unseen."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(nameless)
    client = HttpWebhookClient(ServiceResolver(lambda *_: None, lambda *_: (), {}), version)
    bundle = "" if insecure else base64.b64encode(nameless.read_bytes()).decode()
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        target = Target(f"https://localhost:{server.sockets[0].getsockname()[1]}/x", bundle, None)
        caller = Caller("", insecure=insecure)
        (reply,) = await client.call([Call(target, b"{}", 30, 30, caller=caller)])
        await client.close()
    assert isinstance(reply.result, Reply if insecure else CallError)
    counted = {family.name: family.series[()] for family in client.certificates.families}
    assert counted == {"apiserver_webhooks_x509_missing_san_total": 1, "apiserver_webhooks_x509_insecure_sha1_total": 0}
    stage = "[BETA]" if version >= V1_37 else "[ALPHA]"
    assert all(family.about.startswith(stage) for family in client.certificates.families)


@pytest.mark.parametrize(
    ("leaf", "algorithm", "authority"),
    [("rsa", "SHA1-RSA", "test ca"), ("ecdsa", "ECDSA-SHA1", "ec org")],
)
def test_insecure_signatures(leaf: str, algorithm: str, authority: str) -> None:
    """An authority that is known does not count where it has signed with SHA-1, and the error says so."""
    signed, signer = (
        x509.load_pem_x509_certificate((SIGNED_WITH_SHA1 / f"{name}.pem").read_bytes())
        for name in (leaf, f"{leaf}_authority")
    )
    why = f'(possibly because of "x509: cannot verify signature: insecure algorithm {algorithm}" '
    why += f'while trying to verify candidate authority certificate "{authority}")'
    assert authority_error(signed, [signer]) == f"{UNKNOWN_AUTHORITY} {why}"
    assert authority_error(signed, [signed]) == UNKNOWN_AUTHORITY
    assert deprecated_by(f"x509: {UNKNOWN_AUTHORITY} {why}") == Deprecated.INSECURE_SHA1
    assert deprecated_ways(signed.public_bytes(Encoding.DER)) == [Deprecated.INSECURE_SHA1]
    counts = CertificateCounts("kube_aggregator")
    counts.count_error(why)
    assert [family.series[()] for family in counts.families] == [0, 1]


def test_metrics_are_there_before_anything_is_counted() -> None:
    """Both kinds of servers have counters of zero."""
    with Server() as server:
        lines = send(server, "GET", "/metrics").body.decode().splitlines()
    assert [line for line in lines if "_x509_" in line and not line.startswith("#")] == [
        f"apiserver_{kind}_x509_{way}_total 0"
        for kind in ("kube_aggregator", "webhooks")
        for way in ("insecure_sha1", "missing_san")
    ]
