"""The options of a server that asks kubelets and aggregated API servers, and believes front proxies.

Upstream: `ServerRunOptions` and `RequestHeaderAuthenticationOptions`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.authentication.options import PathLike, flag, read_authorities
from understudy.apiserver.endpoints.kubelets import PREFERRED_ADDRESS_TYPES
from understudy.apiserver.server.webhooks.kubelets import KubeletTLS
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.types import dataclass

if TYPE_CHECKING:
    from understudy.apiserver.authentication.certificates.request_headers import RequestHeaders

log = logging.getLogger("understudy")
_UIDS = "uid-headers"
_STANDARD = {
    "username-headers": "X-Remote-User header",
    "group-headers": "X-Remote-Group header",
    "extra-headers-prefix": "X-Remote-Extra- header prefix",
    _UIDS: "X-Remote-Uid header",
}


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AggregationOptions:
    """The options that say how aggregated servers know the server. Raises ValueError for options without sense.

    proxy_client_cert_file, proxy_client_key_file
                            the client certificate and its key (PEM) that aggregated API servers are shown, so that
                            they believe who the user is
    """

    proxy_client_cert_file: PathLike | None = field(
        default=None, metadata=flag("the certificate (PEM) that aggregated API servers are shown", "PATH")
    )
    proxy_client_key_file: PathLike | None = field(default=None, metadata=flag("its key (PEM)", "PATH"))

    @cached_property
    def proxy_certificate(self) -> tuple[bytes | None, bytes | None]:
        """Return the certificate for aggregated servers and its key (PEM), None without one. Raises ValueError."""
        files = self.proxy_client_cert_file, self.proxy_client_key_file
        if bool(files[0]) != bool(files[1]):
            raise ValueError("--proxy-client-cert-file and --proxy-client-key-file go together")
        if not files[0] or not files[1]:
            return None, None
        try:
            return Path(files[0]).read_bytes(), Path(files[1]).read_bytes()
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}") from None


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class KubeletOptions:
    """The options that say how kubelets are reached. Raises ValueError for options without sense.

    kubelet_client_certificate, kubelet_client_key
                            the client certificate and its key (PEM) that kubelets are shown
    kubelet_certificate_authority
                            certificates (PEM) that verify those of kubelets, which are not verified without
    kubelet_preferred_address_types
                            the types of a node's addresses, the one to dial first: "InternalIP", "Hostname", …
    """

    kubelet_client_certificate: PathLike | None = field(
        default=None, metadata=flag("the certificate (PEM) that kubelets are shown", "PATH")
    )
    kubelet_client_key: PathLike | None = field(default=None, metadata=flag("its key (PEM)", "PATH"))
    kubelet_certificate_authority: PathLike | None = field(
        default=None, metadata=flag("certificates (PEM) that verify kubelets (default: they are not verified)", "PATH")
    )
    kubelet_preferred_address_types: Sequence[str] = field(
        default=PREFERRED_ADDRESS_TYPES,
        metadata=flag(f"the addresses of nodes to dial (default: {','.join(PREFERRED_ADDRESS_TYPES)})", "A,B"),
    )

    @cached_property
    def kubelet_tls(self) -> KubeletTLS:
        """Return the certificates for connections to kubelets. Raises ValueError."""
        certificate, key = self.kubelet_client_certificate, self.kubelet_client_key
        if bool(certificate) != bool(key):
            raise ValueError("--kubelet-client-certificate and --kubelet-client-key go together")
        try:
            return KubeletTLS(
                *(
                    Path(path).read_bytes() if path else None
                    for path in (certificate, key, self.kubelet_certificate_authority)
                )
            )
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}") from None


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class FrontProxyOptions:
    """The options that say which front proxies name the user of a request, and in which headers.

    Aggregated servers read all of them in the ConfigMap `extension-apiserver-authentication` of `kube-system`.

    requestheader_client_ca_file
                            certificates (PEM) of the authorities that sign those of front proxies; without it there
                            are none. It is read again when it changes
    requestheader_allowed_names
                            common names of front proxies' certificates, by default any
    requestheader_username_headers, requestheader_uid_headers, requestheader_group_headers
                            the headers with user, uid (from 1.32 on, with the gate RemoteRequestHeaderUID) and groups
    requestheader_extra_headers_prefix
                            the beginnings of headers with extra fields of the user
    """

    requestheader_client_ca_file: PathLike | None = field(
        default=None, metadata=flag("authorities (PEM) of front proxies, which name users in headers", "PATH")
    )
    requestheader_allowed_names: Sequence[str] = field(
        default=(), metadata=flag("common names of front proxies (default: any)", "A,B")
    )
    requestheader_username_headers: Sequence[str] = field(
        default=(), metadata=flag("headers with the user", "HEADER,HEADER")
    )
    requestheader_uid_headers: Sequence[str] = field(
        default=(), metadata=flag("headers with the uid of the user", "HEADER,HEADER")
    )
    requestheader_group_headers: Sequence[str] = field(
        default=(), metadata=flag("headers with the groups of the user", "HEADER,HEADER")
    )
    requestheader_extra_headers_prefix: Sequence[str] = field(
        default=(), metadata=flag("beginnings of headers with extra fields of the user", "PREFIX,PREFIX")
    )

    def check_front_proxies(self, version: Version, gates: Gates) -> None:
        """Raise ValueError for names of headers and proxies without sense (`Validate`)."""
        tells_uid = version >= V1_32 and gates[features.REMOTE_REQUEST_HEADER_UID]
        if self.requestheader_uid_headers and not tells_uid:
            gate = go_quote(features.REMOTE_REQUEST_HEADER_UID)
            raise ValueError(f"--requestheader-uid-headers requires the {gate} feature to be enabled")
        for name in ("username-headers", "group-headers", "extra-headers-prefix", "allowed-names", _UIDS):
            values = self._values(name)
            if not all(value.strip() for value in values):
                raise ValueError(f"empty value in {go_quote(f'requestheader-{name}')}")
            if values and name in _STANDARD:
                _check_standard(name, values)

    @cached_property
    def front_proxies(self) -> RequestHeaders | None:
        """Return the headers that front proxies use, None without authorities. Raises ValueError."""
        authorities = read_authorities("requestheader-client-ca-file", self.requestheader_client_ca_file)
        if authorities is None:
            return None
        from understudy.apiserver.authentication.certificates.request_headers import RequestHeaders

        names = ("allowed-names", "username-headers", _UIDS, "group-headers", "extra-headers-prefix")
        return RequestHeaders(authorities, *map(self._values, names))

    def _values(self, name: str) -> Sequence[str]:
        values: Sequence[str] = getattr(self, f"requestheader_{name.replace('-', '_')}")
        return values


def _check_standard(name: str, values: Sequence[str]) -> None:
    """Warn of values without the standard one, which aggregated servers use. Raises ValueError for those of uids."""
    standard = _STANDARD[name]
    if standard.partition(" ")[0].lower() in map(str.lower, values):
        return
    text = f"--requestheader-{name} is set without specifying the standard {standard} - API aggregation will not work"
    if name == _UIDS:
        raise ValueError(text)
    log.warning("%s", text)
