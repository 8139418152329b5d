"""Random tokens for `fuzz`: of a service account, and of another issuer (OpenID Connect).

Each is a good token, broken in one place or in a few, and signed again if only its claims are.
"""

from __future__ import annotations

import base64
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from scripts.torture.inputs.expressions import broken
from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authentication.errors import FetchAwaitedError, TokenError
from understudy.apiserver.authentication.oidc.configuration import checked
from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator
from understudy.apiserver.authentication.service_accounts.account_tokens import AccountTokens
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import SystemClock

_VALUES: tuple[Any, ...] = (
    None, True, "", "x", 0, -1, 1e300, 2**63, 1.5, [], {}, [None], ["a", 1], {"a": {}}, "\0", "é", [[[[]]]],
    {"name": 1}, {"name": "a", "uid": None}, "9" * 5000, "kubernetes.default.svc",
)  # fmt: skip
_NESTED = b'{"iss":' + b"[" * 3000 + b"]" * 3000 + b"}"
_UID = "12345678-0000-0000-0000-000000000000"
_ACCOUNT = {"metadata": {"name": "a", "namespace": "b", "uid": _UID}}
_ISSUER: Obj = {
    "issuer": {
        "url": "https://issuer.example.com",
        "audiences": ["cluster", "other"],
        "audienceMatchPolicy": "MatchAny",
    },
    "claimMappings": {
        "username": {"expression": "'test:' + claims.sub"},
        "groups": {"expression": "claims.?groups.orValue([])"},
        "uid": {"claim": "uid"},
        "extra": [{"key": "example.com/team", "valueExpression": "claims.?team.name.orValue('')"}],
    },
    "claimValidationRules": [
        {"claim": "hd", "requiredValue": "example.com"},
        {"expression": "claims.exp - claims.nbf <= 1000000.0", "message": "lives too long"},
    ],
    "userValidationRules": [{"expression": "!user.username.startsWith('system:')", "message": "is reserved"}],
}


class Issuer(NamedTuple):
    """An issuer of tokens.

    good    a token that is good
    key     with which it signs
    more    claims that tokens of its kind may also have
    verify  returns the user of a token
    """

    good: str
    key: jose.PrivateKey
    more: tuple[str, ...]
    verify: Callable[[str], object]


@cache
def service_accounts() -> Issuer:
    """Return the issuer of the tokens of service accounts."""
    tokens = AccountTokens(SystemClock(), V1_36)
    good = tokens.issue(_ACCOUNT["metadata"], ["kubernetes.default.svc"], 2**33, {})

    def lookup(group: str, resource: str, namespace: str, name: str) -> Obj | None:
        return _ACCOUNT if (resource, namespace, name) == ("serviceaccounts", "b", "a") else None

    more = ("pod", "secret", "node", "serviceaccount", "namespace", "warnafter")
    return Issuer(good, tokens._signing_key, more, lambda text: tokens.user(text, tokens.audiences, lookup))


@cache
def openid() -> Issuer:
    """Return an issuer of OpenID Connect whose users are made by expressions."""
    key = jose.new_private_key()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "keys.json")
        keys.write_bytes(orjson.dumps({"keys": [jose.jwk_of(key.public_key())]}))
        spec = {**_ISSUER, "issuer": {**_ISSUER["issuer"], "discoveryURL": keys.as_uri()}}
        ((_, expressions),) = checked({"jwt": [_ISSUER]}, ["RS256", "ES256"], V1_36, Gates.of(V1_36), ()).authenticators
        authenticator = JWTAuthenticator(
            spec, expressions, ["RS256", "ES256"], SystemClock(), V1_36, AuthenticationMetrics()
        )
        authenticator.key_set.discover()
    now = int(time.time())
    claims = {
        "iss": _ISSUER["issuer"]["url"],
        "sub": "ann",
        "aud": "cluster",
        "hd": "example.com",
        "uid": _UID,
        "groups": ["dev", "ops"],
        "team": {"name": "a"},
        "iat": now,
        "nbf": now,
        "exp": now + 500_000,
    }
    good = jose.sign(key, claims)
    authenticator.user(good)
    return Issuer(good, key, ("jti", "email", "email_verified", "nonce", "at_hash"), authenticator.user)


def token(seed: int, number: int) -> str:
    """Return the token of a number: the issuer signs it again if only its claims were changed."""
    rng, issuer = random.Random(f"token {seed} {number}"), _issuer(number)
    head, payload, signature = issuer.good.split(".")
    way = rng.randrange(6)
    if way == 0:
        return broken(rng, list(issuer.good))
    if way == 1:  # bytes of a part are wrong
        raw = bytearray(base64.urlsafe_b64decode(rng.choice((head, payload)) + "=="))
        for _ in range(rng.choice((1, 2, 9))):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        part = jose.encode(bytes(raw))
        return f"{part}.{payload}.{signature}" if rng.random() < 0.5 else f"{head}.{part}.{signature}"
    if way == 2:  # a header that means something else
        header = {"alg": rng.choice((*jose.ALGORITHMS, "none", "HS256", *_VALUES)), "kid": rng.choice(_VALUES)}
        header |= {"crit": rng.choice(_VALUES)} if rng.random() < 0.3 else {}
        return f"{jose.encode(orjson.dumps(header))}.{payload}.{signature}"
    if way == 3 and rng.random() < 0.1:
        return f"{head}.{jose.encode(_NESTED)}.{signature}"
    claims = orjson.loads(base64.urlsafe_b64decode(payload + "=="))
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.choice([claims, *(value for value in claims.values() if isinstance(value, dict))])
        name = rng.choice((*claims, *issuer.more))
        if rng.random() < 0.3:
            place.pop(name, None)
        else:
            place[name] = deepcopy(rng.choice(_VALUES))
    return jose.sign(issuer.key, claims)


def check_token(text: str, number: int) -> None:
    """Ask the issuer for the user of a token."""
    with suppress(TokenError, FetchAwaitedError):  # answers as well
        _issuer(number).verify(text)


def _issuer(number: int) -> Issuer:
    return openid() if number % 2 else service_accounts()
