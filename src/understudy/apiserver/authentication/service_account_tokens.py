"""Tokens of service accounts: JSON Web Tokens (RFC 7519) that this server signs and verifies.

Claims and rules are kube-apiserver's (k8s.io/kubernetes/pkg/serviceaccount). The key is made by the process, so that no
token outlives its server; its public half is published at /openid/v1/jwks.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from understudy.apiserver.authentication.errors import TokenError
from understudy.machinery.clock import Clock
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj
from understudy.machinery.users import CREDENTIAL_ID, User, account_groups, account_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

ISSUER = "https://kubernetes.default.svc"
EXTRA = "authentication.kubernetes.io"
LEEWAY = 60  # seconds that clocks may differ by
BOUND = {"pod": "pods", "secret": "secrets", "node": "nodes"}  # what a token can be bound to: claim, resource

# (group, resource, namespace, name) to the object, None where there is none.
Lookup = Callable[[str, str, str, str], Obj | None]


class AccountTokens:
    """Issues and verifies the tokens of one server's service accounts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @cached_property
    def _key(self) -> RSAPrivateKey:
        from cryptography.hazmat.primitives.asymmetric import rsa  # few ask for tokens

        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def jwk(self) -> Obj:
        """Return the public key as a member of a JSON Web Key Set (RFC 7517)."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        public = self._key.public_key()
        numbers = public.public_numbers()
        kid = sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
        numbers_text = {"n": _encoded(numbers.n.to_bytes(256)), "e": _encoded(numbers.e.to_bytes(3))}
        return {"use": "sig", "kty": "RSA", "kid": _encoded(kid), "alg": "RS256", **numbers_text}

    def issue(self, account: Obj, audiences: list[str], expires: int, bound: dict[str, Obj]) -> str:
        """Return a new token.

        account  metadata of the service account
        expires  seconds since 1970
        bound    metadata of the objects that it is bound to, by claim ("pod", "secret", "node")
        """
        namespace, name, now = account.get("namespace", ""), account["name"], int(self._clock.now())
        place = {"namespace": namespace, "serviceaccount": _reference(account)}
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": place | {claim: _reference(metadata) for claim, metadata in bound.items()},
            "nbf": now,
            "sub": account_name(namespace, name),
        }
        head = {"alg": self.jwk["alg"], "kid": self.jwk["kid"]}
        signed = f"{_encoded(orjson.dumps(head))}.{_encoded(orjson.dumps(claims, option=orjson.OPT_SORT_KEYS))}"
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), *_rs256()))}"

    def user(self, token: str, audiences: Sequence[str], lookup: Lookup) -> tuple[User, list[str]]:
        """Return whose a token is, and for which of the audiences it is. Raises TokenError."""
        claims = self._claims(token)
        meant = [audience for audience in claims["aud"] if audience in audiences]
        if not meant:
            actual, expected = _quoted(claims["aud"]), _quoted(audiences)
            raise TokenError(f"token audiences {actual} is invalid for the target audiences {expected}")
        now = self._clock.now()
        if now > claims["exp"] + LEEWAY:
            raise TokenError("service account token has expired")
        if now < claims["nbf"] - LEEWAY:
            raise TokenError("service account token is not valid yet")
        _check_account(claims["kubernetes.io"], lookup)
        _check_bound(claims["kubernetes.io"], lookup)
        return _user(claims), meant

    def _claims(self, token: str) -> Obj:
        """Return the claims of a token that this server has signed. Raises TokenError."""
        signed, _, signature = token.rpartition(".")
        try:
            claims = orjson.loads(_decoded(signed.partition(".")[2]))
            raw = _decoded(signature)
        except (binascii.Error, ValueError):
            raise TokenError from None
        if not isinstance(claims, dict) or claims.get("iss") != ISSUER:
            raise TokenError
        self._verify(signed.encode(), raw)
        return claims

    def _verify(self, signed: bytes, signature: bytes) -> None:
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.public_key().verify(signature, signed, *_rs256())
        except InvalidSignature:
            raise TokenError("square/go-jose: error in cryptographic primitive") from None


def _rs256() -> tuple[Any, Any]:
    """Return padding and hash of RS256 (RFC 7518, section 3.3)."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    return PKCS1v15(), SHA256()


def _check_account(place: Obj, lookup: Lookup) -> None:
    name, uid = place["serviceaccount"]["name"], place["serviceaccount"]["uid"]
    account = lookup("", "serviceaccounts", place["namespace"], name)
    if account is None:
        raise TokenError(f"serviceaccounts {go_quote(name)} not found")
    if (have := account["metadata"]["uid"]) != uid:
        raise TokenError(f"service account UID ({have}) does not match claim ({uid})")


def _check_bound(place: Obj, lookup: Lookup) -> None:
    """Raise TokenError if an object that a token is bound to is gone. The node of a pod does not matter."""
    for claim in ("secret", "pod", "node"):
        if claim not in place or (claim == "node" and "pod" in place):
            continue
        namespace = "" if claim == "node" else place["namespace"]
        obj = lookup("", BOUND[claim], namespace, place[claim]["name"])
        if obj is None:
            raise TokenError("service account token has been invalidated")
        if (have := obj["metadata"]["uid"]) != (uid := place[claim]["uid"]):
            raise TokenError(f"{claim} UID ({have}) does not match service account {claim} ref claim ({uid})")


def _user(claims: Obj) -> User:
    place = claims["kubernetes.io"]
    extra = {CREDENTIAL_ID: [f"JTI={claims['jti']}"]}
    for claim in ("node", "pod"):
        for key, value in place.get(claim, {}).items():
            extra[f"{EXTRA}/{claim}-{key}"] = [value]
    return User(claims["sub"], account_groups(place["namespace"]), place["serviceaccount"]["uid"], extra)


def _reference(metadata: Obj) -> Obj:
    """Return name and uid of an object; a node that does not exist has a name only."""
    return {key: metadata[key] for key in ("name", "uid") if key in metadata}


def _quoted(texts: Sequence[str]) -> str:
    return f"[{' '.join(go_quote(text) for text in texts)}]"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
