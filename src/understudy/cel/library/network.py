"""IP addresses and CIDR blocks (`ip.go` and `cidr.go` of the Kubernetes libraries)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import ClassVar

from understudy.cel.errors import EvaluationError
from understudy.cel.types import Type, opaque
from understudy.cel.values import Value, parses
from understudy.machinery.golang.netip import addr_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import dataclass


@dataclass(frozen=True, slots=True)
class IP:
    """An IP address."""

    address: IPv4Address | IPv6Address
    cel_type: ClassVar[Type] = opaque("net.IP")

    @property
    def size(self) -> int:
        """The number of octets."""
        return len(self.address.packed)

    @classmethod
    def parse(cls, text: str) -> IP:
        """Return the address of a text. Raises `EvaluationError`, also for a zone or an IPv4-mapped IPv6 address."""
        return cls(_parse_address(text, f"IP Address {go_quote(text)} parse error during conversion from string: "))


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address with a prefix length; the bits after the prefix are kept."""

    address: IPv4Address | IPv6Address
    bits: int
    cel_type: ClassVar[Type] = opaque("net.CIDR")

    @property
    def size(self) -> int:
        """The number of octets that the prefix concerns."""
        return (self.bits + 7) // 8

    @classmethod
    def parse(cls, text: str) -> CIDR:
        """Return the block of a text such as `10.0.0.0/8`. Raises `EvaluationError`."""
        message_prefix = (
            "network address parse error during conversion from string: " * 2 + f"netip.ParsePrefix({go_quote(text)}): "
        )
        head, slash, tail = text.rpartition("/")
        if not slash:
            raise EvaluationError(f"{message_prefix}no '/'")
        if "%" in head:
            raise EvaluationError(f"{message_prefix}IPv6 zones cannot be present in a prefix")
        address = _parse_address(head, message_prefix, mapped=text)
        if not re.fullmatch(r"0|[1-9][0-9]{0,2}", tail, re.ASCII):
            raise EvaluationError(f"{message_prefix}bad bits after slash: {go_quote(tail)}")
        if int(tail) > address.max_prefixlen:
            raise EvaluationError(f"{message_prefix}prefix length out of range")
        return cls(address, int(tail))

    def masked(self) -> CIDR:
        """Return the block with the bits after its prefix cleared."""
        return CIDR(ip_network((self.address, self.bits), strict=False).network_address, self.bits)

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        """Report whether an address is in the block."""
        return address.version == self.address.version and address in ip_network(
            (self.address, self.bits), strict=False
        )

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


def _parse_address(text: str, message_prefix: str, mapped: str = "") -> IPv4Address | IPv6Address:
    """Return the address of a text; `mapped` is the text to name if the address is IPv4-mapped."""
    if "%" in text and ":" in text:
        raise EvaluationError(f"IP address {go_quote(text)} with zone value is not allowed")
    try:
        address = ip_address(text)
    except ValueError:
        raise EvaluationError(f"{message_prefix}ParseAddr({go_quote(text)}): {addr_error(text)}") from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{mapped or text}" is not allowed')
    return address


def _contains_ip_text(cidr: CIDR, text: str) -> bool:
    """Report whether the address of a text is in a block. For an invalid one upstream names an overload."""
    try:
        return cidr.contains(IP.parse(text).address)
    except EvaluationError:
        raise EvaluationError("no such overload") from None


def _contains_cidr(outer: CIDR, inner: CIDR) -> bool:
    return outer.bits <= inner.bits and outer.contains(inner.address)


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    return not (
        address == IPv4Address("255.255.255.255")
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _is_link_local_multicast(ip: IP) -> bool:
    if isinstance(ip.address, IPv4Address):
        return ip.address.packed[:3] == b"\xe0\x00\x00"
    return ip.address.packed[0] == 0xFF and ip.address.packed[1] & 0x0F == 2


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_to_ip": IP.parse,
    "is_ip": parses(IP.parse),
    "ip_to_string": lambda ip: str(ip.address),
    "ip_is_canonical": lambda text: str(IP.parse(text).address) == text,
    "ip_family": lambda ip: ip.address.version,
    "ip_is_unspecified": lambda ip: ip.address.is_unspecified,
    "ip_is_loopback": lambda ip: ip.address.is_loopback,
    "ip_is_link_local_multicast": _is_link_local_multicast,
    "ip_is_link_local_unicast": lambda ip: ip.address.is_link_local,
    "ip_is_global_unicast": _is_global_unicast,
    "string_to_cidr": CIDR.parse,
    "is_cidr": parses(CIDR.parse),
    "cidr_to_string": str,
    "cidr_ip": lambda cidr: IP(cidr.address),
    "cidr_prefix_length": lambda cidr: cidr.bits,
    "cidr_masked": CIDR.masked,
    "cidr_contains_ip_ip": lambda cidr, ip: cidr.contains(ip.address),
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_cidr": _contains_cidr,
    "cidr_contains_cidr_string": lambda cidr, text: _contains_cidr(cidr, CIDR.parse(text)),
}
