"""Kubeconfig files as client-go reads them, and what is wrong with them in its words.

Upstream: k8s.io/client-go/tools/clientcmd.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from understudy.machinery.auth.kubeconfig_user import unreadable, user_errors
from understudy.machinery.golang.text import aggregate, go_quote, path_error
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.serializer.configuration import RAW, TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.serializer.json import DecodeError, yaml_to_json
from understudy.machinery.typeinfo.scheme import scheme_name
from understudy.machinery.types import GroupVersionKind, Obj

_PACKAGE = "k8s.io/client-go/tools/clientcmd/api/v1"
_TEXTS = (
    *("client-certificate", "client-key"),
    *("token", "tokenFile", "username", "password", "as", "as-uid"),
)
_OF_CLUSTER = ("server", "tls-server-name", "certificate-authority", "proxy-url")
_TYPES = ConfigurationTypes(
    {"/v1/Config": f"{_PACKAGE}.Config"},
    {
        f"{_PACKAGE}.Config": [
            TYPE_META,
            ["Clusters", "clusters", "", f"[]{_PACKAGE}.NamedCluster", 0],
            ["AuthInfos", "users", "", f"[]{_PACKAGE}.NamedAuthInfo", 0],
            ["Contexts", "contexts", "", f"[]{_PACKAGE}.NamedContext", 0],
            ["CurrentContext", "current-context", "", "string", 0],
        ],
        f"{_PACKAGE}.NamedAuthInfo": [
            ["Name", "name", "", "string", 0],
            ["AuthInfo", "user", "", f"{_PACKAGE}.AuthInfo", 0],
        ],
        f"{_PACKAGE}.NamedCluster": [
            ["Name", "name", "", "string", 0],
            ["Cluster", "cluster", "", f"{_PACKAGE}.Cluster", 0],
        ],
        f"{_PACKAGE}.Cluster": [
            *([name, name, "o", "string", 0] for name in _OF_CLUSTER),
            ["InsecureSkipTLSVerify", "insecure-skip-tls-verify", "o", "bool", 0],
            ["CertificateAuthorityData", "certificate-authority-data", "o", "[]uint8", 0],
            ["DisableCompression", "disable-compression", "o", "bool", 0],
            ["Extensions", "extensions", "o", f"[]{_PACKAGE}.NamedExtension", 0],
        ],
        f"{_PACKAGE}.NamedExtension": [
            ["Name", "name", "", "string", 0],
            ["Extension", "extension", "", RAW, 0],
        ],
        f"{_PACKAGE}.NamedContext": [
            ["Name", "name", "", "string", 0],
            ["Context", "context", "", f"{_PACKAGE}.Context", 0],
        ],
        f"{_PACKAGE}.Context": [[name, name, "", "string", 0] for name in ("cluster", "user")],
        f"{_PACKAGE}.AuthInfo": [
            *([name, name, "o", "string", 0] for name in _TEXTS),
            *([name, name, "o", "[]uint8", 0] for name in ("client-certificate-data", "client-key-data")),
            ["ImpersonateGroups", "as-groups", "o", "[]string", 0],
            ["ImpersonateUserExtra", "as-user-extra", "o", "map[string][]string", 0],
            ["AuthProvider", "auth-provider", "o", f"*{_PACKAGE}.AuthProviderConfig", 0],
            ["Exec", "exec", "o", f"*{_PACKAGE}.ExecConfig", 0],
        ],
        f"{_PACKAGE}.AuthProviderConfig": [
            ["Name", "name", "", "string", 0],
            ["Config", "config", "", "map[string]string", 0],
        ],
        f"{_PACKAGE}.ExecConfig": [
            ["Command", "command", "", "string", 0],
            ["Args", "args", "", "[]string", 0],
            ["Env", "env", "", f"[]{_PACKAGE}.ExecEnvVar", 0],
            *([name, name, "o", "string", 0] for name in ("apiVersion", "installHint", "interactiveMode")),
            ["ProvideClusterInfo", "provideClusterInfo", "", "bool", 0],
        ],
        f"{_PACKAGE}.ExecEnvVar": [[name, name, "", "string", 0] for name in ("name", "value")],
    },
)
_LISTS = {"cluster": "Cluster", "user": "AuthInfo", "context": "Context"}  # and the name of what is in each
_CONFIG = GroupVersionKind("", "v1", "Config")
_EMPTY = "cluster has no server defined"
NO_CONFIGURATION = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"


def load_kubeconfig(path: Path) -> Obj:
    """Return the fields of a kubeconfig, which need not name its kind (`LoadFromFile`). Raises ValueError."""
    try:
        data = path.read_bytes()
        if not data:
            return {}
        scheme = scheme_name(_TYPES.version, "clientconfig")
        config = decode_named(yaml_to_json(data)[0], _TYPES.find, scheme, strict=False, default=_CONFIG)[1]
        _check_names(config)
        return config
    except (OSError, DecodeError) as error:
        why = path_error(error, path) if isinstance(error, OSError) else error
        raise ValueError(f'error loading config file "{path}": {why}') from None


def _check_names(config: Obj) -> None:
    """Raise DecodeError for two entries of one name, without the list of all that Go's text ends with."""
    for kind, go_name in _LISTS.items():
        seen = set()
        for entry in config.get(f"{kind}s") or ():
            name = entry.get("name") or ""
            if name in seen:
                lists = f"*[]Named{go_name} into *map[string]*api.{go_name}"
                raise DecodeError(f"error converting {lists}: duplicate name {go_quote(name)} in list")
            seen.add(name)


