"""Bootstrap tokens. Which Secrets are tokens is recorded, see `tests/apiserver/authorization/webhook`."""

from __future__ import annotations

from base64 import b64encode

from tests.clock import FixedClock
from understudy.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from understudy.machinery.auth.users import User


def test_token_ends_at_its_time() -> None:
    """A token is good until its expiration, by the clock of the server."""
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "expiration": "2026-01-01T01:00:00+01:00",
    }
    secret = {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {name: b64encode(value.encode()).decode() for name, value in data.items()},
    }
    objects = {("", "secrets", "kube-system", "bootstrap-token-abcdef"): secret}
    clock = FixedClock.at("2025-12-31T23:59:59Z")
    tokens = BootstrapTokens(clock)

    def user() -> User | None:
        return tokens.user("abcdef.0123456789abcdef", lambda *key: objects.get(key))

    assert user() == User("system:bootstrap:abcdef", ["system:bootstrappers"])
    clock.seconds += 1
    assert user() is None
