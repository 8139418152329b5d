"""The option of a server that says through which proxies it reaches others. Upstream: `EgressSelectorOptions` and
k8s.io/apiserver/pkg/server/egressselector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import urlsplit

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.apiserver.server.webhooks.egress.dialing import CLUSTER, CONTROL_PLANE, Proxy, ProxyTLS
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.text import ADDRESS, aggregate, go_quote, path_error
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, V1_36, ByRelease, Version
from understudy.machinery.serializer.configuration import TYPE_META, ConfigurationTypes, decode_named
from understudy.machinery.typeinfo.go_types import INTERNAL
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Worded
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, not_supported, required

ETCD = "etcd"
NAMES = (CLUSTER, CONTROL_PLANE, ETCD)
DIRECT, HTTP_CONNECT, GRPC = PROTOCOLS = "Direct", "HTTPConnect", "GRPC"
_OLD_CONTROL_PLANE = "master"
_GROUP, _KIND = "apiserver.k8s.io", "EgressSelectorConfiguration"
_VERSIONS = ("v1alpha1", "v1beta1", INTERNAL)  # which have the same fields
_FILE = "k8s.io/apiserver/pkg/server/egressselector/config.go"
_SCHEME = ByRelease({V1_32: f"{_FILE}:33", V1_31: f"{_FILE}:34"})
_SAYS_SHOULD = ByRelease({V1_34: False, V1_31: True})
_PACKAGE = "k8s.io/apiserver/pkg/apis/apiserver"
_CONNECTION = Path("service").child("connection")
_TLS = _CONNECTION.child("tlsConfig")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class EgressOptions:
    """The options that say how other servers are reached. Raises ValueError for options that make no sense.

    egress_selector_config_file
                            an EgressSelectorConfiguration: the proxies behind which webhooks, aggregated API servers,
                            kubelets and issuers of tokens are
    """

    egress_selector_config_file: PathLike | None = field(
        default=None, metadata=flag("proxies to other servers, an EgressSelectorConfiguration", "PATH")
    )

    def egress_proxies(self, version: Version) -> Mapping[str, Proxy | None]:
        """Return the proxies by the networks that they lead to, None for those that are reached directly.

        Raises ValueError with the text of kube-apiserver, and for what is not supported here.
        """
        if not self.egress_selector_config_file:
            return {}
        path = FilePath(self.egress_selector_config_file)
        if not path.exists():
            raise ValueError(f"egress-selector-config-file {path} does not exist")
        selections = _read(path, version)
        if errors := _errors(selections, version):
            text = aggregate(error.text(version) for error in errors)
            raise ValueError(f"failed to validate egress selector configuration: {text}")
        return dict(_proxies(selections))


def _read(path: FilePath, version: Version) -> list[tuple[str, Obj]]:
    """Return the names of selections and their connections. Raises ValueError (`ReadEgressSelectorConfiguration`)."""
    begin = "failed to read egress selector config:"
    try:
        data = path.read_bytes()
    except OSError as why:
        text = f"unable to read egress selector configuration from {go_quote(str(path))}"
        raise ValueError(f"{begin} {text} [{path_error(why, path)}]") from None
    try:
        _, obj = decode_named(data, _types(version).find, _SCHEME[version])
    except DecodeError as why:
        raise ValueError(f"{begin} {why}") from None
    selections = obj.get("egressSelections") or ()
    return [(_name(each.get("name", "")), each.get("connection") or {}) for each in selections]


def _name(name: str) -> str:
    """Return the name of a selection as it is now."""
    return CONTROL_PLANE if name == _OLD_CONTROL_PLANE else name


def _tls_fields(version: Version) -> Mapping[str, str]:
    """Return the fields of a TLSConfig, and their names in Go."""
    fields = {"caBundle": "CABundle", "clientKey": "ClientKey", "clientCert": "ClientCert"}
    return fields | ({"tlsServerName": "TLSServerName"} if version >= V1_36 else {})


def _types(version: Version) -> ConfigurationTypes:
    """Return the Go types of the versions of a configuration in a release."""
    packages = {each: _PACKAGE if each == INTERNAL else f"{_PACKAGE}/{each}" for each in _VERSIONS}
    kinds = {f"{_GROUP}/{each}/{_KIND}": f"{package}.{_KIND}" for each, package in packages.items()}
    structs: dict[str, list[list[Any]]] = {}
    for package in packages.values():
        structs |= _structs(package, version)
    return ConfigurationTypes(kinds, structs)


def _structs(package: str, version: Version) -> dict[str, list[list[Any]]]:
    """Return the Go types of one version, which are those of a package."""
    fields = {
        _KIND: [TYPE_META, ["EgressSelections", "egressSelections", "", f"[]{package}.EgressSelection", 0]],
        "EgressSelection": [
            ["Name", "name", "", "string", 0],
            ["Connection", "connection", "", f"{package}.Connection", 0],
        ],
        "Connection": [
            ["ProxyProtocol", "proxyProtocol", "o", "string", 0],
            ["Transport", "transport", "o", f"*{package}.Transport", 0],
        ],
        "Transport": [
            ["TCP", "tcp", "o", f"*{package}.TCPTransport", 0],
            ["UDS", "uds", "o", f"*{package}.UDSTransport", 0],
        ],
        "TCPTransport": [
            ["URL", "url", "o", "string", 0],
            ["TLSConfig", "tlsConfig", "o", f"*{package}.TLSConfig", 0],
        ],
        "UDSTransport": [["UDSName", "udsName", "o", "string", 0]],
        "TLSConfig": [[go, name, "o", "string", 0] for name, go in _tls_fields(version).items()],
    }
    return {f"{package}.{name}": listed for name, listed in fields.items()}


# --- validation (`ValidateEgressSelectorConfiguration`)


def _errors(selections: list[tuple[str, Obj]], version: Version) -> Errors:
    """Return the errors of selections. Paths name no selection, as upstream's."""
    errors: Errors = []
    for _, connection in selections:
        errors += _connection_errors(connection, version)
    seen: set[str] = set()
    for number, (name, _) in enumerate(selections):
        canonical = name.lower()
        if canonical in seen:
            errors.append(duplicate(_CONNECTION.index(number), canonical))
        elif canonical not in NAMES:
            errors.append(not_supported(_CONNECTION, canonical, NAMES))
        seen.add(canonical)
    return errors


