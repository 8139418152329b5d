"""Finds out who sends a request, from the client's certificate or its bearer token.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from understudy.apiserver.authentication.bearer_token import PROTOCOLS, header_token, protocol_token
from understudy.apiserver.authentication.certificates.user_headers import STANDARD
from understudy.apiserver.authentication.errors import CertificateError, TokenError
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.machinery.auth.users import ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User
from understudy.machinery.errors import unauthorized

if TYPE_CHECKING:
    from understudy.apiserver.authentication.certificates.client_certificates import ClientCertificates
    from understudy.apiserver.authentication.certificates.request_headers import FrontProxies

log = logging.getLogger("understudy")


# Who sends a request without credentials, where that is allowed.
NOBODY = User(ANONYMOUS, [UNAUTHENTICATED])


class TokenFileError(ValueError):
    """A token file that cannot be read; str(error) names the file and the line."""


def read_tokens(path: Path) -> dict[str, User]:
    """Return the users of a token file by token. Raises TokenFileError.

    Lines are `token,user,uid,"group1,group2"`. The log reports tokens that are empty, which are left out, of repeated
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
                groups = row[3].split(",") if len(row) > 3 else []  # one without name, if there is nothing between
                tokens[row[0]] = completed(User(row[1], groups, row[2]))  # once, not for each request
    except OSError as why:
        raise TokenFileError(f"{path}: {why.strerror}") from None
    if not tokens:
        log.warning("no token has been found in token file '%s': every request will be refused", path)
    return tokens


class UserOf(Protocol):
    """Returns the user of a token, and the audiences that it is for."""

    def __call__(self, token: str, *, warnings: list[str]) -> tuple[User, list[str]]:
        """May add to `warnings`. Raises TokenError."""


class Authenticator:
    """Finds out who sends a request, from the client's certificate or bearer token.

    user_of    returns the user of a token, and its audiences; knows service accounts too
    loopback   the tokens of the clients inside this process
    certificates
               knows the users of client certificates; None where clients are not asked for any
    front_proxies
               knows the users whom front proxies name in headers; None where there are none
    is_open    whether everybody is an administrator, also with a wrong token or certificate
    anonymous  whether requests without token and certificate are those of `system:anonymous`; wrong ones are refused
    anonymous_paths
               the paths for which they are, none for all
    user_headers
               the headers that name users
    """

    def __init__(
        self,
        user_of: UserOf,
        loopback: LoopbackTokens,
        certificates: ClientCertificates | None = None,
        front_proxies: FrontProxies | None = None,
        *,
        is_open: bool = False,
        anonymous: bool = False,
        anonymous_paths: Collection[str] = (),
    ) -> None:
        self._nobody: User | None = None  # who sends a request without a token
        self._wrong: User | None = None  # who sends one with a wrong token
        if is_open:
            self._nobody = self._wrong = User("system:admin", [MASTERS, AUTHENTICATED])
        elif anonymous:
            self._nobody = NOBODY
        self._user_of = user_of
        self._loopback = loopback
        self._certificates = certificates
        self._front_proxies = front_proxies
        self.user_headers = STANDARD if front_proxies is None else front_proxies.user_headers
        self._anonymous_paths = frozenset(anonymous_paths)

    def authenticate(
        self, headers: Mapping[str, str], warnings: list[str], path: str = "", certificates: tuple[bytes, ...] = ()
    ) -> User:
        """Return the user who sends a request with these headers; may add to `warnings`. Raises 401, TokenAwaitedError.

        The headers of a front proxy go before a good certificate, and that before a token. `certificates` are in DER,
        the client's own first.
        """
        authorization, protocols = headers.get("Authorization"), headers.get(PROTOCOLS)
        anyone = self._nobody
        if certificates:
            owner, is_wrong = self._certified(certificates, headers)
            if owner is not None:
                return completed(owner)
            anyone = self._wrong if is_wrong else anyone
        if authorization and (token := header_token(authorization, warnings)):
            if (user := self._bearer(token, warnings)) is not None:
                return user
            anyone = self._wrong
        if protocols and (token := protocol_token(headers)):
            if (user := self._bearer(token, warnings)) is not None:
                return user
            anyone = self._wrong
        if anyone is None or (anyone is NOBODY and self._anonymous_paths and path not in self._anonymous_paths):
            raise unauthorized()
        return anyone

    def _certified(self, certificates: tuple[bytes, ...], headers: Mapping[str, str]) -> tuple[User | None, bool]:
        """Return the user of certificates, None if they name none, and whether they are refused in any way."""
        is_wrong = False
        for way in (self._front_proxies, self._certificates):
            try:
                if way is not None and (owner := way.user(certificates, headers)) is not None:
                    return owner, False
            except CertificateError as error:
                log.debug("client certificate: %s", error)
                is_wrong = True
        return None, is_wrong

    def _bearer(self, token: str, warnings: list[str]) -> User | None:
        """Return the user of a token, None if it is not good."""
        user = self._loopback.user(token)
        if user is None:
            try:
                user, _ = self._user_of(token, warnings=warnings)
            except TokenError:
                return None
        return completed(user)


def completed(user: User) -> User:
    """Return a user with the group of those who are known. Upstream: `AuthenticatedGroupAdder`."""
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return User(user.name, [*user.groups, AUTHENTICATED], user.uid, user.extra)
