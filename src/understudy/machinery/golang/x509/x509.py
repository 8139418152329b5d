"""Certificate requests (PKCS#10) and certificates, checked as far as Go's crypto/x509 checks them.

Neither the key nor the extensions of a certificate are read. Errors are ValueErrors with Go's text.
"""

from __future__ import annotations

from itertools import chain

from understudy.machinery.golang.x509 import der, pem
from understudy.machinery.golang.x509.der import ANY, BITS, INTEGER, NULL, OID, OPTIONAL, Shape, Value, sequence
from understudy.machinery.types import dataclass

_ALGORITHM = sequence("AlgorithmIdentifier", OID, OPTIONAL)
_KEY = sequence("publicKeyInfo", _ALGORITHM, BITS)
_ATTRIBUTES = Shape("", 16, element=ANY, context=0)
_REQUEST = sequence(
    "certificateRequest",
    sequence("tbsCertificateRequest", INTEGER, ANY, _KEY, _ATTRIBUTES),
    _ALGORITHM,
    BITS,
)
_NAME = Shape(
    "RDNSequence",
    16,
    element=Shape("RelativeDistinguishedNameSET", 17, element=sequence("AttributeTypeAndValue", OID, ANY)),
)
_NO_AUTHORITY = "no valid certificate authority data seen"
_SEQUENCE, _SET = 0x30, 0x31  # the first byte of an element
_RSA_KEY = sequence("pkcs1PublicKey", ANY, ANY)


def _oid(text: str) -> bytes:
    """Return the DER content of an object identifier such as "2.5.4.10"."""
    first, second, *rest = map(int, text.split("."))
    out = bytes([first * 40 + second])
    for number in rest:
        octets = [number & 0x7F]
        while number := number >> 7:
            octets.insert(0, number & 0x7F | 0x80)
        out += bytes(octets)
    return out


COMMON_NAME, ORGANIZATION = _oid("2.5.4.3"), _oid("2.5.4.10")
_RSA, _EC, _ED25519 = _oid("1.2.840.113549.1.1.1"), _oid("1.2.840.10045.2.1"), _oid("1.3.101.112")
# {curve: (name, bytes of a coordinate)}
_CURVES = {
    _oid("1.3.132.0.33"): ("P224", 28),
    _oid("1.2.840.10045.3.1.7"): ("P256", 32),
    _oid("1.3.132.0.34"): ("P384", 48),
    _oid("1.3.132.0.35"): ("P521", 66),
}
_GO_KEYS = {_RSA: "*rsa.PublicKey", _EC: "*ecdsa.PublicKey", _ED25519: "ed25519.PublicKey"}
# {signature algorithm: (name of the key's algorithm, its object identifier, hash)}
_SIGNATURES = {
    _oid("1.2.840.113549.1.1.4"): ("RSA", _RSA, "MD5"),
    _oid("1.2.840.113549.1.1.5"): ("RSA", _RSA, "SHA1"),
    _oid("1.2.840.113549.1.1.11"): ("RSA", _RSA, "SHA256"),
    _oid("1.2.840.113549.1.1.12"): ("RSA", _RSA, "SHA384"),
    _oid("1.2.840.113549.1.1.13"): ("RSA", _RSA, "SHA512"),
    _oid("1.2.840.10045.4.1"): ("ECDSA", _EC, "SHA1"),
    _oid("1.2.840.10045.4.3.2"): ("ECDSA", _EC, "SHA256"),
    _oid("1.2.840.10045.4.3.3"): ("ECDSA", _EC, "SHA384"),
    _oid("1.2.840.10045.4.3.4"): ("ECDSA", _EC, "SHA512"),
    _ED25519: ("Ed25519", _ED25519, ""),
}
_FAILURES = {
    _RSA: "crypto/rsa: verification error",
    _EC: "x509: ECDSA verification failure",
    _ED25519: "x509: Ed25519 verification failure",
}
_UNSUPPORTED = "x509: cannot verify signature: algorithm unimplemented"


@dataclass(frozen=True)
class Request:
    """A certificate request (Go: `x509.CertificateRequest`).

    `common_name` ("" for none) and `organizations` are those of the subject. `signed` and `key` are in DER;
    `algorithm` and `key_algorithm` are the contents of object identifiers.
    """

    common_name: str
    organizations: list[str]
    signed: bytes
    key: bytes
    key_algorithm: bytes
    algorithm: bytes
    signature: bytes


def parse_request(data: bytes) -> Request:
    """Parse a certificate request in DER (Go: `ParseCertificateRequest`). Raises ValueError. The signature is checked
    by `check_signature`."""
    request, rest = der.read(data, _REQUEST)
    if rest:
        raise ValueError("asn1: syntax error: trailing data")
    signed, algorithm, signature = request.parts
    _, subject, key, _ = signed.parts
    _check_key(key)
    names, rest = der.read(subject.whole, _NAME)
    if rest:
        raise ValueError("x509: trailing data after X.509 Subject")
    attributes = list(chain.from_iterable(name.parts for name in names.parts))
    common_names = [_text(attribute) for attribute in attributes if attribute.parts[0].content == COMMON_NAME]
    return Request(
        common_names[-1] if common_names else "",
        [_text(attribute) for attribute in attributes if attribute.parts[0].content == ORGANIZATION],
        signed.whole,
        key.whole,
        key.parts[0].parts[0].content,
        algorithm.parts[0].content,
        signature.content,
    )


def _text(attribute: Value) -> str:
    value_header = der.header(attribute.parts[1].whole, 0)
    return attribute.parts[1].whole[value_header.start :].decode(errors="replace")


