"""Certificates of other servers that kube-apiserver tells of, since it does not accept them any more.

Upstream: k8s.io/apiserver/pkg/util/x509metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache

_INSECURE = "x509: cannot verify signature: insecure algorithm"


class Deprecated(Enum):
    """A way in which a certificate is deprecated: its name in annotations and metrics, and why."""

    MISSING_SAN = (
        "missing-san",
        "relies on a legacy Common Name field instead of the SAN extension for subject validation",
    )
    INSECURE_SHA1 = ("insecure-sha1", "uses an insecure SHA-1 signature")

    def __init__(self, key: str, reason: str) -> None:
        self.key = key
        self.reason = reason

    def annotation(self, host: str) -> tuple[str, str]:
        """Return the annotation of the audit log about the certificate of a host, and its value."""
        return f"{self.key}.invalid-cert.kubernetes.io/{host}", self.reason


def deprecated_by(error: str) -> Deprecated | None:
    """Return in which way a certificate is deprecated that could not be verified, from Go's words for it."""
    if "x509: certificate relies on legacy Common Name field" in error:
        return Deprecated.MISSING_SAN
    _, separator, algorithm = error.partition(_INSECURE)
    return Deprecated.INSECURE_SHA1 if separator and "SHA1" in algorithm else None


@lru_cache(maxsize=256)
def deprecated_ways(der: bytes) -> list[Deprecated]:
    """Return the ways in which a certificate is deprecated."""
    return [*_ways(der)]


def _ways(der: bytes) -> Iterator[Deprecated]:
    """Yield the ways in which a certificate is deprecated. Upstream: `CheckPeerCertificates`."""
    from cryptography.x509 import load_der_x509_certificate  # takes a while
    from cryptography.x509.oid import ExtensionOID

    leaf = load_der_x509_certificate(der)
    if not any(extension.oid == ExtensionOID.SUBJECT_ALTERNATIVE_NAME for extension in leaf.extensions):
        yield Deprecated.MISSING_SAN
    hashed = leaf.signature_hash_algorithm
    if hashed is not None and hashed.name == "sha1" and leaf.issuer != leaf.subject:
        yield Deprecated.INSECURE_SHA1
