"""A TLS context that asks clients for certificates, and leaves their verification to whoever wants to know the user.

Python's `ssl` ends the handshake with a client whose certificate it does not trust, and has no callback to prevent
that; kube-apiserver answers such a client with 401, or accepts its token. So OpenSSL is used through pyOpenSSL here,
behind the methods that the event loops call of an `ssl.SSLContext` and an `ssl.SSLObject`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, Protocol, cast

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate
from OpenSSL import SSL, crypto

from understudy.apiserver.authentication.certificates.authorities import Authorities

RECORD = 1 << 14  # bytes of a TLS record
FLIGHT = 1 << 17  # bytes that are taken from OpenSSL at a time


class CertificateSource(Protocol):
    """Puts the server's certificate and key into a context."""

    def __call__(self, context: ssl.SSLContext | SSL.Context) -> None: ...


# Returns the context for clients that ask for a name.
Choice = Callable[[str], ssl.SSLContext]


class AskingContext(ssl.SSLContext):
    """A server's TLS context whose connections ask for a client certificate, require none and verify none.

    configure    gives the context the server's certificate
    authorities  whose certificates clients should show
    protocols    that clients may agree to (ALPN), the preferred one first
    choose       returns the context, one of these, for clients that ask for a name; None where all have this one
    """

    _choose: Choice | None
    _configure: CertificateSource
    _authorities: Sequence[Authorities]
    _protocols: Sequence[str]
    _named: list[Sequence[Certificate]]
    _context: SSL.Context

    def __new__(
        cls,
        configure: CertificateSource,
        authorities: Sequence[Authorities],
        protocols: Sequence[str],
        choose: Choice | None = None,
    ) -> AskingContext:
        """Return a new context."""
        self = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        self._configure, self._authorities, self._protocols = configure, authorities, protocols
        self._choose = choose
        self._named = self._current
        self._context = self._made()
        return self

    def __init__(
        self,
        configure: CertificateSource,
        authorities: Sequence[Authorities],
        protocols: Sequence[str],
        choose: Choice | None = None,
    ) -> None:
        """Do nothing: `ssl.SSLContext` is made by `__new__`."""

    @property
    def _current(self) -> list[Sequence[Certificate]]:
        """Return the certificates of authorities, which change with their files."""
        return [file.certificates for file in self._authorities]

    def _made(self) -> SSL.Context:
        """Return a context of OpenSSL that names the authorities to clients: those of Go show no other certificates."""
        context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        self._configure(context)
        context.set_verify(SSL.VERIFY_PEER, _accept)
        for authority in chain.from_iterable(self._named):
            context.add_client_ca(authority)
        # A resumed session would come without the intermediates that the client sent in the first one.
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_options(SSL.OP_NO_TICKET)
        context.set_alpn_select_callback(partial(_select, [name.encode() for name in self._protocols]))
        if self._choose is not None:
            context.set_tlsext_servername_callback(partial(_switch, self._choose))
        return context

    def renew(self) -> None:
        """Let new connections show the server's certificate as it is now."""
        self._context = self._made()

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *_: Any, **__: Any) -> Any:
        """Return the TLS side of a new connection, for the event loop."""
        return AskingConnection(self.openssl, incoming, outgoing)

    @property
    def openssl(self) -> SSL.Context:
        """Return the context of OpenSSL for a new connection."""
        if self._named != (current := self._current):
            self._named = current
            self.renew()
        return self._context


def _switch(choose: Choice, connection: SSL.Connection) -> None:
    """Give a connection the context for the name that its client asks for, if it asks for any."""
    name = connection.get_servername()
    context = choose(name.decode("latin-1")) if name else None
    if isinstance(context, AskingContext):
        connection.set_context(context.openssl)


def _accept(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, is_good: int) -> bool:
    """Let the handshake go on whatever the client shows."""
    return True


def _select(protocols: list[bytes], connection: SSL.Connection, offered: list[bytes]) -> Any:
    """Return the first of the protocols that the client offers, none if there is none."""
    return next((protocol for protocol in protocols if protocol in offered), SSL.NO_OVERLAPPING_PROTOCOLS)


class AskingConnection:
    """The TLS side of one connection, with the methods of `ssl.SSLObject` that event loops call.

    peer  the certificates that the client has shown, in DER, its own first
    """

    def __init__(self, context: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._connection = SSL.Connection(context)
        self._connection.set_accept_state()
        self._incoming = incoming
        self._outgoing = outgoing
        self._may_have_more = True
        self.peer: tuple[bytes, ...] = ()

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises ssl.SSLWantReadError until it is done, ssl.SSLError if it fails."""
        with self._translated():
            self._connection.do_handshake()
        if own := self._connection.get_peer_certificate(as_cryptography=True):
            others = self._connection.get_peer_cert_chain(as_cryptography=True) or []
            self.peer = tuple(certificate.public_bytes(Encoding.DER) for certificate in (own, *others))

    def read(self, size: int) -> bytes:
        """Return bytes that the client has sent, none behind its last one. Raises ssl.SSLWantReadError."""
        try:
            with self._translated():
                received: bytes = self._connection.recv(min(size, RECORD))
        except ssl.SSLWantReadError:
            self._may_have_more = False
            raise
        except SSL.ZeroReturnError:
            self._may_have_more = False
            return b""
        return received

    def write(self, data: bytes | memoryview) -> int:
        """Encrypt bytes for the client, and return how many."""
        with self._translated():
            sent: int = self._connection.send(cast("bytes", data))  # older releases declare no other buffers
            return sent

    def pending(self) -> int:
        """Return whether there may be more to read, as a number: uvloop asks only whether it is 0."""
        return int(self._may_have_more)

    def unwrap(self) -> None:
        """End the connection. Raises ssl.SSLWantReadError until the client has agreed."""
        with suppress(SSL.ZeroReturnError), self._translated():
            if not self._connection.shutdown():
                raise SSL.WantReadError

    def getpeercert(self) -> None:
        """Return None: no certificate was verified."""

    def selected_alpn_protocol(self) -> str | None:
        """Return the protocol that was agreed upon, None without one."""
        return self._connection.get_alpn_proto_negotiated().decode() or None

    def cipher(self) -> tuple[str | None, str | None, int | None]:
        """Return name, protocol and secret bits of the cipher."""
        connection = self._connection
        return connection.get_cipher_name(), connection.get_cipher_version(), connection.get_cipher_bits()

    def compression(self) -> None:
        """Return None: nothing is compressed."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Pass bytes between the event loop's buffers and OpenSSL, and its errors on as those of Python's `ssl`.

        What comes while the loop reads nothing is passed on by a write, too, and is there to read afterwards.
        """
        if received := self._incoming.read():
            self._connection.bio_write(received)
            self._may_have_more = True
        try:
            yield
        except SSL.WantReadError:
            raise ssl.SSLWantReadError from None
        except SSL.ZeroReturnError:
            raise
        except SSL.Error as error:
            raise ssl.SSLError(str(error)) from None
        finally:
            self._flush()

    def _flush(self) -> None:
        while True:
            try:
                self._outgoing.write(self._connection.bio_read(FLIGHT))
            except SSL.WantReadError:
                return
