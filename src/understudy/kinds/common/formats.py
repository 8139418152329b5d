"""Checks of texts in specs: ports, addresses, variable names, keys, paths, percentages.

Functions that end in `_texts` return what is wrong with a text, [] for a good one; others return field errors.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from understudy.machinery.golang.netip import parse_cidr, parse_ip
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease
from understudy.machinery.validation.field import Errors, Path, invalid, not_supported, required
from understudy.machinery.validation.names import (
    SUBDOMAIN,
    SUBDOMAIN_LENGTH,
    Format,
    dns_1035_label_texts,
    dns_label_texts,
    dns_subdomain_texts,
    label_value_texts,
    max_length_texts,
    qualified_name_texts,
)

MAX_INT32 = 2**31 - 1

_DOMAIN_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_LOOSE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"

_env_name = Format(
    "[-._a-zA-Z][-._a-zA-Z0-9]*",
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
    "and must not start with a digit",
    "my.env-name",
    "MY_ENV.NAME",
    "MyEnvName1",
)
_config_key = Format(
    "[-._a-zA-Z0-9]+",
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_header = Format("[-A-Za-z0-9]+", "a valid HTTP header must consist of alphanumeric characters or '-'", "X-Header-Name")
_percent = Format("[0-9]+%", "a valid percent string must be a numeric string followed by an ending '%'", "1%", "93%")
_wildcard = Format(
    rf"\*\.{SUBDOMAIN}",
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    "*.example.com",
)
_LOOSE_SUBDOMAIN = rf"{_LOOSE_LABEL}(\.{_LOOSE_LABEL})*"
_LOOSE_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character"
)
# Before 1.34 the text shows the pattern of names without underscores.
_loose_subdomain = ByRelease(
    {
        V1_34: Format(_LOOSE_SUBDOMAIN, _LOOSE_TEXT, "example.com"),
        V1_31: Format(_LOOSE_SUBDOMAIN, _LOOSE_TEXT, "example.com", shown_pattern=SUBDOMAIN),
    }
)
RELAXED_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def range_text(low: int, high: int) -> str:
    """Say that a number must be in a range (upstream: `validation.InclusiveRangeError`)."""
    return f"must be between {low} and {high}, inclusive"


def _backsteps(value: str) -> list[str]:
    if value == ".":
        return ["must not be '.'"]
    if value == "..":
        return ["must not be '..'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def env_name_texts(value: str, relaxed: bool) -> list[str]:
    """Check the name of an environment variable, or a prefix of such names (upstream: `IsEnvVarName`)."""
    if relaxed:
        fits = value.isascii() and value.isprintable() and "=" not in value
        return [] if fits else [RELAXED_ENV_TEXT]
    return _env_name.texts(value) + _backsteps(value)


def config_key_texts(value: str) -> list[str]:
    """Check a key of a config map or secret (upstream: `IsConfigMapKey`)."""
    return max_length_texts(value, SUBDOMAIN_LENGTH) + _config_key.texts(value) + _backsteps(value)


def header_texts(value: str) -> list[str]:
    """Check the name of an HTTP header (upstream: `IsHTTPHeaderName`)."""
    return _header.texts(value)


def percent_texts(value: str) -> list[str]:
    """Check a percentage such as "25%" (upstream: `IsValidPercent`)."""
    return _percent.texts(value)


def wildcard_subdomain_texts(value: str) -> list[str]:
    """Check a subdomain that begins with "*." (upstream: `IsWildcardDNS1123Subdomain`)."""
    return max_length_texts(value, SUBDOMAIN_LENGTH) + _wildcard.texts(value)


def port_number_texts(value: int) -> list[str]:
    """Check the number of a port (upstream: `IsValidPortNum`)."""
    return [] if 1 <= value <= 65535 else [range_text(1, 65535)]


def port_name_texts(value: str) -> list[str]:
    """Check the name of a port (upstream: `IsValidPortName`).

    RFC 6335: up to 15 lower case letters, digits and single dashes, at least one letter.
    """
    checks = (
        (len(value) > 15, "must be no more than 15 characters"),
        (
            not re.fullmatch("[-a-z0-9]+", value),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not re.search("[a-z]", value), "must contain at least one letter (a-z)"),
        ("--" in value, "must not contain consecutive hyphens"),
        (value.startswith("-") or value.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [text for wrong, text in checks if wrong]


def ip(value: str, path: Path, *, strict: bool = False, stored: Collection[str] = ()) -> Errors:
    """Check an IP address (upstream: `IsValidIPForLegacyField`). `stored` addresses are accepted as they are.

    If `strict`, leading zeros and IPv4 addresses in the form of IPv6 are refused.
    """
    if value in stored:
        return []
    address = parse_ip(value)
    if address is None:
        return [invalid(path, value, IP_TEXT)]
    if strict and has_leading_zeros(value):
        return [invalid(path, value, "must not have leading 0s")]
    if strict and is_mapped(address):
        return [invalid(path, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def cidr(value: str, path: Path, *, strict: bool = False, stored: Collection[str] = ()) -> Errors:
    """Check a network such as 10.9.8.0/24 (upstream: `IsValidCIDRForLegacyField`). `stored` ones are accepted.

    If `strict`, leading zeros, IPv4 networks in the form of IPv6 and bits beyond the prefix are refused.
    """
    if value in stored:
        return []
    network = parse_cidr(value)
    if network is None:
        return [invalid(path, value, CIDR_TEXT)]
    if not strict:
        return []
    if has_leading_zeros(value):
        return [invalid(path, value, "must not have leading 0s in IP or prefix length")]
    if is_mapped(network.network_address):
        return [invalid(path, value, "must not have an IPv4-mapped IPv6 address")]
    if parse_ip(value.partition("/")[0]) != network.network_address:
        return [invalid(path, value, "must not have bits set beyond the prefix length")]
    return []


def has_leading_zeros(value: str) -> bool:
    """Report whether a number of an IPv4 address, or of a prefix length, begins with a zero that says nothing."""
    address, _, bits = value.partition("/")
    octets = address.rpartition(":")[2].split(".")
    return any(len(part) > 1 and part[0] == "0" for part in (*(octets if len(octets) > 1 else ()), bits))


def is_mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Report whether an address of IPv6 stands for one of IPv4 (`::ffff:1.2.3.4`)."""
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def canonical_ip(value: str, path: Path) -> Errors:
    """Check an IP address that has to be in canonical form (upstream: `IsValidIP`)."""
    return ip(value, path, strict=True) or in_canonical_form(value, str(parse_ip(value)), path)


