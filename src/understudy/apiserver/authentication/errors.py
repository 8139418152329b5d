"""The errors of credentials that are not good. Requests with them are answered 401, without the reason."""

from collections.abc import Callable
from contextlib import AbstractContextManager


class TokenError(Exception):
    """A token that is not valid. str(error) says why; "" for one that no authenticator of this server knows."""


class CertificateError(Exception):
    """A client certificate that is not good. str(error) says why."""


class ProviderError(Exception):
    """An issuer of tokens whose keys cannot be had. str(error) says why."""


class KeysAwaitedError(Exception):
    """A token that none of the known keys has signed: the request may go on when newer ones have been fetched.

    fetch     fetches them, which takes a while. Raises ProviderError
    last_try  within it, a token that they have not signed either is refused
    """

    def __init__(self, fetch: Callable[[], None], last_try: AbstractContextManager[None]) -> None:
        super().__init__("the keys of an issuer have to be fetched")
        self.fetch = fetch
        self.last_try = last_try
