"""The issuers of a configuration, which are replaced when it changes.

Upstream: `updateAuthenticationConfig` of k8s.io/kubernetes/pkg/kubeapiserver/authenticator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from understudy.admission.reloads import ReloadedFile, ReloadMetrics, Wording
from understudy.apiserver.authentication.oidc.configuration import Configuration, decoded
from understudy.apiserver.authentication.oidc.jwt_authenticator import JWTAuthenticator
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import Obj

CONTROLLER = "authentication_config_controller"
WORDINGS = ByRelease({V1_34: Wording("BETA", True, False), V1_31: Wording("ALPHA", False, False)})


class AuthenticationFile(ReloadedFile):
    """The file of `--authentication-config`, whose `jwt` may change, but not who may come without credentials.

    data       that the file held when the authenticators were made
    check      returns a configuration with its expressions compiled. Raises ValueError
    new        makes the authenticators of a configuration
    reach      waits until the issuers of authenticators have answered. Raises ValueError if they do not
    in_force   the authenticators that are asked, which are replaced in place
    server     identity of this server, "" for none
    """

    def __init__(
        self,
        path: Path,
        data: bytes,
        check: Callable[[Obj], Configuration],
        new: Callable[[Configuration], Sequence[JWTAuthenticator]],
        reach: Callable[[Sequence[JWTAuthenticator]], Awaitable[None]],
        in_force: list[JWTAuthenticator],
        version: Version,
        now: Callable[[], float],
        server: str,
    ) -> None:
        what = "authentication configuration"
        super().__init__(path, data, what, ReloadMetrics(CONTROLLER, what, WORDINGS[version], server), now)
        self._check = check
        self._new = new
        self._reach = reach
        self._in_force = in_force
        self._version = version
        self._anonymous = decoded(data, version).get("anonymous")

    async def apply(self, data: bytes) -> bool:
        """Ask the issuers of the configuration in some bytes from now on, once all have answered. Raises ValueError."""
        configuration = decoded(data, self._version)
        try:
            checked = self._check(configuration)
            if configuration.get("anonymous") != self._anonymous:
                raise ValueError("anonymous: Forbidden: changed from initial configuration file")
        except ValueError:
            self._data = data
            raise
        authenticators = self._new(checked)
        await self._reach(authenticators)
        issuers = {authenticator.issuer for authenticator in authenticators}
        for authenticator in self._in_force:
            if authenticator.issuer not in issuers:
                authenticator.retire()
        self._in_force[:] = authenticators
        self._data = data
        return True
