"""Formats of strings that schemas name (upstream: kube-openapi's `strfmt`).

    validates("date-time", "2024-01-01T00:00:00Z")      # True

Dashes in the name of a format do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from understudy.machinery.golang.netip import parse_cidr, parse_ip
from understudy.machinery.golang.times import parse_duration
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.util.regex import regex

Format = Callable[[str], bool]

_UUID = "(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12})"
_HEX = "[0-9a-f]"
_COLOR = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_CARD = (
    "4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}"
    r"|(2131|1800|35\d{3})\d{11}"
)
# Letters and symbols of any script; Python's `re` has no such classes, RE2 has.
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_SHORT_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DATE = regex(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIME = regex(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_MAC = regex(
    "[0-9a-f]{2}(?P<s>[:-])[0-9a-f]{2}((?P=s)[0-9a-f]{2}){4}(((?P=s)[0-9a-f]{2}){2}|((?P=s)[0-9a-f]{2}){14})?"
    r"|[0-9a-f]{4}(\.[0-9a-f]{4}){2}((\.[0-9a-f]{4})|(\.[0-9a-f]{4}){7})?",
    re.IGNORECASE,
)
_SCALA_DURATION = regex(r"(\d+)[\t\n\f\r ]*([A-Za-zµ]+)", re.ASCII)
_UNITS = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_UNIT_PREFIXES = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_MAX_INT = 2**63 - 1


def _pattern(pattern: str, longest: int = 0) -> Format:
    """Return the format of texts that match a whole pattern and have at most `longest` bytes, 0 for any number."""
    compiled = regex(pattern, re.ASCII)
    return lambda text: (not longest or len(text) <= longest) and compiled.fullmatch(text) is not None


def _is_hostname(text: str) -> bool:
    from understudy.machinery.golang.regexp import compile_pattern  # here, since few schemas have this format

    if compile_pattern(_HOSTNAME).search(text) is None or len(text.encode()) > 255:
        return False
    return all(len(label.encode()) <= 63 for label in text.split("."))


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    from calendar import monthrange  # here, since few schemas have this format

    year, month, day = map(int, match.groups())
    return 1 <= month <= 12 and 1 <= day <= monthrange(year + 400, month)[1]  # the calendar has a year 0


def _is_datetime(text: str) -> bool:
    """Report whether a text is a date and a time; what follows after a second T is not looked at."""
    date, separator, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    if not separator or not _is_date(date) or match is None:
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_duration(text: str) -> bool:
    """Report whether a text is a duration of Go, or has a number with a unit as Scala writes them."""
    if parse_duration(text) is not None:
        return True
    matches = _SCALA_DURATION.findall(text)
    if any(int(number[-30:]) > _MAX_INT for number, _ in matches):
        return False
    return any(unit.lower() in _UNITS or unit.lower().startswith(_UNIT_PREFIXES) for _, unit in matches)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    return sum(weight * (10 if digit == "X" else int(digit)) for weight, digit in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if not re.fullmatch("[0-9]{13}", digits):
        return False
    return sum((1, 3)[i % 2] * int(digit) for i, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    """Report whether the digits of a text are a card's number, with its check digit."""
    digits = re.sub("[^0-9]+", "", text)
    if not re.fullmatch(_CARD, digits):
        return False
    doubled = (int(digit) * (1 + i % 2) for i, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_mail_address(text: str) -> bool:
    from understudy.machinery.validation.mail import is_address  # its patterns take a while to compile

    return is_address(text)


_FORMATS: Mapping[str, Format] = {
    "bsonobjectid": _pattern("(?i:[0-9a-f]{24})"),
    "uri": lambda text: not parse_error(text),
    "email": _is_mail_address,
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and parse_ip(text) is not None,
    "ipv6": lambda text: ":" in text and parse_ip(text) is not None,
    "cidr": lambda text: parse_cidr(text) is not None,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _pattern(_UUID % (_HEX, _HEX)),
    "uuid3": _pattern(_UUID % ("3", _HEX)),
    "uuid4": _pattern(_UUID % ("4", "[89ab]")),
    "uuid5": _pattern(_UUID % ("5", "[89ab]")),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _pattern(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _pattern(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "byte": _pattern("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_datetime,
    "k8sshortname": _pattern(_SHORT_NAME, 63),
    "k8slongname": _pattern(rf"{_SHORT_NAME}(\.{_SHORT_NAME})*", 253),
}
# 1.34 has brought these; a release checks by formats that the release before it knows as well.
_SINCE = {"k8sshortname": V1_35, "k8slongname": V1_35}


def format_of(name: str, version: Version) -> Format | None:
    """Return the check of a format, None for a name that the release does not know."""
    name = name.replace("-", "")
    return _FORMATS.get(name) if version >= _SINCE.get(name, version) else None
