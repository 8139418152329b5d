"""Tokens of service accounts: JSON Web Tokens (RFC 7519) that this server signs and knows again.

The claims are the real server's; the signature is a key's of this process (HS256), so no token outlives its server.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
import uuid
from hashlib import sha256
from typing import Any

import orjson

from understudy.apiserver.call import User
from understudy.apiserver.types import Obj

ISSUER = "https://kubernetes.default.svc"
USER, GROUP = "system:serviceaccount", "system:serviceaccounts"
CREDENTIAL = "authentication.kubernetes.io/credential-id"


class AccountTokens:
    """Issues and reads the tokens of one server."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def issue(self, account: Obj, audiences: list[str], expires: int) -> str:
        """A token for the account whose metadata is given, valid until `expires` (seconds since the epoch)."""
        namespace, name, now = account.get("namespace", ""), account["name"], int(time.time())
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["uid"]}},
            "nbf": now,
            "sub": f"{USER}:{namespace}:{name}",
        }
        signed = f"{_encoded(orjson.dumps({'alg': 'HS256', 'kid': 'understudy'}))}.{_encoded(orjson.dumps(claims))}"
        return f"{signed}.{_encoded(self._signature(signed))}"

    def claims(self, token: str) -> dict[str, Any] | None:
        """What a token says, None for one that was not issued here or is not valid now."""
        signed, _, signature = token.rpartition(".")
        try:
            if not hmac.compare_digest(_decoded(signature), self._signature(signed)):
                return None
            found: dict[str, Any] = orjson.loads(_decoded(signed.partition(".")[2]))
        except (binascii.Error, ValueError):
            return None
        return found if found["nbf"] <= time.time() < found["exp"] else None

    def _signature(self, signed: str) -> bytes:
        return hmac.digest(self._key, signed.encode(), sha256)


def user_of(claims: dict[str, Any]) -> User:
    """Who a token is."""
    place = claims["kubernetes.io"]
    groups = [GROUP, f"{GROUP}:{place['namespace']}"]
    return User(claims["sub"], groups, place["serviceaccount"]["uid"], {CREDENTIAL: [f"JTI={claims['jti']}"]})


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
