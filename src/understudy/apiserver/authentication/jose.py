"""Signed JSON Web Tokens and the keys that verify them, as go-jose reads them (RFC 7515, 7517, 7518).

Only the keys that a caller brings along count: what a token says about keys (`jwk`, `jku`, `x5u`, `x5c`) is not looked
at, and a key verifies the algorithms of its own kind alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, Self

import orjson
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)
from cryptography.x509 import load_der_x509_certificate

from understudy.machinery.golang.json_reader import parse, to_text
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.x509 import pem
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.regex import regex

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_ILLEGAL = regex(r"[^A-Za-z0-9_-]")  # in base64 for URLs
_HASHES: dict[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
RSA_ALGORITHMS = tuple(f"{family}{bits}" for family in ("RS", "PS") for bits in _HASHES)
# {algorithm: name of its curve in a key, the curve, bytes of a coordinate}
_CURVES: dict[str, tuple[str, ec.EllipticCurve, int]] = {
    "ES256": ("P-256", ec.SECP256R1(), 32),
    "ES384": ("P-384", ec.SECP384R1(), 48),
    "ES512": ("P-521", ec.SECP521R1(), 66),
}
ALGORITHMS = (*RSA_ALGORITHMS, *_CURVES)


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is parsed, and not verified.

    signed  the bytes that `signature` is of
    """

    header: Obj
    payload: bytes
    signed: bytes
    signature: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the compact serialization. Raises ValueError. Upstream: `jose.ParseSigned`."""
        head, payload, signature = text.split(".")
        header = read_object(decode(head))
        if not isinstance(header.get("kid", ""), str):
            error = f"json: cannot unmarshal {kind_of(header['kid'])} into Go value of type string"
            raise ValueError(f"failed to unmarshal key ID: {error}: {go_quote(json.dumps(header['kid']))}")
        return cls(header, decode(payload), f"{head}.{payload}".encode(), decode(signature))

    @property
    def key_id(self) -> str:
        """Return the id of the key that is said to have signed the token, "" for none."""
        key_id: str = self.header.get("kid", "")
        return key_id

    def is_signed_by(self, key: PublicKey, algorithms: Sequence[str] = ALGORITHMS) -> bool:
        """Report whether a key has signed the token, with one of the algorithms."""
        algorithm = self.header.get("alg")
        if algorithm not in algorithms or self.header.get("crit"):
            return False
        return _verifies(key, str(algorithm), self.signed, self.signature)


def read_object(text: bytes) -> Obj:
    """Return the JSON object in a text. Raises ValueError, with go-jose's text; also for a name that is there twice."""

    def unique(pairs: list[tuple[str, Any]]) -> Obj:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"json: duplicate key '{next(n for n in names if names.count(n) > 1)}' in object")
        return fields

    return _object(text, unique)


def read_claims(text: bytes) -> Obj:
    """Return the JSON object in a text, with the last value of each name. Raises ValueError, with Go's text."""
    return _object(text, dict)


def _object(text: bytes, fields: Callable[[list[tuple[str, Any]]], Obj]) -> Obj:
    try:
        value = json.loads(text, object_pairs_hook=fields, parse_int=read_integer, parse_constant=refuse_constant)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        parse(to_text(text))  # raises ValueError for all that Go does not read
        raise ValueError("malformed JSON") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def read_integer(literal: str) -> int | float:
    """Return the number of a literal without a fraction: one of far more than 64 bits is a float."""
    return int(literal) if len(literal) < 25 else float(literal)


def refuse_constant(literal: str) -> NoReturn:
    """Refuse `NaN` and `Infinity`, which Python reads. Raises ValueError."""
    raise json.JSONDecodeError("no JSON", literal, 0)


def _verifies(key: PublicKey, algorithm: str, signed: bytes, signature: bytes) -> bool:
    digest = _HASHES[algorithm[2:]]
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if algorithm not in RSA_ALGORITHMS:
                return False
            key.verify(signature, signed, _padding(algorithm, digest), digest)
        else:
            if algorithm not in _CURVES or _CURVES[algorithm][1].name != key.curve.name:
                return False
            size = _CURVES[algorithm][2]
            if len(signature) != 2 * size:
                return False
            r, s = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
            key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(digest))
    except InvalidSignature:
        return False
    return True


def _padding(algorithm: str, digest: hashes.HashAlgorithm) -> padding.AsymmetricPadding:
    if algorithm.startswith("RS"):
        return padding.PKCS1v15()
    return padding.PSS(padding.MGF1(digest), padding.PSS.AUTO)


