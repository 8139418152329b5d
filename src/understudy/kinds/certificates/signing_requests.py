"""Validation of certificate signing requests, of their approval, and of the certificates that signers issue."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from understudy.kinds.common.compose import Update
from understudy.kinds.common.formats import choice
from understudy.kinds.common.objectmeta import Metadata
from understudy.kinds.common.signer_names import signer_name
from understudy.kinds.context import Context
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.x509 import pem, x509
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Octets
from understudy.machinery.validation.field import (
    Errors,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

METADATA = Metadata(name=lambda name, prefix: [])  # called as somebody likes
GROUP, RESOURCE = "certificates.k8s.io", "certificatesigningrequests"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
LEGACY_SIGNER, CLIENT_SIGNER = "kubernetes.io/legacy-unknown", "kubernetes.io/kube-apiserver-client"
SHORTEST = 600  # seconds
USAGES = tuple(
    sorted(
        (
            "signing",
            "digital signature",
            "content commitment",
            "key encipherment",
            "key agreement",
            "data encipherment",
            "cert sign",
            "crl sign",
            "encipher only",
            "decipher only",
            "any",
            "server auth",
            "client auth",
            "code signing",
            "email protection",
            "s/mime",
            "ipsec end system",
            "ipsec tunnel",
            "ipsec user",
            "timestamping",
            "ocsp signing",
            "microsoft sgc",
            "netscape sgc",
        )
    )
)

_SPEC, _CONDITIONS, _CERTIFICATE = Path("spec"), Path("status", "conditions"), Path("status", "certificate")
_SIGNER = _SPEC.child("signerName")
_STATUSES = ("False", "True", "Unknown")
_DECIDED = (APPROVED, DENIED)


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a request (upstream: `ValidateCertificateSigningRequestCreate`)."""
    return _whole(obj, None, ctx.release)


def update(*, approves: bool = False, signs: bool = False) -> Update:
    """Make the rule for updates by the right to approve (or deny) and the right to set the certificate."""

    def validate(obj: Obj, old: Obj, ctx: Context) -> Errors:
        errors = METADATA.created(obj, ctx)
        errors += _whole(obj, old, ctx.release) + _removed(obj, old)
        if not approves:
            errors += _decided(obj, old)
        return errors + _certificate_changed(obj, old, signs) + METADATA.updated(obj, old, ctx)

    return validate


def _whole(obj: Obj, old: Obj | None, version: Version) -> Errors:
    """Check `obj` as a whole. Much of what is wrong in `old` already may stay."""
    spec, before = obj["spec"], old["spec"] if old else {}
    errors = _request(spec.get("request"))
    errors += _usages(spec.get("usages") or [], before.get("usages") or [])
    signer = spec.get("signerName", "")
    if signer == LEGACY_SIGNER != before.get("signerName"):
        errors.append(invalid(_SIGNER, signer, "the legacy signerName is not allowed via this API version"))
    else:
        errors += signer_name(signer, _SIGNER)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST:
        text = f"may not specify a duration less than {SHORTEST} seconds (10 minutes)"
        errors.append(invalid(_SPEC.child("expirationSeconds"), seconds, text))
    errors += _conditions(_conditions_of(obj), _conditions_of(old), version)
    wrong = _wrong_certificate(obj, old)
    return [*errors, invalid(_CERTIFICATE, "<certificate data>", wrong)] if wrong else errors


def _bytes(value: str | None) -> bytes:
    return base64.b64decode(value or "")


def organizations(request: str | None) -> list[str]:
    """Return the organizations of a certificate request, which are the groups of its owner."""
    return list(parsed(_bytes(request)).organizations)


def common_name(request: str | None) -> str:
    """Return the common name of a certificate request, which is its owner's. Raises ValueError for no request."""
    return parsed(_bytes(request)).common_name


def parsed(request: bytes) -> x509.Request:
    """Parse a certificate request. Raises ValueError."""
    block = next(pem.blocks(request), None)
    if block is None or block.type != "CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    return x509.parse_request(block.data)


