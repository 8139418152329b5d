"""Counts certificates whose request asks for a duration, and those that have it.

Upstream: pkg/registry/certificates/certificates/storage/metrics.go.
"""

from __future__ import annotations

import base64
import logging
from datetime import timedelta

from understudy.kinds.certificates.metrics import HONORED, REQUESTED
from understudy.kinds.context import Context
from understudy.machinery.golang.x509 import pem
from understudy.machinery.types import Obj, nested_field

_OWN = "kubernetes.io/"
_BACKDATED = timedelta(minutes=5)

log = logging.getLogger("understudy")


def count_duration(request: Obj, old: Obj, ctx: Context) -> None:
    """Count a request that has got its certificate now (`countCSRDurationMetric`)."""
    issued, seconds = nested_field(request, "status", "certificate"), old["spec"].get("expirationSeconds")
    if not issued or nested_field(old, "status", "certificate") or seconds is None:
        return
    name = old["spec"].get("signerName", "")
    signer = name if name.startswith(_OWN) else "other"
    ctx.count(REQUESTED, signer)
    try:
        actual = _duration(base64.b64decode(issued))
    except ValueError as why:
        name = old["metadata"]["name"]
        log.error("metrics recording failed to parse certificate for CSR %s: %s", name, why)
        return
    if _is_honored(timedelta(seconds=seconds), actual):
        ctx.count(HONORED, signer)


def _duration(issued: bytes) -> timedelta:
    """Return for how long the first certificate in PEM is valid. Raises ValueError."""
    from cryptography import x509  # slow to import

    first = next(block for block in pem.blocks(issued) if block.type == "CERTIFICATE")
    certificate = x509.load_der_x509_certificate(first.data)
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc


def _is_honored(expected: timedelta, actual: timedelta) -> bool:
    """Report whether a duration is that which was asked for, but for a twentieth and what signers date back."""
    return abs(expected - actual) < _BACKDATED + expected / 20
