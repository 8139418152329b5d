"""Tokens of service accounts: JSON Web Tokens (RFC 7519) that this server signs and verifies.

Claims and rules are kube-apiserver's (k8s.io/kubernetes/pkg/serviceaccount), but for one: a token stops working
immediately when its pod is deleted, while the real server remembers for 10 seconds that it was good. Without
`--service-account-*` flags the key is made by the process, so that no token outlives the server's objects; public keys
are at /openid/v1/jwks.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

import orjson

from understudy.apiserver.authentication.errors import TokenAwaitedError, TokenError
from understudy.apiserver.authentication.service_accounts.legacy_tokens import (
    LEGACY_ISSUER,
    LegacyTokens,
    Lookup,
    legacy_claims,
)
from understudy.apiserver.authentication.service_accounts.token_notes import LEGACY, STALE, VALID, TokenNotes, TokenUses
from understudy.machinery.auth.users import CREDENTIAL_ID, User, account_groups, account_name
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_33, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.clock import Clock, parse_timestamp

if TYPE_CHECKING:
    from understudy.apiserver.authentication.jose import PrivateKey, PublicKey

ISSUER = "https://kubernetes.default.svc"
EXTRA, ATTESTATION = "authentication.kubernetes.io", "attestation.authentication.kubernetes.io"
LEEWAY = 60  # seconds that clocks may differ by
WARN_ONLY, YEAR = 60 * 60 + 7, 365 * 24 * 60 * 60  # seconds; upstream: `WarnOnlyBoundTokenExpirationSeconds`
STALE_ANNOTATION, LEGACY_ANNOTATION = "authentication.k8s.io/stale-token", "authentication.k8s.io/legacy-token"
INVALIDATED = "service account token has been invalidated"
_GO_JOSE = ByRelease({V1_31: "square/go-jose", V1_33: "go-jose/go-jose"})  # the library that names itself in an error
BOUND = {"pod": "pods", "secret": "secrets", "node": "nodes"}  # what a token can be bound to: claim, resource
WEBHOOKS = {  # and in 1.37, behind a gate: claim, kind
    "validatingwebhookconfiguration": "ValidatingWebhookConfiguration",
    "mutatingwebhookconfiguration": "MutatingWebhookConfiguration",
}
ADMISSION_REVIEW_API_GROUPS = "admissionReviewAPIGroups"  # upstream: `AttestationAdmissionReviewAPIGroups`

SIGNING_KEY = "service-account-signing-key"  # the name of what is generated


@dataclass(frozen=True)
class AccountTokenOptions:
    """The options for tokens of service accounts: who issues, signs and verifies them.

    issuers      the first one issues, tokens of all are accepted
    audiences    those of this server; without them, its issuers
    signing_key  signs new tokens; made for the server without one
    keys         verify tokens; without them, the signing key does
    looks_up     whether legacy tokens are good only while their Secret and their account are there
    generated    returns a key that the server has made for itself, from its name and what makes it
    """

    issuers: Sequence[str] = (ISSUER,)
    audiences: Sequence[str] = ()
    signing_key: PrivateKey | None = None
    keys: Sequence[PublicKey] = ()
    looks_up: bool = True
    generated: Callable[[str, Callable[[], bytes]], bytes] = lambda _, make: make()


class AccountTokens:
    """Issues and verifies the tokens of one server's service accounts.

    audiences  those of the server itself
    legacy     knows the users of tokens that are kept in Secrets
    uses       counts the tokens that are used
    """

    def __init__(
        self,
        clock: Clock,
        version: Version,
        options: AccountTokenOptions | None = None,
        gates: Gates | None = None,
    ) -> None:
        self._clock = clock
        self._version = version
        self._gates = gates or Gates.of(version)
        self._options = options or AccountTokenOptions()
        self.audiences = tuple(self._options.audiences or self._options.issuers)
        self.legacy = LegacyTokens(clock, looks_up=self._options.looks_up)
        self.uses = TokenUses(clock, version)
        self._making = Lock()
        self._made_key: PrivateKey | None = None

    @property
    def issuer(self) -> str:
        """Return the issuer of new tokens."""
        return self._options.issuers[0]

    @property
    def _signing_key(self) -> PrivateKey:
        """Return the key that signs tokens, made once, whichever thread needs it first."""
        with self._making:
            self._made_key = self._made_key or self._new_key()
            return self._made_key

    def _new_key(self) -> PrivateKey:
        from understudy.apiserver.authentication import jose  # cryptography: few ask for tokens

        if self._options.signing_key is not None:
            return self._options.signing_key
        return jose.private_key(self._options.generated(SIGNING_KEY, lambda: jose.pem_of(jose.new_private_key())))

    @cached_property
    def _keys(self) -> dict[str, PublicKey]:
        """Return the keys that verify tokens, by their ids."""
        from understudy.apiserver.authentication import jose

        return {jose.key_id(key): key for key in self._options.keys or [self._signing_key.public_key()]}

    @property
    def has_key(self) -> bool:
        """Report whether the key that signs tokens was read or made."""
        return self._made_key is not None

    def make_key(self) -> None:
        """Read or make the key that signs tokens, in any thread."""
        assert self._signing_key

    @property
    def jwks(self) -> list[Obj]:
        """Return the public keys as members of a JSON Web Key Set (RFC 7517)."""
        from understudy.apiserver.authentication import jose

        return [jose.jwk_of(key) for key in self._keys.values()]

    def issue(
        self,
        account: Obj,
        audiences: Sequence[str],
        expires: int,
        bound: dict[str, Obj],
        attested: Mapping[str, Obj] = MappingProxyType({}),
    ) -> str:
        """Return a new token.

        account  metadata of the service account
        expires  seconds since 1970. A pod's token for this server that is asked for 3607 seconds is good for a year:
                 old clients do not read it again. Upstream: `--service-account-extend-token-expiration`
        bound    metadata of the objects that it is bound to, by claim ("pod", "secret", "node", …)
        attested "attestations", if there are any
        """
        from understudy.apiserver.authentication import jose

        namespace, name, now = account.get("namespace", ""), account["name"], int(self._clock.now())
        place: Obj = {"namespace": namespace, "serviceaccount": _reference(account), **attested}
        if "pod" in bound and expires - now == WARN_ONLY and set(audiences) <= set(self.audiences):
            place["warnafter"], expires = expires, now + YEAR
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": place | {claim: _reference(metadata) for claim, metadata in bound.items()},
            "nbf": now,
            "sub": account_name(namespace, name),
        }
        return jose.sign(self._signing_key, claims)

    def issue_legacy(self, account: Obj, secret: Obj) -> str:
        """Return a new token without an end, from the metadata of its account and of the Secret that will hold it."""
        from understudy.apiserver.authentication import jose

        return jose.sign(self._signing_key, legacy_claims(account, secret))

    def user(
        self, token: str, audiences: Sequence[str], lookup: Lookup, warnings: list[str] | None = None
    ) -> tuple[User, list[str]]:
        """Return the user of a token, and those of the audiences that it is for; may add to `warnings`.

        Raises TokenError, TokenAwaitedError.
        """
        notes = TokenNotes()
        try:
            judged = self._judge(token, audiences, lookup, notes)
        except TokenError:
            self.uses.refuse(notes)
            raise
        notes = self.uses.accept((token, tuple(audiences)), notes)
        if warnings is not None:
            warnings += notes.warnings
        return judged

    def annotations(self, token: str, lookup: Lookup) -> Mapping[str, str]:
        """Return the annotations of the audit log about a token that is good."""
        notes = self.uses.kept((token, self.audiences))
        if notes is None:
            notes = TokenNotes()
            with suppress(TokenError, TokenAwaitedError):
                self._judge(token, self.audiences, lookup, notes)
        return notes.annotations

    def _judge(self, token: str, audiences: Sequence[str], lookup: Lookup, notes: TokenNotes) -> tuple[User, list[str]]:
        """Return the user and the audiences of a token. Raises as `user` does."""
        claims = self._claims(token)
        own = _texts(claims.get("aud"))
        if not own:
            own = list(self.audiences)
            notes.counted.append(LEGACY)
            notes.annotations[LEGACY_ANNOTATION] = str(claims.get("sub", ""))
        meant = [audience for audience in audiences if audience in own]
        if not meant:
            raise TokenError(f"token audiences {_quoted(own)} is invalid for the target audiences {_quoted(audiences)}")
        if claims["iss"] == LEGACY_ISSUER:
            return self.legacy.user(token, claims, lookup, notes), meant
        now = self._clock.now()
        _check_time(claims, now)
        place = claims.get("kubernetes.io") or {}
        _check_account(place, lookup, now)
        _check_bound(place, lookup, now)
        place = self._known(place)
        _check_webhooks(place, lookup, now)
        _note_age(claims, place, int(now), notes)
        return _user(claims, place), meant

    def _known(self, place: Obj) -> Obj:
        """Return the claims that the release knows. Raises TokenError for those of webhooks that the gate forbids."""
        if WEBHOOKS.keys().isdisjoint(place):
            return place
        if self._version < V1_37:
            return {claim: value for claim, value in place.items() if claim not in WEBHOOKS}
        gate = features.API_SERVER_WEBHOOK_AUTHENTICATION_TOKEN
        if not self._gates[gate]:
            raise TokenError(f"feature gate {go_quote(gate)} is disabled, but token is webhook bound")
        if not (place.get("attestations") or {}).get(ADMISSION_REVIEW_API_GROUPS):
            quoted = go_quote(ADMISSION_REVIEW_API_GROUPS)
            raise TokenError(f"bound object was a webhook config, but {quoted} attestation is missing")
        return place

    def _claims(self, token: str) -> Obj:
        """Return the claims of a token that is signed by a key of this server. Raises TokenError."""
        if not self._is_issued_here(token):
            raise TokenError
        from understudy.apiserver.authentication import jose

        try:
            parsed = jose.Token.parse(token)
        except ValueError:
            raise TokenError from None
        keys = [key for key_id, key in self._keys.items() if parsed.key_id in ("", key_id)]
        if not keys:
            raise TokenError("invalid signature, no keys found")
        if not any(parsed.is_signed_by(key) for key in keys):
            raise TokenError(f"{_GO_JOSE[self._version]}: error in cryptographic primitive")
        try:
            claims = jose.read_object(parsed.payload)
            _check_shape(claims)
        except ValueError as error:
            raise TokenError(str(error)) from None
        return claims

    def _is_issued_here(self, token: str) -> bool:
        """Report whether a token says that it is of an issuer of this server. Upstream: `hasCorrectIssuer`."""
        parts = token.split(".")
        if len(parts) != 3:
            return False
        try:
            claims = orjson.loads(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_"))
        except ValueError:
            return False
        return isinstance(claims, dict) and claims.get("iss") in (LEGACY_ISSUER, *self._options.issuers)


def _check_shape(claims: Obj) -> None:
    """Raise ValueError for claims of other types than this server issues. Keys in files may have signed anything."""
    place = claims.get("kubernetes.io", {})
    if not isinstance(place, dict) or not isinstance(place.get("namespace", ""), str):
        raise ValueError("malformed claim kubernetes.io")
    for reference in (place.get(claim, {}) for claim in ("serviceaccount", *BOUND, *WEBHOOKS)):
        if not isinstance(reference, dict) or not all(isinstance(text, str) for text in reference.values()):
            raise ValueError("malformed claim kubernetes.io")
    attestations = place.get("attestations") or {}
    if not isinstance(attestations, dict) or not all(map(_are_texts, attestations.values())):
        raise ValueError("malformed claim kubernetes.io")
    times = [place.get("warnafter", 0), *(claims.get(name, 0) for name in ("exp", "nbf", "iat"))]
    if not all(isinstance(time, int | float) for time in times):
        raise ValueError("expected number value to unmarshal NumericDate")
    for name in ("jti", "sub"):
        if not isinstance(claims.get(name, ""), str):
            raise ValueError(f"malformed claim {name}")


def _are_texts(value: object) -> bool:
    """Report whether a value is a list of texts, or null."""
    return value is None or (isinstance(value, list) and all(isinstance(text, str) for text in value))


def _texts(value: object) -> list[str]:
    """Return the texts of a claim that is one text or a list of them."""
    return [value] if isinstance(value, str) else [str(text) for text in value] if isinstance(value, list) else []


def _check_time(claims: Obj, now: float) -> None:
    """Raise TokenError for a token that is not valid at a time. Upstream: `jwt.Claims.Validate`."""
    if now < claims.get("nbf", now) - LEEWAY:
        raise TokenError("service account token is not valid yet")
    if now > claims.get("exp", now) + LEEWAY:
        raise TokenError("service account token has expired")
    if now < claims.get("iat", now) - LEEWAY:
        raise TokenError("service account token is issued in the future")


def _check_account(place: Obj, lookup: Lookup, now: float) -> None:
    name, uid = (place.get("serviceaccount", {}).get(key, "") for key in ("name", "uid"))
    namespace = place.get("namespace", "")
    account = lookup("", "serviceaccounts", namespace, name)
    if account is None:
        raise TokenError(f"serviceaccounts {go_quote(name)} not found")
    if (actual := account["metadata"]["uid"]) != uid:
        raise TokenError(f"service account UID ({actual}) does not match claim ({uid})")
    if _is_deleted(account, now):
        raise TokenError(f"service account {namespace}/{name} has been deleted")


def _check_bound(place: Obj, lookup: Lookup, now: float) -> None:
    """Raise TokenError if an object that a token is bound to is gone. The node of a pod does not matter."""
    for claim in ("secret", "pod", "node"):
        if claim not in place or (claim == "node" and "pod" in place):
            continue
        namespace = "" if claim == "node" else place["namespace"]
        obj = lookup("", BOUND[claim], namespace, place[claim].get("name", ""))
        if obj is None:
            raise TokenError(INVALIDATED)
        if (actual := obj["metadata"]["uid"]) != (uid := place[claim].get("uid", "")):
            raise TokenError(f"{claim} UID ({actual}) does not match service account {claim} ref claim ({uid})")
        if _is_deleted(obj, now):
            raise TokenError(INVALIDATED)


def _check_webhooks(place: Obj, lookup: Lookup, now: float) -> None:
    """Raise TokenError if a configuration of webhooks that a token is bound to is gone. Upstream:
    `validateWebhookCfgRef`."""
    for claim, kind in WEBHOOKS.items():
        if claim not in place:
            continue
        obj = lookup("admissionregistration.k8s.io", f"{claim}s", "", place[claim].get("name", ""))
        if obj is None:
            raise TokenError(INVALIDATED)
        if (actual := obj["metadata"]["uid"]) != (uid := place[claim].get("uid", "")):
            raise TokenError(f"{kind} UID ({actual}) does not match service account validating ref claim ({uid})")
        if _is_deleted(obj, now):
            raise TokenError(INVALIDATED)


def _note_age(claims: Obj, place: Obj, now: int, notes: TokenNotes) -> None:
    """Note whether a client may not have read its token again in time (`warnafter`)."""
    if not (threshold := place.get("warnafter")):
        return
    if (late := now - int(threshold)) > 0:
        subject = claims.get("sub", "")
        notes.annotations[STALE_ANNOTATION] = f"subject: {subject}, seconds after warning threshold: {late}"
    notes.counted.append(STALE if late > 0 else VALID)


def _is_deleted(obj: Obj, now: float) -> bool:
    """Report whether an object was deleted a while ago and only waits for its finalizers."""
    deleted = obj["metadata"].get("deletionTimestamp")
    return deleted is not None and parse_timestamp(deleted) < now - LEEWAY


def _user(claims: Obj, place: Obj) -> User:
    extra = {CREDENTIAL_ID: [f"JTI={claims['jti']}"]} if claims.get("jti") else {}
    for claim in ("node", "pod", *WEBHOOKS):
        for key, value in place.get(claim, {}).items():
            extra[f"{EXTRA}/{claim}-{key}"] = [value]
    if not WEBHOOKS.keys().isdisjoint(place):
        extra[f"{ATTESTATION}/{ADMISSION_REVIEW_API_GROUPS}"] = place["attestations"][ADMISSION_REVIEW_API_GROUPS]
    account = place["serviceaccount"]
    name = account_name(place["namespace"], account["name"])
    return User(name, account_groups(place["namespace"]), account["uid"], extra)


def _reference(metadata: Obj) -> Obj:
    """Return name and uid of an object; a node that does not exist has a name only."""
    return {key: metadata[key] for key in ("name", "uid") if key in metadata}


def _quoted(texts: Sequence[str]) -> str:
    return f"[{' '.join(go_quote(text) for text in texts)}]"
