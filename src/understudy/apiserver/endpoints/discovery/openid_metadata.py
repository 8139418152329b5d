"""OpenID Connect discovery: the public keys that verify tokens of service accounts, and their address.

https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery
"""

from __future__ import annotations

from urllib.parse import urlsplit

import orjson

from understudy.apiserver.authentication.service_accounts.account_tokens import AccountTokens
from understudy.apiserver.endpoints import negotiation
from understudy.apiserver.endpoints.discovery.documents import OPENID_CONFIGURATION, OPENID_KEYS, get_only
from understudy.apiserver.endpoints.request import Request, Response
from understudy.machinery.types import Obj

JWKS = "application/jwk-set+json"
CACHED = ("Cache-Control", "public, max-age=3600")


class OpenID:
    """The two OpenID Connect pages of a server at `url`."""

    def __init__(self, tokens: AccountTokens, url: str) -> None:
        self._tokens = tokens
        self._url = url

    def answer(self, request: Request) -> Response | None:
        """Return the page at the request's path, None if there is none. Raises StatusError (405, 406).

        There is none for an issuer that is no plain https address. Upstream: `NewOpenIDMetadataProvider`.
        """
        issuer = urlsplit(self._tokens.issuer)
        if issuer.scheme != "https" or issuer.query or issuer.fragment:
            return None
        bare = request.path.rstrip("/")
        if bare == OPENID_CONFIGURATION:
            return _page(request, self._configuration(), negotiation.JSON)
        return _page(request, {"keys": self._tokens.jwks}, JWKS) if bare == OPENID_KEYS else None

    def _configuration(self) -> Obj:
        """Return the OpenID Connect provider configuration."""
        return {
            "issuer": self._tokens.issuer,
            "jwks_uri": self._url + OPENID_KEYS,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key["alg"] for key in self._tokens.jwks}),
        }


def _page(request: Request, document: Obj, media_type: str) -> Response:
    get_only(request)
    negotiation.route(request.headers.get("Accept", ""), (media_type,))
    return Response(200, orjson.dumps(document), media_type, [CACHED])