def canonical_cidr(value: str, path: Path) -> Errors:
    """Check a network that has to be in canonical form (upstream: `IsValidCIDR`)."""
    return cidr(value, path, strict=True) or in_canonical_form(value, str(parse_cidr(value)), path)


def in_canonical_form(value: str, canonical: str, path: Path) -> Errors:
    """Check that a valid address or network is spelled as Go writes it."""
    return [] if value == canonical else [invalid(path, value, f"must be in canonical form ({go_quote(canonical)})")]


def invalid_texts(texts: Iterable[str], value: Any, path: Path) -> Errors:
    """Return one Invalid error for each text about a value."""
    return [invalid(path, value, text) for text in texts] if texts else []  # for speed: most have no text


def invalid_text(texts: Sequence[str], value: Any, path: Path, about: str = "") -> Errors:
    """Return one Invalid error with all texts about a value, [] for no text. `about` comes in front of them."""
    return [invalid(path, value, about + ",".join(texts))] if texts else []


def of_field(name: str, requirement: str) -> TextByRelease:
    """Return the detail "must …" about a field, which releases before 1.34 begin with the field's name."""
    return TextByRelease(ByRelease({V1_34: requirement, V1_31: f"{name} {requirement}"}))


def message(text: str, path: Path) -> Errors:
    """Check that a message for people is on one line."""
    if text and not text.strip():
        return [invalid(path, text, of_field("message", "must be non-empty if specified"))]
    broken = {"\n", "\r"} & set(text.strip())
    return [invalid(path, text, of_field("message", "must not contain line breaks"))] if broken else []


def service_port(service: dict[str, Any], path: Path) -> Errors:
    """Check the port of a service that the API server itself calls."""
    port = service.get("port", 0)
    texts = port_number_texts(port)
    return [invalid(path.child("port"), port, f"port is not valid: {', '.join(texts)}")] if texts else []


