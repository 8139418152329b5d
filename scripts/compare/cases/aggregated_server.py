"""A server over HTTPS that tells what it was asked: an aggregated API server, or the kubelet of a node."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
from typing import Any, Self

import trustme

from scripts.common.comparing import Obj
from scripts.compare.cases.webhook_server import QuietServer

GROUP, VERSION = "wardle.example.com", "v1alpha1"
PATH = f"/apis/{GROUP}/{VERSION}"
NAMES = ("localhost", "api.wardle.svc")
FLUNDERS: Obj = {
    "name": "flunders",
    "singularName": "flunder",
    "namespaced": True,
    "kind": "Flunder",
    "verbs": ["create", "get", "list", "watch"],
}
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [FLUNDERS],
}
REPEATED = [
    ("X-Own", "1"),
    ("X-Own", "2"),
    ("Cache-Control", "private"),
    ("Warning", '299 - "w"'),
    ("Access-Control-Allow-Origin", "*"),
    ("Keep-Alive", "timeout=5"),
    ("Set-Cookie", "a=b"),
]


class AggregatedServer:
    """A server on a port of 127.0.0.1, with a certificate that `bundle` (base64) vouches for.

    front_ca  a file with the authorities (PEM) of the client certificates that it asks for, "" if it asks for none
    answers   begin of the paths below which there is more than pages
    host      the address, another one than 127.0.0.1 if that is refused
    plain     whether it speaks HTTP without TLS
    """

    def __init__(
        self, front_ca: str = "", answers: str = PATH, host: str = "127.0.0.1", *, plain: bool = False
    ) -> None:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*NAMES).configure_cert(context)
        if front_ca:
            context.load_verify_locations(front_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        self._server = _Pages((host, 0), _Handler, answers)
        self.port = self._server.start(None if plain else context)
        self.bundle = base64.b64encode(authority.cert_pem.bytes()).decode()

    def serve(self, path: str, page: Any, media: str) -> None:
        """Answer with a page, or what it returns each time, at a path from now on; None for 404."""
        self._server.pages[path] = page, media

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()


class _Pages(QuietServer):
    """The server, with its pages and their media types by path."""

    def __init__(self, address: tuple[str, int], handler: type[_Handler], answers: str) -> None:
        super().__init__(address, handler)
        self.answers = answers
        self.pages: dict[str, tuple[Any, str]] = {PATH: (RESOURCES, "application/json")}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms
    server: _Pages

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def setup(self) -> None:
        """Shake hands in the thread of the connection."""
        self.request.settimeout(60)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def _send(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        told: Obj = {"method": self.command, "path": self.path, "headers": self.headers.items(), "body": sent.decode()}
        if isinstance(self.connection, ssl.SSLSocket):
            told["certificate"] = bool(self.connection.getpeercert())
        text = [("Content-Type", "text/plain")]
        match path.rpartition("/")[2]:
            case _ if page := self.server.pages.get(path, (None, ""))[0]:
                content = page() if callable(page) else page
                body = content if isinstance(content, str) else json.dumps(content)
                self._send(200, body.encode(), [("Content-Type", self.server.pages[path][1])])
            case _ if not path.startswith(self.server.answers):
                self._send(404, b"404 page not found\n", text)
            case "moved":
                self._send(302, b"go", [*text, ("Location", "/elsewhere")])
            case "teapot":
                self._send(418, b"tea", text + REPEATED)
            case "cut":
                self.close_connection = True
            case "echo" if self.headers.get("Upgrade"):
                self.send_response(101)
                if protocol := self.headers.get("X-Stream-Protocol-Version"):
                    self.send_header("X-Stream-Protocol-Version", protocol)
                self.send_header("Upgrade", self.headers["Upgrade"])
                self.send_header("Connection", "Upgrade")
                self.end_headers()
                self.wfile.write(json.dumps(told).encode() + b"\n")
                self.wfile.write(self.rfile.readline().upper())
                self.close_connection = True
            case name if name.startswith("status-"):
                self._send(int(name.removeprefix("status-")), b"a kubelet's words", text)
            case "tell":
                self._send(404, b"asked " + json.dumps(told).encode(), text)
            case "yaml":
                self._send(400, b"error: a kubelet's\nmessage: words\ncode: 4", text)
            case "refuse":
                self._send(403, b"no", text)
            case _ if "watch=" in query:
                self._watch()
            case _:
                self._send(200, json.dumps(told).encode(), [("Content-Type", "application/json")])

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            line = json.dumps({"type": "ADDED", "object": {"number": number}}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer  # noqa: N815 - the base class's
