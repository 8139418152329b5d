"""Authentication of requests: bearer tokens of a file and of service accounts, and whom their users act as.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from understudy.apiserver.authentication.bearer_token import PROTOCOL_PREFIX, PROTOCOLS, header_token, protocol_token
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
    """Tells whose a request is by its bearer token. `user_of` knows the tokens of the file and of service accounts.

    Without a token file everybody is an administrator. With one a request needs a good token: as nothing is authorized
    here, nobody is anonymous (kube-apiserver resets `--anonymous-auth` where its authorizer is AlwaysAllow).
    `anonymous` lets requests without credentials in all the same: over plain HTTP, which kube-apiserver does not speak,
    kubectl sends no token.
    """

    def __init__(
        self,
        tokens: Mapping[str, User] | None,
        user_of: Callable[[str], tuple[User, list[str]]],
        *,
        anonymous: bool,
    ) -> None:
        self._tokens = tokens
        self._user_of = user_of
        self._anonymous = anonymous
        self.any_token = next(iter(tokens), "") if tokens else ""  # what the server itself, and its kubeconfig, use
        self._anyone = User("system:admin", [MASTERS, AUTHENTICATED])

    def user(self, headers: Mapping[str, str], warnings: list[str]) -> User:
        """Return the user who asks, or the one they act as; may add to `warnings`. Raises 401, ImpersonationError."""
        user = self._authenticated(headers, warnings)
        return impersonated(headers) or user

    def _authenticated(self, headers: Mapping[str, str], warnings: list[str]) -> User:
        authorization, protocols = headers.get("Authorization"), headers.get(PROTOCOLS)
        user = self._bearer(header_token(authorization, warnings)) if authorization else None
        if user is None and protocols:
            user = self._bearer(protocol_token(headers))
        if user is not None:
            return user
        if self._tokens is None:
            return self._anyone
        if self._anonymous and authorization is None and PROTOCOL_PREFIX not in (protocols or ""):
            return User(ANONYMOUS, [UNAUTHENTICATED])
        raise unauthorized()

    def _bearer(self, token: str) -> User | None:
        """Return the user of a token, None if it is empty or not good."""
        if not token:
            return None
        try:
            known, _ = self._user_of(token)
        except TokenError:
            return None
        return User(known.name, [*known.groups, AUTHENTICATED], known.uid, known.extra)
