"""The way to an API server: its address, whom to trust, and who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from understudy.machinery.types import dataclass

if TYPE_CHECKING:
    from ssl import SSLContext

    from understudy.apiserver.endpoints.request import Response, WatchResponse
    from understudy.machinery.auth.exec_plugin import ExecPlugin
    from understudy.machinery.auth.impersonation import Headers

# Answers a request (method, path, headers, body, query) in the event loop of the server.
AskInside = Callable[[str, str, Mapping[str, str], bytes, Mapping[str, str]], "Awaitable[Response | WatchResponse]"]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Names a server and a user of it, as one context of a kubeconfig does.

    url                    "https://127.0.0.1:6443", without a slash at the end
    certificate_authority  the certificates (PEM) to trust; None trusts those of the machine
    insecure               whether any certificate is trusted (`insecure-skip-tls-verify`)
    token                  the bearer token of the user, or ""
    client_certificate, client_key
                           the user's certificate and its key (PEM), or None
    password               the name and the password of the user as in "name:password", or ""
    plugin                 the command that prints the user's token or certificate, or None
    impersonation          headers that name whom the user acts as, which webhooks are sent
    ask_inside             answers requests without a socket, in the event loop of a server; None for HTTP
    """

    url: str
    certificate_authority: bytes | None = None
    insecure: bool = False
    token: str = field(default="", repr=False)
    client_certificate: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)
    plugin: ExecPlugin | None = field(default=None, repr=False)
    impersonation: Headers = ()
    ask_inside: AskInside | None = field(default=None, repr=False)


def load_client_certificate(context: SSLContext, certificate: bytes, key: bytes | None) -> None:
    """Present a certificate (PEM) to servers that ask for one. Its key is among the same bytes if `key` is None.

    Raises ssl.SSLError if they cannot be read or do not belong together.
    """
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:  # `load_cert_chain` reads files only
        file = Path(folder) / "client.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + b"\n" + (key or b""))
        context.load_cert_chain(file)
