"""The TLS certificate of a server: read from files, or made by the server for as long as it runs."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path

PathLike = str | os.PathLike[str]
NAMES = ("localhost", "127.0.0.1", "::1", "kubernetes.default.svc")


class Certificates:
    """The certificate and key of a server; false where it speaks plain HTTP.

    authority  what clients have to trust (base64 of PEM), "" until it is known
    """

    def __init__(self, self_signed: bool, cert_file: PathLike | None, key_file: PathLike | None) -> None:
        self._self_signed = self_signed and not cert_file
        self._files = (str(cert_file), str(key_file)) if cert_file and key_file else None
        self.authority = ""
        if self._files:
            self.authority = _encoded(Path(self._files[0]).read_bytes())
            self.context()  # refuses wrong files before anything starts

    def __bool__(self) -> bool:
        return self._self_signed or self._files is not None

    def context(self) -> ssl.SSLContext | None:
        """Return a TLS context, None for plain HTTP. Raises ValueError for files without certificate and key."""
        if not self:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if self._files:
            try:
                context.load_cert_chain(*self._files)
            except (OSError, ssl.SSLError) as why:
                raise ValueError(f"cannot read a certificate and key from {' and '.join(self._files)}: {why}") from None
            return context
        import trustme  # takes a while

        authority = trustme.CA()
        authority.issue_cert(*NAMES).configure_cert(context)
        self.authority = _encoded(authority.cert_pem.bytes())
        return context


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
