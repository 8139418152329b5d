"""The options of a server that passes requests on to aggregated API servers. Upstream: `ServerRunOptions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from understudy.apiserver.authentication.options import PathLike, flag


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
