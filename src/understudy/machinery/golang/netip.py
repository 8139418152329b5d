"""Texts of Go's package `net/netip` about addresses that it refuses."""

from __future__ import annotations

import re
from ipaddress import ip_address

from understudy.machinery.golang.text import go_quote


def addr_error(text: str) -> str:
    """Return the reason that Go's `netip.ParseAddr` gives for refusing a text."""
    first = next((char for char in text if char in ".:%"), "")
    if first == "%":
        return "missing IPv6 address"
    return "unable to parse IP" if first != "." else _ipv4_error(text)


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
                return f'IPv4 field must have at least one digit (at "{text[index:]}")'
            if fields == 3:
                return "IPv4 address too long"
            fields, value, digits = fields + 1, 0, 0
        else:
            return f'unexpected character (at "{text[index:]}")'
    return "IPv4 address too short"


def prefix_error(text: str) -> str:
    """Return the reason that Go's `netip.ParsePrefix` gives for refusing a text, "" for a good one."""
    address, slash, bits = text.rpartition("/")
    if not slash:
        return "no '/'"
    try:
        parsed = ip_address(address)
    except ValueError:
        return f"ParseAddr({go_quote(address)}): {addr_error(address)}"
    if "%" in address:
        return "IPv6 zones cannot be present in a prefix"
    if not re.fullmatch(r"0|[1-9][0-9]*", bits, re.ASCII):
        return f"bad bits after slash: {go_quote(bits)}"
    return "" if len(bits) < 4 and int(bits) <= parsed.max_prefixlen else "prefix length out of range"