def sign(key: PrivateKey, claims: Obj) -> str:
    """Return a token with claims, which are sorted by name. Upstream: `signerFromRSAPrivateKey`, `signerFromECDSA…`."""
    public = key.public_key()
    algorithm = algorithm_of(public)
    header = {"alg": algorithm, "kid": key_id(public)}
    text = f"{encode(orjson.dumps(header))}.{encode(orjson.dumps(claims, option=orjson.OPT_SORT_KEYS))}"
    digest = _HASHES[algorithm[2:]]
    if isinstance(key, rsa.RSAPrivateKey):
        return f"{text}.{encode(key.sign(text.encode(), padding.PKCS1v15(), digest))}"
    size = _CURVES[algorithm][2]
    pair = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(digest)))
    return f"{text}.{encode(b''.join(number.to_bytes(size) for number in pair))}"


def algorithm_of(key: PublicKey) -> str:
    """Return the algorithm with which a key signs. Raises ValueError for a curve that JSON Web Tokens do not have."""
    if isinstance(key, rsa.RSAPublicKey):
        return "RS256"
    for algorithm, (_, curve, _) in _CURVES.items():
        if curve.name == key.curve.name:
            return algorithm
    raise ValueError("unknown private key curve, must be 256, 384, or 521")


def key_id(key: PublicKey) -> str:
    """Return the id of a key: the hash of its DER. Upstream: `keyIDFromPublicKey`."""
    return encode(sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest())


def jwk_of(key: PublicKey) -> Obj:
    """Return a key as a member of a JSON Web Key Set."""
    named: Obj = {"use": "sig", "kty": "RSA", "kid": key_id(key)}
    algorithm = algorithm_of(key)
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {**named, "alg": algorithm, "n": _number(numbers.n), "e": _number(numbers.e)}
    curve, _, size = _CURVES[algorithm]
    point = key.public_numbers()
    place = {"x": encode(point.x.to_bytes(size)), "y": encode(point.y.to_bytes(size))}
    return {**named, "kty": "EC", "crv": curve, "alg": algorithm, **place}


def key_of(jwk: Obj) -> PublicKey:
    """Return the key of a member of a JSON Web Key Set. Raises ValueError for one that cannot verify tokens."""
    try:
        if jwk["kty"] == "RSA":
            return rsa.RSAPublicNumbers(int.from_bytes(decode(jwk["e"])), int.from_bytes(decode(jwk["n"]))).public_key()
        if jwk["kty"] == "EC":
            curves = {name: curve for name, curve, _ in _CURVES.values()}
            x, y = (int.from_bytes(decode(jwk[name])) for name in "xy")
            return ec.EllipticCurvePublicNumbers(x, y, curves[jwk["crv"]]).public_key()
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"malformed key: {error!r}") from None
    raise ValueError(f"unknown type of key: {jwk['kty']!r}")


def _number(number: int) -> str:
    return encode(number.to_bytes((number.bit_length() + 7) // 8))


def read_public_keys(path: Path) -> list[PublicKey]:
    """Return the keys of a PEM file: public and private ones, and certificates. Raises ValueError, OSError.

    Upstream: `keyutil.PublicKeysFromFile`.
    """
    keys = [key for block in pem.blocks(path.read_bytes()) if (key := _public_key(block.data)) is not None]
    if not keys:
        raise ValueError("data does not contain any valid RSA or ECDSA public keys")
    return keys


def _public_key(der: bytes) -> PublicKey | None:
    """Return the RSA or elliptic curve key of a public or private key or of a certificate in DER, None without one."""
    readers: tuple[Callable[[bytes], Any], ...] = (
        load_der_public_key,
        lambda data: load_der_private_key(data, None).public_key(),
        lambda data: load_der_x509_certificate(data).public_key(),
    )
    for read in readers:
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):
            key = read(der)
            return key if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) else None
    return None


def read_private_key(path: Path) -> PrivateKey:
    """Return the first private key of a PEM file. Raises ValueError, OSError.

    Upstream: `keyutil.PrivateKeyFromFile`.
    """
    return private_key(path.read_bytes())


def private_key(raw: bytes) -> PrivateKey:
    """Return the first private key in PEM. Raises ValueError."""
    for block in pem.blocks(raw):
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):
            key = load_der_private_key(block.data, None)
            if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
                return key
    raise ValueError("data does not contain a valid RSA or ECDSA private key")


def new_private_key() -> PrivateKey:
    """Return a new key for tokens of one server."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem_of(key: PrivateKey) -> bytes:
    """Return a private key in PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def kind_of(value: object) -> str:
    """Return Go's word for the kind of a JSON value."""
    for kind, name in ((bool, "bool"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "number"


def encode(raw: bytes) -> str:
    """Return bytes in base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return the bytes of base64 for URLs. Raises ValueError, with Go's text, for padding and for other letters."""
    illegal = _ILLEGAL.search(text)
    if illegal or len(text) % 4 == 1:
        offset = illegal.start() if illegal else len(text) - 1
        raise ValueError(f"illegal base64 data at input byte {offset}")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
