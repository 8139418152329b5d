"""Messages of gRPC services as frozen dataclasses whose fields have numbers, and their protobuf encoding.

    @dataclass(frozen=True)
    class Claim(Message):
        namespace: str = text(1)

    Claim.decode(Claim("default").encode())

As in proto3, a field that has its default is not sent, and fields that a class does not know are skipped. Written by
hand, since generated code would tie its users to one release of the protobuf library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Self

from understudy.machinery.serializer.protobuf_values import SCALARS, Codec
from understudy.machinery.serializer.protobuf_wire import BYTES, encode_varint, length_delimited, read_fields
from understudy.machinery.types import NamedTuple, dataclass

_FIELD = "protobuf"


class _Field(NamedTuple):
    """The encoding of one field: `values` returns its values on the wire, and the codec encodes each of them."""

    number: int
    codec: Codec
    values: Callable[[Any], Iterable[Any]]


class _Layout(NamedTuple):
    """The fields of a class of messages: by name with their tags, by number, and as `read_fields` wants them."""

    named: tuple[tuple[str, bytes, _Field], ...]
    numbered: dict[int, tuple[str, Callable[[int, bytes, Any], Any]]]
    known: dict[int, tuple[str, tuple[int, ...]]]


class Message:
    """The base of messages. Every field has a default, so that `cls()` is the empty message."""

    def encode(self) -> bytes:
        """Return the message in protobuf."""
        out = bytearray()
        for name, tag, (_, codec, values) in _layout_of(type(self)).named:
            for value in values(getattr(self, name)):
                payload = codec.write(value)
                out += length_delimited(tag, payload) if codec.wire == BYTES else tag + payload
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the message of protobuf. Raises DecodeError."""
        _, numbered, known = _layout_of(cls)
        values: dict[str, Any] = {}
        for number, integer, payload in read_fields(data, known, cls.__name__):
            name, read = numbered[number]
            values[name] = read(integer, payload, values.get(name))
        return cls(**values)


_LAYOUTS: dict[type[Message], _Layout] = {}


def _layout_of(cls: type[Message]) -> _Layout:
    """Return the layout of a class, which is made once."""
    if (layout := _LAYOUTS.get(cls)) is None:
        fields: list[tuple[str, _Field]] = [
            (field.name, field.metadata[_FIELD])
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        ]
        layout = _LAYOUTS[cls] = _Layout(
            tuple((name, encode_varint(field.number << 3 | field.codec.wire), field) for name, field in fields),
            {field.number: (name, field.codec.read) for name, field in fields},
            {field.number: (name, (field.codec.wire,)) for name, field in fields},
        )
    return layout


def _unless_default(value: Any) -> Iterable[Any]:
    return (value,) if value else ()


def _unless_none(value: Any) -> Iterable[Any]:
    return () if value is None else (value,)


def _field(number: int, codec: Codec, default: Any, values: Callable[[Any], Iterable[Any]] = _unless_default) -> Any:
    return dataclasses.field(default=default, metadata={_FIELD: _Field(number, codec, values)})


def text(number: int) -> Any:
    """Declare a string field."""
    return _field(number, SCALARS["string"], "")


def optional_text(number: int) -> Any:
    """Declare a string field that is None if it is not set."""
    return _field(number, SCALARS["string"], None, _unless_none)


def binary(number: int) -> Any:
    """Declare a field of bytes."""
    return _field(number, Codec(BYTES, lambda number, data, old: data, bytes), b"")


def texts(number: int) -> Any:
    """Declare a field of several strings, a tuple."""
    return _field(number, _repeated(SCALARS["string"]), (), tuple)


def boolean(number: int) -> Any:
    """Declare a field that is true or false."""
    return _field(number, SCALARS["bool"], False)


def integer(number: int) -> Any:
    """Declare a field of a 64-bit integer, or of an enumeration."""
    return _field(number, SCALARS["int64"], 0)


def optional_integer(number: int) -> Any:
    """Declare a field of a 64-bit integer that is None if it is not set."""
    return _field(number, SCALARS["int64"], None, _unless_none)


def optional_message(number: int, cls: type[Message]) -> Any:
    """Declare a field of one message that is None if it is not set."""
    return _field(number, _nested(cls), None, _unless_none)


def message(number: int, cls: type[Message]) -> Any:
    """Declare a field of one message, empty if it is not set."""
    return _field(number, _nested(cls), cls(), lambda value: () if value == cls() else (value,))


def messages(number: int, cls: type[Message]) -> Any:
    """Declare a field of several messages, a tuple."""
    return _field(number, _repeated(_nested(cls)), (), tuple)


def text_map(number: int, cls: type[Message]) -> Any:
    """Declare a field of messages by text, a dict."""

    @dataclass(frozen=True)
    class Entry(Message):
        key: str = text(1)
        value: Message = message(2, cls)

    def read(_: int, payload: bytes, old: Any) -> dict[str, Message]:
        decoded = Entry.decode(payload)
        return {**(old or {}), decoded.key: decoded.value}

    codec = Codec(BYTES, read, lambda item: Entry(*item).encode())
    return dataclasses.field(default_factory=dict, metadata={_FIELD: _Field(number, codec, dict.items)})


def _nested(cls: type[Message]) -> Codec:
    return Codec(BYTES, lambda _, payload, old: cls.decode(payload), lambda value: value.encode())


def _repeated(codec: Codec) -> Codec:
    return Codec(
        codec.wire, lambda number, payload, old: (*(old or ()), codec.read(number, payload, None)), codec.write
    )
