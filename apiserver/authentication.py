"""Who asks: bearer tokens from a file, impersonation, and nobody in particular.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote

from understudy.apiserver.accounttokens import TokenError
from understudy.apiserver.call import User
from understudy.apiserver.errors import unauthorized

SERVICE_ACCOUNT = "system:serviceaccount:"
AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"


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
        """Raises 401."""
        user = self._asking(headers.get("Authorization", ""))
        impersonated = headers.get("Impersonate-User", "")
        return self._impersonated(headers, impersonated) if impersonated else user

    def _asking(self, header: str) -> User:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return self._anyone if self._tokens is None else User("system:anonymous", [UNAUTHENTICATED])
        try:
            known, _ = self._user_of(token.strip())
        except TokenError:
            if self._tokens is None:
                return self._anyone
            raise unauthorized() from None
        return User(known.name, [*known.groups, AUTHENTICATED], known.uid, known.extra)

    @staticmethod
    def _impersonated(headers: Mapping[str, str], name: str) -> User:
        getall = getattr(headers, "getall", None)
        groups = list(getall("Impersonate-Group", [])) if getall else []
        extra: dict[str, list[str]] = {}
        for header, value in headers.items():
            lowered = header.lower()
            if lowered.startswith("impersonate-extra-"):
                extra.setdefault(unquote(lowered.removeprefix("impersonate-extra-")), []).append(value)
        account = name.removeprefix(SERVICE_ACCOUNT).split(":") if name.startswith(SERVICE_ACCOUNT) else []
        if len(account) == 2 and not groups:
            groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
        if name != "system:anonymous" and AUTHENTICATED not in groups:
            groups.append(AUTHENTICATED)
        elif name == "system:anonymous" and not groups:
            groups.append(UNAUTHENTICATED)
        return User(name, groups, headers.get("Impersonate-Uid", ""), extra)
