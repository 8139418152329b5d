"""Claims that a token does not hold itself, but says where they are to be had (OpenID Connect Core 1.0, 5.6.2).

Upstream: `claimResolver` of k8s.io/apiserver/plugin/pkg/authenticator/token/oidc. Only the claim of the groups is
resolved, from an endpoint that answers with a token of any issuer whose certificate is trusted.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from understudy.apiserver.authentication.errors import FetchAwaitedError, Outcomes, ProviderError, TokenError
from understudy.apiserver.authentication.oidc.id_token_verifier import NAMES, SOURCES, IDTokenVerifier, untrusted_issuer
from understudy.apiserver.authentication.oidc.key_set import KeySet
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.expiring import ExpiringResults

TIMEOUT = 30.0  # seconds that an endpoint has to answer
INTERVAL = 10.0  # seconds until an issuer that has not answered is asked again where its keys are
KEPT, KEPT_SECONDS = 4096, 10.0  # claims, which are kept for as long as kube-apiserver keeps the users of tokens

log = logging.getLogger("understudy")


class ClaimResolver:
    """Resolves one claim of the tokens of an issuer, unless a token holds it.

    keys          of the issuer, whose authority vouches for the endpoints and other issuers, too
    new_verifier  returns the verifier of another issuer by its keys
    """

    def __init__(
        self, claim: str, keys: KeySet, new_verifier: Callable[[KeySet], IDTokenVerifier], clock: Clock
    ) -> None:
        self._claim = claim
        self._keys = keys
        self._new_verifier = new_verifier
        self._issuers: dict[str, KeySet] = {}
        self._tried: dict[str, float] = {}  # when issuers were asked where their keys are
        self._found = Outcomes[Any]()  # by tokens
        self._kept = ExpiringResults[str, tuple[Any]](KEPT, clock)

    def expand(self, token: str, claims: Obj) -> None:
        """Add the claim to those of a token, if it says where the claim is. Raises TokenError, FetchAwaitedError."""
        kept = self._kept.get(token)
        if kept is not None:
            claims[self._claim] = kept[0]
            return
        try:
            source = self._source(claims)
            if source is None:
                return
            if token not in self._found:
                outcome: list[Any | TokenError] = []
                fetch = partial(self._resolve, token, source, outcome)
                raise FetchAwaitedError(fetch, self._found.of(token, outcome))
            claims[self._claim] = self._found.get(token)
        except TokenError as error:
            raise TokenError(f"oidc: could not expand distributed claims: {error}") from None

    def _source(self, claims: Obj) -> Obj | None:
        """Return the source of the claim, None for a token that holds it or names none."""
        if self._claim in claims:
            return None
        name = (claims.get(NAMES) or {}).get(self._claim)
        source: Obj = (claims[SOURCES][name] or {}) if name else {}
        return source if source.get("endpoint") else None

    def _resolve(self, token: str, source: Obj, outcome: list[Any | TokenError]) -> None:
        """Add the value of the claim at a source, or the error, to a list. Blocks, in a thread."""
        try:
            value = self._fetched(source["endpoint"], source.get("access_token") or "")
        except TokenError as error:
            outcome.append(error)
        else:
            self._kept.add(token, (value,), KEPT_SECONDS)
            outcome.append(value)

    def _fetched(self, endpoint: str, access_token: str) -> Any:
        """Return the value of the claim at an endpoint. Raises TokenError."""
        try:
            text = self._get(endpoint, access_token)
        except TokenError as error:
            raise TokenError(f"while getting distributed claim {go_quote(self._claim)}: {error}") from None
        try:
            issuer = untrusted_issuer(text)
        except ValueError as error:
            where = f"from endpoint {endpoint} failed for claim {go_quote(self._claim)}"
            raise TokenError(f"getting untrusted issuer {where}: {error}") from None
        verifier = self._verifier(issuer)
        try:
            claims = _verified(verifier, text)
        except TokenError as error:
            raise TokenError(f"verify distributed claim token: {error}") from None
        if self._claim not in claims:
            returned = f"jwt returned by distributed claim endpoint {go_quote(endpoint)}"
            raise TokenError(f"{returned} did not contain claim: {self._claim}")
        return claims[self._claim]

    def _get(self, endpoint: str, access_token: str) -> str:
        """Return the token at an endpoint. Raises TokenError."""
        scheme, place, *_ = urlsplit(endpoint)
        if scheme not in ("http", "https"):
            raise TokenError(f"Get {go_quote(endpoint)}: unsupported protocol scheme {go_quote(scheme)}")
        try:
            return self._keys.download(endpoint, access_token, TIMEOUT).decode(errors="replace").rstrip("\r\n")
        except HTTPError as error:
            raise TokenError(f"error while getting distributed claim JWT: {error.code} {error.reason}") from None
        except OSError as error:  # URLError is one
            why = error.reason if isinstance(error, URLError) else error
            raise TokenError(f"Get {go_quote(endpoint)}: {_go_reason(why, place)}") from None

    def _verifier(self, issuer: str) -> IDTokenVerifier:
        """Return the verifier of an issuer; one that is new is asked first where its keys are. Raises TokenError."""
        keys = self._issuers.get(issuer)
        if keys is None:
            keys = self._issuers[issuer] = self._keys.of(issuer)
        if not keys.is_initialized:
            self._discover(issuer, keys)
            raise TokenError(
                f"verifying untrusted issuer {issuer} failed: verifier not initialized for issuer: {go_quote(issuer)}"
            )
        return self._new_verifier(keys)

    def _discover(self, issuer: str, keys: KeySet) -> None:
        """Ask an issuer where its keys are, unless it was asked a moment ago."""
        now = time.monotonic()
        if now - self._tried.get(issuer, -INTERVAL) < INTERVAL:
            return
        self._tried[issuer] = now
        try:
            keys.discover()
        except ProviderError as error:
            log.error("oidc authenticator: async token verifier for issuer: %s: %s", go_quote(issuer), error)


def _verified(verifier: IDTokenVerifier, text: str) -> Obj:
    """Return the claims of a token that is good; its issuer's keys are fetched if need be. Raises TokenError."""
    try:
        return verifier.verify(text)
    except FetchAwaitedError as awaited:
        try:
            awaited.fetch()
        except ProviderError as error:
            log.error("oidc: fetching keys %s", error)
        with awaited.afterwards:
            return verifier.verify(text)


def _go_reason(error: Any, place: str) -> str:
    """Return Go's words for a request to a place that has no answer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(error, TimeoutError):
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {place}: connect: connection refused"
    return str(error)
