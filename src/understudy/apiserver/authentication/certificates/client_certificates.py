"""Users who show a client certificate. Upstream: k8s.io/apiserver/pkg/authentication/request/x509.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from understudy.apiserver.authentication.certificates.authorities import Authorities
from understudy.apiserver.authentication.certificates.client_chains import ClientChains
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authentication.errors import CertificateError
from understudy.machinery.auth.users import CREDENTIAL_ID, User
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.util.clock import Clock

KEPT = 100  # certificates whose end is kept
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # of the subject: the user's uid


class ClientCertificates:
    """Finds the user of a client certificate.

    authorities  may sign it
    """

    def __init__(
        self, authorities: Authorities, clock: Clock, gates: Gates, version: Version, metrics: AuthenticationMetrics
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._gates = gates
        self._version = version
        self._chains = {
            parses: ClientChains(authorities, clock, partial(self._user, parses_uid=parses)) for parses in (False, True)
        }

    def user(self, certificates: tuple[bytes, ...], _: Mapping[str, str]) -> User | None:
        """Return the user of certificates in DER, the client's own first; None for a subject without common name.

        Raises CertificateError. Its names count as they are: the last common name, every organization as a group.
        """
        if (end := _end_of(certificates[0])) is not None:
            self._metrics.observe_certificate(end - self._clock.now())
        return self._chains[self._gates[features.ALLOW_PARSING_USER_UID_FROM_CERT_AUTH]].verify(certificates)

    def _user(self, leaf: x509.Certificate, *, parses_uid: bool) -> User | None:
        """Return the user of a certificate that is good. Raises CertificateError."""
        name = common_name(leaf)
        if not name:
            return None
        groups = [str(name.value) for name in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        digest = leaf.fingerprint(SHA256()).hex()
        extra = {CREDENTIAL_ID: [f"X509SHA256={digest}"]} if self._version >= V1_32 else {}
        return User(name, groups, _uid(leaf.subject) if parses_uid else "", extra)


@lru_cache(maxsize=KEPT)
def _end_of(der: bytes) -> float | None:
    """Return the time until which a certificate in DER is good, in seconds since 1970, None for no certificate."""
    try:
        return x509.load_der_x509_certificate(der).not_valid_after_utc.timestamp()
    except ValueError:
        return None


def common_name(certificate: x509.Certificate) -> str:
    """Return the last common name of the subject, "" for none."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def _uid(subject: x509.Name) -> str:
    """Return the uid that a subject names, "" for none. Raises CertificateError. Upstream: `parseUIDFromCert`."""
    uids = [str(name.value) for name in subject.get_attributes_for_oid(UID)]
    if len(uids) > 1:
        raise CertificateError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise CertificateError("UID cannot be an empty string")
    return uids[0] if uids else ""
