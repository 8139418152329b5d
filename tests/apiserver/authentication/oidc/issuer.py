"""An issuer of OpenID Connect for tests and attacks: its tokens, and its documents as files or over HTTPS."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

from understudy.apiserver.authentication import jose

URL, AUDIENCE = "https://issuer.example.com", "cluster"


class Issuer:
    """An issuer of tokens with one key, which can be replaced."""

    def __init__(self, url: str = URL) -> None:
        self.url = url
        self.shows_keys = self.tells_address = True
        self.answers = threading.Event()  # requests for keys wait for it
        self.answers.set()
        self.key = jose.new_private_key()

    def keys(self) -> dict[str, Any]:
        return {"keys": [{"kty": "oct", "k": "AAAA"}, jose.jwk_of(self.key.public_key())]}

    def document(self, path: str) -> dict[str, Any] | None:
        """Return the document at a path, None if there is none."""
        if path.endswith("/openid-configuration"):
            address = {"jwks_uri": f"{self.url}/keys"} if self.tells_address else {}
            return {"issuer": self.url, **address}
        if path == "/keys":
            self.answers.wait(60)
        return self.keys() if self.shows_keys or path != "/keys" else None

    def write_keys(self, folder: Path) -> str:
        """Write the keys to a file, and return its address."""
        path = folder / "keys.json"
        path.write_text(json.dumps(self.keys()))
        return path.as_uri()

    def token(self, **claims: Any) -> str:
        """Return a token with claims in place of the usual ones; those that are None are left out."""
        now = time.time()
        times = {"iat": int(now), "exp": now + 600}
        usual = {"iss": self.url, "sub": "ann", "aud": AUDIENCE, "groups": ["dev", "ops"], **times}
        return jose.sign(self.key, {name: value for name, value in (usual | claims).items() if value is not None})


@contextmanager
def serve(folder: Path, issuer: Issuer) -> Iterator[tuple[Path, list[str]]]:
    """Serve an issuer over HTTPS, which gets its address; yield the file of its authority and the paths asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            document = issuer.document(self.path)
            if document is None:
                self.send_error(404)
                return
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    authority = trustme.CA()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer.url = f"https://127.0.0.1:{server.server_port}"
    authority.cert_pem.write_to_path(str(folder / "issuer.crt"))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield folder / "issuer.crt", paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
