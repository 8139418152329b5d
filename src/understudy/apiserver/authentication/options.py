"""The options of a server that say how users are known. Upstream: `BuiltInAuthenticationOptions`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.apiserver.authentication.authenticator import read_tokens
from understudy.apiserver.authentication.service_accounts.account_tokens import ISSUER, AccountTokenOptions
from understudy.machinery.auth.users import User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass

if TYPE_CHECKING:
    from understudy.apiserver.authentication.certificates.authorities import Authorities
    from understudy.apiserver.authentication.jose import PublicKey
    from understudy.apiserver.authentication.oidc.configuration import Configuration

PathLike = str | os.PathLike[str]
T = TypeVar("T")


def flag(usage: str, metavar: str | None = None) -> dict[str, str | None]:
    """Return the metadata of an option that is a flag as well: what `--help` says about it."""
    return {"help": usage, "metavar": metavar}


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AuthenticationOptions:
    """The options that say how users are known.

    token_auth_file         a file of tokens, of which every request must have one; without it everybody may do all
    client_ca_file          certificates (PEM) of the authorities that sign client certificates: the common name is the
                            user, organizations are the groups. With it, too, every request must name its user. It is
                            read again when it changes
    enable_bootstrap_token_auth
                            whether Secrets of the type "bootstrap.kubernetes.io/token" in kube-system are tokens of
                            nodes that join
    anonymous_auth          whether requests without a token are those of `system:anonymous`, where they are authorized
    service_account_issuer  issuers of service accounts' tokens: the first one issues, tokens of all are accepted
    service_account_signing_key_file
                            the private key (PEM, RSA or elliptic curve) that signs these tokens; by default one that is
                            made for the server
    service_account_key_file
                            keys (PEM, public or private) that verify these tokens; by default the one that signs them
    service_account_lookup  whether tokens that are kept in Secrets are good only while Secret and account are there
    api_audiences           audiences of the server itself, by default the issuers
    oidc_issuer_url, oidc_client_id
                            an issuer of OpenID Connect whose tokens name users, and the audience that they must be for
    oidc_username_claim, oidc_username_prefix, oidc_groups_claim, oidc_groups_prefix
                            the claims that name the user and the groups, and what is put before them; users have the
                            issuer before them by default, but for those named by "email". "-" is no prefix
    oidc_required_claim     {claim: value} that tokens must have
    oidc_ca_file            certificates (PEM) that verify the issuer's, by default those of the machine
    oidc_signing_algs       algorithms that may have signed the tokens, by default RS256
    authentication_config   an AuthenticationConfiguration: several issuers, with CEL expressions, and the paths that
                            may be asked for without credentials. A `discoveryURL` may be a file here (`file:///path`),
                            with the discovery document or with the keys
    """

    token_auth_file: PathLike | None = field(default=None, metadata=flag("lines of token,user,uid,groups", "PATH"))
    client_ca_file: PathLike | None = field(
        default=None, metadata=flag("authorities (PEM) whose client certificates are accepted", "PATH")
    )
    enable_bootstrap_token_auth: bool = field(
        default=False, metadata=flag("accept bootstrap tokens, which are Secrets in kube-system", "BOOL")
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
    service_account_lookup: bool = field(
        default=True, metadata=flag("look for the Secrets of tokens that are kept there (default: true)", "BOOL")
    )
    api_audiences: Sequence[str] = field(
        default=(), metadata=flag("audiences of this server (default: the issuers)", "A,B")
    )

    oidc_issuer_url: str = field(default="", metadata=flag("issuer of OpenID Connect", "URL"))
    oidc_client_id: str = field(default="", metadata=flag("audience that its tokens must be for", "ID"))
    oidc_username_claim: str = field(default="sub", metadata=flag("claim with the user (default: sub)", "CLAIM"))
    oidc_username_prefix: str = field(default="", metadata=flag("before the user (default: the issuer)", "PREFIX"))
    oidc_groups_claim: str = field(default="", metadata=flag("claim with the groups", "CLAIM"))
    oidc_groups_prefix: str = field(default="", metadata=flag("before each group", "PREFIX"))
    oidc_required_claim: Mapping[str, str] | None = field(
        default=None, metadata=flag("claims that tokens must have", "CLAIM=VALUE")
    )
    oidc_ca_file: PathLike | None = field(default=None, metadata=flag("authorities (PEM) of the issuer", "PATH"))
    oidc_signing_algs: Sequence[str] = field(
        default=("RS256",), metadata=flag("algorithms of its tokens (default: RS256)", "A,B")
    )
    authentication_config: PathLike | None = field(
        default=None, metadata=flag("an AuthenticationConfiguration", "PATH")
    )

    @cached_property
    def tokens(self) -> Mapping[str, User] | None:
        """Return the users of `token_auth_file` by token, None without one. Raises TokenFileError."""
        return read_tokens(Path(self.token_auth_file)) if self.token_auth_file else None

    @cached_property
    def client_authorities(self) -> Authorities | None:
        """Return the certificates of `client_ca_file`, None without one. Raises ValueError."""
        return read_authorities("client-ca-file", self.client_ca_file)

    @cached_property
    def account_tokens(self) -> AccountTokenOptions:
        """Return the issuers, audiences and keys of service account tokens. Raises ValueError."""
        issuers, file = self.service_account_issuer, self.service_account_signing_key_file
        if not issuers or "" in issuers:
            raise ValueError("service-account-issuer should not be an empty string")
        for place, issuer in enumerate(issuers):
            if issuer in issuers[:place]:
                raise ValueError(f"service-account-issuer {go_quote(issuer)} is already specified")
        if self.service_account_key_file and not file:
            raise ValueError("--service-account-key-file needs --service-account-signing-key-file")
        if not file:
            return AccountTokenOptions(issuers, self.api_audiences, looks_up=self.service_account_lookup)
        from understudy.apiserver.authentication import jose  # cryptography

        signing_key = read_flag_file("service-account-signing-key-file", jose.read_private_key, file)
        jose.algorithm_of(signing_key.public_key())
        keys: list[PublicKey] = []
        for key_file in self.service_account_key_file:
            keys += read_flag_file("service-account-key-file", jose.read_public_keys, key_file)
        return AccountTokenOptions(issuers, self.api_audiences, signing_key, keys, self.service_account_lookup)

    @cached_property
    def authentication_data(self) -> bytes:
        """Return the bytes of the file of `authentication_config`, as it is read first. Raises ValueError."""
        assert self.authentication_config is not None
        return read_flag_file("authentication-config", Path.read_bytes, self.authentication_config)

    def configuration(self, version: Version, gates: Gates) -> Configuration | None:
        """Return the configuration in `authentication_config` or the `oidc` options, if any. Raises ValueError."""
        names = [option.name for option in fields(AuthenticationOptions) if option.name.startswith("oidc_")]
        defaults = {option.name: option.default for option in fields(AuthenticationOptions)}
        has_flags = any(getattr(self, name) not in (defaults[name], None) for name in names)
        if not has_flags and not self.authentication_config:
            return None
        from understudy.apiserver.authentication import jose  # cryptography
        from understudy.apiserver.authentication.oidc import configuration  # CEL

        if self.authentication_config:
            if not gates[features.STRUCTURED_AUTHENTICATION_CONFIGURATION]:
                gate = "StructuredAuthenticationConfiguration"
                raise ValueError(f"set --feature-gates={gate}=true to use authentication-config file")
            if has_flags:
                raise ValueError("authentication-config file and oidc-* flags are mutually exclusive")
            path = Path(self.authentication_config)
            loaded = configuration.load_configuration(path, self.authentication_data, version)
            algorithms: Sequence[str] = jose.ALGORITHMS
        else:
            if not self.oidc_issuer_url or not self.oidc_client_id:
                text = "must be specified together when any oidc-* flags are set"
                raise ValueError(f"oidc-issuer-url and oidc-client-id {text}")
            loaded, algorithms = self._configuration_of_flags(), self.oidc_signing_algs
        return configuration.checked(loaded, algorithms, version, gates, self.service_account_issuer)

    def _configuration_of_flags(self) -> Obj:
        from understudy.apiserver.authentication.oidc.configuration import configuration_of_flags  # CEL

        authority = read_flag_file("oidc-ca-file", Path.read_text, self.oidc_ca_file) if self.oidc_ca_file else ""
        return configuration_of_flags(
            self.oidc_issuer_url,
            self.oidc_client_id,
            username_claim=self.oidc_username_claim,
            username_prefix=self.oidc_username_prefix,
            groups_claim=self.oidc_groups_claim,
            groups_prefix=self.oidc_groups_prefix,
            required_claims=self.oidc_required_claim or {},
            certificate_authority=authority,
        )


def read_flag_file(name: str, read: Callable[[Path], T], path: PathLike) -> T:
    """Read the file of a flag. Raises ValueError that names flag and file."""
    try:
        return read(Path(path))
    except OSError as error:
        raise ValueError(f"--{name}: {path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"--{name}: {path}: {error}") from None


def read_authorities(name: str, path: PathLike | None) -> Authorities | None:
    """Read the certificates (PEM) in the file of a flag; return None without one. Raises ValueError."""
    if not path:
        return None
    from understudy.apiserver.authentication.certificates.authorities import Authorities  # cryptography

    return read_flag_file(name, Authorities, path)
