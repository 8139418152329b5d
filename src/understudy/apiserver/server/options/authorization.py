"""The options of a server that say who decides what users may do. Upstream: `BuiltInAuthorizationOptions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.apiserver.authorization.modes import ABAC, ALWAYS_ALLOW, MODES, WEBHOOK, mode_problems
from understudy.apiserver.server.options.values import nanoseconds
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass

if TYPE_CHECKING:
    from understudy.admission.generic_webhook import Endpoint
    from understudy.apiserver.authorization.abac.authorizer import Policy
    from understudy.apiserver.authorization.configuration.file import AuthorizerConfiguration

_BESIDE_CONFIGURATION = {"authorization_config", "authorization_policy_file"}


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AuthorizationOptions:
    """The options that say who decides what users may do. Raises ValueError for options that make no sense.

    authorization_mode      who is asked, in this order: "AlwaysAllow", "RBAC", "Node", "ABAC", "Webhook",
                            "AlwaysDeny". By default everybody may do all. Members of `system:masters` may in any case
    authorization_config    an AuthorizationConfiguration: authorizers in their order, of which several may be webhooks
                            with match conditions. It is read again when it changes, and excludes the mode and the
                            options of the webhook
    authorization_policy_file
                            the policies of "ABAC", one in JSON a line
    authorization_webhook_config_file
                            a kubeconfig of the server that "Webhook" asks with SubjectAccessReviews
    authorization_webhook_version
                            the version of these reviews, "v1beta1" or "v1"
    authorization_webhook_cache_authorized_ttl, authorization_webhook_cache_unauthorized_ttl
                            how long its answers are kept, as Go writes it ("5m0s"): those that allow, and others. "0s"
                            asks each time
    """

    authorization_mode: Sequence[str] = field(
        default=(ALWAYS_ALLOW,),
        metadata=flag(f"who is asked, in this order: {', '.join(MODES)} (default: {ALWAYS_ALLOW})", "A,B"),
    )
    authorization_config: PathLike | None = field(
        default=None, metadata=flag("an AuthorizationConfiguration, instead of a mode", "PATH")
    )
    authorization_policy_file: PathLike | None = field(
        default=None, metadata=flag("the policies of ABAC, one in JSON a line", "PATH")
    )
    authorization_webhook_config_file: PathLike | None = field(
        default=None, metadata=flag("a kubeconfig of the server that authorizes", "PATH")
    )
    authorization_webhook_version: str = field(
        default="v1beta1", metadata=flag("the version of reviews, v1beta1 or v1 (default: %(default)s)", "VERSION")
    )
    authorization_webhook_cache_authorized_ttl: str = field(
        default="5m0s", metadata=flag("how long answers that allow are kept (default: %(default)s)", "DURATION")
    )
    authorization_webhook_cache_unauthorized_ttl: str = field(
        default="30s", metadata=flag("how long other answers are kept (default: %(default)s)", "DURATION")
    )

    def check_authorization(self) -> None:
        """Raise ValueError for modes and their options that make no sense, with the texts of kube-apiserver."""
        _ = self.authorization_ttls
        files = self.authorization_policy_file, self.authorization_webhook_config_file
        problems = mode_problems(self.authorization_mode, *map(bool, files))
        if problems:
            raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        _ = self.authorization_policies, self.authorization_webhook

    def read_authorizers(self, version: Version, gates: Gates) -> tuple[bytes, Sequence[AuthorizerConfiguration]]:
        """Return the bytes of `authorization_config`, and its authorizers. Raises ValueError, for options that it
        excludes as well."""
        if not gates[features.STRUCTURED_AUTHORIZATION_CONFIGURATION]:
            gate = "StructuredAuthorizationConfiguration"
            raise ValueError(f"--authorization-config cannot be used without enabling {gate} feature flag")
        options = {option.name: option.default for option in fields(AuthorizationOptions)}
        if any(getattr(self, name) != options[name] for name in options.keys() - _BESIDE_CONFIGURATION):
            flags = "--authorization-mode or --authorization-webhook-* flags"
            raise ValueError(f"--authorization-config can not be specified when {flags} are defined")
        from understudy.apiserver.authorization.configuration.validation import load_authorizers  # CEL

        path = Path(self.authorization_config or "")
        try:
            data = path.read_bytes()
        except OSError as why:
            raise ValueError(f"open {path}: {(why.strerror or str(why)).lower()}") from None
        loaded = load_authorizers(data, version, selectors=gates[features.AUTHORIZE_WITH_SELECTORS])
        if any(each.type == ABAC for each in loaded):
            if not self.authorization_policy_file:
                raise ValueError("invalid authorization config: open : no such file or directory")
            _ = self.authorization_policies
        return data, loaded

    @property
    def authorized(self) -> bool:
        """Report whether a user may be refused something, as far as options say. A configuration may not."""
        return bool(self.authorization_config) or ALWAYS_ALLOW not in self.authorization_mode

    @cached_property
    def authorization_ttls(self) -> tuple[float, float]:
        """Return the seconds that answers are kept which allow, and others. Raises ValueError."""
        authorized = nanoseconds(self, "authorization_webhook_cache_authorized_ttl")
        return authorized / 1e9, nanoseconds(self, "authorization_webhook_cache_unauthorized_ttl") / 1e9

    @cached_property
    def authorization_policies(self) -> Sequence[Policy]:
        """Return the policies that "ABAC" asks, none without it. Raises ValueError."""
        if not self.authorization_policy_file:
            return ()
        from understudy.apiserver.authorization.abac.policy_file import read_policies

        try:
            return read_policies(Path(self.authorization_policy_file))
        except OSError as why:
            reason = (why.strerror or str(why)).lower()
            text = f"open {self.authorization_policy_file}: {reason}"
        except ValueError as why:
            text = str(why)
        raise ValueError(f"invalid authorization config: {text}")

    @cached_property
    def authorization_webhook(self) -> Endpoint | None:
        """Return the server that "Webhook" asks, None without one. Raises ValueError."""
        if WEBHOOK not in self.authorization_mode or not self.authorization_webhook_config_file:
            return None
        from understudy.apiserver.authorization.webhook.review import KINDS
        from understudy.apiserver.server.options.webhook_files import read_reviewer  # YAML

        path, version = Path(self.authorization_webhook_config_file), self.authorization_webhook_version
        try:
            return read_reviewer(path, version, KINDS, "webhook authorizer")
        except ValueError as why:
            raise ValueError(f"invalid authorization config: {why}") from None
