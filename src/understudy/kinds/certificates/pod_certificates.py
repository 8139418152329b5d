"""Validation of requests for certificates of pods, and of the certificates that signers issue for them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import exceptions, x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from understudy.kinds.common import conditions
from understudy.kinds.common.formats import subdomain
from understudy.kinds.common.objectmeta import ANNOTATIONS_SIZE, CORE, IMMUTABLE
from understudy.kinds.common.signer_names import is_of_kubernetes, signer_name
from understudy.kinds.context import Context
from understudy.machinery.golang.x509 import pem
from understudy.machinery.golang.x509.x509 import check_signature, parse_request
from understudy.machinery.releases.version import V1_34, V1_35, V1_36, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp
from understudy.machinery.validation.bad_values import Octets, Typed
from understudy.machinery.validation.field import (
    OMITTED,
    Errors,
    Path,
    invalid,
    not_supported,
    required,
    too_long,
)
from understudy.machinery.validation.mail import is_address
from understudy.machinery.validation.names import go_lower, qualified_name_texts, size

UID_LENGTH = 128
LARGEST_KEY = LARGEST_PROOF = LARGEST_REQUEST = 10 * 1024  # bytes
LARGEST_CHAIN = 100 * 1024
SHORTEST, LONGEST, LONGEST_OF_KUBERNETES = 3600, 91 * 24 * 3600, 24 * 3600  # seconds

_SPEC, _STATUS = Path("spec"), Path("status")
_CHAIN, _KEY, _PROOF = _STATUS.child("certificateChain"), _SPEC.child("pkixPublicKey"), _SPEC.child("proofOfPossession")
_REQUEST = _SPEC.child("stubPKCS10Request")
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_CURVE_NAMES = {"secp224r1": "P-224", "secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_RSA_BITS = (3072, 4096)
_KINDS = ("Issued", "Denied", "Failed")
_MARGIN, _SKEW = timedelta(minutes=10), timedelta(minutes=5)


# --- the request ------------------------------------------------------------------------------------------------------


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a new request (upstream: `ValidatePodCertificateRequestCreate`)."""
    spec = obj["spec"]
    signer, seconds = spec.get("signerName", ""), spec.get("maxExpirationSeconds")
    errors = signer_name(signer, _SPEC.child("signerName"))
    errors += _annotations(spec.get("unverifiedUserAnnotations") or {}) if ctx.release >= V1_35 else []
    for name, uid in (("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")):
        errors += subdomain(spec.get(name, ""), _SPEC.child(name)) + _uid(spec.get(uid, ""), _SPEC.child(uid))
    where = _SPEC.child("maxExpirationSeconds")
    if seconds is None:
        return [*errors, required(where, "must be set")]
    longest = LONGEST_OF_KUBERNETES if is_of_kubernetes(signer) else LONGEST
    if not SHORTEST <= seconds <= longest:
        errors.append(invalid(where, seconds, f"must be in the range [{SHORTEST}, {longest}]"))
    return errors + _PROVED[ctx.release](spec)


def _uid(value: str, path: Path) -> Errors:
    errors = [] if value else [invalid(path, value, "must not be empty")]
    return [*errors, too_long(path, UID_LENGTH, in_bytes=True)] if size(value) > UID_LENGTH else errors


def _annotations(annotations: dict[str, str]) -> Errors:
    path = _SPEC.child("unverifiedUserAnnotations")
    errors = [error for key in annotations for error in _domain_key(go_lower(key), path)]
    if sum(size(key) + size(value) for key, value in annotations.items()) > ANNOTATIONS_SIZE:
        errors.append(too_long(path, ANNOTATIONS_SIZE, in_bytes=True))
    return errors


def _domain_key(key: str, path: Path) -> Errors:
    """Check a key with a domain in front (upstream: `IsDomainPrefixedKey`)."""
    if not key:
        return [required(path)]
    errors = [invalid(path, key, text) for text in qualified_name_texts(key)]
    if errors or "/" in key:
        return errors
    return [invalid(path, key, 'must be a domain-prefixed key (such as "acme.io/foo")')]


