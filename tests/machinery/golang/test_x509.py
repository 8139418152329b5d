"""Certificate requests and certificates in PEM and DER, read as Go reads them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import CertificateBuilder, CertificateSigningRequestBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

from understudy.machinery.golang.x509 import pem, x509

# A request of CN=bob with a key on P-256.
REQUEST = base64.b64decode(
    "MIHIMHACAQAwDjEMMAoGA1UEAwwDYm9iMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAERgsHdbMV98txWl7Mm9niu7JRYPoEqhyis/BO0gOYfV"
    "K9YVtxS123PTKFlwhIylMKxxi2mYI6C8kvLCxbvlHSK6AAMAoGCCqGSM49BAMCA0gAMEUCIQC3WObAU5tqhmndKUrbqq8aQKvDNUjf+2dPc8oN"
    "QAAfsAIge4FZcCU1IVIhrbtXn80KNo+43QaLMK71fEt4YGApwOU="
)


SUBJECT = Name([NameAttribute(NameOID.COMMON_NAME, "bob"), NameAttribute(NameOID.ORGANIZATION_NAME, "staff")])


def certificate() -> bytes:
    """Return a certificate signed by itself, in DER."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    builder = CertificateBuilder(SUBJECT, SUBJECT, key.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


def block(data: bytes, kind: bytes = b"CERTIFICATE REQUEST", head: bytes = b"") -> bytes:
    return b"-----BEGIN %s-----\n%s%s-----END %s-----\n" % (kind, head, base64.encodebytes(data), kind)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (b"", []),
        (b"junk", []),
        (block(b"x"), [("CERTIFICATE REQUEST", False, b"x")]),
        (b"junk\n" + block(b"x") + b"junk", [("CERTIFICATE REQUEST", False, b"x")]),
        (b"junk" + block(b"x"), []),
        (block(b"x").replace(b"\n", b"\r\n"), [("CERTIFICATE REQUEST", False, b"x")]),
        (block(b"x") + block(b"y", b"KEY"), [("CERTIFICATE REQUEST", False, b"x"), ("KEY", False, b"y")]),
        (block(b"x", head=b"A: b\n\n"), [("CERTIFICATE REQUEST", True, b"x")]),
        (block(b""), [("CERTIFICATE REQUEST", False, b"")]),
        (block(b"", head=b"A: b\n"), []),
        (block(b"", head=b"A: b\n\n"), [("CERTIFICATE REQUEST", True, b"")]),
        (block(b"x", b"A: B"), [("A: B", False, b"x")]),
        (block(b"", b"A: B"), []),
        (block(b"x").replace(b"eA==", b"e!"), []),
        (block(b"x").replace(b"END CERT", b"END OTHER CERT"), []),
        (b"-----BEGIN X-----\n" + block(b"x"), [("CERTIFICATE REQUEST", False, b"x")]),
    ],
)
def test_pem_blocks(text: bytes, blocks: list[tuple[str, bool, bytes]]) -> None:
    """A PEM block begins and ends on lines of its own; text around blocks and broken blocks are skipped."""
    assert list(pem.blocks(text)) == blocks


_PARAMETERS = (
    "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 "
    "timeType:0 set:false omitEmpty:false}"
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "asn1: syntax error: sequence truncated"),
        (b"\x30", "asn1: syntax error: truncated tag or length"),
        (b"\x30\x80", "asn1: syntax error: indefinite length found (not DER)"),
        (b"\x30\x81\x05", "asn1: structure error: non-minimal length"),
        (b"\x30\x02\x30", "asn1: syntax error: data truncated"),
        (
            b"hello",
            "asn1: structure error: tags don't match (16 vs {class:1 tag:8 length:101 isCompound:true}) "
            f"{_PARAMETERS} certificateRequest @2",
        ),
        (REQUEST[:40], "asn1: syntax error: data truncated"),
        (REQUEST + b"x", "asn1: syntax error: trailing data"),
    ],
)
def test_invalid_request_gets_go_error(data: bytes, text: str) -> None:
    """The error of an invalid request is that of Go's encoding/asn1."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        x509.parse_request(data)


@pytest.mark.parametrize(
    "generate",
    [
        lambda: rsa.generate_private_key(65537, 2048),
        lambda: ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate,
    ],
    ids=["RSA", "P384", "Ed25519"],
)
def test_request_with_key_type_is_verified(generate: Callable[[], CertificateIssuerPrivateKeyTypes]) -> None:
    """Requests with all key types that Go knows are read, and their signatures verified."""
    key = generate()
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else SHA256()
    request = CertificateSigningRequestBuilder(SUBJECT).sign(key, digest)
    parsed = x509.parse_request(request.public_bytes(Encoding.DER))
    x509.check_signature(parsed)
    assert (parsed.common_name, parsed.organizations) == ("bob", ["staff"])


def test_changed_request_fails_verification() -> None:
    """A request that was changed after it was signed fails verification."""
    x509.check_signature(x509.parse_request(REQUEST))
    parsed = x509.parse_request(REQUEST.replace(b"bob", b"eve"))
    with pytest.raises(ValueError, match="x509: ECDSA verification failure"):
        x509.check_signature(parsed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"x", "unable to parse bytes as PEM block"),
        (block(b"x") + b"x", "unable to parse bytes as PEM block"),
        (block(b"x"), "no valid certificate authority data seen"),
        (block(b"x", b"CERTIFICATE"), "failed to parse certificate: x509: malformed certificate"),
        (block(b"\x30\x00", b"CERTIFICATE"), "failed to parse certificate: x509: malformed tbs certificate"),
    ],
)
def test_ca_bundle_error(text: bytes, reason: str) -> None:
    """The error of a CA bundle without a valid certificate is that of its first one, or of what follows its blocks."""
    assert x509.ca_bundle_error(text) == reason


def test_ca_bundle_needs_one_valid_certificate() -> None:
    """A CA bundle is valid if one certificate in it is."""
    good, bad = block(certificate(), b"CERTIFICATE"), block(b"x", b"CERTIFICATE")
    assert [x509.ca_bundle_error(text) for text in (good, good + bad, bad + good)] == [""] * 3


def test_parse_certificates_counts() -> None:
    """Certificates in DER are counted, and the last one must end where the data does."""
    whole = certificate()
    assert [x509.parse_certificates(whole * times) for times in (0, 1, 2)] == [0, 1, 2]
    with pytest.raises(ValueError, match="x509: malformed certificate"):
        x509.parse_certificates(whole + b"x")
