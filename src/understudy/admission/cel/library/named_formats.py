"""Named formats, such as `format.dns1123Label().validate(s)` (`format.go` of the Kubernetes libraries)."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import ClassVar

from understudy.admission.cel.library.time import parse_timestamp
from understudy.admission.cel.library.url import FUNCTIONS as URLS
from understudy.admission.cel.types import Type, struct
from understudy.admission.cel.values import NONE, Optional, Value

DECLARATIONS = """
format.byte
    format.byte: () -> kubernetes.NamedFormat
format.date
    format.date: () -> kubernetes.NamedFormat
format.datetime
    format.datetime: () -> kubernetes.NamedFormat
format.dns1035Label
    format.dns1035Label: () -> kubernetes.NamedFormat
format.dns1035LabelPrefix
    format.dns1035LabelPrefix: () -> kubernetes.NamedFormat
format.dns1123Label
    format.dns1123Label: () -> kubernetes.NamedFormat
format.dns1123LabelPrefix
    format.dns1123LabelPrefix: () -> kubernetes.NamedFormat
format.dns1123Subdomain
    format.dns1123Subdomain: () -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix
    format.dns1123SubdomainPrefix: () -> kubernetes.NamedFormat
format.labelValue
    format.labelValue: () -> kubernetes.NamedFormat
format.named
    format-named: (string) -> optional_type(kubernetes.NamedFormat)
format.qualifiedName
    format.qualifiedName: () -> kubernetes.NamedFormat
format.uri
    format.uri: () -> kubernetes.NamedFormat
format.uuid
    format.uuid: () -> kubernetes.NamedFormat
validate
    format-validate: kubernetes.NamedFormat.(string) -> optional_type(list(string))
"""


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A named format; `validate` returns the errors of a text, none for a valid one.

    `max_regex_size` stands for the length of a regular expression in the cost of a validation.
    """

    name: str
    max_regex_size: int
    validate: Callable[[str], list[str]] = field(compare=False)
    cel_type: ClassVar[Type] = struct("kubernetes.NamedFormat")


def _matches_pattern(pattern: str, limit: int, message: str, *, prefix: bool = False) -> Callable[[str], list[str]]:
    """Return the validation of texts that match a pattern and have at most `limit` bytes (0: any number).

    A `prefix` may end with a dash, as in `generateName`.
    """
    compiled = re.compile(pattern, re.ASCII)

    def validate(text: str) -> list[str]:
        name = f"{text[:-1]}a" if prefix and len(text) > 1 and text.endswith("-") else text
        errors = [f"must be no more than {limit} bytes"] if limit and len(text.encode()) > limit else []
        return errors if compiled.fullmatch(name) else [*errors, message]

    return validate


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_LABEL_1035}')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '({_NAME})?')"
)


def _qualified_name(text: str) -> list[str]:
    """Return the errors of a name with an optional domain, such as `example.com/name`."""
    domain, slash, name = text.rpartition("/")
    valid = re.fullmatch(_NAME, name) and len(name) <= 63 and "/" not in domain
    if slash:
        valid = valid and re.fullmatch(_SUBDOMAIN, domain) and len(domain) <= 253
    return (
        []
        if valid
        else [
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
            " an alphanumeric character"
        ]
    )


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


_UUID = r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
FORMATS: Mapping[str, NamedFormat] = {
    "byte": NamedFormat("byte", 84, _base64),
    "date": NamedFormat("date", 71, _date),
    "datetime": NamedFormat("datetime", 71, lambda text: [] if parse_timestamp(text.upper()) else ["invalid datetime"]),
    "dns1035Label": NamedFormat("DNS1035Label", 30, _matches_pattern(_LABEL_1035, 63, _LABEL_1035_MESSAGE)),
    "dns1035LabelPrefix": NamedFormat(
        "DNS1035LabelPrefix", 30, _matches_pattern(_LABEL_1035, 63, _LABEL_1035_MESSAGE, prefix=True)
    ),
    "dns1123Label": NamedFormat("DNS1123Label", 30, _matches_pattern(_LABEL, 63, _LABEL_MESSAGE)),
    "dns1123LabelPrefix": NamedFormat(
        "DNS1123LabelPrefix", 30, _matches_pattern(_LABEL, 63, _LABEL_MESSAGE, prefix=True)
    ),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", 60, _matches_pattern(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE)),
    "dns1123SubdomainPrefix": NamedFormat(
        "DNS1123SubdomainPrefix", 60, _matches_pattern(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, prefix=True)
    ),
    "labelValue": NamedFormat("LabelValue", 40, _matches_pattern(f"({_NAME})?", 63, _LABEL_VALUE_MESSAGE)),
    "qualifiedName": NamedFormat("QualifiedName", 60, _qualified_name),
    "uri": NamedFormat(
        "URI", 1103, lambda text: [] if URLS["is_url_string"](text) else [f'parse "{text}": invalid URI for request']
    ),
    "uuid": NamedFormat("uuid", 70, _matches_pattern(_UUID, 0, "does not match the UUID format")),
}


def _validate(named_format: NamedFormat, text: str) -> Optional:
    """Return the errors of a text as an optional list; a valid text has none."""
    errors = named_format.validate(text)
    return Optional(errors) if errors else NONE


def _named(name: str) -> Optional:
    """Return the format with a name as an optional."""
    return Optional(FORMATS[name]) if name in FORMATS else NONE


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "format-named": _named,
    "format-validate": _validate,
    **{f"format.{name}": (lambda named_format=named_format: named_format) for name, named_format in FORMATS.items()},
}
