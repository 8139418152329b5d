"""Requests whose traces in /metrics are compared with kube-apiserver's."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Ask = Callable[[str, str, Any], Any]  # sends a request with a body and returns the body of the answer

KEY = ec.generate_private_key(ec.SECP256R1())
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
HOUR = 3600
# name: (signer, seconds that are asked for, seconds that are given)
ISSUED: dict[str, tuple[str, int | None, int]] = {
    "exact": ("kubernetes.io/kube-apiserver-client", HOUR, HOUR),
    "almost": ("kubernetes.io/kube-apiserver-client", HOUR, HOUR + 479),
    "more": ("kubernetes.io/kube-apiserver-client", HOUR, HOUR + 480),
    "less": ("example.com/signer", 2 * HOUR, HOUR),
    "other": ("example.com/another", HOUR, HOUR - 1),
    "any": ("example.com/signer", None, HOUR),
}


def issue_certificates(ask: Ask) -> None:
    """Let every request of ISSUED have its certificate, after a dry run; write each status once more."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody")])
    csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(KEY, hashes.SHA256())
    for each, (signer, seconds, given) in ISSUED.items():
        spec: dict[str, Any] = {
            "request": _pem(csr),
            "signerName": signer,
            "usages": ["client auth", "digital signature"],
        }
        spec |= {} if seconds is None else {"expirationSeconds": seconds}
        kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        ask("POST", REQUESTS, {**kind, "metadata": {"name": each}, "spec": spec})
        begin = datetime.now(UTC).replace(microsecond=0)
        builder = x509.CertificateBuilder(name, name, KEY.public_key(), 1, begin, begin + timedelta(seconds=given))
        status = {"status": {"certificate": _pem(builder.sign(KEY, hashes.SHA256()))}}
        for query in ("?dryRun=All", "", ""):
            ask("PATCH", f"{REQUESTS}/{each}/status{query}", status)
        ask("PATCH", f"{REQUESTS}/{each}", {"metadata": {"labels": {"a": "b"}}})


def _pem(signed: x509.CertificateSigningRequest | x509.Certificate) -> str:
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
