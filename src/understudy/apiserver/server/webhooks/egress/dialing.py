"""How other servers are dialled, directly or through proxies, and Go's words for what goes wrong (net)."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from understudy.machinery.types import NamedTuple

CLUSTER, CONTROL_PLANE = "cluster", "controlplane"  # the networks that proxies lead to
# Opens a connection of TCP to a host and a port. Raises DialError.
Dial = Callable[[str, int], Awaitable[socket.socket]]
DIAL = 30.0  # seconds until a server that does not take a connection is given up (`net.Dialer`)
NO_TLS = "tls: first record does not look like a TLS handshake"  # for every answer without TLS


class ProxyTLS(NamedTuple):
    """The client certificate that a proxy is shown, its key, and the authorities of the proxy's (PEM), None for the
    system's, in which it has a name."""

    certificate: bytes
    key: bytes
    authorities: bytes | None
    name: str


class Proxy(NamedTuple):
    """A proxy that is asked for connections by CONNECT (RFC 9110).

    path        of its Unix socket, "" for one at a host and a port
    address     the host and port as they are written; `port` is 0 if they have none
    """

    path: str = ""
    address: str = ""
    host: str = ""
    port: int = 0
    tls: ProxyTLS | None = None

    @property
    def name(self) -> str:
        """Return its name in errors: the path of its socket, or host and port."""
        return self.path or self.address


class DialError(OSError):
    """No connection to a server through a proxy. The text is Go's."""


async def place(dial: Dial | None, host: str, port: int) -> dict[str, Any]:
    """Return the arguments with which `create_connection` connects to a server, directly if there is no `dial`.

    Raises DialError.
    """
    return {"host": host, "port": port} if dial is None else {"sock": await dial(host, port)}


def joined(host: str, port: int | None) -> str:
    """Return host and port as a URL has them, with brackets around an IPv6 address."""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


def os_reason(error: OSError) -> str:
    """Return the words of the operating system for an error, in lower case as Go has them."""
    return os.strerror(error.errno).lower() if error.errno else str(error)
