"""The users of a kubeconfig as whom admission calls webhooks (`kubeConfigFile` of a WebhookAdmissionConfiguration).

Upstream: `NewDefaultAuthenticationInfoResolver` of k8s.io/apiserver/pkg/util/webhook.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from understudy.admission.webhooks import Caller, CallError, Target
from understudy.machinery.auth.exec_plugin import exec_cluster, exec_plugin
from understudy.machinery.auth.impersonation import impersonation_headers
from understudy.machinery.auth.kubeconfig_file import load_kubeconfig
from understudy.machinery.auth.kubeconfig_user import password_of
from understudy.machinery.golang.text import path_error
from understudy.machinery.types import Obj, dataclass

_HTTPS = ":443"


@dataclass(frozen=True, slots=True)
class WebhookUsers:
    """The users of a kubeconfig, by the hosts that they are for.

    current  the name of the user of the current context, "" for none
    folder   that of the kubeconfig, which names of files begin at
    """

    users: Mapping[str, Obj] = field(default_factory=dict)
    current: str = ""
    folder: Path = Path()

    def caller(self, target: Target) -> Caller:
        """Return the user that calls a webhook: the user of its host, "*", that of the current context, or nobody.

        Raises CallError for a file that cannot be read.
        """
        names = (*_names_of(target), "*", self.current)
        user = next((self.users[name] for name in names if name in self.users), None)
        return self._caller(user, target) if user else Caller()

    def _caller(self, user: Obj, target: Target) -> Caller:
        if user.get("auth-provider") is not None:
            raise CallError("auth provider not supported")
        token, password = user.get("token") or "", password_of(user)
        if not token and user.get("tokenFile"):
            token = self._read(user["tokenFile"]).decode().strip()
        certificate, key = (self._bytes(user, name) for name in ("client-certificate", "client-key"))
        if token and password:
            raise CallError("username/password or bearer token may be set, but not both")
        place = urlsplit(target.url)
        try:
            cluster = exec_cluster(f"{place.scheme}://{place.netloc}", target.ca_bundle, {})
            plugin = exec_plugin(user, self.folder, cluster)
        except ValueError as why:
            raise CallError(str(why)) from None
        return Caller(
            token=token,
            password=password,
            certificate=certificate,
            key=key,
            impersonation=impersonation_headers(user),
            plugin=plugin,
        )

    def _bytes(self, user: Obj, name: str) -> bytes | None:
        if data := user.get(f"{name}-data"):
            return b64decode(data)
        return self._read(user[name]) if user.get(name) else None

    def _read(self, name: str) -> bytes:
        path = self.folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise CallError(path_error(error, path)) from None


NOBODY = WebhookUsers()


def _names_of(target: Target) -> Iterator[str]:
    """Yield the names of users for the host of a webhook: with and without the port, and with `*` for first parts."""
    place = urlsplit(target.url).netloc
    place = place if urlsplit(target.url).port else f"{place}{_HTTPS}"
    for name in (place, place.removesuffix(_HTTPS))[: 1 + place.endswith(_HTTPS)]:
        parts = name.split(".")
        yield name
        yield from (f"*.{'.'.join(parts[i:])}" for i in range(1, len(parts)))


def read_webhook_users(path: Path) -> WebhookUsers:
    """Return the users of a kubeconfig. Raises ValueError."""
    config = load_kubeconfig(path)
    users = {each.get("name", ""): each.get("user") or {} for each in config.get("users") or ()}
    contexts = {each.get("name", ""): each.get("context") or {} for each in config.get("contexts") or ()}
    current = contexts.get(config.get("current-context") or "", {}).get("user") or ""
    return WebhookUsers(users, current, path.parent)
