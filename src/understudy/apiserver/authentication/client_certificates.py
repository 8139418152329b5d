"""Users who show a client certificate. Upstream: k8s.io/apiserver/pkg/authentication/request/x509.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from understudy.apiserver.authentication.errors import CertificateError
from understudy.machinery.auth.users import CREDENTIAL_ID, User
from understudy.machinery.golang.x509.verify import Chain, VerificationError, verify
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.util.clock import Clock

UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # of the subject: the user's uid
REMEMBERED = 1000  # chains that are not verified again while their certificates are valid


@dataclass(frozen=True, slots=True)
class _Verified:
    """The user of a verified chain of certificates, and the span in which all are valid, in seconds since 1970."""

    user: User | None
    since: float
    until: float


class ClientCertificates:
    """Finds the user of a client certificate.

    authorities  certificates of the authorities that may sign it
    """

    def __init__(self, authorities: Sequence[x509.Certificate], clock: Clock, gates: Gates, version: Version) -> None:
        self._authorities = authorities
        self._clock = clock
        self._gates = gates
        self._version = version
        self._verified: dict[tuple[tuple[bytes, ...], bool], _Verified] = {}

    def user(self, certificates: tuple[bytes, ...]) -> User | None:
        """Return the user of certificates in DER, the client's own first; None for a subject without common name.

        Raises CertificateError. Its names count as they are: the last common name, every organization as a group.
        """
        now, parses_uid = self._clock.now(), self._gates[features.ALLOW_PARSING_USER_UID_FROM_CERT_AUTH]
        verified = self._verified.get((certificates, parses_uid))
        if verified is None or not verified.since <= now <= verified.until:
            leaf, since, until = _verify(certificates, self._authorities, now)
            verified = _Verified(self._user(leaf), since, until)
            if len(self._verified) >= REMEMBERED:
                self._verified.clear()
            self._verified[certificates, parses_uid] = verified
        return verified.user

    def _user(self, leaf: x509.Certificate) -> User | None:
        """Return the user of a certificate that is good. Raises CertificateError."""
        names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if not names or not names[-1].value:
            return None
        groups = [str(name.value) for name in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        digest = leaf.fingerprint(SHA256()).hex()
        extra = {CREDENTIAL_ID: [f"X509SHA256={digest}"]} if self._version >= V1_32 else {}
        return User(str(names[-1].value), groups, self._uid(leaf.subject), extra)

    def _uid(self, subject: x509.Name) -> str:
        """Return the uid that a subject names, "" for none. Raises CertificateError. Upstream: `parseUIDFromCert`."""
        if not self._gates[features.ALLOW_PARSING_USER_UID_FROM_CERT_AUTH]:
            return ""
        uids = [str(name.value) for name in subject.get_attributes_for_oid(UID)]
        if len(uids) > 1:
            raise CertificateError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
        if uids == [""]:
            raise CertificateError("UID cannot be an empty string")
        return uids[0] if uids else ""


def _verify(
    certificates: tuple[bytes, ...], authorities: Sequence[x509.Certificate], now: float
) -> tuple[x509.Certificate, float, float]:
    """Return the client's own certificate, and since and until when its chain is valid. Raises CertificateError."""
    try:
        leaf, *intermediates = map(x509.load_der_x509_certificate, certificates)
        chain = verify(leaf, intermediates, authorities, datetime.fromtimestamp(now, UTC))
        return leaf, *_validity(chain)
    except VerificationError as error:
        raise CertificateError(f"verifying certificate SN={leaf.serial_number} failed: {error}") from None
    except ValueError as error:
        raise CertificateError(f"malformed certificate: {error}") from None


def _validity(chain: Chain) -> tuple[float, float]:
    """Return since when and until when all certificates of a chain are valid."""
    since = max(certificate.not_valid_before_utc for certificate in chain)
    until = min(certificate.not_valid_after_utc for certificate in chain)
    return since.timestamp(), until.timestamp()
