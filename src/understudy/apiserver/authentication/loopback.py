"""The identities of clients inside the server's own process."""

from __future__ import annotations

import secrets

from understudy.machinery.auth.users import MASTERS, User

# Upstream: `user.APIServerUser`, as which kube-apiserver asks itself.
APISERVER = User("system:apiserver", [MASTERS])


class LoopbackTokens:
    """Bearer tokens that only this process knows. Upstream: the token of `LoopbackClientConfig`."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def issue(self, user: User) -> str:
        """Return a new token of a user, valid as long as the server."""
        token = secrets.token_urlsafe(32)
        self._users[token] = user
        return token

    def user(self, token: str) -> User | None:
        """Return the user of a token, None for one that was not issued here."""
        return self._users.get(token)
