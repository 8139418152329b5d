"""The metrics of authentication: how often it succeeds, whose requests there are, how long tokens of issuers take, when
keys of issuers were fetched, and for how long client certificates are good.

Upstream: k8s.io/apiserver/pkg/endpoints/filters, pkg/authentication/request/x509, plugin/pkg/authenticator/token/oidc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from understudy.machinery.util.metrics import (
    ACCESS_SECONDS,
    AnyFamily,
    Counter,
    Gauge,
    Histogram,
    Labels,
    SampledHistogram,
)

# Names of users that are counted by themselves (`compressUsername`).
_KNOWN = frozenset(("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"))
_JWKS = "apiserver_authentication_jwt_authenticator_jwks_fetch_last"
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_HOUR, _DAY = 3600, 86400
_LIFETIMES = (
    *(0, _HOUR // 2, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(days * _DAY for days in (1, 2, 4, 7, 30, 90, 180, 360)),
)


class AuthenticationMetrics:
    """Counts the requests by who has sent them.

    server            the identity of the server, "" for none
    has_certificates  whether there is a family of client certificates
    """

    def __init__(self, server: str = "", *, has_certificates: bool = False) -> None:
        self._server = _hashed(server)
        self._has_certificates = has_certificates
        self._users = Counter(
            "authenticated_user_requests",
            "[ALPHA] Counter of authenticated requests broken out by username.",
            ("username",),
        )
        self._attempts = Counter("authentication_attempts", "[ALPHA] Counter of authenticated attempts.", ("result",))
        self._seconds = SampledHistogram(
            "authentication_duration_seconds",
            "[ALPHA] Authentication duration in seconds broken out by result.",
            ("result",),
            ACCESS_SECONDS,
            lambda: self.attempts,
        )
        self._tokens = Histogram(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "[ALPHA] Latency of jwt authentication operations in seconds. This is the time spent authenticating a "
            "token for cache miss only (i.e. when the token is not found in the cache).",
            ("jwt_issuer_hash", "result"),
            _SECONDS,
        )

        self._fetched = Gauge(
            f"{_JWKS}_timestamp_seconds",
            "[ALPHA] Timestamp of the last successful or failed JWKS fetch split by result, api server identity and "
            "jwt issuer for the JWT authenticator.",
            ("apiserver_id_hash", "jwt_issuer_hash", "result"),
        )
        self._keys = Gauge(
            f"{_JWKS}_key_set_info",
            "[ALPHA] Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api "
            "server identity and jwt issuer.",
            ("apiserver_id_hash", "hash", "jwt_issuer_hash"),
        )
        self._lifetimes = Histogram(
            "apiserver_client_certificate_expiration_seconds",
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
            (),
            _LIFETIMES,
        )
        _ = self._lifetimes.series[()]  # a family without labels is there from the start

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families."""
        _ = self.attempts
        self._seconds.settle()
        certificates = (self._lifetimes,) if self._has_certificates else ()
        return self._users, self._attempts, self._seconds, self._tokens, self._fetched, self._keys, *certificates

    @property
    def attempts(self) -> Mapping[Labels, int]:
        """Return the number of requests by the result of authentication: "success", "failure" and "error"."""
        if succeeded := self._users.series.total():
            self._attempts.series["success",] = succeeded
        return self._attempts.series

    def measure(self, seconds: float) -> None:
        """Note how long it took to find out whose the last request is."""
        self._seconds.measure(seconds)

    def succeed(self, name: str) -> None:
        """Count a request of a user."""
        self._users.series[name if name in _KNOWN else "email_id" if "@" in name else "other",] += 1

    def fail(self, *, shown: bool) -> None:
        """Count a request of nobody; `shown` is whether it shows credentials."""
        self._attempts.add("error" if shown else "failure")

    def observe_token(self, issuer: str, seconds: float, *, succeeded: bool) -> None:
        """Count a token of an issuer."""
        self._tokens.observe(seconds, _hashed(issuer), "success" if succeeded else "failure")

    def observe_keys(self, issuer: str, document: str, now: float) -> None:
        """Note that the keys of an issuer were fetched at a time; `document` holds them, "" if they could not be."""
        named = self._server, _hashed(issuer)
        self._fetched.set(now, *named, "success" if document else "failure")
        if document:
            self._forget_keys(named[1])
            self._keys.set(1, named[0], _hashed(document), named[1])

    def forget_issuer(self, issuer: str) -> None:
        """Forget the keys of an issuer that is asked no more (`DeleteJWKSFetchMetrics`)."""
        digest = _hashed(issuer)
        for result in ("success", "failure"):
            self._fetched.series.pop((self._server, digest, result), None)
        self._forget_keys(digest)

    def _forget_keys(self, issuer_hash: str) -> None:
        for labels in [labels for labels in self._keys.series if labels[2] == issuer_hash]:
            del self._keys.series[labels]

    def observe_certificate(self, seconds: float) -> None:
        """Count a request whose client certificate is good for some seconds."""
        self._lifetimes.observe(seconds)


def _hashed(text: str) -> str:
    """Return the hash that stands for a text in labels, "" for none (`getHash`)."""
    return f"sha256:{sha256(text.encode()).hexdigest()}" if text else ""
