"""Timestamps and durations: parsing, formatting, and accessors such as `getHours`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from understudy.cel.errors import EvaluationError
from understudy.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, Value, conversion_error
from understudy.machinery.golang.times import fraction_text, parse_duration
from understudy.machinery.util.regex import regex

# The first second of the year 1 and the last one of the year 9999, in seconds since 1970.
_EARLIEST, _LATEST = -62135596800, 253402300799
_RFC3339 = regex(r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|([+-])(\d{2}):(\d{2}))", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(text: str) -> Timestamp | None:
    """Return the point in time that a text in RFC 3339 notation gives, None if it is invalid."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[n]) for n in range(1, 7))
    offset = 0
    if match[9]:
        if int(match[10]) > 24 or int(match[11]) > 60:
            return None
        offset = (int(match[10]) * 60 + int(match[11])) * 60 * (-1 if match[9] == "-" else 1)
    try:
        seconds = int((datetime(year, month, day, hour, minute, second, tzinfo=UTC) - _EPOCH).total_seconds()) - offset
    except ValueError:
        return None
    nanos = int(match[7][:9].ljust(9, "0")) if match[7] else 0
    return Timestamp(seconds * 10**9 + nanos, offset // 60)


def to_duration(value: Value) -> Duration:
    """Return `duration(x)` of a string. Raises `EvaluationError` for an invalid one.

    A number passes the type check but cannot be converted, as in cel-go.
    """
    if isinstance(value, Duration):
        return value
    nanos = parse_duration(value) if isinstance(value, str) else None
    if nanos is None:
        raise conversion_error(value, "google.protobuf.Duration")
    return Duration(nanos)


def to_timestamp(value: Value) -> Timestamp:
    """Return `timestamp(x)` of a string or a number of seconds. Raises `EvaluationError`."""
    moment: Timestamp | None = None
    match value:
        case Timestamp():
            moment = value
        case str():
            moment = parse_timestamp(value)
        case int():
            moment = Timestamp(value * 10**9)
    if moment is None:
        raise conversion_error(value, "google.protobuf.Timestamp")
    return timestamp_in_range(moment.nanos, moment.zone)


def timestamp_in_range(nanos: int, zone: int = 0) -> Timestamp:
    """Return the timestamp that arithmetic results in. Raises `EvaluationError` if it overflows."""
    if _EARLIEST <= nanos // 10**9 <= _LATEST:
        return Timestamp(nanos, zone)
    raise EvaluationError("timestamp overflow")


def duration_in_range(nanos: int) -> Duration:
    """Return the duration that arithmetic results in. Raises `EvaluationError` if it overflows."""
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise EvaluationError("duration overflow")


def format_duration(value: Duration) -> str:
    """Return a duration in seconds, as `string(duration)` does."""
    seconds, rest = divmod(abs(value.nanos), 10**9)
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction_text(rest)}s"


def format_timestamp(value: Timestamp) -> str:
    """Return a timestamp in RFC 3339 notation in its zone, with the digits of the fraction that are needed."""
    seconds, rest = divmod(value.nanos, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds, minutes=value.zone)
    hours, minutes = divmod(abs(value.zone), 60)
    zone = f"{'-' if value.zone < 0 else '+'}{hours:02d}:{minutes:02d}" if value.zone else "Z"
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction_text(rest)}{zone}"


def new_well_known_message(name: str, values: Mapping[str, Value]) -> Value:
    """Return the value of a message `google.protobuf.Duration{…}` or `google.protobuf.Timestamp{…}`."""
    nanos = values.get("seconds", 0) * 10**9 + values.get("nanos", 0)
    return Duration(nanos) if name == "Duration" else Timestamp(nanos)


_OFFSET = regex(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)


def _in_time_zone(value: Timestamp, zone: str = "UTC") -> datetime:
    """Return the date and time of a timestamp in a zone, given by name or as an offset such as `-02:00`.

    Raises `EvaluationError` for an unknown zone.
    """
    moment = _EPOCH + timedelta(seconds=value.nanos // 10**9)
    if zone in ("UTC", "", "Z"):
        return moment
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return moment + timedelta(minutes=-minutes if offset[1] == "-" else minutes)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # here: few expressions name a time zone

    try:
        return moment.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None


def _accessor(read: Callable[[datetime], int]) -> Callable[..., int]:
    """Return the accessor of a timestamp that takes an optional time zone."""
    return lambda value, zone="UTC": read(_in_time_zone(value, zone))


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    """Return the milliseconds of the second; the zone makes no difference but must exist."""
    _in_time_zone(value, zone)
    return value.nanos // 10**6 % 1000


def _duration_accessor(unit: int) -> Callable[[Duration], int]:
    """Return the accessor of a duration that counts whole units, rounded towards zero."""
    return lambda value: abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)


_TIMESTAMP_ACCESSORS: Mapping[str, Callable[..., int]] = {
    "timestamp_to_year": _accessor(lambda moment: moment.year),
    "timestamp_to_month": _accessor(lambda moment: moment.month - 1),
    "timestamp_to_day_of_year": _accessor(lambda moment: moment.timetuple().tm_yday - 1),
    "timestamp_to_day_of_month": _accessor(lambda moment: moment.day - 1),
    "timestamp_to_day_of_month_1_based": _accessor(lambda moment: moment.day),
    "timestamp_to_day_of_week": _accessor(lambda moment: moment.isoweekday() % 7),
    "timestamp_to_hours": _accessor(lambda moment: moment.hour),
    "timestamp_to_minutes": _accessor(lambda moment: moment.minute),
    "timestamp_to_seconds": _accessor(lambda moment: moment.second),
    "timestamp_to_milliseconds": _milliseconds,
}
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **_TIMESTAMP_ACCESSORS,
    **{f"{id_}_with_tz": read for id_, read in _TIMESTAMP_ACCESSORS.items()},
    "timestamp_to_seconds_tz": _TIMESTAMP_ACCESSORS["timestamp_to_seconds"],
    "duration_to_hours": _duration_accessor(3600 * 10**9),
    "duration_to_minutes": _duration_accessor(60 * 10**9),
    "duration_to_seconds": _duration_accessor(10**9),
    "duration_to_milliseconds": _duration_accessor(10**6),
}