def _proved_by_signature(spec: Obj) -> Errors:
    """Check the public key of a request, and the signature that its owner made with the other half."""
    text, proof = spec.get("pkixPublicKey"), base64.b64decode(spec.get("proofOfPossession") or "")
    encoded = base64.b64decode(text or "")
    if len(encoded) > LARGEST_KEY:
        return [too_long(_KEY, LARGEST_KEY, in_bytes=True)]
    if len(proof) > LARGEST_PROOF:
        return [too_long(_PROOF, LARGEST_PROOF, in_bytes=True)]
    key, shown = _public_key(encoded), Octets(None if text is None else encoded)
    if key is None:
        return [invalid(_KEY, shown, "must be a valid PKIX-serialized public key")]
    if not isinstance(key, ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        return [invalid(_KEY, shown, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")]
    if errors := _weak_key(key, _KEY, "P256 or P384"):
        return errors
    if _signed(key, proof, spec.get("podUID", "").encode()):
        return []
    return [invalid(_PROOF, OMITTED, "could not verify proof-of-possession signature")]


def _proved_by_request_or_signature(spec: Obj) -> Errors:
    """Check the certificate request that holds the public key, or the public key and a signature."""
    request, key, proof = (spec.get(n) or "" for n in ("stubPKCS10Request", "pkixPublicKey", "proofOfPossession"))
    if request and not key and not proof:
        return _stub_request(base64.b64decode(request))
    if not request and key and proof:
        return _proved_by_signature(spec)
    text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
    return [invalid(_SPEC, OMITTED, text)]


_PROVED = ByRelease({V1_36: _proved_by_request_or_signature, V1_34: _proved_by_signature})


def _stub_request(encoded: bytes) -> Errors:
    if len(encoded) > LARGEST_REQUEST:
        return [too_long(_REQUEST, LARGEST_REQUEST, in_bytes=True)]
    try:
        request = parse_request(encoded)
        key = x509.load_der_x509_csr(encoded).public_key()
    except (ValueError, exceptions.UnsupportedAlgorithm):
        return [invalid(_REQUEST, OMITTED, "must be a valid PKCS#10 CSR")]
    if errors := _weak_key(key, _REQUEST, "P256, P384, or P521"):
        return errors
    try:
        check_signature(request)
    except ValueError:
        return [invalid(_REQUEST, OMITTED, "invalid signature")]
    return []


def _public_key(encoded: bytes) -> PublicKeyTypes | None:
    try:
        return serialization.load_der_public_key(encoded)
    except (ValueError, exceptions.UnsupportedAlgorithm):
        return None


def _weak_key(key: PublicKeyTypes, path: Path, curves: str) -> Errors:
    match key:
        case ed25519.Ed25519PublicKey():
            return []
        case ec.EllipticCurvePublicKey():
            if isinstance(key.curve, _CURVES):
                return []
            name = _CURVE_NAMES.get(key.curve.name, key.curve.name)
            return [invalid(path, f"curve {name}", f"elliptic public keys must use curve {curves}")]
        case rsa.RSAPublicKey():
            if key.key_size in _RSA_BITS:
                return []
            return [invalid(path, f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096")]
    return [invalid(path, OMITTED, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")]


def _signed(
    key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey, signature: bytes, data: bytes
) -> bool:
    try:
        match key:
            case ed25519.Ed25519PublicKey():
                key.verify(signature, data)
            case ec.EllipticCurvePublicKey():
                key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
            case rsa.RSAPublicKey():
                pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
                key.verify(signature, data, pss, hashes.SHA256())
    except exceptions.InvalidSignature:
        return False
    return True


def same_spec(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a request stays as it is (upstream: `ValidatePodCertificateRequestUpdate`)."""
    new, stored = obj["spec"], old["spec"]
    # Keys and signatures that are empty equal those that are missing.
    if all((new.get(name) or None) == (stored.get(name) or None) for name in new.keys() | stored.keys()):
        return []
    bad_value = Typed(obj["spec"], "k8s.io/kubernetes/pkg/apis/certificates.PodCertificateRequestSpec")
    return [invalid(_SPEC, bad_value, IMMUTABLE)]


# --- the status -------------------------------------------------------------------------------------------------------


def status_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the answer of a signer (upstream: `ValidatePodCertificateRequestStatusUpdate`)."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    items = status.get("conditions") or []
    errors = CORE.updated(obj, old, ctx) or _decisions(items)
    if errors:
        return errors
    if _decided(before.get("conditions") or []):
        text = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if status == before else [invalid(_STATUS, OMITTED, text)]
    decision = _decided(items)
    if decision == "Issued":
        return _issued(obj, status, ctx)
    if decision:
        text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        return [invalid(_STATUS, OMITTED, text)] if {k for k, v in status.items() if v} > {"conditions"} else []
    text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
    return [] if status == before else [invalid(_STATUS, OMITTED, text)]


def _decided(items: Sequence[Obj]) -> str:
    """Return the decision among conditions, "" for none."""
    return next((c["type"] for c in items if c.get("type") in _KINDS and c.get("status") == "True"), "")


def _decisions(items: Sequence[Obj]) -> Errors:
    errors: Errors = []
    known = 0
    for i, condition in enumerate(items):
        kind, path = condition.get("type", ""), _STATUS.child("conditions", f"[{i}]")
        if kind not in _KINDS:
            errors.append(not_supported(path.child("type"), kind, _KINDS))
            continue
        known += 1
        if known > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(path.child("type"), kind, text))
        if condition.get("status") != "True":
            errors.append(not_supported(path.child("status"), condition.get("status", ""), ["True"]))
    return errors + conditions.validate(items, _STATUS.child("conditions"))


def _issued(obj: Obj, status: Obj, ctx: Context) -> Errors:
    chain = status.get("certificateChain", "")
    if size(chain) > LARGEST_CHAIN:
        return [too_long(_CHAIN, LARGEST_CHAIN, in_bytes=True)]
    blocks = list(pem.blocks(chain.encode()))
    if not blocks:
        return [invalid(_CHAIN, chain, "issued certificate chain must contain at least one certificate")]
    if blocks[0].type != "CERTIFICATE":
        return [invalid(_CHAIN, chain, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")]
    leaf = _certificate(blocks[0])
    if leaf is None:
        return [invalid(_CHAIN, chain, "leaf certificate does not parse as valid X.509")]
    errors = _alternative_names(leaf) if ctx.release >= V1_35 else []
    if _encoded(leaf.public_key()) != _encoded(_requested_key(obj["spec"])):
        return [*errors, invalid(_CHAIN, chain, "leaf certificate was not issued to the requested public key")]
    return errors + _times_set(status) or _times(leaf, obj["spec"], status, ctx) or _others(blocks[1:], chain)


def _certificate(block: pem.Block) -> x509.Certificate | None:
    try:
        return x509.load_der_x509_certificate(block.data)
    except ValueError:
        return None


def _alternative_names(leaf: x509.Certificate) -> Errors:
    """Check the DNS names and the e-mail addresses of a certificate."""
    try:
        extension = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    errors: Errors = []
    for name in extension.value.get_values_for_type(x509.DNSName):
        checks = (
            (not name, "leaf certificate should not contain empty DNSName"),
            (".." in name, "leaf certificate's DNSName should not contain '..'"),
            (
                name.startswith(".") or name.endswith("."),
                "leaf certificate's DNSName should not start or end with '.'",
            ),
        )
        errors += [invalid(_CHAIN, name, text) for wrong, text in checks if wrong]
    addresses = extension.value.get_values_for_type(x509.RFC822Name)
    text = "leaf certificate should not contain invalid EmailAddress"
    return errors + [invalid(_CHAIN, address, text) for address in addresses if not is_address(address)]


def _requested_key(spec: Obj) -> PublicKeyTypes:
    if request := spec.get("stubPKCS10Request"):
        return x509.load_der_x509_csr(base64.b64decode(request)).public_key()
    return serialization.load_der_public_key(base64.b64decode(spec["pkixPublicKey"]))


def _encoded(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _times_set(status: Obj) -> Errors:
    texts = {
        "notBefore": "must be present and consistent with the issued certificate",
        "notAfter": "must be present and consistent with the issued certificate",
        "beginRefreshAt": "must be present and in the range [notbefore+10min, notafter-10min]",
    }
    return [required(_STATUS.child(name), text) for name, text in texts.items() if not status.get(name)]


def _times(leaf: x509.Certificate, spec: Obj, status: Obj, ctx: Context) -> Errors:
    """Check the times of a certificate. Only the first thing that is wrong is reported."""
    start, end, refresh = (_time(status[name]) for name in ("notBefore", "notAfter", "beginRefreshAt"))
    first, last = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    lifetime, most = last - first, spec["maxExpirationSeconds"]
    now = _time(ctx.now)
    checks = (
        ("notBefore", start != first, "must be set to the NotBefore time encoded in the leaf certificate"),
        ("notBefore", abs(start - now) >= _SKEW, "must be set to within 5 minutes of kube-apiserver's current time"),
        ("notAfter", end != last, "must be set to the NotAfter time encoded in the leaf certificate"),
        ("", lifetime < timedelta(hours=1), "leaf certificate lifetime must be >= 1 hour"),
        (
            "",
            lifetime > timedelta(seconds=most),
            f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})",
        ),
        ("beginRefreshAt", refresh < start + _MARGIN, "must be at least 10 minutes after status.notBefore"),
        ("beginRefreshAt", refresh > end - _MARGIN, "must be at least 10 minutes before status.notAfter"),
    )
    for name, wrong, text in checks:
        if wrong:
            nanoseconds = int(lifetime.total_seconds()) * 10**9
            return [invalid(_STATUS.child(name), status[name], text) if name else invalid(_CHAIN, nanoseconds, text)]
    return []


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(parse_timestamp(text), UTC)


def _others(blocks: Sequence[pem.Block], chain: str) -> Errors:
    """Check the certificates after the first one."""
    for block in blocks:
        if block.type != "CERTIFICATE":
            return [invalid(_CHAIN, chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")]
        if _certificate(block) is None:
            return [invalid(_CHAIN, chain, "intermediate certificate does not parse as valid X.509")]
    return []
