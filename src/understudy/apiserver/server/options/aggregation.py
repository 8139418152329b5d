"""The options of a server that asks kubelets and aggregated API servers. Upstream: `ServerRunOptions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.apiserver.endpoints.kubelets import PREFERRED_ADDRESS_TYPES
from understudy.apiserver.server.webhooks.kubelets import KubeletTLS


@dataclass(frozen=True, kw_only=True, eq=False)
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


@dataclass(frozen=True, kw_only=True, eq=False)
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
