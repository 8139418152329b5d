"""Forged tokens and smuggled headers: whatever is tried, the answer is the 401 or 403 of kube-apiserver."""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.http import send
from understudy import Server
from understudy.apiserver.authentication import jose

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SELF_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
Claims = dict[str, Any]
Forge = Callable[["Genuine"], str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    path.write_text('admin-token,admin,1,"system:masters"\nbob-token,bob,2\n')
    with Server(token_auth_file=path, authorization_mode="RBAC", tls=False) as running:
        running.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
        yield running


class Genuine:
    """A good token of a service account, in parts."""

    def __init__(self, server: Server) -> None:
        as_admin = {"Authorization": "Bearer admin-token"}
        request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        answer = send(server, "POST", f"{ACCOUNTS}/robot/token", request, headers=as_admin)
        self.text: str = answer.json()["status"]["token"]
        self.head, self.body, self.signature = self.text.split(".")
        self.header: Claims = json.loads(jose.decode(self.head))
        self.claims: Claims = json.loads(jose.decode(self.body))
        self.jwk: Claims = send(server, "GET", "/openid/v1/jwks", headers=as_admin).json()["keys"][0]
        self.key = server.state.tokens.accounts._signing_key

    def with_header(self, **fields: Any) -> str:
        """Return the token with another header, and the signature that it had."""
        return f"{encoded({**self.header, **fields})}.{self.body}.{self.signature}"

    def signed(self, **claims: Any) -> str:
        """Return a token of the server's own key with other claims; those that are None are left out."""
        return jose.sign(self.key, {name: value for name, value in {**self.claims, **claims}.items() if value})


@pytest.fixture(scope="module")
def genuine(server: Server) -> Genuine:
    return Genuine(server)


def encoded(fields: Claims | str) -> str:
    return jose.encode((fields if isinstance(fields, str) else json.dumps(fields)).encode())


def confused(genuine: Genuine, key: bytes) -> str:
    """Return a token that is signed with HS256 and the bytes of the public key, which everybody knows."""
    signed = f"{encoded({'alg': 'HS256', 'kid': genuine.header['kid']})}.{genuine.body}"
    return f"{signed}.{jose.encode(hmac.digest(key, signed.encode(), 'sha256'))}"


def public_pem(genuine: Genuine) -> bytes:
    return jose.key_of(genuine.jwk).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def foreign(genuine: Genuine, **header: Any) -> str:
    """Return the claims signed by a key that is not the server's, under a header of one's own."""
    text = jose.sign(OTHER_KEY, genuine.claims)
    head = {"alg": "RS256", **header}
    signed = f"{encoded(head)}.{text.split('.')[1]}"
    return f"{signed}.{jose.encode(OTHER_KEY.sign(signed.encode(), PKCS1v15(), SHA256()))}"


def twice(genuine: Genuine) -> str:
    """Return a token of the server's key whose claims name two subjects, the second one in the end."""
    return jose.sign(genuine.key, genuine.claims).replace(genuine.body, encoded('{"sub":"a","sub":"b"}'))


def header_twice(genuine: Genuine) -> str:
    return json.dumps(genuine.header)[:-1] + ', "alg": "RS256"}'


FORGED: dict[str, Forge] = {
    "alg none": lambda g: f"{encoded({**g.header, 'alg': 'none'})}.{g.body}.",
    "alg None": lambda g: g.with_header(alg="None"),
    "alg none with signature": lambda g: g.with_header(alg="none"),
    "alg missing": lambda g: f"{encoded({'kid': g.header['kid']})}.{g.body}.{g.signature}",
    "alg of another family": lambda g: g.with_header(alg="ES256"),
    "alg is a list": lambda g: g.with_header(alg=["RS256"]),
    "HS256 with the public key as PEM": lambda g: confused(g, public_pem(g)),
    "HS256 with the modulus": lambda g: confused(g, jose.decode(g.jwk["n"])),
    "HS256 with an empty key": lambda g: confused(g, b""),
    "foreign key": lambda g: foreign(g),
    "foreign key under the server's kid": lambda g: foreign(g, kid=g.header["kid"]),
    "foreign key under an empty kid": lambda g: foreign(g, kid=""),
    "kid of a file": lambda g: foreign(g, kid="/dev/null"),
    "kid of a path": lambda g: g.with_header(kid="../../etc/passwd"),
    "kid is an injection": lambda g: g.with_header(kid="' OR '1'='1"),
    "kid is a number": lambda g: g.with_header(kid=1),
    "kid is null": lambda g: foreign(g, kid=None),
    "embedded jwk": lambda g: foreign(g, jwk=jose.jwk_of(OTHER_KEY.public_key())),
    "embedded jwk under the server's kid": lambda g: foreign(
        g, kid=g.header["kid"], jwk=jose.jwk_of(OTHER_KEY.public_key())
    ),
    "jku": lambda g: foreign(g, jku="http://127.0.0.1:1/keys"),
    "x5u": lambda g: foreign(g, x5u="http://127.0.0.1:1/keys"),
    "critical extension": lambda g: g.with_header(crit=["exp"], exp=1),
    "no signature": lambda g: f"{g.head}.{g.body}.",
    "no third part": lambda g: f"{g.head}.{g.body}",
    "four parts": lambda g: f"{g.text}.x",
    "encrypted form": lambda g: f"{g.text}.x.y",
    "signature cut": lambda g: g.text[:-8],
    "signature longer": lambda g: g.text + "AAAA",
    "signature padded": lambda g: g.text + "==",
    "signature with letters of the other alphabet": lambda g: f"{g.head}.{g.body}.{g.signature[:-1]}+",
    "header changed": lambda g: g.with_header(typ="JWT"),
    "header twice": lambda g: f"{encoded(header_twice(g))}.{g.body}.{g.signature}",
    "claims changed": lambda g: f"{g.head}.{encoded({**g.claims, 'sub': 'system:admin'})}.{g.signature}",
    "claims twice": twice,
    "claims are a list": lambda g: f"{g.head}.{encoded('[]')}.{g.signature}",
    "claims deeply nested": lambda g: f"{g.head}.{encoded('[' * 5000)}.{g.signature}",
    "JSON form": lambda g: json.dumps({"payload": g.body, "protected": g.head, "signature": g.signature}),
    "no JSON": lambda g: f"{encoded('x')}.{encoded('y')}.{g.signature}",
    "not ASCII": lambda g: f"{g.head}.{g.body}é.{g.signature}",
    "another audience": lambda g: g.signed(aud=["vault"]),
    "another audience as a text": lambda g: g.signed(aud="vault"),
    "another issuer": lambda g: g.signed(iss="https://example.com"),
    "issuer missing": lambda g: g.signed(iss=None),
    "issuer is a list": lambda g: g.signed(iss=[g.claims["iss"]]),
    "expired": lambda g: g.signed(exp=g.claims["iat"] - 61),
    "expires as a text": lambda g: g.signed(exp="never"),
    "not valid yet": lambda g: g.signed(nbf=g.claims["iat"] + 600),
    "issued in the future": lambda g: g.signed(iat=g.claims["iat"] + 600),
    "of no account": lambda g: g.signed(**{"kubernetes.io": None}),
    "of nothing": lambda g: g.signed(**{"kubernetes.io": ["x"]}),
    "of another account": lambda g: g.signed(
        **{"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "x"}}}
    ),
    "bound to a list": lambda g: g.signed(**{"kubernetes.io": {**g.claims["kubernetes.io"], "pod": ["x"]}}),
    "bound to no pod": lambda g: g.signed(**{"kubernetes.io": {**g.claims["kubernetes.io"], "pod": {"name": "gone"}}}),
}


def test_genuine(server: Server, genuine: Genuine) -> None:
    """The token that the others are forged from is good; so is one without kid, or whose header says more."""
    for text in (genuine.text, genuine.signed()):
        headers = {"Authorization": f"Bearer {text}"}
        assert send(server, "POST", SELF_REVIEW, {}, headers=headers).status == 201


@pytest.mark.parametrize("name", FORGED)
def test_forged_token(server: Server, genuine: Genuine, name: str) -> None:
    """A forged token is 401, also where everybody may look; a TokenReview knows nobody by it."""
    token = FORGED[name](genuine)
    headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
    assert send(server, "GET", "/version", headers=headers).status == 401
    review = {"spec": {"token": token}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answer = send(server, "POST", path, review, headers={"Authorization": "Bearer admin-token"})
    assert answer.status == 201
    status = answer.json()["status"]
    assert "authenticated" not in status
    assert status["error"].startswith(("invalid bearer token", "[invalid bearer token, "))


def raw(server: Server, *headers: str) -> int:
    """Return the status of a request for secrets, with header lines of one's own."""
    address = urlsplit(server.url)
    with socket.create_connection((str(address.hostname), address.port or 0), timeout=30) as connection:
        lines = ["GET /api/v1/secrets HTTP/1.1", f"Host: {address.netloc}", "Connection: close", *headers]
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return int(connection.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Authorization: Bearer admin-token"], 200),
        (["Authorization: Bearer bob-token", "Authorization: Bearer admin-token"], 403),
        (["Authorization: Bearer wrong", "Authorization: Bearer admin-token"], 401),
        (["Authorization: Basic YTpi", "Authorization: Bearer admin-token"], 403),
        (["Authorization: Bearer bob-token, Bearer admin-token"], 401),
        (["X-Remote-User: admin", "X-Remote-Group: system:masters"], 403),
        (["Authorization: Bearer bob-token", "X-Remote-User: admin", "X-Remote-Group: system:masters"], 403),
        (["X_Remote_User: admin"], 403),
        (["Authorization_: Bearer admin-token"], 403),
        (["Connection: Authorization", "Authorization: Bearer bob-token"], 403),
        (["Proxy-Authorization: Bearer admin-token"], 403),
        (["X-Forwarded-User: admin", "Forwarded: for=127.0.0.1"], 403),
        (["X-Forwarded-Access-Token: admin-token"], 403),
        (["Cookie: token=admin-token"], 403),
        (["Authorization: Bearer bob-token", "Impersonate-User: admin"], 403),
        (["Authorization: Bearer bob-token", "Impersonate-Group: system:masters", "Impersonate-User: bob"], 403),
        (["Authorization: Bearer bob-token", "Impersonate_User: admin"], 403),
        (["Authorization: Bearer bob-token", "Impersonate-Extra-Scopes: all", "Impersonate-User: bob"], 403),
        (["Authorization: Bearer admin-token", "Impersonate-User: bob"], 403),
        (["Authorization : Bearer admin-token"], 400),
        (["Authorization: Bearer bob-token\n X: Bearer admin-token"], 403),
        (["Authorization: Bearer bob-token", " Bearer admin-token"], 403),
    ],
)
def test_smuggled_headers(server: Server, headers: list[str], status: int) -> None:
    """Only the first Authorization header says who asks; nothing else makes anybody an administrator."""
    assert raw(server, *headers) == status


def test_key_files(tmp_path: Path) -> None:
    """A server signs with its key file, verifies with all key files, and tells all public keys."""
    keys = [ec.generate_private_key(ec.SECP384R1()), jose.new_private_key(), ec.generate_private_key(ec.SECP256R1())]
    files = []
    for number, key in enumerate(keys):
        files.append(tmp_path / f"{number}.pem")
        files[-1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    options: Any = {
        "service_account_signing_key_file": files[0],
        "service_account_key_file": [str(file) for file in files[:2]],
        "service_account_issuer": ["https://new.example.com", "https://old.example.com"],
    }
    with Server(**options) as server:
        server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
        token = send(server, "POST", f"{ACCOUNTS}/robot/token", {"spec": {}}).json()["status"]["token"]
        claims = json.loads(jose.decode(token.split(".")[1]))
        assert (claims["iss"], claims["aud"]) == (
            options["service_account_issuer"][0],
            options["service_account_issuer"],
        )
        old = {**claims, "iss": "https://old.example.com"}

        def is_known(text: str) -> bool:
            review = {"spec": {"token": text}}
            answer = send(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review).json()
            return bool(answer["status"].get("authenticated"))

        assert [is_known(text) for text in (token, jose.sign(keys[0], old), jose.sign(keys[1], old))] == [True] * 3
        assert not is_known(jose.sign(keys[2], claims))
        published = send(server, "GET", "/openid/v1/jwks").json()["keys"]
        assert [(key["kty"], key["alg"]) for key in published] == [("EC", "ES384"), ("RSA", "RS256")]
        configuration = send(server, "GET", "/.well-known/openid-configuration").json()
        assert configuration["id_token_signing_alg_values_supported"] == ["ES384", "RS256"]
