"""The keys with which an issuer signs its tokens, as its discovery document tells (OpenID Connect Discovery 1.0).

Upstream: `NewProvider` and `remoteKeySet` of go-oidc.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from typing import Any

from understudy.apiserver.authentication import jose
from understudy.apiserver.authentication.errors import (
    FetchAwaitedError,
    LastTries,
    NoKeysError,
    ProviderError,
    TokenError,
)
from understudy.apiserver.authentication.oidc.downloads import Connect, download
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj

WELL_KNOWN = "/.well-known/openid-configuration"
TIMEOUT = 10.0  # seconds that an issuer has to answer


Observe = Callable[[str, str], None]


class KeySet:
    """The keys of one issuer.

    issuer     its address, which its discovery document has to repeat
    discovery  address of the discovery document, "" for that of the issuer. It may be a file (`file:///path`), which
               may also hold the keys themselves
    authority  certificates (PEM) that verify the issuer's, "" for those of the machine
    observe    is told the issuer and the document of each fetch of its keys, "" of one that has failed; None where
               nobody wants to know. Who does needs the address of the keys before a token does, as kube-apiserver says
    connect    connects to the issuer, None where it is reached directly
    """

    def __init__(
        self,
        issuer: str,
        discovery: str,
        authority: str,
        observe: Observe | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.issuer = issuer
        self._discovery = discovery or issuer.removesuffix("/") + WELL_KNOWN
        self._authority = authority
        self._observe = observe
        self._connect = connect
        self._address = ""  # of the keys, as the discovery document tells
        self._keys: list[tuple[str, jose.PublicKey]] = []
        self._last_tries = LastTries()  # of tokens that newer keys may have signed
        self._lacks_address = False
        self.is_initialized = False

    def of(self, issuer: str) -> KeySet:
        """Return the keys of an issuer for which the same authority vouches; those of this one are elsewhere only if
        they are told to be."""
        discovery = self._discovery if issuer == self.issuer else ""
        return KeySet(issuer, discovery, self._authority, connect=self._connect)

    def download(self, address: str, token: str, timeout: float) -> bytes:
        """Return the body at an address for which the authority of the issuer vouches, asked with a token, "" for none.
        Blocks the thread, for as many seconds at the most. Raises OSError; HTTPError for an answer that is an error."""
        return download(
            address, token, timeout, ssl.create_default_context(cadata=self._authority or None), self._connect
        )

    def has_signed(self, text: str, token: jose.Token) -> bool:
        """Report whether a key of the issuer has signed a token. If none has, raises FetchAwaitedError at first, and
        TokenError if keys cannot be fetched."""
        if any(token.key_id in ("", key_id) and token.is_signed_by(key) for key_id, key in self._keys):
            return True
        if self._lacks_address:
            why = 'fetching keys oidc: get keys failed Get "": unsupported protocol scheme ""'
            raise TokenError(f"failed to verify signature: {why}")
        if text in self._last_tries:
            return False
        raise FetchAwaitedError(self.fetch, self._last_tries.of(text))

    def discover(self) -> None:
        """Fetch the discovery document, in a thread. The keys are fetched when a token needs them, unless the document
        holds them. Raises ProviderError."""
        document = self._document(self._discovery)
        if "keys" in document:
            self._keys = _keys(document)
        else:
            if (issuer := document.get("issuer", "")) != self.issuer:
                raise ProviderError(
                    "oidc: issuer did not match the issuer returned by provider, "
                    f"expected {go_quote(self.issuer)} got {go_quote(str(issuer))}"
                )
            self._address = str(document.get("jwks_uri", ""))
            self._lacks_address = not self._address
            if self._lacks_address and self._observe is not None:
                raise NoKeysError("provider did not return JWKS URL")
        self.is_initialized = True

    def fetch(self) -> None:
        """Fetch the keys, in a thread. Raises ProviderError; then the keys are those of before."""
        text = ""
        try:
            text, document = self._read(self._address or self._discovery)
        finally:
            if self._observe is not None:
                self._observe(self.issuer, text)
        self._keys = _keys(document)

    def _document(self, address: str) -> Obj:
        """Return the JSON object at an address. Raises ProviderError."""
        return self._read(address)[1]

    def _read(self, address: str) -> tuple[str, Obj]:
        """Return the text at an address, and the JSON object that it is. Raises ProviderError."""
        if not address.startswith(("https://", "file://")):
            raise ProviderError(f"oidc: {go_quote(address)} is no https or file address")
        try:
            text = self.download(address, "", TIMEOUT).decode()
            document: Any = json.loads(text)
        except (OSError, ValueError) as error:
            raise ProviderError(f"oidc: {address}: {error}") from None
        if not isinstance(document, dict):
            raise ProviderError(f"oidc: {address}: not a JSON object")
        return text, document


def _keys(document: Obj) -> list[tuple[str, jose.PublicKey]]:
    """Return (id, key) of the keys in a document that can sign tokens."""
    keys = []
    for jwk in document.get("keys") or []:
        try:
            keys.append((str(jwk.get("kid", "")), jose.key_of(jwk)))
        except (ValueError, AttributeError):
            continue
    return keys