def _check_key(key: Value) -> None:
    (algorithm, parameters), data = key.parts[0].parts, key.parts[1].content
    if algorithm.content == _RSA:
        _check_rsa(parameters, data)
    elif algorithm.content == _EC:
        _check_ec(parameters, data, key.whole)
    elif algorithm.content == _ED25519:
        _check_ed25519(parameters, data)


def _check_rsa(parameters: Value, data: bytes) -> None:
    if parameters.whole != NULL:
        raise ValueError("x509: RSA key missing NULL parameters")
    try:
        der.read(data, _RSA_KEY)
    except ValueError:
        raise ValueError("x509: invalid RSA public key") from None


def _check_ec(parameters: Value, data: bytes, key: bytes) -> None:
    if not parameters.whole.startswith(b"\x06"):
        raise ValueError("x509: invalid ECDSA parameters")
    if parameters.content not in _CURVES:
        raise ValueError("x509: unsupported elliptic curve")
    name, size = _CURVES[parameters.content]
    if data[:1] != b"\x04" or len(data) != 1 + 2 * size:
        raise ValueError("ecdsa: invalid uncompressed public key")
    if not _can_be_loaded(key):
        raise ValueError(f"{name} point not on curve")


def _check_ed25519(parameters: Value, data: bytes) -> None:
    if parameters.whole:
        raise ValueError("x509: Ed25519 key encoded with illegal parameters")
    if len(data) != 32:
        raise ValueError("x509: wrong Ed25519 public key size")


def _can_be_loaded(key: bytes) -> bool:
    """Report whether a public key in DER can be loaded."""
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        load_der_public_key(key)
    except ValueError:
        return False
    return True


def check_signature(request: Request) -> None:
    """Raise ValueError for a signature that was not made with the request's own key (Go: `CheckSignature`)."""
    if request.algorithm not in _SIGNATURES or request.key_algorithm not in _GO_KEYS:
        raise ValueError(_UNSUPPORTED)
    name, expected, digest = _SIGNATURES[request.algorithm]
    if digest == "MD5":
        raise ValueError("x509: cannot verify signature: insecure algorithm MD5-RSA")
    if expected != request.key_algorithm:
        actual = _GO_KEYS[request.key_algorithm]
        raise ValueError(
            f"x509: signature algorithm specifies an {name} public key, but have public key of type {actual}"
        )
    if not _verified(request, digest):
        raise ValueError(_FAILURES[expected])


def _verified(request: Request, digest: str) -> bool:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

    try:
        key = serialization.load_der_public_key(request.key)
        match key:
            case rsa.RSAPublicKey():
                key.verify(request.signature, request.signed, padding.PKCS1v15(), getattr(hashes, digest)())
            case ec.EllipticCurvePublicKey():
                key.verify(request.signature, request.signed, ec.ECDSA(getattr(hashes, digest)()))
            case ed25519.Ed25519PublicKey():
                key.verify(request.signature, request.signed)
    except (exceptions.InvalidSignature, exceptions.UnsupportedAlgorithm, ValueError):
        return False
    return True


def parse_certificates(data: bytes) -> int:
    """Return the number of certificates that follow each other in DER (Go: `ParseCertificates`). Raises ValueError."""
    count = 0
    while data:
        data = _after_certificate(data)
        count += 1
    return count


def ca_bundle_error(text: bytes) -> str:
    """Return the error of a text without a certificate in its PEM blocks, "" if it has one."""
    reason = ""
    for block in pem.blocks(text):
        if block.type != "CERTIFICATE" or block.headers:
            continue
        try:
            parse_certificates(block.data)
        except ValueError as error:
            reason = reason or f"failed to parse certificate: {error}"
        else:
            return ""
    return reason or ("unable to parse bytes as PEM block" if pem.remainder(text) else _NO_AUTHORITY)


def _after_certificate(data: bytes) -> bytes:
    """Check the first certificate in DER, and return what follows it. Raises ValueError."""
    whole, rest = _element(data, _SEQUENCE, "malformed certificate")
    signed, outer = _element(whole, _SEQUENCE, "malformed tbs certificate")
    if signed[:1] == b"\xa0":
        signed = _check_version(signed)
    _, signed = _element(signed, 0x02, "malformed serial number")
    inner, signed = _element(signed, _SEQUENCE, "malformed signature algorithm identifier")
    if _element(outer, _SEQUENCE, "malformed algorithm identifier")[0] != inner:
        raise ValueError("x509: inner and outer signature algorithm identifiers don't match")
    # Go's text for a malformed subject says issuer as well.
    for problem in ("malformed issuer", "malformed validity", "malformed issuer", "malformed spki"):
        content, signed = _element(signed, _SEQUENCE, problem)
        if problem == "malformed issuer":
            _check_name(content)
    return rest


def _check_version(signed: bytes) -> bytes:
    version, rest = _element(signed, 0xA0, "malformed version")
    number, _ = _element(version, 0x02, "malformed version")
    if not 0 <= int.from_bytes(number, "big", signed=True) <= 2:
        raise ValueError("x509: invalid version")
    return rest


def _check_name(names: bytes) -> None:
    problem = "invalid RDNSequence"
    while names:
        name, names = _element(names, _SET, problem)
        while name:
            attribute, name = _element(name, _SEQUENCE, f"{problem}: invalid attribute")
            _, value = _element(attribute, 0x06, f"{problem}: invalid attribute type")
            if not value:
                raise ValueError(f"x509: {problem}: invalid attribute value")


def _element(data: bytes, tag: int, problem: str) -> tuple[bytes, bytes]:
    """Return the content of the first element, and what follows it. Raises ValueError with `missing` if it has another
    tag."""
    try:
        if data[:1] != bytes([tag]):
            raise ValueError
        value, rest = der.read(data, ANY)
    except ValueError:
        raise ValueError(f"x509: {problem}") from None
    return value.content, rest
