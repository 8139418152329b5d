"""Single values in Kubernetes protobuf: scalars, and the custom types that are small messages."""

from __future__ import annotations

import struct as binary
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import Raw, with_source
from understudy.machinery.golang.json_writer import encode as encode_json
from understudy.machinery.serializer.protobuf_wire import (
    BYTES,
    FIXED64,
    VARINT,
    encode_varint,
    length_delimited,
    read_fields,
)
from understudy.machinery.types import NamedTuple


class Codec(NamedTuple):
    """The codec of one value. `wire` is its wire type.

    `read(integer, bytes, old)` returns its JSON, merged into `old`, the JSON of an earlier occurrence. `write(JSON)`
    returns varint, fixed or message bytes, without tag and length.
    """

    wire: int
    read: Callable[[int, bytes, Any], Any]
    write: Callable[[Any], bytes]


# --- scalars


def _signed(bits: int) -> Codec:
    half, whole = 1 << (bits - 1), 1 << bits
    return Codec(VARINT, lambda number, data, old: (number + half) % whole - half, encode_varint)


def read_text(number: int, data: bytes, old: Any) -> str:
    """Decode a string; a byte that is not UTF-8 becomes U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(
            "\ufffd" if "\ud800" <= char <= "\udfff" else char for char in data.decode(errors="surrogateescape")
        )


SCALARS: dict[str, Codec] = {
    "string": Codec(BYTES, read_text, lambda value: value.encode(errors="replace")),
    "bytes": Codec(BYTES, lambda number, data, old: b64encode(data).decode(), b64decode),
    "bool": Codec(VARINT, lambda number, data, old: number != 0, encode_varint),
    "float64": Codec(FIXED64, lambda number, data, old: binary.unpack("<d", data)[0], lambda v: binary.pack("<d", v)),
    "int32": _signed(32),
    "int64": _signed(64),
    "int": _signed(64),
}


# --- custom types: small messages


def read_parts(data: bytes, message: str, *numbered: tuple[str, int]) -> dict[int, Any]:
    """Return the fields of a small message by number, the last of each: integers or bytes. `numbered` are Go names and
    wire types, from number 1 on."""
    known = {number: (name, (wire,)) for number, (name, wire) in enumerate(numbered, 1)}
    return {
        number: data if known[number][1][0] == BYTES else value
        for number, value, data in read_fields(data, known, message)
    }


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _read_time(nanos: bool) -> Callable[[int, bytes, Any], str | None]:
    def read(number: int, data: bytes, old: Any) -> str | None:
        if not data:
            return None
        parts = read_parts(data, "Timestamp", ("Seconds", VARINT), ("Nanos", VARINT))
        seconds = SCALARS["int64"].read(parts.get(1, 0), b"", None)
        micros = parts.get(2, 0) // 1000 % 1_000_000 if nanos else 0
        try:
            at = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
        except OverflowError as error:
            raise DecodeError(f"time {seconds} is out of range") from error
        return f"{at}.{micros:06d}Z" if nanos else f"{at}Z"

    return read


def _write_time(value: str | None) -> bytes:
    if value is None:
        return b""
    at = datetime.fromisoformat(value)
    seconds = int((at.replace(microsecond=0) - _EPOCH).total_seconds())
    return b"\x08" + encode_varint(seconds) + b"\x10" + encode_varint(at.microsecond * 1000)


def _read_int_or_string(number: int, data: bytes, old: Any) -> int | str:
    parts = read_parts(data, "IntOrString", ("Type", VARINT), ("IntVal", VARINT), ("StrVal", BYTES))
    if parts.get(1):
        return read_text(0, parts.get(3, b""), None)
    return int(SCALARS["int32"].read(parts.get(2, 0), b"", None))


def _write_int_or_string(value: int | str) -> bytes:
    is_text = isinstance(value, str)
    text = str(value).encode() if is_text else b""
    return (
        b"\x08"
        + encode_varint(is_text)
        + b"\x10"
        + encode_varint(0 if is_text else int(value))
        + length_delimited(b"\x1a", text)
    )


def _read_raw(message: str, keep: bool) -> Callable[[int, bytes, Any], Any]:
    def read(number: int, data: bytes, old: Any) -> Any:
        source = read_parts(data, message, ("Raw", BYTES)).get(1)
        if source is None:
            return None
        try:
            value = orjson.loads(source.decode(errors="replace"))
        except orjson.JSONDecodeError:
            return _unreadable(source) if keep else source.decode(errors="replace")  # no set of fields, either
        if keep and source[:1].isspace() and isinstance(value, (dict, list, str, bool)):
            return _unreadable(source)  # Go's converter takes what begins with a space for a number
        return with_source(value, source) if keep else value

    return read


def _unreadable(source: bytes) -> Raw:
    """Return a raw value that is no JSON."""
    value: Raw = with_source({}, source)
    value.is_readable = False
    return value


def _write_raw(value: Any) -> bytes:
    if value is None:
        return b""
    return length_delimited(b"\x0a", value.source if isinstance(value, Raw) else encode_json(value))


CUSTOM: dict[str, Codec] = {
    "Time": Codec(BYTES, _read_time(nanos=False), _write_time),
    "MicroTime": Codec(BYTES, _read_time(nanos=True), _write_time),
    "Quantity": Codec(
        BYTES,
        lambda number, data, old: read_text(0, read_parts(data, "Quantity", ("String_", BYTES)).get(1, b"0"), None),
        lambda value: length_delimited(b"\x0a", value.encode()),
    ),
    "IntOrString": Codec(BYTES, _read_int_or_string, _write_int_or_string),
    "RawExtension": Codec(BYTES, _read_raw("RawExtension", keep=True), _write_raw),
    "FieldsV1": Codec(BYTES, _read_raw("FieldsV1", keep=False), _write_raw),
    "JSON": Codec(BYTES, _read_raw("JSON", keep=False), _write_raw),
}