def _connection_errors(connection: Obj, version: Version) -> Errors:
    protocol, transport = connection.get("proxyProtocol", ""), connection.get("transport")
    if protocol not in PROTOCOLS:
        return [not_supported(_CONNECTION.child("protocol"), protocol, PROTOCOLS)]
    if protocol == DIRECT:
        text = "Transport config should" if _SAYS_SHOULD[version] else "config must"
        absent = f"{text} be absent for direct connect"
        return [] if transport is None else [invalid(_CONNECTION.child("transport"), "direct", absent)]
    if transport is None:
        return [required(_CONNECTION.child("transport"), f"transport must be set for {protocol}")]
    tcp, uds = transport.get("tcp"), transport.get("uds")
    if protocol == GRPC:
        unset = [required(_CONNECTION.child("uds"), "UDS must be set with GRPC")]
        return unset if uds is None else _uds_errors(uds, version)
    if tcp is not None and uds is not None:
        return [invalid(_CONNECTION.child("tcp"), _TCPValue(tcp), "TCP and UDS cannot both be set")]
    if tcp is not None:
        return _tcp_errors(tcp, version)
    unset = [required(_CONNECTION.child("tcp"), "One of TCP or UDS must be set")]
    return unset if uds is None else _uds_errors(uds, version)


class _TCPValue(Worded):
    """A TCP transport as an error shows it: in the form that has no names for JSON; before 1.34 in Go syntax."""

    __slots__ = ("_tcp",)

    def __init__(self, tcp: Obj) -> None:
        self._tcp = tcp

    def text(self, version: Version) -> str:
        url, tls = self._tcp.get("url", ""), self._tcp.get("tlsConfig")
        if version < V1_34:
            place = "nil" if tls is None else ADDRESS
            return f"apiserver.TCPTransport{{URL:{go_quote(url)}, TLSConfig:(*apiserver.TLSConfig)({place})}}"
        shown = None if tls is None else {name: tls.get(key, "") for key, name in _tls_fields(version).items()}
        return encode({"URL": url, "TLSConfig": shown}).decode()


