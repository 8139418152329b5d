"""Chains of certificates: which leaf Go trusts for which purpose (`Certificate.Verify`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from tests.certificates import CLIENT, CN, SERVER, Holder, issue, new_authority
from understudy.machinery.golang.x509.verify import VerificationError, verify

ALICE = [(CN, "alice")]
ROOT = new_authority("root")
MIDDLE = new_authority("middle", ROOT)
LOW = new_authority("low", MIDDLE)
SHORT = new_authority("short", ROOT, path_length=0)
BELOW_SHORT = new_authority("below", SHORT)
CLIENT_ONLY_SERVERS = issue([(CN, "servers")], ROOT, usages=(SERVER,), authority=True)
NO_AUTHORITY = issue([(CN, "middle")], ROOT)
CANNOT_SIGN = issue(
    [(CN, "reader")],
    ROOT,
    usages=(),
    authority=True,
    extensions=[
        (
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            True,
        )
    ],
)
NAMES = x509.NameConstraints([x509.DNSName("example.com")], None)
CONSTRAINED = issue([(CN, "names")], ROOT, usages=(), authority=True, extensions=[(NAMES, True)])
OTHER_ROOT = new_authority("root")
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
SAN = x509.SubjectAlternativeName([x509.DNSName("alice.example.org")])
NO_SAN = x509.SubjectAlternativeName([])
UNREAD_SAN = x509.SubjectAlternativeName([x509.DirectoryName(ROOT.certificate.subject)])


def is_trusted(leaf: Holder, *intermediates: Holder, days: int = 0) -> bool:
    others = [holder.certificate for holder in intermediates]
    try:
        verify(leaf.certificate, others, [ROOT.certificate], datetime.now(UTC) + timedelta(days=days))
    except VerificationError:
        return False
    return True


@pytest.mark.parametrize(
    ("leaf", "intermediates"),
    [
        (issue(ALICE, ROOT), ()),
        (issue(ALICE, ROOT, usages=()), ()),
        (issue(ALICE, ROOT, usages=(SERVER, CLIENT)), ()),
        (issue(ALICE, MIDDLE), (MIDDLE,)),
        (issue(ALICE, LOW), (OTHER_ROOT, MIDDLE, LOW)),
        (issue(ALICE, SHORT), (SHORT,)),
        (issue(ALICE, CONSTRAINED), (CONSTRAINED,)),
        (issue(ALICE, ROOT, extensions=[(UNKNOWN, False)]), ()),
        (issue(ALICE, ROOT, extensions=[(SAN, True)]), ()),
        (issue(ALICE, ROOT, extensions=[(NO_SAN, False)]), ()),
        (ROOT, ()),
    ],
    ids=[
        "client",
        "any purpose",
        "both",
        "chain",
        "long chain",
        "short",
        "no names",
        "odd extension",
        "critical names",
        "empty names",
        "root itself",
    ],
)
def test_trusted(leaf: Holder, intermediates: tuple[Holder, ...]) -> None:
    """A leaf is trusted whose issuers, sent along in any order, lead to a root."""
    assert is_trusted(leaf, *intermediates)


@pytest.mark.parametrize(
    ("leaf", "intermediates"),
    [
        (issue(ALICE, OTHER_ROOT), ()),
        (issue(ALICE, OTHER_ROOT), (OTHER_ROOT,)),
        (issue(ALICE), ()),
        (issue(ALICE, MIDDLE), ()),
        (issue(ALICE, ROOT, usages=(SERVER,)), ()),
        (issue(ALICE, ROOT, days=(-9, -1)), ()),
        (issue(ALICE, ROOT, days=(1, 9)), ()),
        (issue(ALICE, NO_AUTHORITY), (NO_AUTHORITY,)),
        (issue(ALICE, CANNOT_SIGN), (CANNOT_SIGN,)),
        (issue(ALICE, CLIENT_ONLY_SERVERS), (CLIENT_ONLY_SERVERS,)),
        (issue(ALICE, BELOW_SHORT), (SHORT, BELOW_SHORT)),
        (issue(ALICE, ROOT, extensions=[(UNKNOWN, True)]), ()),
        (issue(ALICE, CONSTRAINED, extensions=[(SAN, False)]), (CONSTRAINED,)),
        (issue(ALICE, ROOT, extensions=[(NO_SAN, True)]), ()),
        (issue(ALICE, ROOT, extensions=[(UNREAD_SAN, True)]), ()),
    ],
    ids=[
        "other authority of the same name",
        "other root sent along",
        "self-signed",
        "intermediate missing",
        "other purpose",
        "expired",
        "future",
        "issuer is no authority",
        "issuer must not sign",
        "issuer has another purpose",
        "chain too long",
        "critical extension",
        "constrained names",
        "critical empty names",
        "critical names of another kind",
    ],
)
def test_not_trusted(leaf: Holder, intermediates: tuple[Holder, ...]) -> None:
    """A leaf is not trusted for a purpose that any certificate of its chain does not allow."""
    assert not is_trusted(leaf, *intermediates)


def test_every_certificate_is_valid_now() -> None:
    """An authority that has expired makes what it signed worthless."""
    leaf = issue(ALICE, ROOT, days=(-1, 300))
    assert is_trusted(leaf, days=29)
    assert not is_trusted(leaf, days=31)
