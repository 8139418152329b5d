"""Certificates that a server shows to clients which ask for it by certain names (SNI).

Upstream: `NamedCertKey` of k8s.io/component-base, `BuildNamedCertificates` of k8s.io/apiserver, and the choice of Go's
crypto/tls (`getCertificate`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from understudy.apiserver.server.options.tls.key_pair import KeyPair
from understudy.machinery.golang.text import go_quote
from understudy.machinery.validation.names import dns_subdomain_texts

OPTION = "--tls-sni-cert-key"


class NamedFiles(NamedTuple):
    """A value of `--tls-sni-cert-key`: two files, and the names by which clients ask for their certificate, none for
    those that it has itself."""

    certificate: str
    key: str
    names: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str) -> NamedFiles:
        """Return the value of a text such as `foo.crt,foo.key:*.foo.com,foo.com`. Raises ValueError."""
        files, colon, listed = (part.strip() for part in text.partition(":"))
        paths = [path.strip() for path in files.split(",")]
        if colon and not listed:
            raise ValueError(_refused(text, "empty names list is not allowed"))
        if len(paths) != 2:
            raise ValueError(_refused(text, "expected comma separated certificate and key file paths"))
        certificate, key = paths
        return cls(certificate, key, [name.strip() for name in listed.split(",")] if listed else [])

    def inside(self, folder: str) -> str:
        """Return its text with relative paths that begin in a folder."""
        files = ",".join(os.path.join(folder, path) for path in (self.certificate, self.key))
        return f"{files}:{','.join(self.names)}" if self.names else files


def _refused(text: str, why: str) -> str:
    return f"invalid argument {go_quote(text)} for {go_quote(OPTION)} flag: {why}"


class ServerNames:
    """The certificates of a server besides its own one.

    named      the files of each, the first ones preferred
    own_names  returns the names in the server's own certificate
    """

    def __init__(self, named: Sequence[NamedFiles], own_names: Callable[[], Iterable[str]]) -> None:
        """Read the files. Raises ValueError."""
        self._named = [(KeyPair(each.certificate, each.key), each.names) for each in named]
        self._own_names = own_names

    @property
    def pairs(self) -> Sequence[KeyPair]:
        """Return all certificates with their keys."""
        return [pair for pair, _ in self._named]

    def choose(self, name: str) -> KeyPair | None:
        """Return the certificate for clients that ask for a name, None for the server's own one."""
        name, by_name = name.lower(), self._by_name()
        for known in (name, ".".join(["*", *name.split(".")[1:]])):
            if known in by_name:
                return by_name[known]
        if _covers(self._own_names(), name):
            return None
        return next((pair for pair in by_name.values() if _covers(dns_names(pair.certificates), name)), None)

    def choose_by_address(self, address: str) -> KeyPair | None:
        """Return the certificate for clients that ask for no name at an address of the server, None for its own one.

        Upstream: `GetConfigForClient` of k8s.io/apiserver/pkg/server/dynamiccertificates.
        """
        return self._by_name().get(address) if self._named else None

    def _by_name(self) -> Mapping[str, KeyPair]:
        explicit: dict[str, KeyPair] = {}
        own: dict[str, KeyPair] = {}
        for pair, names in reversed(self._named):
            known = explicit if names else own
            known.update(
                dict.fromkeys(names or [*_common_names(pair.certificates), *dns_names(pair.certificates)], pair)
            )
        return own | explicit


@lru_cache(64)
def dns_names(certificates: bytes) -> Sequence[str]:
    """Return the DNS names of the first one of some certificates (PEM)."""
    from cryptography import x509

    extensions = x509.load_pem_x509_certificates(certificates)[0].extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


@lru_cache(64)
def _common_names(certificates: bytes) -> Sequence[str]:
    """Return the common name of the first one of some certificates (PEM), if it may be the name of a server."""
    from cryptography import x509

    subject = x509.load_pem_x509_certificates(certificates)[0].subject
    names = [str(each.value) for each in subject.get_attributes_for_oid(x509.oid.NameOID.COMMON_NAME)][-1:]
    return [name for name in names if name == "*" or _is_domain(name.removeprefix("*."))]


def _is_domain(name: str) -> bool:
    """Report whether a name is a DNS subdomain and no IP address, which clients do not ask for."""
    return not dns_subdomain_texts(name) and not name.replace(".", "").isdecimal()


def _covers(names: Iterable[str], name: str) -> bool:
    """Report whether one of the names in a certificate is a name, or a pattern for it (`VerifyHostname`)."""
    labels = name.removesuffix(".").split(".")
    return any(_matches(pattern.lower().split("."), labels) for pattern in names)


def _matches(pattern: Sequence[str], labels: Sequence[str]) -> bool:
    return len(pattern) == len(labels) and pattern[0] in ("*", labels[0]) and pattern[1:] == labels[1:]
