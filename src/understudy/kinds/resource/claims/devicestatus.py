"""Validation of status.devices, the drivers' reports about the devices of a claim (KEP-4817)."""

from __future__ import annotations

import ipaddress
import re

from understudy.kinds.common import conditions
from understudy.kinds.common.formats import CIDR_TEXT, in_canonical_form
from understudy.kinds.resource.claims import allocation
from understudy.kinds.resource.common import configuration
from understudy.kinds.resource.common.device_id import DeviceID
from understudy.kinds.resource.common.each import validate_set
from understudy.kinds.resource.common.release_rules import (
    ADDRESSES,
    CONDITIONS,
    HARDWARE_ADDRESS_LENGTH,
    INTERFACE_LENGTH,
    ReleaseRules,
)
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import Worded
from understudy.machinery.validation.field import Errors, Path, invalid, too_long
from understudy.machinery.validation.names import size

_OCTETS = regex(r"(\d+)\.(\d+)\.(\d+)\.(\d+)", re.ASCII)
_BITS = regex(r"0*(\d{1,3})", re.ASCII)
_LEADING_ZEROS = regex(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")


def validate(status: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check `devices` of a claim's status: each entry is about another device, which is allocated."""
    entries = status.get("devices") or ()
    allocated = frozenset(allocation.allocated(status))
    return validate_set(
        entries,
        None,
        lambda entry, here: _entry(entry, here, allocated, rules),
        lambda entry: _ShownDevice(DeviceID.of(entry)),
        path,
        rules,
        "deviceID",
    )


@dataclass(frozen=True, slots=True)
class _ShownDevice(Worded):
    """A device as errors of a release show it; two are equal if they are the same device."""

    device: DeviceID

    def text(self, version: Version) -> str:
        return ReleaseRules.of(version).device_id(self.device)


def _entry(entry: Obj, path: Path, allocated: frozenset[DeviceID], rules: ReleaseRules) -> Errors:
    errors = allocation.device(entry, path, rules) + allocation.share(entry, path)
    device = DeviceID.of(entry)
    if device not in allocated:
        errors.append(invalid(path, _ShownDevice(device), "must be an allocated device in the claim"))
    items, where = entry.get("conditions") or (), path.child("conditions")
    if len(items) > CONDITIONS:
        errors.append(rules.too_many(where, len(items), CONDITIONS))
    errors += conditions.validate(items, where)
    if entry.get("data") is not None:
        errors += configuration.raw_object(entry["data"], path.child("data"), rules)
    return errors + _network(entry.get("networkData") or {}, path.child("networkData"), rules)


_NETWORK_LENGTHS = {"interfaceName": INTERFACE_LENGTH, "hardwareAddress": HARDWARE_ADDRESS_LENGTH}


def _network(data: Obj, path: Path, rules: ReleaseRules) -> Errors:
    errors = [
        too_long(path.child(name), length)
        for name, length in _NETWORK_LENGTHS.items()
        if size(data.get(name, "")) > length
    ]
    check, key = (_interface_address, str) if rules.canonical_addresses else (_address, canonical_address)
    return errors + validate_set(data.get("ips"), ADDRESSES, check, key, path.child("ips"), rules)


def _interface_address(text: str, path: Path) -> Errors:
    """Check an address with the length of its prefix, written as Go writes it (`IsValidInterfaceAddress`)."""
    parsed = _parsed(text)
    if parsed is None:
        return [invalid(path, text, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")]
    address, bits = parsed
    canonical = f"{address}/{bits - 96 if address.version == 4 and bits > 32 else bits}"  # of ::ffff:1.2.3.4/120
    return in_canonical_form(text, canonical, path)


def _address(text: str, path: Path) -> Errors:
    return [] if canonical_address(text) else [invalid(path, text, CIDR_TEXT)]


def canonical_address(text: str) -> str:
    """Return an address and the length of its prefix as Go writes them; "" for a wrong text.

    Leading zeros are allowed, as in `ParseCIDRSloppy`.
    """
    parsed = _parsed(text)
    return f"{parsed[0]}/{parsed[1]}" if parsed else ""


def _parsed(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int] | None:
    """Return an address and the length of its prefix, an IPv4 address for one that IPv6 maps; None for a wrong text."""
    host, slash, bits = text.partition("/")
    address, length = _parsed_host(host), _BITS.fullmatch(bits)
    if not slash or address is None or length is None or int(length[1]) > address.max_prefixlen:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address, int(length[1])


def _parsed_host(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in host:
        return None
    try:
        return ipaddress.ip_address(_LEADING_ZEROS.sub("", host) if ":" in host else _decimal(host))
    except ValueError:
        return None


def _decimal(host: str) -> str:
    octets = _OCTETS.fullmatch(host)
    return ".".join(octet.lstrip("0") or "0" for octet in octets.groups()) if octets else host
