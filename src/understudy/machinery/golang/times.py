"""metav1.Time and MicroTime, read as Go's `time.Parse` reads RFC 3339 and written in UTC; and durations.

Go is generous in places (one-digit hours, a comma before fractions) and has a text for each mistake: `parsing time
"yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"`.
"""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
LOCAL_LAYOUT = "2006-01-02T15:04:05"
DATE_LAYOUT = "2006-01-02"
_PLAIN = regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_ZERO = "0001-01-01T00:00:00"

_NANOSECONDS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_ANY_UNIT = regex(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)", re.ASCII)
_LONGEST = 19  # digits of the largest int64
_DURATION_PART = regex(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_FRACTION = ("fraction", regex(r"[.,](\d{6})", re.ASCII), ".000000", 0, 999999)
# (name, pattern, layout element or literal, least, greatest)
_STEPS = (
    ("year", regex(r"(\d{4})", re.ASCII), "2006", 0, 9999),
    ("", regex("-"), "-", 0, 0),
    ("month", regex(r"(\d\d)", re.ASCII), "01", 1, 12),
    ("", regex("-"), "-", 0, 0),
    ("date", regex(r"(\d\d)", re.ASCII), "02", 0, 99),
    ("", regex("T"), "T", 0, 0),
    ("hour", regex(r"(\d\d?)", re.ASCII), "15", 0, 23),
    ("", regex(":"), ":", 0, 0),
    ("minute", regex(r"(\d\d)", re.ASCII), "04", 0, 59),
    ("", regex(":"), ":", 0, 0),
    ("second", regex(r"(\d\d)", re.ASCII), "05", 0, 59),
)
_OPTIONAL_FRACTION = regex(r"[.,]\d+", re.ASCII)
_ZONE = regex(r"Z|([+-])(\d\d):(\d\d)", re.ASCII)
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class TimeError(ValueError):
    """A text that is not a time; `str(error)` is Go's text."""


def _quote(text: str) -> str:
    """Quote a text as package `time` does: bytes outside ASCII are escaped one by one."""
    out = []
    for byte in text.encode("utf-8", "surrogatepass"):
        char = chr(byte)
        out.append(f"\\{char}" if char in '"\\' else char if " " <= char < "\x7f" else f"\\x{byte:02x}")
    return f'"{"".join(out)}"'


def _read(text: str, layout: str) -> tuple[dict[str, int], int]:
    """Return the parts of a time, and how many minutes its zone is ahead of UTC. Raises TimeError."""
    rest, parts = text, {}
    steps = {_MICRO_LAYOUT: (*_STEPS, _FRACTION), DATE_LAYOUT: _STEPS[:5]}.get(layout, _STEPS)
    for name, pattern, element, least, greatest in steps:
        match = pattern.match(rest)
        if not match:
            raise TimeError(
                f"parsing time {_quote(text)} as {_quote(layout)}: cannot parse {_quote(rest)} as {_quote(element)}"
            )
        rest = rest[match.end() :]
        if name:
            parts[name] = int(match[1])
            if not least <= parts[name] <= greatest:
                raise TimeError(f"parsing time {_quote(text)}: {name} out of range")
    if layout in (_LAYOUT, LOCAL_LAYOUT):
        fraction = _OPTIONAL_FRACTION.match(rest)
        rest = rest[fraction.end() :] if fraction else rest
    ahead = 0
    if layout in (_LAYOUT, _MICRO_LAYOUT):
        zone = _ZONE.match(rest)
        if not zone:
            raise TimeError(f'parsing time {_quote(text)} as {_quote(layout)}: cannot parse {_quote(rest)} as "Z07:00"')
        hours, minutes = int(zone[2] or 0), int(zone[3] or 0)
        for number, most, name in ((hours, 24, "hour"), (minutes, 60, "minute")):
            if number > most:
                raise TimeError(f"parsing time {_quote(text)}: time zone offset {name} out of range")
        ahead = (hours * 60 + minutes) * (-1 if zone[1] == "-" else 1)
        rest = rest[zone.end() :]
    if rest:
        raise TimeError(f"parsing time {_quote(text)}: extra text: {_quote(rest)}")
    year, month, date = parts["year"], parts["month"], parts["date"]
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= date <= (28 if month == 2 and not leap else _LONGEST_MONTHS[month - 1]):
        raise TimeError(f"parsing time {_quote(text)}: day out of range")
    return parts, ahead


def layout_error(text: str, layout: str) -> str:
    """Return Go's error for a text that is no time in `LOCAL_LAYOUT` or `DATE_LAYOUT`, "" if it is one."""
    try:
        _read(text, layout)
    except TimeError as error:
        return str(error)
    return ""


def _utc(parts: dict[str, int], ahead: int) -> str:
    """Return the time in UTC, without a fraction.

    Years are shifted by 400, after which the calendar repeats, so that the first and the last ones stay within
    datetime.
    """
    year = parts["year"]
    shift = -400 if year > 5000 else 400
    shifted = datetime(
        year + shift, parts["month"], parts["date"], parts["hour"], parts["minute"], parts["second"]
    ) - timedelta(minutes=ahead)
    return f"{shifted.year - shift:04d}{shifted.isoformat()[4:]}"


@cache_short_texts(4096)
def canonical_time(text: str) -> str | None:
    """Return `text` to the second, in UTC, or None for Go's zero time. Raises TimeError."""
    if not text:
        raise TimeError(f'parsing time "" as "{_LAYOUT}": cannot parse "" as "2006"')
    at = _utc(*_read(text, _LAYOUT))
    return None if at == _ZERO else f"{at}Z"


@cache_short_texts(4096)
def canonical_micro_time(text: str) -> str | None:
    """Return `text` to the microsecond, in UTC, or None for Go's zero time. Raises TimeError."""
    parts, ahead = _read(text, _MICRO_LAYOUT)
    at, micro = _utc(parts, ahead), parts["fraction"]
    return None if at == _ZERO and not micro else f"{at}.{micro:06d}Z"


def duration_error(text: str) -> str:
    """Return Go's error for a duration that is invalid."""
    problem, rest = "invalid", text[1:] if text[:1] in ("-", "+") else text
    while part := _ANY_UNIT.match(rest):
        unit, rest = part[1], rest[part.end() :]
        if unit not in _NANOSECONDS:
            problem = f"unknown unit {go_quote(unit)} in" if unit else "missing unit in"
            break
    return f"time: {problem} duration {go_quote(text)}"


def duration_text(nanos: int) -> str:
    """Return a span of time as Go prints it (`Duration.String`), such as `1h0m1.5s`."""
    sign, nanos = "-" if nanos < 0 else "", abs(nanos)
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if 0 < nanos < size * 1000:
            return f"{sign}{_decimal(nanos, size)}{unit}"
    hours, rest = divmod(nanos, 3600 * 10**9)
    minutes, rest = divmod(rest, 60 * 10**9)
    longer = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{longer}{_decimal(rest, 10**9)}s"


def fraction_text(nanos: int) -> str:
    """Return nanoseconds as the fraction of a second without zeros at its end, such as `.25`; "" if there are none."""
    return f".{nanos:09d}".rstrip("0") if nanos else ""


def _decimal(value: int, size: int) -> str:
    """Return a multiple of 1/size, a power of ten, without zeros at its end."""
    whole, rest = divmod(value, size)
    return f"{whole}.{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else str(whole)


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of a duration in Go's notation (`1h30m`, `-1.5s`), None if it is invalid."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, pos = 0, 0
    while pos < len(rest) or not rest:
        part = _DURATION_PART.match(rest, pos)
        if part is None or not (part[1] or part[2]):
            return None
        unit = _NANOSECONDS[part[3]]
        if len(part[1].lstrip("0")) > _LONGEST:
            return None
        total += int(part[1][-_LONGEST:] or "0") * unit
        if part[2]:
            total += int(part[2][:18]) * unit // 10 ** len(part[2][:18])
        pos = part.end()
    total *= sign
    return total if -(2**63) <= total < 2**63 else None


def http_date(seconds: int) -> str:
    """Return a time in seconds since 1970 as headers have it. Upstream: `http.TimeFormat`."""
    at = time.gmtime(seconds)
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year} {clock} GMT"