def current_context(config: Obj, folder: Path) -> tuple[Obj, Obj]:
    """Return the cluster and the user of the current context of a file in a folder (`ClientConfig`).

    Raises ValueError if it cannot work."""
    name = config.get("current-context") or ""
    context = _named(config, "context", name)
    cluster_name, user_name = ((context or {}).get(field) or "" for field in ("cluster", "user"))
    cluster, user = _named(config, "cluster", cluster_name), _named(config, "user", user_name)
    missing = [f"context was not found for specified context: {name}"] if name and context is None else []
    errors = [*missing, *user_errors(user_name, user or {}, folder), *_cluster_errors(cluster_name, cluster, folder)]
    if errors == [_EMPTY]:
        errors = [NO_CONFIGURATION]
    if errors:
        raise ValueError(f"invalid configuration: {aggregate(errors)}")
    return cluster or {}, user or {}


def _named(config: Obj, kind: str, name: str) -> Obj | None:
    """Return the entry of a name in one of the lists `clusters`, `users` and `contexts`, None without one."""
    for entry in config.get(f"{kind}s") or ():
        if (entry.get("name") or "") == name:
            return entry.get(kind) or {}
    return None


def _cluster_errors(name: str, cluster: Obj | None, folder: Path) -> Iterator[str]:
    """Yield the errors of a cluster, None where the file has none (`validateClusterInfo`)."""
    if cluster is None:
        yield _EMPTY
        return
    if not cluster.get("server"):
        yield f"no server found for cluster {go_quote(name)}" if name else "default cluster has no server defined"
    proxy = cluster.get("proxy-url") or ""
    if error := _proxy_error(proxy):
        yield f"invalid 'proxy-url' {go_quote(proxy)} for cluster {go_quote(name)}: {error}"
    file = cluster.get("certificate-authority")
    if file and cluster.get("certificate-authority-data"):
        both = "certificate-authority-data and certificate-authority are both specified"
        yield f"{both} for {name}. certificate-authority-data will override."
    if file:
        yield from unreadable("certificate-authority", folder / file, name)


def _proxy_error(url: str) -> str:
    """Return the error of the URL of a proxy, "" for one that could be (`parseProxyURL`)."""
    if not url:
        return ""
    if parse_error(url, relative=True):
        return f"could not parse: {url}"
    scheme = url.partition(":")[0].lower() if "://" in url else ""
    if scheme in ("http", "https", "socks5"):
        return ""
    return f"unsupported scheme {go_quote(scheme)}, must be http, https, or socks5"
