"""The options of a server that asks another one who its users are. Upstream: `WebHookAuthenticationOptions`."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.apiserver.server.options.values import nanoseconds
from understudy.machinery.types import dataclass

if TYPE_CHECKING:
    from understudy.admission.generic_webhook import Endpoint


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TokenWebhookOptions:
    """The options of a server that asks another one who its users are. Raises ValueError for options without sense.

    authentication_token_webhook_config_file
                            a kubeconfig of the server that is asked, with TokenReviews, about tokens that nobody knows
    authentication_token_webhook_version
                            the version of these reviews, "v1beta1" or "v1"
    authentication_token_webhook_cache_ttl
                            how long its answers are kept, as Go writes it ("2m0s"); good ones for 10 seconds at least
    """

    authentication_token_webhook_config_file: PathLike | None = field(
        default=None, metadata=flag("a kubeconfig of the server that knows tokens", "PATH")
    )
    authentication_token_webhook_version: str = field(
        default="v1beta1", metadata=flag("the version of reviews, v1beta1 or v1 (default: %(default)s)", "VERSION")
    )
    authentication_token_webhook_cache_ttl: str = field(
        default="2m0s", metadata=flag("how long its answers are kept (default: %(default)s)", "DURATION")
    )

    def check_token_webhook(self) -> None:
        """Raise ValueError for options that make no sense, with the texts of kube-apiserver."""
        _ = self.token_webhook_seconds, self.token_webhook

    @cached_property
    def token_webhook_seconds(self) -> float:
        """Return the seconds that answers are kept. Raises ValueError."""
        return nanoseconds(self, "authentication_token_webhook_cache_ttl") / 1e9

    @cached_property
    def token_webhook(self) -> Endpoint | None:
        """Return the server that is asked about tokens, None without one. Raises ValueError."""
        if not self.authentication_token_webhook_config_file:
            return None
        from understudy.apiserver.authentication.webhook import KINDS
        from understudy.apiserver.server.options.webhook_files import read_reviewer  # YAML

        path, version = Path(self.authentication_token_webhook_config_file), self.authentication_token_webhook_version
        return read_reviewer(path, version, KINDS, "authentication webhook")
