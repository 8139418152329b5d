"""The options of a server that say how users are known. Upstream: `BuiltInAuthenticationOptions`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.apiserver.authentication.authenticator import read_tokens
from understudy.apiserver.authentication.service_account_tokens import ISSUER, AccountTokenOptions
from understudy.machinery.golang.text import go_quote
from understudy.machinery.users import User

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from understudy.apiserver.authentication.jose import PublicKey

PathLike = str | os.PathLike[str]
T = TypeVar("T")


def flag(usage: str, metavar: str | None = None) -> dict[str, str | None]:
    """Return the metadata of an option that is a flag as well: what `--help` says about it."""
    return {"help": usage, "metavar": metavar}


@dataclass(frozen=True, kw_only=True, eq=False)
class AuthenticationOptions:
    """The options that say how users are known.

    token_auth_file         a file of tokens, of which every request must have one; without it everybody may do all
    client_ca_file          certificates (PEM) of the authorities that sign client certificates: the common name is the
                            user, organizations are the groups. With it, too, every request must say whose it is
    anonymous_auth          whether requests without a token are those of `system:anonymous`, where they are authorized
    service_account_issuer  issuers of service accounts' tokens: the first one issues, tokens of all are accepted
    service_account_signing_key_file
                            the private key (PEM, RSA or elliptic curve) that signs these tokens; by default one that is
                            made for the server
    service_account_key_file
                            keys (PEM, public or private) that verify these tokens; by default the one that signs them
    api_audiences           audiences of the server itself, by default the issuers
    """

    token_auth_file: PathLike | None = field(default=None, metadata=flag("lines of token,user,uid,groups", "PATH"))
    client_ca_file: PathLike | None = field(
        default=None, metadata=flag("authorities (PEM) whose client certificates are accepted", "PATH")
    )
    anonymous_auth: bool = field(
        default=True, metadata=flag("serve requests without a token, if they are authorized (default: true)", "BOOL")
    )
    service_account_issuer: Sequence[str] = field(
        default=(ISSUER,), metadata=flag(f"issuers of service accounts' tokens (default: {ISSUER})", "URL,URL")
    )
    service_account_signing_key_file: PathLike | None = field(
        default=None, metadata=flag("private key (PEM) that signs service accounts' tokens", "PATH")
    )
    service_account_key_file: Sequence[str] = field(
        default=(), metadata=flag("keys (PEM) that verify service accounts' tokens", "PATH,PATH")
    )
    api_audiences: Sequence[str] = field(
        default=(), metadata=flag("audiences of this server (default: the issuers)", "A,B")
    )

    @cached_property
    def tokens(self) -> Mapping[str, User] | None:
        """Return the users of `token_auth_file` by token, None without one. Raises TokenFileError."""
        return read_tokens(Path(self.token_auth_file)) if self.token_auth_file else None

    @cached_property
    def client_authorities(self) -> Sequence[Certificate]:
        """Return the certificates of `client_ca_file`, none without one. Raises ValueError."""
        if not self.client_ca_file:
            return ()
        from cryptography.x509 import load_pem_x509_certificates

        return _read("client-ca-file", lambda path: load_pem_x509_certificates(path.read_bytes()), self.client_ca_file)

    @cached_property
    def account_tokens(self) -> AccountTokenOptions:
        """Return how tokens of service accounts are signed and known. Raises ValueError."""
        issuers, file = self.service_account_issuer, self.service_account_signing_key_file
        if not issuers or "" in issuers:
            raise ValueError("service-account-issuer should not be an empty string")
        for place, issuer in enumerate(issuers):
            if issuer in issuers[:place]:
                raise ValueError(f"service-account-issuer {go_quote(issuer)} is already specified")
        if self.service_account_key_file and not file:
            raise ValueError("--service-account-key-file needs --service-account-signing-key-file")
        if not file:
            return AccountTokenOptions(issuers, self.api_audiences)
        from understudy.apiserver.authentication import jose  # cryptography

        signing_key = _read("service-account-signing-key-file", jose.read_private_key, file)
        jose.algorithm_of(signing_key.public_key())
        keys: list[PublicKey] = []
        for key_file in self.service_account_key_file:
            keys += _read("service-account-key-file", jose.read_public_keys, key_file)
        return AccountTokenOptions(issuers, self.api_audiences, signing_key, keys)


def _read(name: str, read: Callable[[Path], T], path: PathLike) -> T:
    """Return what is in the file of a flag. Raises ValueError that names both."""
    try:
        return read(Path(path))
    except OSError as error:
        raise ValueError(f"--{name}: {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"--{name}: {path}: {error}") from None