def label(value: str, path: Path) -> Errors:
    """Check an RFC 1123 label."""
    return invalid_texts(dns_label_texts(value), value, path)


def subdomain(value: str, path: Path) -> Errors:
    """Check an RFC 1123 subdomain."""
    return invalid_texts(dns_subdomain_texts(value), value, path)


def loose_subdomain(value: str, path: Path, version: Version) -> Errors:
    """Check a subdomain whose labels may have underscores, as DNS service discovery has them."""
    texts = max_length_texts(value, SUBDOMAIN_LENGTH) + _loose_subdomain[version].texts(value)
    return invalid_texts(texts, value, path)


def qualified(value: str, path: Path) -> Errors:
    """Check a qualified name."""
    return invalid_texts(qualified_name_texts(value), value, path)


def label_1035(value: str, path: Path) -> Errors:
    """Check an RFC 1035 label, with all that is wrong in one error."""
    return invalid_text(dns_1035_label_texts(value), value, path)


def kind(value: str, path: Path) -> Errors:
    """Check the name of a kind: an RFC 1035 label apart from its case."""
    about = "may have mixed case, but should otherwise match: "
    return invalid_text(dns_1035_label_texts(value.lower()), value, path, about)


def domain(value: str, path: Path, *, dots: int, requirement: str) -> Errors:
    """Check a subdomain with at least `dots` dots; `requirement` says so in the error."""
    if not value:
        return [required(path)]
    if texts := dns_subdomain_texts(value):
        return invalid_text(texts, value, path)
    return [] if value.count(".") >= dots else [invalid(path, value, f"should be a domain with at least {requirement}")]


def domain_path(value: str, path: Path) -> Errors:
    """Check a name with a domain in front, such as acme.io/foo (upstream: `IsDomainPrefixedPath`)."""
    host, _, rest = value.partition("/")
    if not value:
        return [required(path)]
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = invalid_texts(dns_subdomain_texts(host), host, path)
    if not re.fullmatch(_DOMAIN_PATH, rest):
        errors.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_DOMAIN_PATH}')"))
    return errors


def port(value: int | str | None, path: Path) -> Errors:
    """Check a port given by number or by name (upstream: `ValidatePortNumOrName`)."""
    if isinstance(value, str):
        return invalid_texts(port_name_texts(value), value, path)
    return invalid_texts(port_number_texts(value or 0), value or 0, path)


def nonnegative(value: int | None, path: Path) -> Errors:
    """Check that a number is not negative (upstream: `ValidateNonnegativeField`). None counts as 0."""
    return [] if (value or 0) >= 0 else [invalid(path, value, "must be greater than or equal to 0")]


def choice(value: Any, allowed: Sequence[str], path: Path, *, needed: bool = False) -> Errors:
    """Check that a value is one of several; with `needed` an empty one is missing rather than wrong."""
    if needed and not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value or "", allowed)]


def require_fields(obj: Obj, path: Path, *names: str) -> Errors:
    """Return an error for each of these fields that is empty."""
    return [required(path.child(name)) for name in names if obj.get(name) in (None, "", [], {})]


def indexed(items: Sequence[Any] | None, path: Path, check: Callable[[Any, Path], Errors]) -> Errors:
    """Check every item of a list."""
    return [error for i, item in enumerate(items or ()) for error in check(item, path.index(i))]


def labels(values: dict[str, str] | None, path: Path) -> Errors:
    """Check keys and values of labels (upstream: `ValidateLabels`)."""
    errors: Errors = []
    for key, value in (values or {}).items():
        errors += invalid_texts(qualified_name_texts(key), key, path)
        errors += invalid_texts(label_value_texts(value), value, path)
    return errors


def descending_path(value: str, path: Path) -> Errors:
    """Check a path that must be relative and never go up (upstream: `validateLocalDescendingPath`)."""
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + no_backsteps(value, path)


def no_backsteps(value: str, path: Path) -> Errors:
    """Check that a path has no ".." among its parts (upstream: `validatePathNoBacksteps`)."""
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def unreserved_path(value: str, path: Path) -> Errors:
    """Check a descending path whose name is not one that a kubelet keeps for itself.

    Upstream: `validateLocalNonReservedPath`.
    """
    errors = descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors
