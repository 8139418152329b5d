"""The bearer tokens that a server accepts: those of its token file, of service accounts, and of other issuers.

Upstream: `newServiceAccountAuthenticator` and its neighbours in k8s.io/kubernetes/pkg/kubeapiserver/authenticator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from time import monotonic
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.counted.token_cache import TokenCache
from understudy.apiserver.authentication.errors import TokenError
from understudy.apiserver.authentication.service_accounts.account_tokens import AccountTokens
from understudy.apiserver.authentication.service_accounts.legacy_tokens import Lookup
from understudy.machinery.auth.users import User
from understudy.machinery.types import dataclass

if TYPE_CHECKING:
    from understudy.apiserver.authentication.bootstrap_tokens import BootstrapTokens
    from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator
    from understudy.apiserver.authentication.webhook import WebhookTokens


@dataclass(frozen=True, slots=True)
class Tokens:
    """Knows the users of bearer tokens.

    accounts  issues and verifies the tokens of service accounts
    lookup    returns the object of (group, resource, namespace, name): accounts, and what their tokens are bound to
    users     those of --token-auth-file, by their tokens
    jwt_authenticators
              know users by tokens of other issuers; replaced in place when their configuration changes
    webhook   knows users by all tokens that nobody else knows
    bootstrap knows users by the tokens with which nodes join
    cache     counts the tokens that were good a moment ago
    """

    accounts: AccountTokens
    lookup: Lookup
    users: Mapping[str, User] = field(default_factory=dict)
    jwt_authenticators: list[JWTAuthenticator] = field(default_factory=list)
    webhook: WebhookTokens | None = None
    bootstrap: BootstrapTokens | None = None
    cache: TokenCache = field(default_factory=TokenCache)

    def user_of(
        self, token: str, audiences: Sequence[str] = (), warnings: list[str] | None = None
    ) -> tuple[User, list[str]]:
        """Return the user of a bearer token, and which of the audiences the token is for; without any, the server's.
        May add to `warnings`.

        Tokens of --token-auth-file and of other issuers are for this server only. Raises TokenError, TokenAwaitedError,
        and DecisionAwaitedError if a webhook has to be asked.
        """
        key = (token, *audiences)
        if self.cache.hit(key):
            return self._look_up(token, audiences, warnings)
        begun = monotonic()
        try:
            user, meant = self._look_up(token, audiences, warnings)
        except TokenError as error:
            self.cache.miss(key, monotonic() - begun, good=False, failed=bool(str(error)))
            raise
        self.cache.miss(key, monotonic() - begun, good=True)
        return user, meant

    def _look_up(self, token: str, audiences: Sequence[str], warnings: list[str] | None) -> tuple[User, list[str]]:
        """Return the user of a token and its audiences, as `user_of` does. Raises as it does."""
        own = self.accounts.audiences
        known = self.users.get(token)
        if known is None:
            try:
                return self.accounts.user(token, audiences or own, self.lookup, warnings)
            except TokenError as error:
                known = None if self.bootstrap is None else self.bootstrap.user(token, self.lookup)
                if known is None and self.webhook is not None:
                    return self._outside_user(self.webhook, token, audiences or own, error)
                known = known or self._jwt_user(token, error)
        return known, self._meant(audiences)

    def annotations(self, token: str) -> Mapping[str, str]:
        """Return the annotations of the audit log about a bearer token that is good."""
        return {} if token in self.users else self.accounts.annotations(token, self.lookup)

    def _meant(self, audiences: Sequence[str]) -> list[str]:
        """Return those of the audiences that are this server's own. Raises TokenError if none is."""
        own = self.accounts.audiences
        if not (meant := [audience for audience in audiences or own if audience in own]):
            raise TokenError
        return meant

    def _outside_user(
        self, webhook: WebhookTokens, token: str, audiences: Sequence[str], error: TokenError
    ) -> tuple[User, list[str]]:
        """Return the user of a token that other issuers or the webhook know, and the audiences that it is for."""
        try:
            return self._jwt_user(token, error), self._meant(audiences)
        except TokenError as others:
            reasons = str(others)
        try:
            return webhook.user(token, audiences)
        except TokenError as reason:
            raise TokenError(", ".join(filter(None, (reasons, str(reason))))) from None

    def _jwt_user(self, token: str, error: TokenError) -> User:
        """Return the user of another issuer's token. Raises TokenError with all reasons, beginning with `error`."""
        reasons = [str(error)]
        for authenticator in self.jwt_authenticators:
            try:
                return authenticator.user(token)
            except TokenError as reason:
                reasons.append(str(reason))
        raise TokenError(", ".join(filter(None, reasons)))
