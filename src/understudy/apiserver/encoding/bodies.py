"""Bodies of requests in JSON, YAML, protobuf and CBOR, as codecs read them."""

from __future__ import annotations

from typing import Any, ClassVar

from understudy.kinds.apiextensions.structural_schema.json_values import with_go_numbers
from understudy.machinery.patch import patch_body
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.cbor import decode as cbor
from understudy.machinery.serializer.cbor.items import Item, diagnose
from understudy.machinery.serializer.json import DecodeError, Parsed, decode_parsed, parse_json
from understudy.machinery.typeinfo.go_types import Struct
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.regex import regex

# As only integers have that may not fit 64 bits. The first digit for itself lets `re` look for it four times as fast.
_MANY_DIGITS = regex("[0-9][0-9]{18}")


@dataclass(slots=True)
class JsonBody:
    """A body in JSON, or the JSON of one in YAML. `sent` is the body itself."""

    reports_unknown: ClassVar[bool] = True
    sent: bytes
    parsed: Parsed

    @staticmethod
    def of(sent: bytes) -> JsonBody:
        """Return a body in JSON, which is parsed."""
        return JsonBody(sent, parse_json(sent))

    def decode(self, struct: Struct) -> tuple[Obj, list[str]]:
        return decode_parsed(self.parsed, struct)

    def value(self) -> tuple[Any, list[str]]:
        text = self.parsed.text
        if text is None:
            value, duplicates = patch_body.loads(self.parsed.body)
            return with_go_numbers(value), [f'duplicate field "{path}"' for path in duplicates]
        value = self.parsed.value
        return (with_go_numbers(value) if _MANY_DIGITS.search(text) else value), []

    def text(self) -> str:
        return self.sent.decode("utf-8", "replace")


@dataclass(slots=True)
class ProtobufBody:
    """A body in protobuf, which has no strict errors."""

    reports_unknown: ClassVar[bool] = False
    sent: bytes

    def decode(self, struct: Struct) -> tuple[Obj, list[str]]:
        return protobuf.decode(self.sent, struct), []

    def value(self) -> tuple[Any, list[str]]:
        raise DecodeError("protobuf is not supported")

    def text(self) -> str:
        return self.sent.decode("utf-8", "replace")


@dataclass(slots=True)
class CborBody:
    """A body in CBOR."""

    reports_unknown: ClassVar[bool] = False
    item: Item

    def decode(self, struct: Struct) -> tuple[Obj, list[str]]:
        return cbor.decode(self.item, struct)

    def value(self) -> tuple[Any, list[str]]:
        value = cbor.decode_unstructured(self.item) or {}
        if not value.get("apiVersion") or not isinstance(value["apiVersion"], str):
            raise DecodeError(f"Object 'apiVersion' is missing in '{self.text()}'")
        return value, []

    def text(self) -> str:
        return diagnose(self.item)
