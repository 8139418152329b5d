"""Who asks: bearer tokens from a file, whom they act as, and nobody in particular.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from understudy.apiserver.authentication.impersonation import impersonated
from understudy.apiserver.authentication.service_account_tokens import TokenError
from understudy.machinery.errors import unauthorized
from understudy.machinery.users import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User


class TokenFileError(ValueError):
    """str(e) names the file and the line."""


def read_tokens(path: Path) -> dict[str, User]:
    """{token: user} of a file with lines `token,user,uid,"group1,group2"`. Raises TokenFileError."""
    tokens: dict[str, User] = {}
    try:
        with path.open(newline="") as lines:
            for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
                if not row:
                    continue
                if len(row) < 3:
                    raise TokenFileError(f"{path}, line {number}: want at least token, user and uid")
                groups = [g.strip() for g in row[3].split(",") if g.strip()] if len(row) > 3 else []
                tokens[row[0]] = User(row[1], groups, row[2])
    except OSError as why:
        raise TokenFileError(f"{path}: {why.strerror}") from None
    return tokens


class Authenticator:
    """Without tokens everybody may do everything, as one user; with tokens a wrong one is refused. `user_of` tells
    whose a token is, service accounts' included."""

    def __init__(self, tokens: Mapping[str, User] | None, user_of: Callable[[str], tuple[User, list[str]]]) -> None:
        self._tokens = tokens
        self._user_of = user_of
        self.any_token = next(iter(tokens), "") if tokens else ""  # what the server itself, and its kubeconfig, use
        self._anyone = User("system:admin", [MASTERS, AUTHENTICATED])

    def user(self, headers: Mapping[str, str]) -> User:
        """Who asks, or who they act as. Raises 401, ImpersonationError."""
        user = self._asking(headers.get("Authorization", ""))
        return impersonated(headers) or user

    def _asking(self, header: str) -> User:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return self._anyone if self._tokens is None else User(ANONYMOUS, [UNAUTHENTICATED])
        try:
            known, _ = self._user_of(token.strip())
        except TokenError:
            if self._tokens is None:
                return self._anyone
            raise unauthorized() from None
        return User(known.name, [*known.groups, AUTHENTICATED], known.uid, known.extra)