def _request(text: str | None) -> Errors:
    request = _bytes(text)
    try:
        x509.check_signature(parsed(request))
    except ValueError as why:
        bad_value = Octets(None if text is None else request)
        return [invalid(_SPEC.child("request"), bad_value, str(why))]
    return []


def _usages(usages: Sequence[str], before: Sequence[str]) -> Errors:
    path = _SPEC.child("usages")
    errors = [] if usages else [required(path)]
    if set(before) <= set(USAGES):
        unknown = [(i, usage) for i, usage in enumerate(usages) if usage not in USAGES]
        errors += [not_supported(path.index(i), usage, USAGES) for i, usage in unknown]
    if len(set(before)) == len(before):
        repeated = [(i, usage) for i, usage in enumerate(usages) if usage in usages[:i]]
        errors += [duplicate(path.index(i), usage) for i, usage in repeated]
    return errors


def _conditions_of(obj: Obj | None) -> list[Obj]:
    return ((obj or {}).get("status") or {}).get("conditions") or []


def _types(conditions: Sequence[Obj]) -> list[str]:
    return [condition.get("type", "") for condition in conditions]


def _conditions(conditions: Sequence[Obj], before: Sequence[Obj], version: Version) -> Errors:
    errors: Errors = []
    types, had = _types(conditions), _types(before)
    for i, condition in enumerate(conditions):
        path, kind = _CONDITIONS.index(i), types[i]
        if not kind and "" not in had:
            errors.append(required(path.child("type")))
        allowed = ("True",) if kind in (*_DECIDED, FAILED) else _STATUSES
        errors += choice(condition.get("status", ""), allowed, path.child("status"), needed=True)
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(kind)
        if other in types[:i] and not set(_DECIDED) <= set(had):
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid(_CONDITIONS if version >= V1_34 else path.child("type"), kind, text))
        if kind in types[:i] and len(set(had)) == len(had):
            errors.append(duplicate(path.child("type"), kind))
    return errors


def _certificate(obj: Obj | None) -> bytes:
    return _bytes(((obj or {}).get("status") or {}).get("certificate"))


def _wrong_certificate(obj: Obj, old: Obj | None) -> str:
    """Return the error of the certificate; "" for a good one or one that need not be good."""
    new, before = _certificate(obj), _certificate(old)
    return "" if (old and new == before) or _unfit(before) else _unfit(new)


def _unfit(text: bytes) -> str:
    if not text:
        return ""
    count = 0
    for block in pem.blocks(text):
        if block.type != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quote(block.type)}"
        if block.headers:
            return "no PEM block headers are permitted"
        try:
            if not x509.parse_certificates(block.data):
                return "found CERTIFICATE PEM block containing 0 certificates"
        except ValueError as why:
            return str(why)
        count += 1
    return "" if count else "must contain at least one CERTIFICATE PEM block"


def _of_type(obj: Obj, kind: str) -> list[Obj]:
    return [condition for condition in _conditions_of(obj) if condition.get("type") == kind]


def _removed(obj: Obj, old: Obj) -> Errors:
    gone = [kind for kind in (*_DECIDED, FAILED) if len(_of_type(obj, kind)) < len(_of_type(old, kind))]
    return [forbidden(_CONDITIONS, f'updates may not remove a condition of type "{kind}"') for kind in gone]


def _decided(obj: Obj, old: Obj) -> Errors:
    """Refuse an approval or denial by somebody who may do neither."""
    errors: Errors = []
    for kind in _DECIDED:
        new, before = _of_type(obj, kind), _of_type(old, kind)
        if len(new) > len(before):
            errors.append(forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"'))
        elif len(new) == len(before) and new != before:
            errors.append(forbidden(_CONDITIONS, f'updates may not modify a condition of type "{kind}"\n'))
    return errors


def _certificate_changed(obj: Obj, old: Obj, signs: bool) -> Errors:
    new, before = _certificate(obj), _certificate(old)
    if new == before or (signs and not before):
        return []
    text = "updates may not modify existing certificate content" if signs else "updates may not set certificate content"
    return [forbidden(_CERTIFICATE, text)]
