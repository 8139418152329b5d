"""Verifies the chains of client certificates, each once for as long as the answer stays the same.

Upstream: `x509.Verifier` of k8s.io/apiserver/pkg/authentication/request/x509, which verifies them for every request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Generic, TypeVar, cast

from cryptography import x509

from understudy.apiserver.authentication.certificates.authorities import Authorities
from understudy.apiserver.authentication.errors import CertificateError
from understudy.machinery.golang.x509.verify import VerificationError, verify
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import Clock

REMEMBERED = 1000  # chains that are not verified again
LONGEST = 8 * 1024  # bytes of a chain that is remembered: clients choose what they show
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """The result for a chain or the reason of its refusal, between two times (seconds since 1970) without either."""

    result: T | None
    refusal: str
    since: float
    until: float


class ClientChains(Generic[T]):
    """Verifies chains of certificates in DER, the client's own first, and remembers what was read from good ones.

    authorities  may sign them
    read         returns what the caller needs to know of the client's own certificate, or raises CertificateError
    """

    def __init__(self, authorities: Authorities, clock: Clock, read: Callable[[x509.Certificate], T]) -> None:
        self._authorities = authorities
        self._clock = clock
        self._read = read
        self._trusted: Sequence[x509.Certificate] = ()
        self._outcomes: dict[tuple[bytes, ...], _Outcome[T]] = {}

    def verify(self, chain: tuple[bytes, ...]) -> T:
        """Verify a chain, and return the data read from the client's own certificate. Raises CertificateError."""
        now, trusted = self._clock.now(), self._authorities.certificates
        if trusted is not self._trusted or len(self._outcomes) >= REMEMBERED:
            self._outcomes.clear()
            self._trusted = trusted
        outcome = self._outcomes.get(chain)
        if outcome is None or not outcome.since < now < outcome.until:
            outcome = self._new_outcome(chain, trusted, now)
            if sum(map(len, chain)) <= LONGEST:
                self._outcomes[chain] = outcome
        if outcome.refusal:
            raise CertificateError(outcome.refusal)
        return cast("T", outcome.result)

    def _new_outcome(self, chain: tuple[bytes, ...], trusted: Sequence[x509.Certificate], now: float) -> _Outcome[T]:
        result, refusal, certificates = None, "", list(trusted)
        try:
            leaf, *intermediates = own = [x509.load_der_x509_certificate(certificate) for certificate in chain]
            certificates += own
            verify(leaf, intermediates, trusted, datetime.fromtimestamp(now, UTC))
            result = self._read(leaf)
        except VerificationError as error:
            refusal = f"verifying certificate SN={leaf.serial_number} failed: {error}"
        except CertificateError as error:
            refusal = str(error)
        except ValueError as error:
            refusal = f"malformed certificate: {error}"
        return _Outcome(result, refusal, *_span(certificates, now))


def _span(certificates: Sequence[x509.Certificate], now: float) -> tuple[float, float]:
    """Return the times before and after now at which a certificate begins or ceases to be valid."""
    times = [
        at.timestamp()
        for certificate in certificates
        for at in (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    ]
    return max((at for at in times if at <= now), default=-inf), min((at for at in times if at > now), default=inf)
