"""Signed tokens and keys: which key has signed what (RFC 7515, 7517, 7518)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.certificates import new_authority
from understudy.apiserver.authentication import jose

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
EC = {name: ec.generate_private_key(curve) for name, curve in CURVES.items()}
HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def key_of(algorithm: str) -> jose.PrivateKey:
    return EC.get(algorithm, RSA)


def signed(algorithm: str) -> jose.Token:
    """Return a token that is signed with an algorithm, by the library itself."""
    digest, key = HASHES[algorithm[2:]], key_of(algorithm)
    header = json.dumps({"alg": algorithm}).encode()
    text = f"{jose.encode(header)}.{jose.encode(b'{}')}"
    if isinstance(key, rsa.RSAPrivateKey):
        pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
        signature = key.sign(text.encode(), padding.PKCS1v15() if algorithm[0] == "R" else pss, digest)
    else:
        size = (key.key_size + 7) // 8
        pair = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(digest)))
        signature = b"".join(number.to_bytes(size) for number in pair)
    return jose.Token.parse(f"{text}.{jose.encode(signature)}")


@pytest.mark.parametrize("algorithm", jose.ALGORITHMS)
def test_a_key_verifies_algorithms_of_its_kind(algorithm: str) -> None:
    """A signature is good for the key that made it, and for no key of another kind or curve."""
    token = signed(algorithm)
    good = [name for name in ("RS256", *EC) if token.is_signed_by(key_of(name).public_key())]
    assert good == [algorithm if algorithm in EC else "RS256"]
    others = tuple(name for name in jose.ALGORITHMS if name != algorithm)
    assert not token.is_signed_by(key_of(algorithm).public_key(), others)


@pytest.mark.parametrize("key", [RSA, *EC.values()], ids=["RSA", *EC])
def test_what_is_signed_can_be_verified_by_the_published_key(key: jose.PrivateKey) -> None:
    """A token names its key, whose published form verifies it."""
    token = jose.Token.parse(jose.sign(key, {"sub": "x"}))
    published = jose.jwk_of(key.public_key())
    assert (published["kid"], published["alg"]) == (token.key_id, token.header["alg"])
    assert token.is_signed_by(jose.key_of(published))


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "oct", "k": "AAAA"},
        {"kty": "RSA"},
        {"kty": "RSA", "n": 1, "e": "AQAB"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"},
    ],
)
def test_malformed_keys(jwk: dict[str, object]) -> None:
    """A key that cannot verify tokens is refused."""
    with pytest.raises(ValueError, match=r"key|RSA|modulus|EC|curve|e must"):
        jose.key_of(jwk)


def private(key: jose.PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def public(key: jose.PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (lambda: private(RSA), 1),
        (lambda: public(RSA) + b"text\n" + private(EC["ES256"]), 2),
        (lambda: new_authority().pem, 1),
        (lambda: b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n" + public(RSA), 1),
    ],
)
def test_public_keys_of_a_file(tmp_path: Path, content: Callable[[], bytes], count: int) -> None:
    """A file may hold public and private keys and certificates; other blocks are passed over."""
    path = tmp_path / "keys.pem"
    path.write_bytes(content())
    assert len(jose.read_public_keys(path)) == count


def test_files_without_keys(tmp_path: Path) -> None:
    """A file without the key that is looked for is refused."""
    path = tmp_path / "keys.pem"
    path.write_bytes(public(RSA))
    with pytest.raises(ValueError, match="data does not contain a valid RSA or ECDSA private key"):
        jose.read_private_key(path)
    path.write_text("nothing")
    with pytest.raises(ValueError, match="data does not contain any valid RSA or ECDSA public keys"):
        jose.read_public_keys(path)
