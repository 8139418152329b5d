"""Tokens of service accounts that are kept in Secrets and have no end.

    type: kubernetes.io/service-account-token     of the Secret, whose annotation names the account
    serviceaccount-token                          the controller that puts a token into it
    kubernetes.io/legacy-token-last-used          the day on which the token was used last, a label of the Secret
    kubernetes.io/legacy-token-invalid-since      a label with which the token is refused

Upstream: k8s.io/kubernetes/pkg/serviceaccount/legacy.go.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable
from functools import partial
from hmac import compare_digest

from understudy.apiserver.authentication.errors import LastTries, TokenError, UseAwaitedError
from understudy.apiserver.authentication.service_accounts.token_notes import AUTOMATIC, INVALID, MANUAL, TokenNotes
from understudy.machinery.auth.users import ACCOUNT, User, account_groups, account_name
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock, timestamp

log = logging.getLogger("understudy")

LEGACY_ISSUER = "kubernetes/serviceaccount"
SECRET_TYPE = "kubernetes.io/service-account-token"
NAME_ANNOTATION, UID_ANNOTATION = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
LAST_USED, INVALID_SINCE = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
AUTO_GENERATED = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated "
    "secret-based tokens."
)
DAY = 24 * 60 * 60  # seconds
_AUDIT = "authentication.k8s.io/legacy-token"
_CLAIM = "kubernetes.io/serviceaccount/"
_NAMESPACE, _SECRET = f"{_CLAIM}namespace", f"{_CLAIM}secret.name"
_ACCOUNT, _UID = f"{_CLAIM}service-account.name", f"{_CLAIM}service-account.uid"
_MISSING = {  # in the order in which claims are looked at
    "sub": "sub claim is missing",
    _NAMESPACE: "namespace claim is missing",
    _SECRET: "secretName claim is missing",
    _ACCOUNT: "serviceAccountName claim is missing",
    _UID: "serviceAccountUID claim is missing",
}

# (group, resource, namespace, name) to the object, None where there is none.
Lookup = Callable[[str, str, str, str], Obj | None]
# Writes when the token of a Secret was used last: from the Secret, and the day ("2006-01-02"). Raises StatusError.
MarkUsed = Callable[[Obj, str], Awaitable[None]]


def legacy_claims(account: Obj, secret: Obj) -> Obj:
    """Return the claims of a new token, from the metadata of the account and the Secret."""
    return {
        "iss": LEGACY_ISSUER,
        _NAMESPACE: account["namespace"],
        _SECRET: secret["name"],
        _ACCOUNT: account["name"],
        _UID: account["uid"],
        "sub": account_name(account["namespace"], account["name"]),
    }


class LegacyTokens:
    """Knows the users of tokens whose signature is good already.

    looks_up   whether account and Secret must be there and hold the token (`--service-account-lookup`)
    mark_used  notes the use of a token; None where nothing can be written
    """

    def __init__(self, clock: Clock, *, looks_up: bool) -> None:
        self._clock = clock
        self._looks_up = looks_up
        self._last_tries = LastTries()  # of tokens whose use is noted, or cannot be
        self.mark_used: MarkUsed | None = None

    def user(self, token: str, claims: Obj, lookup: Lookup, notes: TokenNotes) -> User:
        """Return the user of a token. Raises TokenError, and UseAwaitedError if its use is to be noted first."""
        for claim, problem in _MISSING.items():
            value = claims.get(claim, "")
            if not isinstance(value, str):
                raise TokenError(f"malformed claim {claim}")
            if not value:
                raise TokenError(problem)
        namespace, name = claims[_NAMESPACE], claims[_ACCOUNT]
        if claims["sub"].removeprefix(ACCOUNT) != f"{namespace}:{name}":
            raise TokenError("sub claim is invalid")
        if self._looks_up:
            self._look_up(token, claims, lookup, notes)
        return User(account_name(namespace, name), account_groups(namespace), claims[_UID])

    def _look_up(self, token: str, claims: Obj, lookup: Lookup, notes: TokenNotes) -> None:
        """Look at the Secret and the account of a token. Raises as `user` does."""
        namespace, name = claims[_NAMESPACE], claims[_ACCOUNT]
        secret = lookup("", "secrets", namespace, claims[_SECRET])
        if secret is None or "deletionTimestamp" in secret["metadata"]:
            raise TokenError("Token has been invalidated")
        held = b64decode((secret.get("data") or {}).get("token") or "")
        if not compare_digest(held, token.encode()):
            raise TokenError("Token does not match server's copy")
        account = lookup("", "serviceaccounts", namespace, name)
        if account is None:
            raise TokenError(f"serviceaccounts {go_quote(name)} not found")
        if "deletionTimestamp" in account["metadata"]:
            raise TokenError(f"ServiceAccount {namespace}/{name} has been deleted")
        if (uid := account["metadata"]["uid"]) != claims[_UID]:
            raise TokenError(f"ServiceAccount UID ({uid}) does not match claim ({claims[_UID]})")
        self._note_use(token, secret)
        _annotate(account, secret, notes)

    def _note_use(self, token: str, secret: Obj) -> None:
        """Raise UseAwaitedError unless the Secret says that the token was used today. Clocks may differ by a day."""
        now = self._clock.now()
        today, tomorrow = timestamp(now)[:10], timestamp(now + DAY)[:10]
        used = (secret["metadata"].get("labels") or {}).get(LAST_USED)
        if self.mark_used is None or used in (today, tomorrow) or token in self._last_tries:
            return
        raise UseAwaitedError(partial(self._mark, self.mark_used, secret, today), self._last_tries.of(token))

    async def _mark(self, mark_used: MarkUsed, secret: Obj, today: str) -> None:
        try:
            await mark_used(secret, today)
        except StatusError as error:
            metadata = secret["metadata"]
            named = f"{metadata['name']}/{metadata['namespace']}"
            log.error("Failed to label legacy service account token %s with last-used date, err: %s", named, error)


def _annotate(account: Obj, secret: Obj, notes: TokenNotes) -> None:
    """Note in which way a token came to be. Raises TokenError for one that is marked as invalid."""
    name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
    if (secret["metadata"].get("labels") or {}).get(INVALID_SINCE):
        notes.counted.append(INVALID)
        raise TokenError(
            f"the token in secret {namespace}/{name} for service account {namespace}/{account['metadata']['name']} has "
            "been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or "
            f"remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        )
    if any(reference.get("name") == name for reference in account.get("secrets") or ()):
        notes.warnings.append(AUTO_GENERATED)
        notes.annotations[f"{_AUDIT}-autogenerated-secret"] = name
        notes.counted.append(AUTOMATIC)
    else:
        notes.annotations[f"{_AUDIT}-manual-secret"] = name
        notes.counted.append(MANUAL)
