"""Field paths and the errors that validation reports about them.

The texts are part of the API: clients show and match them. An error's `message` is what stands in the causes of an
Invalid status; `str(error)` has the path in front, as in the status' own message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from understudy.machinery.golang.text import go_quote, go_value
from understudy.machinery.releases.version import V1_32, Version


class Path:
    """A path to a field: Path("spec").child("requests").index(0).key("a") reads spec.requests[0][a]."""

    __slots__ = ("text",)

    def __init__(self, *names: str) -> None:
        self.text = ".".join(names)

    def child(self, *names: str) -> Path:
        path = Path()
        path.text = ".".join((self.text, *names)) if self.text else ".".join(names)
        return path

    def index(self, index: int) -> Path:
        return self.key(str(index))

    def key(self, key: str) -> Path:
        path = Path()
        path.text = f"{self.text}[{key}]"
        return path

    def __str__(self) -> str:
        return self.text or "<nil>"

    def __repr__(self) -> str:
        return f"Path({self.text!r})"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with an object: `reason` as in the causes of a Status, `field` the path's text."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


Errors = list[FieldError]


def _with(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def _about(reason: str, what: str, path: Path, value: Any, detail: str) -> FieldError:
    return FieldError(reason, str(path), _with(f"{what}: {go_value(value)}", detail))


def not_found(path: Path, value: Any) -> FieldError:
    return _about("FieldValueNotFound", "Not found", path, value, "")


def required(path: Path, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", str(path), _with("Required value", detail))


def duplicate(path: Path, value: Any) -> FieldError:
    return _about("FieldValueDuplicate", "Duplicate value", path, value, "")


def invalid(path: Path, value: Any, detail: str) -> FieldError:
    """`value` is printed as Go prints it: pass a `gotext.Printed` for what is not a JSON scalar."""
    return _about("FieldValueInvalid", "Invalid value", path, value, detail)


def type_invalid(path: Path, value: Any, detail: str) -> FieldError:
    return _about("FieldValueTypeInvalid", "Invalid value", path, value, detail)


def not_supported(path: Path, value: Any, supported: Iterable[str]) -> FieldError:
    """`supported` in the order in which the real server lists it (it sorts most of them)."""
    listed = ", ".join(go_quote(s) for s in supported)
    return _about(
        "FieldValueNotSupported", "Unsupported value", path, value, f"supported values: {listed}" if listed else ""
    )


def forbidden(path: Path, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", str(path), _with("Forbidden", detail))


def too_long(path: Path, limit: int, release: Version = V1_32, *, in_bytes: bool = False) -> FieldError:
    """`limit` in bytes. 1.31 words it differently, and in two ways: `in_bytes` for drivers' names and metadata."""
    if release >= V1_32:
        detail = f"may not be more than {limit} bytes"
    else:
        detail = f"must have at most {limit} bytes" if in_bytes else f"may not be longer than {limit}"
    return FieldError("FieldValueTooLong", str(path), _with("Too long", detail))


def too_many(path: Path, actual: int, limit: int) -> FieldError:
    return FieldError("FieldValueTooMany", str(path), f"Too many: {actual}: must have at most {limit} items")


def internal(path: Path, text: str) -> FieldError:
    return FieldError("InternalError", str(path), _with("Internal error", text))
