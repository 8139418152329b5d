"""Attacks of `attack` with tokens of an issuer, and on what is remembered of users and their rights."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from scripts.torture.attacks.case import Case, Target, run_at_once, status_of
from tests.apiserver.authentication.oidc.issuer import AUDIENCE, Issuer, serve
from understudy.apiserver.authentication import jose

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LONG = 900_000  # characters of a path
PAIRS = "!has(claims.roles) || dyn(claims.roles).all(a, dyn(claims.roles).all(b, a == b || a != b))"
TIMES: tuple[object, ...] = (-1e300, 1e300, math.nan, math.inf, 10**30, "1" * 5000, 1e18, -(2**63))


class _RotatingIssuer(Issuer):
    """An issuer that shows all of its keys once there is a file `rotated` in a folder, and the first one before."""

    def __init__(self, folder: Path, keys: int) -> None:
        super().__init__()
        self._folder = folder
        self._keys = [self.key, *(jose.new_private_key() for _ in range(keys - 1))]
        for number, key in enumerate(self._keys):
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            (folder / f"key-{number}.pem").write_bytes(pem)

    def keys(self) -> dict[str, Any]:
        shown = self._keys if (self._folder / "rotated").exists() else self._keys[:1]
        return {"keys": [jose.jwk_of(key.public_key()) for key in shown]}

    def document(self, path: str) -> dict[str, Any] | None:
        """Return the document at a path; keys take their time, and the file `fetches` counts them."""
        if path == "/keys":
            with (self._folder / "fetches").open("a") as file:
                file.write(".")
            time.sleep(0.2)
        return super().document(path)


@contextmanager
def _issuer(folder: Path, *, rules: Sequence[str] = (), keys: int = 1) -> Iterator[Sequence[str]]:
    """Serve an issuer of tokens; yield the flags of a server that trusts it."""
    issuer = _RotatingIssuer(folder, keys)
    with serve(folder, issuer) as (authority, _):
        (folder / "issuer").write_text(issuer.url)
        source = {"url": issuer.url, "audiences": [AUDIENCE], "certificateAuthority": authority.read_text()}
        validations = [{"expression": rule, "message": "no"} for rule in rules]
        spec = {
            "issuer": source,
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
            "claimValidationRules": validations,
        }
        head = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration"}
        path = folder / "authentication.json"
        path.write_text(json.dumps({**head, "jwt": [spec]}))
        yield ("--authentication-config", str(path))


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
