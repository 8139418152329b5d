"""A validating webhook that a test runs."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trustme

from understudy.machinery.types import Obj

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


@contextmanager
def validating_webhook(respond: Callable[[BaseHTTPRequestHandler], Obj], client_ca: str = "") -> Iterator[Obj]:
    """Run a webhook that is asked about new config maps; yield its entry in a ValidatingWebhookConfiguration.

    respond    returns the response to a review, but for its uid
    client_ca  the authorities (PEM) of the certificates that its clients are asked for, "" if they are not
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            review["response"] = {"uid": review.pop("request")["uid"], **respond(self)}
            answer = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    if client_ca:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=client_ca)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    try:
        yield {
            "name": "w.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/x", "caBundle": bundle},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
