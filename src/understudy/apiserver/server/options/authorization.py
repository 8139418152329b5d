"""The options of a server that say who decides what users may do. Upstream: `BuiltInAuthorizationOptions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.apiserver.authorization.modes import ALWAYS_ALLOW, MODES, RBAC, WEBHOOK, mode_problems
from understudy.apiserver.server.options.values import nanoseconds

if TYPE_CHECKING:
    from understudy.apiserver.authorization.abac.authorizer import Policy
    from understudy.apiserver.authorization.webhook.generic_webhook import Endpoint


@dataclass(frozen=True, kw_only=True, eq=False)
class AuthorizationOptions:
    """The options that say who decides what users may do. Raises ValueError for options that make no sense.

    authorization_mode      who is asked, in this order: "AlwaysAllow", "RBAC", "Node", "ABAC", "Webhook",
                            "AlwaysDeny". By default everybody may do all. Members of `system:masters` may in any case
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
        """Raise ValueError for options that make no sense, with the texts of kube-apiserver."""
        _ = self.authorization_ttls
        files = self.authorization_policy_file, self.authorization_webhook_config_file
        problems = mode_problems(self.authorization_mode, *map(bool, files))
        if problems:
            raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        _ = self.authorization_policies, self.authorization_webhook

    @property
    def authorized(self) -> bool:
        """Report whether a user may be refused something."""
        return ALWAYS_ALLOW not in self.authorization_mode

    @property
    def has_bootstrap_policy(self) -> bool:
        """Report whether the server begins with RBAC's roles and bindings."""
        return RBAC in self.authorization_mode

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
