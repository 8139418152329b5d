"""Field paths and the errors that validation reports about fields (upstream: `apimachinery/pkg/util/validation/field`).

An error says what is wrong as data; `FieldError.body` words it for a release. The texts are part of the API: clients
show and match them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any

from understudy.machinery.golang.text import go_quote, go_value
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import dataclass
from understudy.machinery.validation.bad_values import LengthLimit, TextByRelease, Worded


class Path:
    """A path to a field: Path("spec").child("requests").index(0).key("a") reads spec.requests[0][a]."""

    __slots__ = ("_last", "_parent")

    def __init__(self, *names: str) -> None:
        self._parent: Path | None = None
        self._last: tuple[str, ...] | str | int = names  # names of fields, or the key or index of an element

    @property
    def text(self) -> str:
        """Return the path as text. It is made when an error needs it: values nest up to 10,000 levels."""
        parts: list[str] = []
        path: Path | None = self
        while path is not None:
            last = path._last
            parts.append(".".join(("", *last)) if isinstance(last, tuple) else f"[{last}]")
            path = path._parent
        return "".join(reversed(parts)).removeprefix(".")

    def child(self, *names: str) -> Path:
        """Return the path of a field below this one."""
        path = Path.__new__(Path)  # without `__init__`: validation makes thousands of paths
        path._parent = self
        path._last = names
        return path

    def key(self, key: str | int) -> Path:
        """Return the path of an entry of a map."""
        path = Path.__new__(Path)
        path._parent = self
        path._last = key
        return path

    index = key  # the path of an element of a list

    def __str__(self) -> str:
        return self.text or "<nil>"

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


class ErrorType(Enum):
    """A way to be wrong: its `reason` in the causes of a Status, and its text (upstream: `field.ErrorType`)."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        self.text = text


class _Omitted(Enum):
    OMITTED = "omitted"


OMITTED = _Omitted.OMITTED  # in the place of a bad value that is not shown (upstream: `field.OmitValueType`)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with an object (upstream: `field.Error`).

    type       the way in which it is wrong
    field      the path's text
    bad_value  the value, a JSON scalar or one that a release prints in its own way; OMITTED for none
    detail     more about it, "" for nothing
    origin     the rule that found it ("format=dns-label"), "" for none; not shown to clients
    newer      the error that stands for it from a release on, None for none
    undeclared whether no declared rule says the same: it is reported beside what those find at the field
    """

    type: ErrorType
    field: str
    bad_value: Any = OMITTED
    detail: str | Worded = ""
    origin: str = ""
    newer: tuple[Version, FieldError] | None = None
    undeclared: bool = False

    def of(self, version: Version) -> FieldError:
        """Return the error that a release reports."""
        return self.newer[1] if self.newer is not None and version >= self.newer[0] else self

    def body(self, version: Version) -> str:
        """Return the error without its path, the message of a cause in a Status (upstream: `Error.ErrorBody`)."""
        text = self.type.text
        if self.bad_value is not OMITTED:
            text += f": {_text(self.bad_value, version)}"
        detail = self.detail.text(version) if isinstance(self.detail, Worded) else self.detail
        return f"{text}: {detail}" if detail else text

    def text(self, version: Version) -> str:
        """Return the error with its path, part of the message of a Status (upstream: `Error.Error`)."""
        return f"{self.field}: {self.body(version)}"


Errors = list[FieldError]


def distinct(errors: Errors, version: Version) -> Errors:
    """Return the errors that a release reports, those with equal texts once, as Go's filter does.

    Only those of one type and field have equal texts."""
    objects = {id(error): error for error in (each.of(version) for each in errors)}
    alike = Counter((error.type, error.field) for error in objects.values())
    by_text: dict[object, FieldError] = {}
    for number, error in objects.items():
        by_text.setdefault(number if alike[error.type, error.field] == 1 else error.text(version), error)
    return [*by_text.values()]


_NULL = ByRelease({V1_34: "null", V1_31: '"null"'})


def _text(value: Any, version: Version) -> str:
    if value is None:
        return _NULL[version]
    return value.text(version) if isinstance(value, Worded) else go_value(value)


def not_found(path: Path, value: Any) -> FieldError:
    """Return the error of a value that refers to nothing."""
    return FieldError(ErrorType.NOT_FOUND, str(path), value)


def required(path: Path, detail: str | Worded = "") -> FieldError:
    """Return the error of a missing value."""
    return FieldError(ErrorType.REQUIRED, str(path), detail=detail)


def duplicate(path: Path, value: Any) -> FieldError:
    """Return the error of a value that was there before."""
    return FieldError(ErrorType.DUPLICATE, str(path), value)


def invalid(path: Path, value: Any, detail: str | Worded) -> FieldError:
    """Return the error of a value that breaks a rule. Pass a `Worded` for a value that is not a JSON scalar."""
    return FieldError(ErrorType.INVALID, str(path), value, detail)


def type_invalid(path: Path, value: Any, detail: str) -> FieldError:
    """Return the error of a value of a wrong type."""
    return FieldError(ErrorType.TYPE_INVALID, str(path), value, detail)


def not_supported(path: Path, value: Any, supported: Iterable[str]) -> FieldError:
    """Return the error of a value that is none of `supported`, given in the real server's order (mostly sorted)."""
    listed = ", ".join(go_quote(s) for s in supported)
    return FieldError(ErrorType.NOT_SUPPORTED, str(path), value, f"supported values: {listed}" if listed else "")


def forbidden(path: Path, detail: str | Worded) -> FieldError:
    """Return the error of a value that is not allowed here."""
    return FieldError(ErrorType.FORBIDDEN, str(path), detail=detail)


def too_long(path: Path, limit: int, *, in_bytes: bool = False) -> FieldError:
    """Return the error of a text of more than `limit` bytes. `in_bytes` picks one of 1.31's two wordings."""
    return FieldError(ErrorType.TOO_LONG, str(path), detail=LengthLimit(limit, in_bytes))


def too_many_characters(path: Path, limit: int) -> FieldError:
    """Return the error of a text of more than `limit` characters (upstream: `TooLongCharacters`)."""
    unit = "character" if limit == 1 else "characters"
    return FieldError(ErrorType.TOO_LONG, str(path), detail=f"may not be more than {limit} {unit}")


def too_many(path: Path, actual: int, limit: int) -> FieldError:
    """Return the error of a list or map of more than `limit` items."""
    return FieldError(ErrorType.TOO_MANY, str(path), actual, at_most_items(limit))


def at_most_items(limit: int) -> Worded:
    """Return the detail about the most items of a list or map; since 1.34 it tells one from several."""
    text = f"must have at most {limit} items"
    return TextByRelease(ByRelease({V1_34: text.removesuffix("s") if limit == 1 else text, V1_31: text}))


def internal(path: Path, text: str) -> FieldError:
    """Return the error of a check that could not be made."""
    return FieldError(ErrorType.INTERNAL, str(path), detail=text)
