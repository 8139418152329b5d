"""Requests to issuers of tokens, which block a thread, directly or over connections that somebody else makes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from urllib.error import HTTPError
from urllib.request import HTTPHandler, HTTPSHandler, ProxyHandler, Request, build_opener, urlopen

# Connects to a host and a port within some seconds. Raises OSError.
Connect = Callable[[str, int, float], socket.socket]


def download(address: str, token: str, timeout: float, context: ssl.SSLContext, connect: Connect | None) -> bytes:
    """Return the body that an issuer answers for an address. Blocks the thread: `timeout` is in seconds.

    token    that the request shows, "" for none
    connect  None for direct connections

    Raises OSError; HTTPError, whose connection is closed, for an answer that is an error.
    """
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    request = Request(address, headers={"User-Agent": "Go-http-client/1.1", **shown})
    try:
        if connect is None:
            opened = urlopen(request, timeout=timeout, context=context)
        else:
            opened = build_opener(ProxyHandler({}), _Handler(context, connect)).open(request, timeout=timeout)
        with opened as answer:
            content: bytes = answer.read()
            return content
    except HTTPError as error:
        error.close()
        raise


class _Handler(HTTPHandler, HTTPSHandler):
    """Sends requests over connections that `connect` makes."""

    def __init__(self, context: ssl.SSLContext, connect: Connect) -> None:
        super().__init__()
        self._tls = context
        self._connect = connect

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(_Connection, self._connect, 80, None), req)

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(partial(_Connection, self._connect, 443, self._tls), req)


class _Connection(HTTPConnection):
    """A connection that `connect` makes."""

    def __init__(
        self, connect: Connect, default_port: int, tls: ssl.SSLContext | None, host: str, timeout: float
    ) -> None:
        self.default_port = default_port
        super().__init__(host, timeout=timeout)
        self._seconds, self._tls, self._connect = timeout, tls, connect

    def connect(self) -> None:
        made = self._connect(self.host, self.port, self._seconds)
        self.sock = made if self._tls is None else self._tls.wrap_socket(made, server_hostname=self.host)
