"""Named formats, such as `format.dns1123Label().validate(s)` (`format.go` of the Kubernetes libraries)."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import date
from typing import ClassVar

from understudy.cel.library.time import parse_timestamp
from understudy.cel.types import Type, struct
from understudy.cel.values import NONE, Optional, Value
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.regex import regex
from understudy.machinery.validation import names
from understudy.machinery.validation.bad_values import Worded


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format; `validate` returns the errors of a text, none for a valid one.

    `max_regex_size` stands for the length of a regular expression in the cost of a validation.
    """

    name: str
    max_regex_size: int
    validate: Callable[[str], list[str]] = field(compare=False)
    cel_type: ClassVar[Type] = struct("kubernetes.NamedFormat")


def _base64(text: str) -> list[str]:
    try:
        b64decode(text, validate=True)
    except (Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return ["invalid date"]
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return []


_UUID = regex(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _uri(text: str) -> list[str]:
    reason = parse_error(text)
    return [f"parse {go_quote(text)}: {reason}"] if reason else []


FORMATS: Mapping[str, NamedFormat] = {
    "byte": NamedFormat("byte", 84, _base64),
    "date": NamedFormat("date", 71, _date),
    "datetime": NamedFormat("datetime", 71, lambda text: [] if parse_timestamp(text.upper()) else ["invalid datetime"]),
    "dns1035Label": NamedFormat("DNS1035Label", 30, names.dns_1035_label_texts),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", 30, lambda text: names.label_1035_name(text, True)),
    "dns1123Label": NamedFormat("DNS1123Label", 30, names.dns_label_texts),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", 30, lambda text: names.label_name(text, True)),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", 60, names.dns_subdomain_texts),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", 60, lambda text: names.subdomain_name(text, True)),
    "labelValue": NamedFormat("LabelValue", 40, names.label_value_texts),
    "qualifiedName": NamedFormat("QualifiedName", 60, names.qualified_name_texts),
    "uri": NamedFormat("URI", 1103, _uri),
    "uuid": NamedFormat("uuid", 70, _uuid),
}


def _named(name: str) -> Optional:
    """Return the format with a name as an optional."""
    return Optional(FORMATS[name]) if name in FORMATS else NONE


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "format-named": _named,
    **{f"format.{name}": (lambda named_format=named_format: named_format) for name, named_format in FORMATS.items()},
}


def functions_of(version: Version) -> Mapping[str, Callable[..., Value]]:
    """Return the function whose texts depend on the release."""

    def validate(named_format: NamedFormat, text: str) -> Optional:
        """Return the errors of a text as an optional list; a valid text has none."""
        errors = named_format.validate(text)
        texts = [str(error.text(version) if isinstance(error, Worded) else error) for error in errors]
        return Optional(texts) if texts else NONE

    return {"format-validate": validate}
