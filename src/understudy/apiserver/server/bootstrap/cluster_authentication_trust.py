"""Tells aggregated API servers whom the server trusts, in the ConfigMap `extension-apiserver-authentication`.

Upstream: `clusterauthenticationtrust.Controller`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from understudy.apiserver.controllers.controller import APISERVER_AGENT, NAMESPACE, ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32
from understudy.machinery.types import NamedTuple, Obj

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from understudy.apiserver.authentication.certificates.authorities import Authorities
    from understudy.apiserver.authentication.certificates.request_headers import RequestHeaders

NAME = "extension-apiserver-authentication"
CONFIG_MAPS = f"/registry/configmaps/{NAMESPACE}/"
KEY = CONFIG_MAPS + NAME
REFRESH = 60.0  # seconds after which the ConfigMap is looked at again
CLIENTS, PROXIES = "client-ca-file", "requestheader-client-ca-file"
_UIDS = "requestheader-uid-headers"
_SLACK = 300.0  # seconds for which expired certificates are kept


class Trusted(NamedTuple):
    """The authorities of client certificates, and what front proxies are believed, None without any."""

    clients: Authorities | None
    proxies: RequestHeaders | None

    @property
    def files(self) -> list[Authorities]:
        """Return the files of authorities."""
        proxies = self.proxies and self.proxies.authorities
        return [file for file in (self.clients, proxies) if file is not None]

    def names(self, *, tells_uid: bool) -> dict[str, Sequence[str]]:
        """Return the names of headers and proxies by their keys in the ConfigMap."""
        proxies = self.proxies
        lists = {
            "requestheader-username-headers": () if proxies is None else proxies.username,
            "requestheader-group-headers": () if proxies is None else proxies.group,
            "requestheader-extra-headers-prefix": () if proxies is None else proxies.extra_prefix,
            "requestheader-allowed-names": () if proxies is None else proxies.allowed_names,
        }
        return lists | ({_UIDS: () if proxies is None else proxies.uid} if tells_uid else {})


def combined(data: Mapping[str, str], own: Trusted, now: float, *, tells_uid: bool) -> dict[str, str]:
    """Return the data of the ConfigMap with what a server trusts added to what others do. Raises ValueError.

    tells_uid  whether there are headers with uids
    """
    out: dict[str, str] = {}
    proxies = None if own.proxies is None else own.proxies.authorities
    for key, file in ((CLIENTS, own.clients), (PROXIES, proxies)):
        if bundle := _bundle(data.get(key, ""), file, now):
            out[key] = bundle
    for key, names in own.names(tells_uid=tells_uid).items() if PROXIES in out else ():
        values = list(dict.fromkeys([*_names(data.get(key, "")), *names]))
        if values or key != _UIDS:
            out[key] = encode_sorted(values).decode()
    return out


def _names(text: str) -> list[str]:
    """Return the names in a text of the ConfigMap. Raises ValueError."""
    values = orjson.loads(text or "[]")
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"no list of names: {text}")
    return values


def _bundle(pems: str, file: Authorities | None, now: float) -> str:
    """Return the certificates in a text and in a file that have not expired, each once, in PEM. Raises ValueError."""
    if not pems and file is None:
        return ""
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    certificates: list[Certificate] = load_pem_x509_certificates(pems.encode()) if pems else []
    certificates += () if file is None else file.certificates
    valid = [each for each in certificates if each.not_valid_after_utc.timestamp() > now - _SLACK]
    return "".join(dict.fromkeys(each.public_bytes(Encoding.PEM).decode() for each in valid))


class ClusterAuthenticationTrust(Controller[str]):
    """Writes the ConfigMap; its only key is that of the ConfigMap."""

    def __init__(self, context: ControllerContext, informers: StoreInformers, trusted: Trusted) -> None:
        super().__init__(informers)
        self._state = context.state
        self._client = context.clients.client(APISERVER_AGENT)
        self._trusted = trusted
        if trusted.files:
            update = self._note if self._state.release.version <= V1_32 else None  # later releases wait
            informers.of(CONFIG_MAPS).add_handler(add=self._note, update=update, delete=self._note)
            self._look()

    def _note(self, *entries: Entry) -> None:
        if entries[-1].key == KEY:
            self._look()

    def _look(self) -> None:
        self.queue.add(KEY)

    async def run(self) -> None:
        """Look at the ConfigMap until cancelled, and whenever the certificates of authorities have changed."""
        for file in self._trusted.files:
            file.listeners.add(self._look)
        try:
            await super().run()
        finally:
            for file in self._trusted.files:
                file.listeners.discard(self._look)

    async def sync(self, key: str) -> None:
        """Write the ConfigMap if it lacks anything."""
        state = self._state
        current: Obj | None = state.registry.lookup("", "configmaps", NAMESPACE, NAME)
        data = {} if current is None else current.get("data") or {}
        tells_uid = state.release.version >= V1_32 and state.gates[features.REMOTE_REQUEST_HEADER_UID]
        complete = combined(data, self._trusted, state.clock.now(), tells_uid=tells_uid)
        self.queue.add_after(key, REFRESH)
        if data == complete:
            return
        path = resource_path("", "v1", "configmaps", NAMESPACE)
        if current is None:
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE}}
            await self._client.create(path, {**head, "data": complete})
        else:
            await self._client.update(f"{path}/{NAME}", {**current, "data": complete})
