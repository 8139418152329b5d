"""The authorizers of a configuration, which are replaced when it changes.

Upstream: `reloadableAuthorizerResolver` of k8s.io/kubernetes/pkg/kubeapiserver/authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from understudy.admission.reloads import WORDINGS, ReloadedFile, ReloadMetrics
from understudy.apiserver.authorization.always_deny import AlwaysDeny
from understudy.apiserver.authorization.configuration.file import WEBHOOK, AuthorizerConfiguration
from understudy.apiserver.authorization.configuration.validation import load_authorizers
from understudy.apiserver.authorization.metrics import AuthorizationMetrics
from understudy.apiserver.authorization.modes import new_union
from understudy.machinery.auth.always_allow import AlwaysAllow
from understudy.machinery.auth.authorization import Attributes, Authorizer, Decision, SubjectRules
from understudy.machinery.auth.users import User
from understudy.machinery.releases.version import Version

CONTROLLER = "authorization_config_controller"
_NEED_NOTHING: Mapping[str, Callable[[], Authorizer]] = {"AlwaysAllow": AlwaysAllow, "AlwaysDeny": AlwaysDeny}
NewWebhook = Callable[[AuthorizerConfiguration], Authorizer]


class ReloadableAuthorizer:
    """Asks the authorizers of a configuration.

    lasting      authorizers by their types, which last while webhooks are made anew
    new_webhook  makes the authorizer of a webhook. Raises ValueError
    """

    def __init__(
        self,
        configuration: Sequence[AuthorizerConfiguration],
        lasting: Mapping[str, Authorizer],
        new_webhook: NewWebhook,
        version: Version,
        metrics: AuthorizationMetrics,
    ) -> None:
        self._lasting = lasting
        self._new_webhook = new_webhook
        self._version = version
        self._metrics = metrics
        self.apply(configuration)

    def apply(self, configuration: Sequence[AuthorizerConfiguration]) -> None:
        """Ask the authorizers of another configuration from now on. Raises ValueError, and changes nothing then."""
        authorizers = {each.name: (each.type, self._authorizer(each)) for each in configuration}
        self._current = new_union(authorizers, self._version, self._metrics)

    def _authorizer(self, configuration: AuthorizerConfiguration) -> Authorizer:
        type_ = configuration.type
        if type_ == WEBHOOK:
            return self._new_webhook(configuration)
        if type_ in _NEED_NOTHING:
            return _NEED_NOTHING[type_]()
        if type_ not in self._lasting:
            text = "is not allowed if it was not enabled at initial server startup"
            raise ValueError(f"authorizer type {type_} {text}")
        return self._lasting[type_]

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        return self._current.authorize(user, attributes)

    def rules_for(self, user: User, namespace: str) -> SubjectRules:
        return self._current.rules_for(user, namespace)


class AuthorizationFile(ReloadedFile):
    """The file of `--authorization-config`, whose changes are applied to an authorizer.

    data       that it held when the authorizer was made
    needed     types of authorizers that a changed file has to name, too
    selectors  whether conditions may use those of lists
    server     identity of this server, "" for none
    """

    def __init__(
        self,
        path: Path,
        data: bytes,
        authorizer: ReloadableAuthorizer,
        needed: Sequence[str],
        version: Version,
        now: Callable[[], float],
        *,
        selectors: bool,
        server: str,
    ) -> None:
        what = "authorization configuration"
        metrics = ReloadMetrics(CONTROLLER, what, WORDINGS[version], server)
        super().__init__(path, data, what, metrics, now)
        self._load = partial(load_authorizers, version=version, selectors=selectors, needed=needed)
        self._loaded = self._load(data)
        self._authorizer = authorizer

    async def apply(self, data: bytes) -> bool:
        """Ask the authorizers of the configuration in some bytes from now on. Raises ValueError."""
        self._data = data
        loaded = self._load(data)
        if loaded == self._loaded:
            return False
        self._loaded = loaded
        self._authorizer.apply(loaded)
        return True
