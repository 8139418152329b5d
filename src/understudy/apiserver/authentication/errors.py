"""The errors of credentials that are not good, or not yet. Requests with bad ones get 401, without the reason."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class TokenError(Exception):
    """A token that is not valid. str(error) says why; "" for one that no authenticator of this server knows."""


class CertificateError(Exception):
    """A client certificate that is not good. str(error) says why."""


class ProviderError(Exception):
    """An issuer of tokens whose keys cannot be had. str(error) says why."""


class NoKeysError(ProviderError):
    """An issuer of tokens that does not tell where its keys are."""


class TokenAwaitedError(Exception):
    """A token that cannot be judged yet: the request may go on once something is done that takes a while.

    afterwards  within it the token is judged
    """

    def __init__(self, message: str, afterwards: AbstractContextManager[None]) -> None:
        super().__init__(message)
        self.afterwards = afterwards


class FetchAwaitedError(TokenAwaitedError):
    """A token for which something has to be fetched: keys, if none that is known has signed it, or claims.

    fetch  fetches it, in a thread. Raises ProviderError
    """

    def __init__(self, fetch: Callable[[], None], afterwards: AbstractContextManager[None]) -> None:
        super().__init__("what an issuer has must be fetched", afterwards)
        self.fetch = fetch


class EvaluationAwaitedError(TokenAwaitedError):
    """A token with claims for which the expressions of its issuer's configuration take long.

    evaluate  evaluates them
    """

    def __init__(self, evaluate: Callable[[], None], afterwards: AbstractContextManager[None]) -> None:
        super().__init__("expressions about claims take long", afterwards)
        self.evaluate = evaluate


class UseAwaitedError(TokenAwaitedError):
    """A token whose use is to be noted before it is judged.

    mark  notes it, or logs why it cannot
    """

    def __init__(self, mark: Callable[[], Awaitable[None]], afterwards: AbstractContextManager[None]) -> None:
        super().__init__("the use of a token has to be noted", afterwards)
        self.mark = mark


class LastTries:
    """The tokens that are judged once more, after what they had to wait for; each as often as it is."""

    def __init__(self) -> None:
        self._tokens = Counter[str]()

    def __contains__(self, token: str) -> bool:
        return token in self._tokens

    @contextmanager
    def of(self, token: str) -> Iterator[None]:
        """Judge a token within this: it waits no more."""
        self._tokens[token] += 1
        try:
            yield
        finally:
            self._tokens[token] -= 1
            if not self._tokens[token]:
                del self._tokens[token]


class Outcomes(Generic[T]):
    """The outcomes of tokens that had to wait, for those who judge them again; others find the same meanwhile."""

    def __init__(self) -> None:
        self._outcomes: dict[str, list[T | TokenError]] = {}

    def __contains__(self, token: str) -> bool:
        return token in self._outcomes

    def __len__(self) -> int:
        return len(self._outcomes)

    def get(self, token: str) -> T:
        """Return the outcome of a token. Raises TokenError for one that is an error."""
        outcome = self._outcomes[token][0]
        if isinstance(outcome, TokenError):
            raise TokenError(str(outcome))
        return outcome

    @contextmanager
    def of(self, token: str, outcome: list[T | TokenError]) -> Iterator[None]:
        """Judge a token within this by its outcome."""
        known = self._outcomes.setdefault(token, [])
        known += outcome
        try:
            yield
        finally:
            del known[0]
            if not known:
                del self._outcomes[token]
