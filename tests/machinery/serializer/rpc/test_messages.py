"""Messages of gRPC services in protobuf: the bytes that Go sends and reads."""

from __future__ import annotations

import pytest

from understudy.controlplane.kubelet.dra.api import (
    Claim,
    ClaimsRequest,
    Device,
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    PreparedClaim,
    PrepareResponse,
    WatchResourcesRequest,
)
from understudy.controlplane.kubelet.pluginmanager import PluginInfo, RegistrationStatus
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.serializer.rpc.messages import Message

DEVICE = Device(("r",), "p", "d", ("v/c=d",), "")
MESSAGES = [
    (WatchResourcesRequest(), b""),
    (PluginInfo("T", "n", "", ("v1", "v2")), b"\x0a\x01T\x12\x01n\x22\x02v1\x22\x02v2"),
    (RegistrationStatus(True, ""), b"\x08\x01"),
    (ClaimsRequest((Claim("ns", "u", "c"),)), b"\x0a\x0a\x0a\x02ns\x12\x01u\x1a\x01c"),
    (DEVICE, b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x05v/c=d\x2a\x00"),
    (PrepareResponse({"u": PreparedClaim((), "no")}), b"\x0a\x09\x0a\x01u\x12\x04\x12\x02no"),
    (PrepareResponse({"u": PreparedClaim()}), b"\x0a\x03\x0a\x01u"),
    (
        DeviceHealth(DeviceIdentifier("p", "d"), HealthStatus.UNHEALTHY, -1),
        b"\x0a\x06\x0a\x01p\x12\x01d\x10\x02\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ),
]


@pytest.mark.parametrize(("message", "encoded"), MESSAGES, ids=lambda value: type(value).__name__)
def test_encoding(message: Message, encoded: bytes) -> None:
    """Fields that have their default are not sent, but for optional ones; what is decoded is what was encoded."""
    assert message.encode() == encoded
    assert type(message).decode(encoded) == message


def test_unknown_fields_are_skipped() -> None:
    """A driver of a later release may send fields that are not known here."""
    assert Claim.decode(b"\x0a\x02ns\xa2\x06\x01x\x1a\x01c") == Claim("ns", "", "c")


def test_empty_values_of_maps() -> None:
    """Go writes the value of an entry even if it is an empty message."""
    assert PrepareResponse.decode(b"\x0a\x05\x0a\x01u\x12\x00").claims == {"u": PreparedClaim()}


def test_broken_bytes() -> None:
    """Bytes that are no message are refused."""
    with pytest.raises(DecodeError):
        Claim.decode(b"\x0a\x09short")
