"""Finds out who sends a request, from its bearer token.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from understudy.apiserver.authentication.bearer_token import PROTOCOLS, header_token, protocol_token
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.authentication.service_account_tokens import TokenError
from understudy.machinery.errors import unauthorized
from understudy.machinery.users import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User

log = logging.getLogger("understudy")


class TokenFileError(ValueError):
    """A token file that cannot be read; str(error) names the file and the line."""


def read_tokens(path: Path) -> dict[str, User]:
    """Return the users of a token file by token. Raises TokenFileError.

    Lines are `token,user,uid,"group1,group2"`. The log tells of tokens that are empty, which are left out, of repeated
    ones, of which the last counts, and of a file without any. Upstream: `tokenfile.NewCSV`.
    """
    tokens: dict[str, User] = {}
    records = 0
    try:
        with path.open(newline="") as file:
            lines = csv.reader(file, skipinitialspace=True)
            for row in filter(None, lines):
                records += 1
                if len(row) < 3:
                    raise TokenFileError(f"{path}, line {lines.line_num}: want at least token, user and uid")
                if not row[0]:
                    log.warning("empty token has been found in token file '%s', record number '%d'", path, records)
                    continue
                if row[0] in tokens:
                    log.warning("duplicate token has been found in token file '%s', record number '%d'", path, records)
                groups = [g.strip() for g in row[3].split(",") if g.strip()] if len(row) > 3 else []
                tokens[row[0]] = User(row[1], groups, row[2])
    except OSError as why:
        raise TokenFileError(f"{path}: {why.strerror}") from None
    if not tokens:
        log.warning("no token has been found in token file '%s': every request will be refused", path)
    return tokens


class Authenticator:
    """Finds out who sends a request, from its bearer token.

    tokens     the users of --token-auth-file by token, None without such a file
    user_of    returns whose a token is, and its audiences; knows service accounts too. Raises TokenError
    loopback   the tokens of the clients inside this process
    authorized
               whether requests are authorized, so that nobody is an administrator without a token
    anonymous  whether requests without a token are anonymous then; a wrong token is refused anyway

    Where nothing is authorized, everybody is an administrator without a token file. With one every request needs a good
    token, health checks included: nobody is anonymous (kube-apiserver resets `--anonymous-auth` where its authorizer is
    AlwaysAllow).
    """

    def __init__(
        self,
        tokens: Mapping[str, User] | None,
        user_of: Callable[[str], tuple[User, list[str]]],
        loopback: LoopbackTokens,
        *,
        authorized: bool = False,
        anonymous: bool = True,
    ) -> None:
        self._nobody: User | None = None  # who sends a request without a token
        self._wrong: User | None = None  # who sends one with a wrong token
        if authorized:
            self._nobody = User(ANONYMOUS, [UNAUTHENTICATED]) if anonymous else None
        elif tokens is None:
            self._nobody = self._wrong = User("system:admin", [MASTERS, AUTHENTICATED])
        self._user_of = user_of
        self._loopback = loopback

    def authenticate(self, headers: Mapping[str, str], warnings: list[str]) -> User:
        """Return who sends a request with these headers; may add to `warnings`. Raises 401."""
        authorization, protocols = headers.get("Authorization"), headers.get(PROTOCOLS)
        anyone = self._nobody
        if authorization and (token := header_token(authorization, warnings)):
            if (user := self._bearer(token)) is not None:
                return user
            anyone = self._wrong
        if protocols and (token := protocol_token(headers)):
            if (user := self._bearer(token)) is not None:
                return user
            anyone = self._wrong
        if anyone is None:
            raise unauthorized()
        return anyone

    def _bearer(self, token: str) -> User | None:
        """Return the user of a token, None if it is not good."""
        user = self._loopback.user(token)
        if user is None:
            try:
                user, _ = self._user_of(token)
            except TokenError:
                return None
        return User(user.name, [*user.groups, AUTHENTICATED], user.uid, user.extra)
