"""Kubeconfigs of servers outside which a server asks, with the texts of client-go.

Upstream: `LoadKubeconfig` of k8s.io/apiserver/pkg/util/webhook, and k8s.io/client-go/rest and transport.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from urllib.parse import urlsplit

from understudy.apiserver.client.connection import Connection
from understudy.machinery.auth.exec_plugin import exec_cluster, exec_plugin, printable
from understudy.machinery.auth.impersonation import impersonation_headers
from understudy.machinery.auth.kubeconfig_file import current_context, load_kubeconfig
from understudy.machinery.auth.kubeconfig_user import auth_provider_error, password_of
from understudy.machinery.golang.text import go_quote, path_error
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.golang.x509.key_pair import key_pair_error
from understudy.machinery.golang.x509.x509 import ca_bundle_error
from understudy.machinery.types import Obj

_BOTH = "specifying a root certificates file with the insecure flag is not allowed"


def read_webhook_kubeconfig(path: Path) -> Connection:
    """Return the connection to the server of the current context. A user is only shown to servers with TLS.

    Raises ValueError."""
    folder = path.parent
    cluster, user = current_context(load_kubeconfig(path), folder)
    url, impersonation = _server_url(cluster["server"]), impersonation_headers(user)
    if not url.startswith("https:"):
        return Connection(url=url, impersonation=impersonation)
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        token = _read(folder / user["tokenFile"]).decode().strip()
    authority = _bytes(folder, cluster, "certificate-authority")
    plugin = exec_plugin(user, folder, exec_cluster(url, b64encode(authority or b"").decode(), cluster))
    if provider := user.get("auth-provider"):
        raise ValueError(auth_provider_error(provider))
    certificate, key = (_bytes(folder, user, name) for name in ("client-certificate", "client-key"))
    insecure = bool(cluster.get("insecure-skip-tls-verify"))
    if authority is not None and insecure:
        raise ValueError(_BOTH)
    if authority and (error := ca_bundle_error(authority)):
        raise ValueError(f"unable to load root certificates: {error}")
    is_static = user.get("client-certificate-data") or user.get("client-key-data")  # files may change until they count
    if is_static and certificate is not None and (error := key_pair_error(certificate, key or b"")):
        raise ValueError(error)
    return Connection(
        url=url,
        certificate_authority=authority,
        insecure=insecure,
        token=token,
        client_certificate=certificate,
        client_key=key,
        password=password_of(user),
        plugin=plugin and plugin._replace(hint=printable(plugin.hint)),
        impersonation=impersonation,
    )


def _server_url(server: str) -> str:
    """Return the URL of a server, which may be named by its host alone (`DefaultServerURL`). Raises ValueError."""
    if not parse_error(server, relative=True) and all(urlsplit(server)[:2]):
        return server.rstrip("/")
    url = f"http://{server}"
    if error := parse_error(url, relative=True):
        raise ValueError(f"parse {go_quote(url)}: {error}")
    if urlsplit(url).path not in ("", "/"):
        raise ValueError(f"host must be a URL or a host:port pair: {go_quote(server)}")
    return url.rstrip("/")


def _bytes(folder: Path, entry: Obj, name: str) -> bytes | None:
    """Return the bytes of a field or of the file that it names; None without either."""
    if data := entry.get(f"{name}-data"):
        return b64decode(data)
    return _read(folder / entry[name]) if entry.get(name) else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as why:
        raise ValueError(path_error(why, path)) from None
