"""Certificates that signers issue to pods: the names in them, as 1.36 and 1.34 answered."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.http import send
from understudy import Server

KEY = ec.generate_private_key(ec.SECP256R1())
SERVED: dict[str, Any] = {"feature_gates": {"PodCertificateRequest": True}, "runtime_config": {"api/all": True}}
LIFETIME = timedelta(hours=6)
TEXT = "leaf certificate should not contain invalid EmailAddress"


def chain(start: datetime, names: Sequence[x509.GeneralName]) -> str:
    """Return a certificate with alternative names, as PEM."""
    empty = x509.Name([])
    builder = x509.CertificateBuilder(empty, empty, KEY.public_key(), 1, start, start + LIFETIME)
    certificate = builder.add_extension(x509.SubjectAlternativeName(names), False).sign(KEY, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def issue(server: Server, version: str, *names: x509.GeneralName) -> list[Any]:
    """Create a request and issue a certificate with names; return the causes of the refusal, [] if it is accepted."""
    start = datetime.now(UTC).replace(microsecond=0)  # at most five minutes before the server reads it
    api_version = f"certificates.k8s.io/{version}"
    public = KEY.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    spec = dict.fromkeys(("podName", "serviceAccountName", "serviceAccountUID", "nodeName", "nodeUID"), "a") | {
        "signerName": "example.com/signer",
        "podUID": "uid",
        "maxExpirationSeconds": 86400,
        "pkixPublicKey": base64.b64encode(public).decode(),
        "proofOfPossession": base64.b64encode(KEY.sign(b"uid", ec.ECDSA(hashes.SHA256()))).decode(),
    }
    path = f"/apis/{api_version}/namespaces/default/podcertificaterequests"
    head = {"apiVersion": api_version, "kind": "PodCertificateRequest", "metadata": {"name": "r"}}
    assert send(server, "POST", path, {**head, "spec": spec}).status == 201
    condition = {"type": "Issued", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": text(start)}
    times = {"notBefore": start, "notAfter": start + LIFETIME, "beginRefreshAt": start + timedelta(hours=1)}
    status = {"conditions": [condition], "certificateChain": chain(start, names)}
    status |= {name: text(time) for name, time in times.items()}
    answer = send(server, "PATCH", f"{path}/r/status", {"status": status})
    causes: list[Any] = answer.json().get("details", {}).get("causes", [])
    return causes if answer.status == 422 else []


def text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.apiserver(emulated_version="1.36", feature_gates={"PodCertificateRequest": True})
def test_bad_names_of_certificate_are_refused(apiserver: Server) -> None:
    """Each e-mail address that `net/mail` does not parse is an error, after those of the DNS names."""
    addresses = ("a@b", "a b", "Name <a@b.c>", "x@", "a..b@c", "a@[1.2.3.4]", "")
    names = [x509.RFC822Name._init_without_validation(address) for address in addresses]
    causes = issue(apiserver, "v1beta1", *names, x509.DNSName("a..b"))
    assert [(cause["field"], cause["message"]) for cause in causes] == [
        ("status.certificateChain", "Invalid value: \"a..b\": leaf certificate's DNSName should not contain '..'"),
        *(("status.certificateChain", f'Invalid value: "{bad}": {TEXT}') for bad in ("a b", "x@", "a..b@c", "")),
    ]


@pytest.mark.apiserver(emulated_version="1.34", feature_gates={"PodCertificateRequest": True})
def test_names_of_certificate_are_not_checked_before_1_35(apiserver: Server) -> None:
    """1.34 takes any names."""
    names = x509.RFC822Name._init_without_validation("a b"), x509.DNSName("a..b")
    assert issue(apiserver, "v1alpha1", *names) == []


@pytest.mark.parametrize(
    "owned",
    [
        pytest.param(True, marks=pytest.mark.apiserver(emulated_version="1.36", **SERVED)),
        pytest.param(False, marks=pytest.mark.apiserver(emulated_version="1.37", **SERVED)),
    ],
    ids=["1.36", "1.37"],
)
def test_status_that_is_not_written_is_not_owned(apiserver: Server, owned: bool) -> None:
    """A write of the object does not change its status, and since 1.37 its sender does not own the status either."""
    assert issue(apiserver, "v1beta1") == []
    path = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests/r?fieldManager=m"
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"certificateChain": "x"}}
    answer = send(apiserver, "PATCH", path, patch).json()
    assert answer["status"]["certificateChain"] != "x"
    [entry] = [entry for entry in answer["metadata"]["managedFields"] if entry["manager"] == "m"]
    assert ("f:status" in entry["fieldsV1"]) is owned
