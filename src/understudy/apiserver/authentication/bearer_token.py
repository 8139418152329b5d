"""The bearer tokens of a request: the Authorization header's, and the one among the protocols of a WebSocket.

A browser cannot set headers on a WebSocket, so that Kubernetes takes `base64url.bearer.authorization.k8s.io.TOKEN` as
another protocol than the one that is spoken.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping

PROTOCOL_PREFIX = "base64url.bearer.authorization.k8s.io."
PROTOCOLS = "Sec-WebSocket-Protocol"
EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"


def header_token(authorization: str, warnings: list[str]) -> str:
    """Return the token of an Authorization header, "" if it has none. Upstream: `bearertoken.AuthenticateRequest`."""
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return ""
    token, space, _ = rest.partition(" ")
    if space and not token:
        warnings.append(EXTRA_SPACE)
    return token


def protocol_token(headers: Mapping[str, str]) -> str:
    """Return the token among the protocols of a WebSocket, "" if there is none or it is malformed.

    Exactly one is allowed, and another protocol must remain to be spoken. Upstream: `websocket.ProtocolAuthenticator`.
    """
    if headers.get("Upgrade", "").lower() != "websocket":
        return ""
    protocols = [name.strip() for name in headers.get(PROTOCOLS, "").split(",")]
    encoded = [name.removeprefix(PROTOCOL_PREFIX) for name in protocols if name.startswith(PROTOCOL_PREFIX)]
    if len(encoded) != 1 or len(protocols) == 1 or "=" in encoded[0]:
        return ""
    try:
        return b64decode(encoded[0] + "=" * (-len(encoded[0]) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def spoken_protocols(headers: Mapping[str, str]) -> list[str]:
    """Return the protocols that a WebSocket may speak: all but the token, which must not be sent back."""
    names = [name.strip() for name in headers.get(PROTOCOLS, "").split(",")]
    return [name for name in names if name and not name.startswith(PROTOCOL_PREFIX)]
