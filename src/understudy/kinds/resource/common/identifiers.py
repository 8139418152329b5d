"""Checks of names in resource.k8s.io: drivers, pools, devices, requests, attributes."""

from __future__ import annotations

from understudy.kinds.common.formats import invalid_texts, label, subdomain
from understudy.kinds.resource.common.release_rules import (
    DRIVER_LENGTH,
    IDENTIFIER_LENGTH,
    POOL_NAME_LENGTH,
    ReleaseRules,
)
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import Version
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.field import Errors, FieldError, Path, invalid, required, too_long
from understudy.machinery.validation.names import (
    c_identifier_texts,
    dns_subdomain_texts,
    go_lower,
    size,
)

_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_HEX = "[0-9a-fA-F]"
_UUID = regex(f"{_HEX}{{32}}|{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}")
_NORMALIZED_UUID = regex("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOT_NORMALIZED = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)


def driver(name: str, path: Path, rules: ReleaseRules) -> Errors:
    """Check a driver's name (upstream: `validateDriverName`), a subdomain of at most 63 bytes in any case.

    CSI drivers are checked alike.
    """
    errors = [] if name else [required(path)]
    if errors and not rules.checks_empty_driver:
        return errors
    if size(name) > DRIVER_LENGTH:
        errors.append(too_long(path, DRIVER_LENGTH, in_bytes=True))
    return errors + invalid_texts(dns_subdomain_texts(go_lower(name)), name, path)


def pool(name: str, path: Path) -> Errors:
    """Check a pool's name: one or more subdomains with slashes between them (upstream: `validatePoolName`)."""
    if not name:
        return [required(path)]
    errors = [too_long(path, POOL_NAME_LENGTH)] if size(name) > POOL_NAME_LENGTH else []
    return errors + [error for part in name.split("/") for error in subdomain(part, path)]


def uid(value: str, path: Path) -> Errors:
    """Check a UUID (upstream: `validateUID`)."""
    if problem := _uuid_problem(value):
        return [invalid(path, value, f"error validating uid: {problem}")]
    return [] if _NORMALIZED_UUID.fullmatch(value) else [invalid(path, value, _NOT_NORMALIZED)]


def _uuid_problem(value: str) -> str:
    """Return the error of Go's package `uuid` for a text, "" for a UUID. It may have a prefix, braces or no dashes."""
    length = size(value)
    if length == 45:
        prefix, value = value[:9], value[9:]
        if prefix.lower() != "urn:uuid:":
            return f"invalid urn prefix: {go_quote(prefix)}"
    elif length == 38:
        if not (value.startswith("{") and value.endswith("}")):
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif length not in (32, 36):
        return f"invalid UUID length: {length}"
    return "" if _UUID.fullmatch(value) else "invalid UUID format"


def request_reference(name: str, path: Path, requests: frozenset[str], rules: ReleaseRules) -> Errors:
    """Check that a name is one of `requests`, or that of a subrequest (upstream: `validateRequestNameRef`)."""
    if not rules.subrequests:
        unknown = [] if name in requests else [invalid(path, name, "must be the name of a request in the claim")]
        return label(name, path) + unknown
    parts = name.split("/")
    errors = [error for part in parts for error in label(part, path)] if len(parts) <= 2 else []
    # A request whose name itself has a slash, which is invalid, cannot be referred to.
    if name not in requests or parts[0] not in requests or len(parts) > 2:
        errors.append(invalid(path, name, _UNKNOWN_REQUEST))
    return errors


def qualified(name: str, path: Path, rules: ReleaseRules) -> Errors:
    """Check an attribute's or capacity's name (upstream: `validateQualifiedName`).

    It is a C identifier, with or without a driver's name and a slash in front. A name with more than one slash is
    accepted, as the real server does.
    """
    if not name and rules.requires_names:
        return [required(path, "name required")]
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, path, rules)
    if len(parts) > 2:
        return []
    domain, rest = parts
    errors = driver(domain, path, rules) if domain else [_empty(f"the {rules.prefix} must not be empty", path, rules)]
    return errors + (_identifier(rest, path, rules) if rest else [_empty("the name must not be empty", path, rules)])


def _empty(text: str, path: Path, rules: ReleaseRules) -> FieldError:
    return required(path, text) if rules.requires_names else invalid(path, "", text)


@cache_short_texts(4096)
def is_qualified(name: str, version: Version) -> bool:
    """Report whether `qualified` accepts a name. Slices have the same few names in each of their devices."""
    return not qualified(name, Path(), ReleaseRules.of(version))


def fully_qualified(name: str, path: Path, rules: ReleaseRules) -> Errors:
    """Check a qualified name that must have a domain (upstream: `validateFullyQualifiedName`)."""
    errors = qualified(name, path, rules)
    if "/" in name:
        return errors
    if rules.prefix_at_domain:
        errors.append(required(path.child("domain"), "must include a prefix"))
    elif name or not rules.requires_names:
        errors.append(invalid(path, name, rules.no_domain))
    return errors


def _identifier(name: str, path: Path, rules: ReleaseRules) -> Errors:
    errors = [too_long(path, IDENTIFIER_LENGTH)] if size(name) > IDENTIFIER_LENGTH else []
    return errors + [rules.identifier_error(path, name, text) for text in c_identifier_texts(name)]
