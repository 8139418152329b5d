"""Certificates of authorities in a file that is read again when it changes.

Upstream: `DynamicFileCAContent` of k8s.io/apiserver/pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography.x509 import Certificate, load_pem_x509_certificates

from understudy.admission.reloads import Looks, Reloaded, looks_of

log = logging.getLogger("understudy")


class Authorities(Reloaded):
    """The certificates of a PEM file. A file with errors leaves those in force that it held before.

    certificates  those in force, another sequence after each change
    listeners     are called after a change
    """

    def __init__(self, path: Path) -> None:
        """Read the file. Raises OSError, ValueError."""
        self._path = path
        self._looks = Looks(lambda: looks_of(path), time.time)
        self._data = path.read_bytes()
        self.certificates: Sequence[Certificate] = load_pem_x509_certificates(self._data)
        self.listeners: set[Callable[[], None]] = set()

    def reload(self) -> None:
        """Read the file again if it has changed. Upstream: `loadCABundle`."""
        if not self._looks.are_new():
            return
        try:
            data = self._path.read_bytes()
            if data == self._data:
                return
            self.certificates = load_pem_x509_certificates(data)
        except (OSError, ValueError) as error:
            log.error("reloading authorities %s: %s", self._path, error)
            return
        self._data = data
        log.info("reloaded authorities %s", self._path)
        for changed in list(self.listeners):
            changed()