def _uds_errors(uds: Obj, version: Version) -> Errors:
    if uds.get("udsName"):
        return []
    text = "UDSName should be" if _SAYS_SHOULD[version] else "must be"
    return [invalid(_CONNECTION.child("udsName"), "nil", f"{text} present for UDS connections")]


def _tcp_errors(tcp: Obj, version: Version) -> Errors:
    url, tls = tcp.get("url", ""), tcp.get("tlsConfig")
    if url.startswith("https://"):
        return _tls_errors(tls)
    if not url.startswith("http://"):
        return [invalid(_CONNECTION.child("url"), url, "supported connection protocols are http:// and https://")]
    if tls is None:
        return []
    text = "TLSConfig config should not" if _SAYS_SHOULD[version] else "config must not"
    return [invalid(_TLS, "nil", f"{text} be present when using HTTP")]


def _tls_errors(tls: Obj | None) -> Errors:
    if tls is None:
        return [required(_TLS, "TLSConfig must be present when using HTTPS")]
    errors: Errors = []
    for name, what, unset in (
        ("caBundle", "TLS config ca bundle", ""),
        ("clientCert", "TLS client cert", "Using TLS requires clientCert"),
        ("clientKey", "TLS client key", "Using TLS requires requires clientKey"),
    ):
        file = tls.get(name, "")
        if not file and unset:
            errors.append(invalid(_TLS.child(name), "nil", unset))
        elif file and not FilePath(file).exists():
            errors.append(invalid(_TLS.child(name), file, f"{what} does not exist"))
    return errors


# --- proxies (`NewEgressSelector`)


def _proxies(selections: list[tuple[str, Obj]]) -> Iterator[tuple[str, Proxy | None]]:
    """Yield the proxies of valid selections, None for direct connections.

    Raises ValueError for what is not supported, and files of no use.
    """
    for name, connection in selections:
        network, protocol = name.lower(), connection["proxyProtocol"]
        if protocol == DIRECT:
            yield network, None
            continue
        about = f"egress selector {go_quote(network)}: {protocol}"
        if protocol == GRPC:
            raise ValueError(f"{about} is not supported here, HTTPConnect is")
        if network == ETCD:
            raise ValueError(f"{about} is not supported here, {DIRECT} is")
        try:
            yield network, _proxy(connection["transport"])
        except ValueError as why:
            text = f"failed to create dialer for egressSelection {go_quote(network)}: {why}"
            raise ValueError(f"failed to setup egress selector: {text}") from None


def _proxy(transport: Obj) -> Proxy:
    """Return the proxy of a transport. Raises ValueError for files that cannot be read, and a URL that is none."""
    if uds := transport.get("uds"):
        return Proxy(path=uds["udsName"])
    url, tls = transport["tcp"]["url"], transport["tcp"].get("tlsConfig")
    if error := parse_error(url, relative=True):
        raise ValueError(f"invalid proxy server url {go_quote(url)}: parse {go_quote(url)}: {error}")
    parts = urlsplit(url)
    host = parts.hostname or ""
    own_tls = None if tls is None else _proxy_tls(tls, host)
    return Proxy("", parts.netloc.rpartition("@")[2], host, parts.port or 0, own_tls)


def _proxy_tls(tls: Obj, host: str) -> ProxyTLS:
    """Return the certificates of a TLSConfig for a proxy at a host. Raises ValueError (`getTLSConfig`)."""
    from understudy.machinery.golang.x509.key_pair import key_pair_error  # cryptography, which takes a while
    from understudy.machinery.golang.x509.x509 import ca_bundle_error

    certificate, key, bundle = tls["clientCert"], tls["clientKey"], tls.get("caBundle")
    try:
        pair = FilePath(certificate).read_bytes(), FilePath(key).read_bytes()
        error = key_pair_error(*pair)
    except OSError as why:
        error = path_error(why, why.filename)
    if error:
        raise ValueError(f"failed to read key pair {certificate} & {key}, got {error}")
    try:
        authorities = FilePath(bundle).read_bytes() if bundle else None
    except OSError as why:
        raise ValueError(f"failed to read cert file {bundle}, got {path_error(why, why.filename)}") from None
    if authorities is not None and ca_bundle_error(authorities):
        raise ValueError("failed to append CA cert to the cert pool")
    return ProxyTLS(*pair, authorities, tls.get("tlsServerName") or host)
