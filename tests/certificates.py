"""Make certificates and authorities for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CN, O, UID = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # noqa: E741
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
Subject = Sequence[tuple[x509.ObjectIdentifier, str]]


@dataclass(frozen=True)
class Holder:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def issue(
    subject: Subject,
    issuer: Holder | None = None,
    *,
    days: tuple[int, int] = (-1, 30),
    usages: Sequence[x509.ObjectIdentifier] = (CLIENT,),
    authority: bool = False,
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
    path_length: int | None = None,
) -> Holder:
    """Return a new certificate, self-signed without issuer, that is valid between two days from now.

    extensions  more of them, and whether they are critical
    """
    key, now = generate_private_key(SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(*pair) for pair in subject])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(authority, path_length), critical=True)
        # Clients on Python 3.13 and later ask for these two, and for the authority's key usage (`VERIFY_X509_STRICT`).
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer.key if issuer else key).public_key()),
            critical=False,
        )
    )
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return Holder(builder.sign(issuer.key if issuer else key, SHA256()), key)


def new_authority(name: str = "ca", issuer: Holder | None = None, *, path_length: int | None = None) -> Holder:
    """Return a new certificate authority."""
    signs = [(SIGNS_CERTIFICATES, True)]
    return issue([(CN, name)], issuer, usages=(), authority=True, extensions=signs, path_length=path_length)
