"""IP addresses as Go parses them, and the texts of package `net/netip` about those that it refuses."""

from __future__ import annotations

import ipaddress
import re

from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.regex import regex

_HEX = regex(r"[0-9a-fA-F]*")


def addr_error(text: str) -> str:
    """Return the reason that Go's `netip.ParseAddr` gives for refusing a text."""
    first = next((char for char in text if char in ".:%"), "")
    if first == "%":
        return "missing IPv6 address"
    if first == ":":
        return _ipv6_error(text)
    return "unable to parse IP" if first != "." else _ipv4_error(text)


def _at(message: str, rest: str) -> str:
    return f"{message} (at {go_quote(rest)})"


def _ipv6_error(text: str) -> str:
    """Return the reason that Go's `netip.ParseAddr` gives for refusing a text with a colon before any dot."""
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string"
    octets, ellipsis = 0, rest.startswith("::")
    rest = rest[2:] if ellipsis else rest
    while octets < 16 and (rest or not ellipsis):
        digits = _HEX.match(rest).group()  # type: ignore[union-attr]  # it matches every text
        if len(digits) > 4:
            return _at("each group must have 4 or less digits", rest)
        if not digits:
            return _at("each colon-separated field must have at least one digit", rest)
        after = rest[len(digits) :]
        if after.startswith("."):
            if not ellipsis and octets != 12:
                return _at("embedded IPv4 address must replace the final 2 fields of the address", rest)
            if octets > 12:
                return _at("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            return _ipv4_error(rest)
        octets += 2
        rest = after
        if not rest:
            break
        if not rest.startswith(":"):
            return _at("unexpected character, want colon", rest)
        if rest == ":":
            return _at("colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest.startswith(":"):
            if ellipsis:
                return _at("multiple :: in address", rest)
            ellipsis, rest = True, rest[1:]
    if rest:
        return _at("trailing garbage after address", rest)
    return "the :: must expand to at least one field of zeros" if ellipsis else "address string too short"


def _ipv4_error(text: str) -> str:
    """Return the reason that Go's `netip.ParseAddr` gives for refusing a text with a dot before any colon."""
    value = fields = digits = 0
    for index, char in enumerate(text):
        if char in "0123456789":
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif char == ".":
            if digits == 0 or index == len(text) - 1:
                return _at("IPv4 field must have at least one digit", text[index:])
            if fields == 3:
                return "IPv4 address too long"
            fields, value, digits = fields + 1, 0, 0
        else:
            return _at("unexpected character", text[index:])
    return "IPv4 address too short"


def prefix_error(text: str) -> str:
    """Return the reason that Go's `netip.ParsePrefix` gives for refusing a text, "" for a good one."""
    address, slash, bits = text.rpartition("/")
    if not slash:
        return "no '/'"
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return f"ParseAddr({go_quote(address)}): {addr_error(address)}"
    if "%" in address:
        return "IPv6 zones cannot be present in a prefix"
    if not re.fullmatch(r"0|[1-9][0-9]*", bits, re.ASCII):
        return f"bad bits after slash: {go_quote(bits)}"
    return "" if len(bits) < 4 and int(bits) <= parsed.max_prefixlen else "prefix length out of range"


def parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address; return None for a wrong one. IPv4 may have leading zeros (upstream: `ParseIPSloppy`)."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", value):
        value = ".".join(part.lstrip("0") or "0" for part in value.split("."))
    try:
        return ipaddress.ip_address(value) if "%" not in value else None
    except ValueError:
        return None


def parse_cidr(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse a network; return None for a wrong one. IPv4 may have leading zeros (upstream: `ParseCIDRSloppy`)."""
    address, _, bits = value.partition("/")
    ip_address, length = parse_ip(address), re.fullmatch(r"0*([0-9]{1,3})", bits)
    if ip_address is None or length is None or int(length[1]) > ip_address.max_prefixlen:
        return None
    bits = length[1]
    return ipaddress.ip_network(f"{ip_address}/{bits}", strict=False)
