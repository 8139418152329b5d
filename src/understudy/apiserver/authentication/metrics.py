"""The metrics of authentication: how often it succeeds, whose requests there are, and how long tokens of issuers take.

Upstream: k8s.io/apiserver/pkg/endpoints/filters, plugin/pkg/authenticator/token/oidc.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from understudy.machinery.util.metrics import AnyFamily, Counter, Histogram

# Names of users that are counted by themselves (`compressUsername`).
_KNOWN = frozenset(("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"))
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class AuthenticationMetrics:
    """Counts the requests by who has sent them."""

    def __init__(self) -> None:
        self._users = Counter(
            "authenticated_user_requests",
            "[ALPHA] Counter of authenticated requests broken out by username.",
            ("username",),
        )
        self._attempts = Counter("authentication_attempts", "[ALPHA] Counter of authenticated attempts.", ("result",))
        self._tokens = Histogram(
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            "[ALPHA] Latency of jwt authentication operations in seconds. This is the time spent authenticating a "
            "token for cache miss only (i.e. when the token is not found in the cache).",
            ("jwt_issuer_hash", "result"),
            _SECONDS,
        )

    @property
    def families(self) -> Sequence[AnyFamily]:
        """Return all families."""
        if succeeded := self._users.series.total():
            self._attempts.series["success",] = succeeded
        return self._users, self._attempts, self._tokens

    def succeed(self, name: str) -> None:
        """Count a request of a user."""
        self._users.series[name if name in _KNOWN else "email_id" if "@" in name else "other",] += 1

    def fail(self, *, shown: bool) -> None:
        """Count a request of nobody; `shown` is whether it shows credentials."""
        self._attempts.add("error" if shown else "failure")

    def observe_token(self, issuer: str, seconds: float, *, succeeded: bool) -> None:
        """Count a token of an issuer."""
        digest = sha256(issuer.encode()).hexdigest()
        self._tokens.observe(seconds, f"sha256:{digest}", "success" if succeeded else "failure")
