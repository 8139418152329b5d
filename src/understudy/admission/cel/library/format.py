"""Named formats: `format.dns1123Label().validate(s)`."""

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
class Format:
    """A named format; `faults` tells what is wrong with a text."""

    name: str
    faults: Callable[[str], list[str]] = field(compare=False)
    cel_type: ClassVar[Type] = struct("kubernetes.NamedFormat")


def _shape(pattern: str, limit: int, message: str, *, prefix: bool = False) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def faults(text: str) -> list[str]:
        shown = f"{text[:-1]}a" if prefix and len(text) > 1 and text.endswith("-") else text
        found = [f"must be no more than {limit} bytes"] if limit and len(text.encode()) > limit else []
        return found if compiled.fullmatch(shown) else [*found, message]

    return faults


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_FAULT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_LABEL_1035_FAULT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_LABEL_1035}')"
)
_SUBDOMAIN_FAULT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_VALUE_FAULT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '({_NAME})?')"
)


def _qualified_name(text: str) -> list[str]:
    domain, slash, name = text.rpartition("/")
    fine = re.fullmatch(_NAME, name) and len(name) <= 63 and "/" not in domain
    if slash:
        fine = fine and re.fullmatch(_SUBDOMAIN, domain) and len(domain) <= 253
    return (
        []
        if fine
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
FORMATS: Mapping[str, Format] = {
    "byte": Format("byte", _base64),
    "date": Format("date", _date),
    "datetime": Format("datetime", lambda text: [] if parse_timestamp(text.upper()) else ["invalid datetime"]),
    "dns1035Label": Format("DNS1035Label", _shape(_LABEL_1035, 63, _LABEL_1035_FAULT)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _shape(_LABEL_1035, 63, _LABEL_1035_FAULT, prefix=True)),
    "dns1123Label": Format("DNS1123Label", _shape(_LABEL, 63, _LABEL_FAULT)),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _shape(_LABEL, 63, _LABEL_FAULT, prefix=True)),
    "dns1123Subdomain": Format("DNS1123Subdomain", _shape(_SUBDOMAIN, 253, _SUBDOMAIN_FAULT)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _shape(_SUBDOMAIN, 253, _SUBDOMAIN_FAULT, prefix=True)),
    "labelValue": Format("LabelValue", _shape(f"({_NAME})?", 63, _VALUE_FAULT)),
    "qualifiedName": Format("QualifiedName", _qualified_name),
    "uri": Format(
        "URI", lambda text: [] if URLS["is_url_string"](text) else [f'parse "{text}": invalid URI for request']
    ),
    "uuid": Format("uuid", _shape(_UUID, 0, "does not match the UUID format")),
}


def _validate(of: Format, text: str) -> Optional:
    faults = of.faults(text)
    return Optional(faults) if faults else NONE


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "format-named": _named,
    "format-validate": _validate,
    **{f"format.{name}": (lambda of=of: of) for name, of in FORMATS.items()},
}
