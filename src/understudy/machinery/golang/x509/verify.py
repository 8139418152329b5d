"""Chains of certificates, verified as Go's crypto/x509 verifies them (`Certificate.Verify`).

A leaf is trusted if it, or an issuer that can be reached over the intermediates that its owner has sent along, is one
of the roots, and every certificate on the way is valid now, may sign the one below it and allows the purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from understudy.machinery.golang.x509.name_constraints import allows_names, reads_all

Chain = tuple[x509.Certificate, ...]
T = TypeVar("T", bound=x509.ExtensionType)

CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH
MAX_SIGNATURES = 100  # that are checked for one leaf; Go's `maxChainSignatureChecks`
INSECURE_HASHES = ("md5", "sha1")
# Extensions that Go understands; a certificate with any other one that is critical is refused.
_UNDERSTOOD = {
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.CRL_DISTRIBUTION_POINTS,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.NAME_CONSTRAINTS,
    ExtensionOID.SUBJECT_KEY_IDENTIFIER,
}
_READ_NAMES = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)  # that Go reads


class VerificationError(ValueError):
    """A certificate that is not trusted. str(error) says why."""


def verify(
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    roots: Sequence[x509.Certificate],
    now: datetime,
    usage: x509.ObjectIdentifier = CLIENT_AUTH,
) -> Chain:
    """Return a trusted chain from a leaf to one of the roots, for a purpose. Raises VerificationError.

    now  with a time zone
    """
    try:
        for chain in _Search(intermediates, roots, now).chains((), leaf):
            if _allows(chain, usage):
                return chain
    except (ValueError, UnsupportedAlgorithm) as error:  # extensions are parsed late
        raise VerificationError(str(error)) from None
    raise VerificationError("x509: no chain of valid certificates to a known authority allows this purpose")


class _Search:
    """The search for chains. Upstream: `buildChains`."""

    def __init__(
        self, intermediates: Sequence[x509.Certificate], roots: Sequence[x509.Certificate], now: datetime
    ) -> None:
        self._intermediates = intermediates
        self._roots = roots
        self._now = now
        self._signatures = 0

    def chains(self, below: Chain, certificate: x509.Certificate) -> Iterator[Chain]:
        """Yield the chains to a root from a certificate, with those `below` it in front."""
        is_root = certificate in self._roots
        if not self._is_valid(certificate, below, is_authority=bool(below) and not is_root):
            return
        chain = (*below, certificate)
        if is_root:
            yield chain
            return
        for issuer in (*self._roots, *self._intermediates):
            if issuer not in chain and self._has_signed(issuer, certificate):
                yield from self.chains(chain, issuer)

    def _is_valid(self, certificate: x509.Certificate, below: Chain, *, is_authority: bool) -> bool:
        """Report whether a certificate may be above others. Roots need not say that they are authorities.

        Upstream: `isValid`.
        """
        if not certificate.not_valid_before_utc <= self._now <= certificate.not_valid_after_utc:
            return False
        if any(extension.critical and not _understands(extension) for extension in certificate.extensions):
            return False
        constraints = _extension(certificate, x509.BasicConstraints)
        if is_authority and not (constraints and constraints.ca):
            return False
        if constraints and constraints.path_length is not None and len(below) - 1 > constraints.path_length:
            return False
        return _allows_below(certificate, below)

    def _has_signed(self, issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
        """Report whether a certificate was signed by an issuer that may do so. Upstream: `CheckSignatureFrom`."""
        if issuer.subject != certificate.issuer or self._signatures >= MAX_SIGNATURES:
            return False
        self._signatures += 1
        constraints, key_usage = _extension(issuer, x509.BasicConstraints), _extension(issuer, x509.KeyUsage)
        if issuer.version == x509.Version.v3 and not (constraints and constraints.ca):
            return False
        if key_usage and not key_usage.key_cert_sign:
            return False
        hashed = certificate.signature_hash_algorithm
        if hashed is not None and hashed.name in INSECURE_HASHES:
            return False
        try:
            certificate.verify_directly_issued_by(issuer)
        except (InvalidSignature, TypeError, ValueError, UnsupportedAlgorithm):
            return False
        return True


def _allows(chain: Chain, usage: x509.ObjectIdentifier) -> bool:
    """Report whether every certificate of a chain allows a purpose; one without purposes allows all.

    Upstream: `checkChainForKeyUsage`.
    """
    allowed = {usage, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    usages = [_extension(certificate, x509.ExtendedKeyUsage) for certificate in chain]
    return all(every is None or not allowed.isdisjoint(every) for every in usages)


def _understands(extension: x509.Extension[x509.ExtensionType]) -> bool:
    """Report whether Go understands an extension: one of names has to have a name of a kind that it reads, constraints
    of names may have no others.

    Upstream: `processExtensions`.
    """
    if isinstance(extension.value, x509.SubjectAlternativeName):
        return any(isinstance(name, _READ_NAMES) for name in extension.value)
    if isinstance(extension.value, x509.NameConstraints):
        return reads_all(extension.value)
    return extension.oid in _UNDERSTOOD


def _allows_below(authority: x509.Certificate, below: Chain) -> bool:
    """Report whether the constraints of an authority allow the names of all certificates below it."""
    constraints = _extension(authority, x509.NameConstraints)
    if constraints is None:
        return True
    named = (_extension(certificate, x509.SubjectAlternativeName) for certificate in below)
    return all(allows_names(constraints, names) for names in named if names is not None)


def _extension(certificate: x509.Certificate, kind: type[T]) -> T | None:
    """Return an extension of a certificate, None if it has none of that kind."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
