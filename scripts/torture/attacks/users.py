"""Attacks of `attack` with tokens of an issuer, and on what is remembered of users and their rights."""

from __future__ import annotations

import json
import math
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from scripts.torture.attacks.case import Case, Target, run_at_once, status_of
from understudy.apiserver.authentication import jose

AUDIENCE = "cluster"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LONG = 900_000  # characters of a path
PAIRS = "!has(claims.roles) || dyn(claims.roles).all(a, dyn(claims.roles).all(b, a == b || a != b))"
TIMES: tuple[object, ...] = (-1e300, 1e300, math.nan, math.inf, 10**30, "1" * 5000, 1e18, -(2**63))


@contextmanager
def _issuer(folder: Path, *, rules: Sequence[str] = (), keys: int = 1) -> Iterator[Sequence[str]]:
    """Serve an issuer of tokens that shows all of its keys once `rotated` is there, and the first one before."""
    made = [jose.new_private_key() for _ in range(keys)]
    for number, key in enumerate(made):
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"key-{number}.pem").write_bytes(pem)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/keys":
                with (folder / "fetches").open("a") as file:
                    file.write(".")
                time.sleep(0.2)
            shown = made if (folder / "rotated").exists() else made[:1]
            document: dict[str, Any] = {"keys": [jose.jwk_of(key.public_key()) for key in shown]}
            if self.path.endswith("/openid-configuration"):
                document = {"issuer": url, "jwks_uri": f"{url}/keys"}
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
    url = f"https://127.0.0.1:{server.server_port}"
    (folder / "issuer").write_text(url)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    source = {"url": url, "audiences": [AUDIENCE], "certificateAuthority": authority.cert_pem.bytes().decode()}
    validations = [{"expression": rule, "message": "no"} for rule in rules]
    spec = {
        "issuer": source,
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        "claimValidationRules": validations,
    }
    head = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration"}
    path = folder / "authentication.json"
    path.write_text(json.dumps({**head, "jwt": [spec]}))
    try:
        yield ("--authentication-config", str(path))
    finally:
        server.shutdown()
        server.server_close()


def _token(target: Target, number: int = 0, **claims: object) -> str:
    """Return a token of the issuer, signed with one of its keys."""
    key = _key(target.folder / f"key-{number}.pem")
    now = int(time.time())
    issuer = (target.folder / "issuer").read_text()
    usual = {"iss": issuer, "sub": "ann", "aud": AUDIENCE, "iat": now, "exp": now + 600}
    header = {"alg": "RS256", "kid": jose.key_id(key.public_key())}
    text = f"{jose.encode(_dumped(header))}.{jose.encode(_dumped(usual | claims))}"
    return f"{text}.{jose.encode(key.sign(text.encode(), PKCS1v15(), SHA256()))}"


@cache
def _key(path: Path) -> RSAPrivateKey:
    key = load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)
    return key


def _dumped(value: object) -> bytes:
    """Return JSON, which may have numbers that JSON does not know."""
    return json.dumps(value).encode()


def _review(target: Target, token: str) -> bytes:
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    return target.request("POST", REVIEW, body, token=token)


def _wait_for_issuer(target: Target) -> None:
    """Wait until the server knows a token of the issuer."""
    deadline = time.monotonic() + 60
    request = _review(target, _token(target))
    while 201 not in target.send_all([request], connections=1) and time.monotonic() < deadline:
        time.sleep(0.2)


def _times(target: Target) -> str:
    """Send tokens that end at times that are hardly any, fifty times each."""
    _wait_for_issuer(target)
    answers = {}
    for value in TIMES:
        requests = [_review(target, _token(target, exp=value))] * 50
        answers[str(value)[:8]] = target.send_all(requests)
    return ", ".join(f"{name} {statuses}" for name, statuses in answers.items())


def _rotated(target: Target) -> str:
    """Send tokens of a new key and of keys that nobody knows, all at once, while the issuer shows the new key."""
    _wait_for_issuer(target)
    (target.folder / "rotated").touch()
    before = len((target.folder / "fetches").read_text())
    tokens = [_token(target, 1 + number % 2, jti=str(number)) for number in range(400)]
    statuses = target.send_all([_review(target, token) for token in tokens], connections=100)
    return f"{statuses}, {len((target.folder / 'fetches').read_text()) - before} fetches"


def _costly_rule(target: Target) -> str:
    """Send ten tokens at once about whose claims a rule takes long."""
    _wait_for_issuer(target)
    began = time.monotonic()
    roles = [f"r{number:03d}" for number in range(600)]
    requests = [_review(target, _token(target, jti=str(number), roles=roles)) for number in range(10)]
    return f"{target.send_all(requests, connections=10)} after {time.monotonic() - began:.1f} s"


def _long_paths(target: Target) -> str:
    """Ask for a hundred paths of 900 kB, as a user without rights."""
    return _asked(target, "/x{}")


def _long_names(target: Target) -> str:
    """Ask for a hundred objects whose names have 900 kB, as a user without rights."""
    return _asked(target, "/api/v1/namespaces/default/configmaps/x{}")


def _asked(target: Target, path: str) -> str:
    statuses: list[int] = []

    def ask(number: int) -> None:
        with target.connect() as connection:
            connection.sendall(target.request("GET", path.format(number) + "y" * LONG, token=target.user))
            statuses.append(status_of(connection.recv(1 << 16)))

    for first in range(0, 100, 4):
        run_at_once([partial(ask, number) for number in range(first, first + 4)])
    return str({status: statuses.count(status) for status in set(statuses)})


_RBAC = ("--authorization-mode", "Node,RBAC")
CASES = (
    Case("tokens that end at odd times", _times, prepare=_issuer),
    Case("tokens while keys rotate", _rotated, prepare=partial(_issuer, keys=3)),
    Case("a rule about claims", _costly_rule, prepare=partial(_issuer, rules=(PAIRS,))),
    Case("paths of 900 kB", _long_paths, _RBAC),
    Case("names of 900 kB", _long_names, _RBAC),
    Case("names of 900 kB, reported", _long_names, _RBAC, own=("--permission-report", "{folder}/report.yaml")),
)
