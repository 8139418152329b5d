"""Checks of names in resource.k8s.io: drivers, pools, devices, requests, attributes."""

from __future__ import annotations

from functools import lru_cache

from understudy.admission.validation.formats import invalid_texts, label, subdomain
from understudy.admission.validation.resource.release_rules import (
    DRIVER_LENGTH,
    IDENTIFIER_LENGTH,
    POOL_NAME_LENGTH,
    ReleaseRules,
)
from understudy.machinery.releases.version import Version
from understudy.machinery.validation.field import Errors, Path, invalid, required, too_long, type_invalid
from understudy.machinery.validation.names import (
    c_identifier_texts,
    dns_subdomain_texts,
    go_lower,
    size,
)


def driver(name: str, path: Path) -> Errors:
    """Check a driver's name (upstream: `validateDriverName`), a subdomain of at most 63 bytes in any case.

    CSI drivers are checked alike. An empty name is reported twice.
    """
    errors = [] if name else [required(path)]
    if size(name) > DRIVER_LENGTH:
        errors.append(too_long(path, DRIVER_LENGTH, in_bytes=True))
    return errors + invalid_texts(dns_subdomain_texts(go_lower(name)), name, path)


def pool(name: str, path: Path) -> Errors:
    """Check a pool's name: one or more subdomains with slashes between them (upstream: `validatePoolName`)."""
    if not name:
        return [required(path)]
    errors = [too_long(path, POOL_NAME_LENGTH)] if size(name) > POOL_NAME_LENGTH else []
    return errors + [error for part in name.split("/") for error in subdomain(part, path)]


def request_reference(name: str, path: Path, requests: frozenset[str]) -> Errors:
    """Check that a name is one of `requests` (upstream: `validateRequestNameRef`)."""
    errors = label(name, path)
    if name not in requests:
        errors.append(invalid(path, name, "must be the name of a request in the claim"))
    return errors


def qualified(name: str, path: Path, rules: ReleaseRules) -> Errors:
    """Check an attribute's or capacity's name (upstream: `validateQualifiedName`).

    It is a C identifier, with or without a driver's name and a slash in front. A name with more than one slash is
    accepted, as the real server does.
    """
    if not name:
        return [required(path, "name required")]
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, path)
    if len(parts) > 2:
        return []
    domain, rest = parts
    errors = driver(domain, path) if domain else [required(path, f"the {rules.prefix} must not be empty")]
    return errors + (_identifier(rest, path) if rest else [required(path, "the name must not be empty")])


@lru_cache(4096)
def is_qualified(name: str, release: Version) -> bool:
    """Report whether `qualified` accepts a name. Slices have the same few names in each of their devices."""
    return not qualified(name, Path(), ReleaseRules.of(release))


def fully_qualified(name: str, path: Path, rules: ReleaseRules) -> Errors:
    """Check a qualified name that must have a domain (upstream: `validateFullyQualifiedName`)."""
    errors = qualified(name, path, rules)
    if "/" in name:
        return errors
    if rules.prefix_at_domain:
        errors.append(required(path.child("domain"), "must include a prefix"))
    elif name:
        errors.append(invalid(path, name, "must include a domain"))
    return errors


def _identifier(name: str, path: Path) -> Errors:
    errors = [too_long(path, IDENTIFIER_LENGTH)] if size(name) > IDENTIFIER_LENGTH else []
    return errors + [type_invalid(path, name, text) for text in c_identifier_texts(name)]
