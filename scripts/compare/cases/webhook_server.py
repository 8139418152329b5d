"""A webhook over HTTPS that answers as it is told, and keeps what it was asked, for `compare webhooks`."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

import trustme

from scripts.common.comparing import Obj

UNKEPT = ("content-length", "date", "traceparent", "host", "accept-encoding", "connection")


@dataclass(frozen=True)
class Answer:
    """The answer of a webhook: with `review`, the response of an AdmissionReview; otherwise `raw`.

    patch     operations of a JSON patch, or a text that stands in the place of their JSON
    fields    fields of the AdmissionReview, such as another apiVersion; None removes one
    response  fields of the response that replace what is filled in, such as another uid
    """

    review: bool = True
    response: Obj = field(default_factory=dict)
    fields: Obj = field(default_factory=dict)
    patch: Any = None
    status: int = 200
    headers: Obj = field(default_factory=dict)
    raw: str = ""
    delay: float = 0.0
    closes: bool = False

    def body(self, asked: Obj) -> bytes:
        """Return the body of the answer to a review."""
        if not self.review:
            return self.raw.encode()
        response: Obj = {"uid": (asked.get("request") or {}).get("uid"), "allowed": True, **self.response}
        if self.patch is not None:
            text = self.patch if isinstance(self.patch, str) else json.dumps(self.patch)
            response = {"patchType": "JSONPatch", "patch": base64.b64encode(text.encode()).decode(), **response}
        response = {name: value for name, value in response.items() if value is not None}
        answer = {"apiVersion": asked.get("apiVersion"), "kind": asked.get("kind"), "response": response, **self.fields}
        return json.dumps({name: value for name, value in answer.items() if value is not None}).encode()


class WebhookServer:
    """Webhooks on a port of 127.0.0.1, with a certificate that `bundle` (base64) vouches for.

    client  the certificate and the key of a client that they know, and other keys, as texts within JSON
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}  # by path
        self._calls: list[Obj] = []
        self._lock = threading.Lock()
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        client, other = (authority.issue_cert("client.example.com", common_name="client") for _ in range(2))
        rsa = authority.issue_cert("client.example.com", key_type=trustme.KeyType.RSA)
        keys = {name: leaf.private_key_pem for name, leaf in (("key", client), ("other", other), ("rsa", rsa))}
        texts = {"certificate": client.cert_chain_pems[0], **keys}
        self.client = {name: json.dumps(text.bytes().decode())[1:-1] for name, text in texts.items()}
        self._server = QuietServer(("127.0.0.1", 0), _handler(self))
        self.port = self._server.start(context)
        self.bundle = base64.b64encode(authority.cert_pem.bytes()).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def note(self, call: Obj) -> None:
        """Keep a call."""
        with self._lock:
            self._calls.append(call)

    @property
    def count(self) -> int:
        """Return the number of calls since the last time, those that are the same included."""
        with self._lock:
            return len(self._calls)

    def taken(self) -> list[Obj]:
        """Return the calls since the last time: of mutating webhooks in their order, the others by path, once each.

        A real server whose cache is behind the last write asks again; calls that are the same count once.
        """
        with self._lock:
            calls, self._calls = self._calls, []
        seen: Counter[str] = Counter()
        once = []
        for call in calls:
            key = json.dumps({**call, "uid": ""}, sort_keys=True)
            seen[key] += 1
            if seen[key] == 1:
                once.append(call)
        mutating = [call for call in once if "/m/" in call["path"]]
        return mutating + sorted(
            (call for call in once if "/m/" not in call["path"]), key=lambda call: str(call["path"])
        )


class QuietServer(http.server.ThreadingHTTPServer):
    """Serves in threads, and says nothing of clients that break off."""

    daemon_threads = True

    def start(self, context: ssl.SSLContext | None) -> int:
        """Serve from now on, over TLS if there is a context; return the port."""
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self.server_address[1]

    def stop(self) -> None:
        """Serve no more."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: clients give up, or do not trust the certificate."""


def _handler(hook: WebhookServer) -> type[http.server.BaseHTTPRequestHandler]:
    """Return the class that answers the requests to a webhook server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

        def setup(self) -> None:
            """Shake hands in the thread of the connection."""
            self.request.settimeout(60)
            self.request.do_handshake()
            super().setup()

        def _answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            answer = hook.answers.get(path, Answer(review=False, status=404, raw="no such hook"))
            body = json.loads(sent) if sent.startswith(b"{") else sent.decode()
            names = [name for name in self.headers if name.lower() not in UNKEPT]
            headers = {name.lower(): ", ".join(self.headers.get_all(name, ())) for name in names}
            shown = [value for part in (self.connection.getpeercert() or {}).get("subject", ()) for _, value in part]
            known = {"certificate": shown[-1]} if shown else {}
            hook.note({"method": self.command, "path": self.path, "headers": headers, "body": body, **known})
            time.sleep(answer.delay)
            if answer.closes:
                self.close_connection = True
                return
            raw = answer.body(body if isinstance(body, dict) else {})
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names that the base class looks for

    return Handler
