"""The names that an authority may sign certificates for, compared as Go's crypto/x509 does (`checkNameConstraints`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509


class UnmatchedNameError(ValueError):
    """A name that cannot be compared with constraints."""


def allows_names(constraints: x509.NameConstraints, names: x509.SubjectAlternativeName) -> bool:
    """Report whether constraints allow all names of a certificate. Raises UnmatchedNameError."""
    permitted, excluded = constraints.permitted_subtrees or (), constraints.excluded_subtrees or ()
    for name in names:
        matches = _MATCHES.get(type(name))
        if matches is None:  # Go compares no names of other kinds
            continue
        if _any_matches(matches, name, excluded):
            return False
        if any(type(each) is type(name) for each in permitted) and not _any_matches(matches, name, permitted):
            return False
    return True


def reads_all(constraints: x509.NameConstraints) -> bool:
    """Report whether Go reads constraints of all kinds that an extension has: it may not be critical otherwise."""
    subtrees = (*(constraints.permitted_subtrees or ()), *(constraints.excluded_subtrees or ()))
    return all(type(each) in _MATCHES for each in subtrees)


def _any_matches(
    matches: Callable[[Any, Any], bool], name: x509.GeneralName, constraints: Sequence[x509.GeneralName]
) -> bool:
    """Report whether a name is one of those of its kind that constraints name."""
    return any(matches(name.value, each.value) for each in constraints if type(each) is type(name))


def _matches_domain(domain: str, constraint: str) -> bool:
    """Report whether a domain is that of a constraint, or below it; one with a dot in front names those below only.

    Upstream: `matchDomainConstraint`.
    """
    if not constraint:
        return True
    labels, labels_above = domain.lower().split("."), constraint.lower().removeprefix(".").split(".")
    if not all(labels):
        raise UnmatchedNameError(f"x509: cannot parse domain {domain}")
    least = len(labels_above) + constraint.startswith(".")
    return len(labels) >= least and labels[-len(labels_above) :] == labels_above


def _matches_mailbox(mailbox: str, constraint: str) -> bool:
    """Report whether a mailbox is that of a constraint, or of its domain."""
    local, at, domain = mailbox.rpartition("@")
    if not at or not local:
        raise UnmatchedNameError(f"x509: cannot parse rfc822Name {mailbox}")
    if "@" in constraint:
        constrained, _, host = constraint.rpartition("@")
        return local == constrained and domain.lower() == host.lower()
    return _matches_domain(domain, constraint)


def _matches_uri(uri: str, constraint: str) -> bool:
    """Report whether the host of a URI is in the domain of a constraint."""
    host = urlsplit(uri).hostname or ""
    if not host:
        raise UnmatchedNameError(f"URI with empty host ({uri}) cannot be matched against constraints")
    try:
        ip_address(host)
    except ValueError:
        return _matches_domain(host, constraint)
    raise UnmatchedNameError(f"URI with IP ({uri}) cannot be matched against constraints")


def _matches_network(address: IPv4Address | IPv6Address, constraint: IPv4Network | IPv6Network) -> bool:
    return address in constraint


_MATCHES: dict[type[x509.GeneralName], Callable[[Any, Any], bool]] = {
    x509.DNSName: _matches_domain,
    x509.RFC822Name: _matches_mailbox,
    x509.UniformResourceIdentifier: _matches_uri,
    x509.IPAddress: _matches_network,
}
