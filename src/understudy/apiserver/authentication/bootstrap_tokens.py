"""Users by bootstrap tokens, with which nodes join a cluster: each is a Secret in `kube-system`.

Upstream: k8s.io/kubernetes/plugin/pkg/auth/authenticator/token/bootstrap.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from hmac import compare_digest

from understudy.apiserver.authentication.service_accounts.legacy_tokens import Lookup
from understudy.machinery.auth.users import User
from understudy.machinery.golang.times import TimeError, canonical_time
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock, parse_timestamp
from understudy.machinery.util.regex import regex

log = logging.getLogger("understudy")
NAMESPACE, PREFIX, TYPE = "kube-system", "bootstrap-token-", "bootstrap.kubernetes.io/token"
USER, GROUP = "system:bootstrap:", "system:bootstrappers"
_TOKEN = regex(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = regex(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """Knows users by bootstrap tokens, until these expire by a clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def user(self, token: str, lookup: Lookup) -> User | None:
        """Return the user of a token, None for one that is not good."""
        parts = _TOKEN.fullmatch(token)
        secret = lookup("", "secrets", NAMESPACE, f"{PREFIX}{parts[1]}") if parts is not None else None
        if parts is None or secret is None:
            return None
        data = {name: b64decode(value or "") for name, value in (secret.get("data") or {}).items()}
        if problem := self._problem(secret, data, parts[1], parts[2]):
            log.debug("Bootstrap secret %s %s", secret["metadata"]["name"], problem)
            return None
        extra = data.get("auth-extra-groups", b"").decode("utf-8", "replace")
        groups = {GROUP, *(extra.split(",") if extra else ())}
        return User(f"{USER}{parts[1]}", sorted(groups))

    def _problem(self, secret: Obj, data: dict[str, bytes], token_id: str, token_secret: str) -> str:
        """Return the reason why a Secret is no token, "" for a good one."""
        if "deletionTimestamp" in secret["metadata"]:
            return "is deleted and awaiting removal"
        if secret.get("type") != TYPE or not data:
            return "has an invalid type"
        if not compare_digest(data.get("token-secret", b""), token_secret.encode()):
            return "has another token-secret"
        if data.get("token-id") != token_id.encode():
            return "has another token-id"
        if self._is_over(data.get("expiration", b"").decode("utf-8", "replace")):
            return "has expired"
        if data.get("usage-bootstrap-authentication") != b"true":
            return "is not marked usage-bootstrap-authentication=true"
        extra = data.get("auth-extra-groups", b"").decode("utf-8", "replace")
        if extra and not all(map(_GROUP.fullmatch, extra.split(","))):
            return "has invalid groups"
        return ""

    def _is_over(self, expiration: str) -> bool:
        """Report whether a time is past, or none; "" never comes."""
        try:
            end = canonical_time(expiration) if expiration else ""
        except TimeError:
            return True
        return end is None or (end != "" and parse_timestamp(end) <= self._clock.now())
