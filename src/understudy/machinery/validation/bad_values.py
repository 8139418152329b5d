"""Values and details of field errors that a release prints in its own way.

A validator says what it has seen; nothing is printed before the error is worded for a client. The value is printed as
it is at that time: do not edit it once an error holds it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from understudy.machinery.golang.text import go_quote, go_value
from understudy.machinery.releases.version import V1_32, V1_34, V1_35, ByRelease, Version
from understudy.machinery.types import Obj, dataclass

OWNER_REFERENCE = "k8s.io/apimachinery/pkg/apis/meta/v1.OwnerReference"


class Worded(ABC):
    """A value or a detail of a field error whose text is made when the release is known."""

    __slots__ = ()

    @abstractmethod
    def text(self, version: Version) -> str:
        """Return the text that the release prints."""


@dataclass(frozen=True, slots=True)
class Typed(Worded):
    """A value of a Go type, as JSON: `go_type` is the full name of a struct, or of a list ("[]…") or map of them."""

    value: Any
    go_type: str

    @classmethod
    def of_field(cls, obj: Obj, key: str, go_type: str) -> Typed:
        """Return the list at `key` of a decoded object. A list that was sent empty is not nil in Go."""
        value = obj.get(key)
        if value is None and key in getattr(obj, "empty", ()):
            value = []
        return cls(value, go_type)

    def text(self, version: Version) -> str:
        from understudy.machinery.typeinfo.go_types import Schemas
        from understudy.machinery.validation.dump import dump  # here, since only errors need it

        return dump(self.value, self.go_type, Schemas.of(version))


@dataclass(frozen=True, slots=True)
class Untyped(Worded):
    """A JSON value that has no Go type: Go decodes it into maps and lists of `interface{}`."""

    value: Any

    def text(self, version: Version) -> str:
        from understudy.machinery.golang.json_writer import encode_sorted  # here, since only errors need it

        match self.value:
            case None if version >= V1_34:
                return "null"
            case dict() | list() if version >= V1_34:
                return encode_sorted(self.value).decode()
            case dict():
                fields = (f"{go_quote(key)}:{_item(item, version)}" for key, item in sorted(self.value.items()))
                return f"map[string]interface {{}}{{{', '.join(fields)}}}"
            case list():
                return f"[]interface {{}}{{{', '.join(_item(item, version) for item in self.value)}}}"
            case int() if not -(2**63) <= self.value < 2**63:  # does not fit an int64, so Go takes it for a float64
                return go_value(float(self.value))
        return go_value(self.value)


def _item(value: Any, version: Version) -> str:
    return "interface {}(nil)" if value is None else Untyped(value).text(version)


@dataclass(frozen=True, slots=True)
class Octets(Worded):
    """A list of bytes; None for nil."""

    value: bytes | None

    def text(self, version: Version) -> str:
        """Print the bytes in Go syntax or, from 1.34 on, as JSON, which is base64."""
        if version >= V1_34:
            return "null" if self.value is None else f'"{b64encode(self.value).decode()}"'
        if self.value is None:
            return "[]byte(nil)"
        return f"[]byte{{{', '.join(f'0x{byte:x}' for byte in self.value)}}}"


@dataclass(frozen=True, slots=True)
class Unsigned(Worded):
    """An unsigned integer."""

    value: int

    def text(self, version: Version) -> str:
        """Print the integer as JSON; before 1.34 in Go syntax, which is hexadecimal."""
        return str(self.value) if version >= V1_34 else f"{self.value:#x}"


@dataclass(frozen=True, slots=True)
class Printed(Worded):
    """A value whose text the validator knows, in every release."""

    printed: str

    def text(self, version: Version) -> str:
        return self.printed


@dataclass(frozen=True, slots=True)
class Stringer(Worded):
    """A value of a Go type with a `String` method, such as the name of a resource or a time.

    `printed` is what the method returns, `value` is the value as JSON.
    """

    printed: str
    value: Any

    def text(self, version: Version) -> str:
        """Print the value as JSON; before 1.34 return what the method returns."""
        from understudy.machinery.golang.json_writer import encode  # here, since only errors need it

        return encode(self.value).decode() if version >= V1_34 else self.printed


@dataclass(frozen=True, slots=True)
class Difference(Worded):
    """A detail that ends in how a stored value of a Go type is about to change (upstream: `cmp.Diff`)."""

    detail: str
    before: Any
    after: Any
    go_type: str

    def text(self, version: Version) -> str:
        from understudy.machinery.golang.json_writer import encode
        from understudy.machinery.typeinfo.go_types import Schemas
        from understudy.machinery.validation.diff import diff  # here, since only errors need it

        stored = json.loads(encode(self.before))  # a stored list that is empty is nil in Go
        return self.detail + diff(stored, self.after, self.go_type, Schemas.of(version))


@dataclass(frozen=True, slots=True)
class LengthLimit(Worded):
    """A limit of a text's length in bytes. 1.31 words it in two ways: `in_bytes` for drivers' names and metadata."""

    limit: int
    in_bytes: bool

    def text(self, version: Version) -> str:
        if version >= V1_32:
            unit = "byte" if self.limit == 1 and version >= V1_34 else "bytes"
            return f"may not be more than {self.limit} {unit}"
        return f"must have at most {self.limit} bytes" if self.in_bytes else f"may not be longer than {self.limit}"


class LabelText(str, Worded):
    """A text about the key or value of a label, as releases before 1.35 have it. `newer`: the text since then."""

    __slots__ = ("newer",)

    newer: str

    def __new__(cls, text: str, newer: str) -> LabelText:
        """Make a text that is also a string, for places that join several."""
        made = super().__new__(cls, text)
        made.newer = newer
        return made

    def text(self, version: Version) -> str:
        return self.newer if version >= V1_35 else str(self)


@dataclass(frozen=True, slots=True)
class TextByRelease(Worded):
    """A detail that releases word differently."""

    texts: ByRelease[str]

    def text(self, version: Version) -> str:
        return self.texts[version]


@dataclass(frozen=True, slots=True)
class Joined(Worded):
    """A detail of several texts, some of which releases word differently."""

    texts: Sequence[str]

    def text(self, version: Version) -> str:
        """Return the texts of the release, separated by semicolons."""
        return "; ".join(text.text(version) if isinstance(text, Worded) else text for text in self.texts)


def strings(values: Sequence[str]) -> str:
    """Return a list of strings in Go syntax, for details; a bad value is `Typed(values, "[]string")`."""
    return f"[]string{{{', '.join(go_quote(value) for value in values)}}}"
