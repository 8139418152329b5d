"""A certificate with its key in files that are read again when they change.

Upstream: `DynamicCertKeyPairContent` of k8s.io/apiserver/pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.admission.reloads import Looks, Reloaded, looks_of

if TYPE_CHECKING:
    from OpenSSL import SSL

log = logging.getLogger("understudy")


class KeyPair(Reloaded):
    """The certificate, and those of its issuers, and the key of two PEM files. Files that make no pair leave in force
    what they held before.

    certificates, key  those in force
    changed            is called after a change
    """

    def __init__(self, cert_file: str, key_file: str) -> None:
        """Read the files. Raises ValueError."""
        self._paths = Path(cert_file), Path(key_file)
        self._looks = Looks(lambda: [looks_of(path) for path in self._paths], time.time)
        try:
            self.certificates, self.key = self._read()
        except OSError as why:
            raise ValueError(f"cannot read a certificate and key from {cert_file} and {key_file}: {why}") from None
        self.changed: Callable[[], None] = lambda: None

    def load(self, context: ssl.SSLContext | SSL.Context) -> None:
        """Give a context the certificate and the key."""
        _load(context, self.certificates, self.key)

    def reload(self) -> None:
        """Read the files again if they have changed (`loadCertKeyPair`)."""
        if not self._looks.are_new():
            return
        try:
            read = self._read()
        except OSError as error:
            log.error("reloading the certificate %s with the key %s: %s", *self._paths, error)
            return
        if read == (self.certificates, self.key):
            return
        self.certificates, self.key = read
        log.info("reloaded the certificate %s with the key %s", *self._paths)
        self.changed()

    def _read(self) -> tuple[bytes, bytes]:
        """Return the contents of both files. Raises OSError, also for what is no certificate with its key."""
        certificates, key = (path.read_bytes() for path in self._paths)
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificates, key)
        return certificates, key


def _load(context: ssl.SSLContext | SSL.Context, certificates: bytes, key: bytes) -> None:
    """Give a context a certificate, with its issuers', and its key (PEM). Raises OSError."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:  # both kinds of contexts read files only
        paths = []
        for name, content in (("certificates", certificates), ("key", key)):
            path = Path(folder) / name
            path.touch(mode=0o600)
            path.write_bytes(content)
            paths.append(str(path))
        if isinstance(context, ssl.SSLContext):
            context.load_cert_chain(*paths)
        else:
            context.use_certificate_chain_file(paths[0])
            context.use_privatekey_file(paths[1])
