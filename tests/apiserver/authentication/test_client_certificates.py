"""Whose a client certificate is (k8s.io/apiserver/pkg/authentication/request/x509)."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from cryptography import x509

from tests.certificates import CN, UID, Holder, O, issue, new_authority
from tests.clock import FixedDate
from understudy.apiserver.authentication.certificates import client_chains
from understudy.apiserver.authentication.certificates.authorities import Authorities
from understudy.apiserver.authentication.certificates.client_certificates import ClientCertificates
from understudy.apiserver.authentication.counted.metrics import AuthenticationMetrics
from understudy.apiserver.authentication.errors import CertificateError
from understudy.apiserver.server.options.config import ServerConfig
from understudy.machinery.auth.users import User
from understudy.machinery.golang.x509.verify import verify
from understudy.machinery.util.metrics import Histogram

CA = new_authority()
MIDDLE = new_authority("middle", CA)
DAY = 24 * 60 * 60
EXTRA = "authentication.kubernetes.io/credential-id"


class Trusted(Authorities):
    """Authorities that are in no file."""

    def __init__(self, *certificates: x509.Certificate) -> None:
        self.certificates = certificates
        self.listeners = set()


def users(
    release: str = "1.36", clock: FixedDate | None = None, metrics: AuthenticationMetrics | None = None
) -> ClientCertificates:
    config, told = ServerConfig(emulated_version=release), metrics or AuthenticationMetrics()
    return ClientCertificates(
        Trusted(CA.certificate), clock or FixedDate(), config.gates(), config.release.version, told
    )


def user(*chain: Holder, release: str = "1.36") -> User | None:
    return users(release).user(tuple(holder.der for holder in chain), {})


@pytest.mark.parametrize(("release", "has_extra"), [("1.31", False), ("1.32", True), ("1.36", True)])
def test_extra_names_the_certificate(release: str, has_extra: bool) -> None:
    """From 1.32 on `extra` has the hash of the certificate."""
    owner = user(issue([(CN, "alice"), (O, "b"), (O, "a")], CA), release=release)
    assert owner is not None
    assert (owner.name, owner.groups, list(owner.extra)) == ("alice", ["b", "a"], [EXTRA] if has_extra else [])


@pytest.mark.parametrize(("release", "uid"), [("1.32", ""), ("1.36", "u-1")])
def test_uid_of_the_subject(release: str, uid: str) -> None:
    """From 1.33 on the subject may name a uid."""
    owner = user(issue([(CN, "alice"), (UID, "u-1")], CA), release=release)
    assert owner is not None
    assert owner.uid == uid


def test_lifetimes_are_counted() -> None:
    """Each request counts how long its certificate is good from now on, also one that is over."""
    metrics = AuthenticationMetrics(has_certificates=True)
    found = users(metrics=metrics)
    good, over = (issue([(CN, "alice")], CA, days=days) for days in ((-1, 3), (-2, -1)))
    for _ in range(2):
        found.user((good.der,), {})
    with pytest.raises(CertificateError):
        found.user((over.der,), {})
    (family,) = [family for family in metrics.families if "certificate" in family.name]
    assert isinstance(family, Histogram)
    counts = family.series[()].counts
    assert {bound: count for bound, count in zip(family.buckets, counts, strict=False) if count} == {0: 1, 4 * DAY: 2}


def test_two_uids() -> None:
    """A subject with two uids belongs to nobody."""
    with pytest.raises(CertificateError, match=r"expected 1 UID, but found multiple: \[u-1 u-2\]"):
        user(issue([(CN, "alice"), (UID, "u-1"), (UID, "u-2")], CA))


def test_nobody_without_common_name() -> None:
    """A good certificate without common name is as if there were none."""
    assert user(issue([(O, "dev")], CA)) is None


@pytest.mark.parametrize("chain", [(b"\x30\x00",), (b"",), (issue([(CN, "a")], CA).der, b"nonsense")])
def test_malformed(chain: tuple[bytes, ...]) -> None:
    """Bytes that are no certificate are refused, also among the intermediates."""
    with pytest.raises(CertificateError, match="malformed certificate"):
        users().user(chain, {})


def test_a_certificate_expires_on_an_open_connection() -> None:
    """A chain that was good is verified again as soon as one of its certificates has expired."""
    clock = FixedDate()
    known, leaf = users(clock=clock), issue([(CN, "alice")], MIDDLE, days=(-1, 2))
    chain = (leaf.der, MIDDLE.der)
    assert known.user(chain, {}) == known.user(chain, {})
    clock.seconds += 3 * DAY
    with pytest.raises(CertificateError, match="verifying certificate"):
        known.user(chain, {})


@pytest.mark.parametrize(("length", "verified"), [(1, 1), (40, 2)])
def test_long_chains_are_not_remembered(monkeypatch: pytest.MonkeyPatch, length: int, verified: int) -> None:
    """A chain is verified once, but clients cannot fill the memory with what they show."""
    calls = 0

    def counted(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        verify(*arguments)

    monkeypatch.setattr(client_chains, "verify", counted)
    chain = (issue([(CN, "alice")], CA).der,) * length
    assert (sum(map(len, chain)) > client_chains.LONGEST) == (length > 1)
    certificates = users()
    assert [owner and owner.name for owner in (certificates.user(chain, {}) for _ in range(2))] == ["alice"] * 2
    assert calls == verified


DNS, MAIL, URI, IP = x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier, x509.IPAddress
DIRECTORY = x509.DirectoryName(x509.Name([x509.NameAttribute(CN, "x")]))
EXAMPLE = "example.com"


def within(*names: x509.GeneralName) -> x509.NameConstraints:
    return x509.NameConstraints(names, None)


def without(*names: x509.GeneralName) -> x509.NameConstraints:
    return x509.NameConstraints(None, names)


@pytest.mark.parametrize(
    ("constraints", "critical", "name", "trusted"),
    [
        (within(DNS(EXAMPLE)), True, DNS("a.example.com"), True),
        (within(DNS(EXAMPLE)), True, DNS("a.example.org"), False),
        (within(DNS(EXAMPLE)), True, None, True),
        (without(DNS(EXAMPLE)), True, DNS("a.example.com"), False),
        (within(IP(ip_network("10.0.0.0/8"))), True, IP(ip_address("192.168.0.1")), False),
        (within(IP(ip_network("10.0.0.0/8"))), True, IP(ip_address("10.1.0.1")), True),
        (within(URI(EXAMPLE)), True, URI("spiffe://a.example.org/x"), False),
        (within(URI(EXAMPLE)), True, URI("spiffe://a.example.com/x"), True),
        (within(URI(EXAMPLE)), True, URI("spiffe:///x"), False),
        (within(MAIL(EXAMPLE)), True, MAIL("a@example.org"), False),
        (within(MAIL("a@example.com")), True, MAIL("a@example.com"), True),
        (within(MAIL("a@example.com")), True, MAIL("b@example.com"), False),
        (within(DNS(".example.com")), True, DNS("example.com"), False),
        (within(DNS("EXAMPLE.com")), True, DNS("a.b.Example.com"), True),
        (within(MAIL(EXAMPLE)), True, DNS("a.example.org"), True),
        (within(DIRECTORY), True, None, False),
        (within(DIRECTORY), False, None, True),
    ],
)
def test_names_that_an_authority_may_sign(
    constraints: x509.NameConstraints, critical: bool, name: x509.GeneralName | None, trusted: bool
) -> None:
    """The names of a client are compared with the constraints of an authority between it and the trusted one."""
    extensions = [(constraints, critical)]
    authority = issue([(CN, "limited")], CA, usages=(), authority=True, extensions=extensions)
    names = [] if name is None else [(x509.SubjectAlternativeName([name]), False)]
    client = issue([(CN, "alice")], authority, extensions=names)
    try:
        owner = user(client, authority)
    except CertificateError:
        owner = None
    assert (owner is not None) is trusted
