"""Certificates with their private keys, as Go's crypto/tls reads them from PEM (`X509KeyPair`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.machinery.golang.x509 import pem
from understudy.machinery.golang.x509.x509 import parse_certificates

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_CERTIFICATE, _KEY = "CERTIFICATE", "PRIVATE KEY"


def key_pair_error(certificate: bytes, key: bytes) -> str:
    """Return the error of a certificate and its private key (PEM) that do not make a pair, "" for those that do."""
    try:
        first = _certificate(certificate)
        der = _key(key)
        parse_certificates(first)
        return _mismatch(first, der)
    except ValueError as error:
        return str(error)


def _certificate(text: bytes) -> bytes:
    """Return the first certificate of a text, in DER. Raises ValueError."""
    blocks = list(pem.blocks(text))
    skipped = [block.type for block in blocks if block.type != _CERTIFICATE]
    for block in blocks:
        if block.type == _CERTIFICATE:
            return block.data
    if not skipped:
        raise ValueError("tls: failed to find any PEM data in certificate input")
    if len(skipped) == 1 and skipped[0].endswith(_KEY):
        raise ValueError(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    raise ValueError(
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following '
        f"types: [{' '.join(skipped)}]"
    )


def _key(text: bytes) -> bytes:
    """Return the first private key of a text, in DER. Raises ValueError."""
    skipped = []
    for block in pem.blocks(text):
        if block.type == _KEY or block.type.endswith(f" {_KEY}"):
            return block.data
        skipped.append(block.type)
    if not skipped:
        raise ValueError("tls: failed to find any PEM data in key input")
    if skipped == [_CERTIFICATE]:
        raise ValueError("tls: found a certificate rather than a key in the PEM for the private key")
    raise ValueError(
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: [{' '.join(skipped)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str:
    """Return the error of a private key that does not belong to a certificate, "" for one that does."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import load_der_x509_certificate

    private, public = _private_key(key), load_der_x509_certificate(certificate).public_key()
    if not isinstance(private, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        return "tls: found unknown private key type in PKCS#8 wrapping"
    if type(private.public_key()) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if private.public_key() == public else "tls: private key does not match public key"


def _private_key(der: bytes) -> PrivateKeyTypes:
    """Return a private key in DER. Raises ValueError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return load_der_private_key(der, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):  # TypeError for an encrypted one
        raise ValueError("tls: failed to parse private key") from None
