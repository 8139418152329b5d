"""The TLS certificate of a server: read from files, or made by the server for as long as it runs."""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from understudy.apiserver.server.options.tls.key_pair import KeyPair
from understudy.apiserver.server.options.tls.server_names import NamedFiles, ServerNames, dns_names
from understudy.machinery.util.regex import regex

if TYPE_CHECKING:
    from OpenSSL import SSL

    from understudy.apiserver.authentication.certificates.authorities import Authorities
    from understudy.apiserver.server.options.tls.client_certificates import CertificateSource, Choice

PathLike = str | os.PathLike[str]
_CERTIFICATE = regex(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)  # and no key
AUTHORITY = "certificate-authority"  # the name of what is generated
NAMES = ("localhost", "127.0.0.1", "::1", "kubernetes.default.svc")


class Certificates:
    """The certificate and key of a server; false where it speaks plain HTTP.

    pair         the files that hold them, None without
    named        the certificates for clients that ask for the server by certain names
    client_authorities
                 whose certificates clients are asked for; none are asked for without
    generated    returns what the server has made for itself, from its name and what makes it
    """

    def __init__(
        self,
        self_signed: bool,
        cert_file: PathLike | None,
        key_file: PathLike | None,
        client_authorities: Sequence[Authorities] = (),
        generated: Callable[[str, Callable[[], bytes]], bytes] = lambda _, make: make(),
        named: Sequence[NamedFiles] = (),
    ) -> None:
        self._self_signed = self_signed and not cert_file
        self._client_authorities = client_authorities
        self._generated = generated
        self.pair = KeyPair(str(cert_file), str(key_file)) if cert_file and key_file else None
        self.named = ServerNames(named, self._own_names)
        self._authority = b""

    @property
    def authority(self) -> str:
        """Return the certificates that clients have to trust (base64 of PEM), "" until they are known."""
        return _encoded(
            self._authority if self.pair is None else b"".join(_CERTIFICATE.findall(self.pair.certificates))
        )

    @property
    def pairs(self) -> Sequence[KeyPair]:
        """Return the files of all certificates, which may change."""
        return [*([] if self.pair is None else [self.pair]), *self.named.pairs]

    def __bool__(self) -> bool:
        return self._self_signed or self.pair is not None

    def contexts(self, protocols: Sequence[str] = ("http/1.1",)) -> Callable[[str], ssl.SSLContext] | None:
        """Return the function that chooses a TLS context by the address that a client has reached; None for plain HTTP.

        The contexts offer protocols (ALPN), the preferred one first, and change with the files of the certificates.
        """
        if not self:
            return None
        contexts: dict[KeyPair | None, ssl.SSLContext] = {}

        def choose(name: str) -> ssl.SSLContext:
            return contexts[self.named.choose(name)]

        for pair in self.named.pairs:
            contexts[pair] = self._new_context(pair, pair.load, protocols, choose)
        contexts[None] = self._new_context(self.pair, self._configure, protocols, choose if contexts else None)
        return lambda address: contexts[self.named.choose_by_address(address)]

    def _new_context(
        self,
        pair: KeyPair | None,
        configure: CertificateSource,
        protocols: Sequence[str],
        choose: Choice | None = None,
    ) -> ssl.SSLContext:
        """Return a context with a certificate, which is that of a pair of files.

        configure  gives the context the certificate
        choose     returns the context for clients that ask for a name
        """
        context: ssl.SSLContext
        if self._client_authorities:
            from understudy.apiserver.server.options.tls.client_certificates import AskingContext  # pyOpenSSL

            context = asking = AskingContext(configure, self._client_authorities, protocols, choose)
            changed = asking.renew
        else:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            configure(context)
            context.set_alpn_protocols(list(protocols))
            if choose is not None:
                context.sni_callback = partial(_switch, choose)
            changed = partial(configure, context)
        if pair is not None:
            pair.changed = changed
        return context

    def _own_names(self) -> Iterable[str]:
        """Return the names in the certificate that is shown to clients that ask for none."""
        return NAMES if self.pair is None else dns_names(self.pair.certificates)

    def _configure(self, context: ssl.SSLContext | SSL.Context) -> None:
        """Give a context the certificate and its key."""
        if self.pair is not None:
            self.pair.load(context)
            return
        import trustme  # takes a while

        made = self._generated(AUTHORITY, _new_authority)
        certificate = b"".join(_CERTIFICATE.findall(made))
        authority = trustme.CA.from_pem(certificate, made.replace(certificate, b""))
        authority.issue_cert(*NAMES).configure_cert(context)
        self._authority = certificate


def _switch(choose: Choice, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
    """Give a connection the context for the name that its client asks for, if it asks for any."""
    if name:
        connection.context = choose(name)


def _new_authority() -> bytes:
    """Return the certificate and the key of a new authority, in PEM."""
    import trustme

    authority = trustme.CA()
    return authority.cert_pem.bytes() + authority.private_key_pem.bytes()


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
