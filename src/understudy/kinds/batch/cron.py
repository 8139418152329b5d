"""Schedules of cron jobs: five fields, or a descriptor such as @daily. Texts are those of upstream's parser."""

from __future__ import annotations

from understudy.machinery.golang.text import parse_int
from understudy.machinery.golang.times import duration_error, parse_duration
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex


class ScheduleError(ValueError):
    """A schedule is wrong. str(e) is the parser's text."""


class Field(NamedTuple):
    """The range of a field of a schedule, and the names that stand for its numbers."""

    low: int
    high: int
    names: tuple[str, ...] = ()  # the first one stands for `low`


_FIELDS = (
    Field(0, 59),
    Field(0, 23),
    Field(1, 31),
    Field(1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    Field(0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = "@every "
_ZONE = regex("(CRON_)?TZ=([^ ]*) ")


def check(schedule: str) -> None:
    """Parse a schedule. Raises ScheduleError."""
    zone = _ZONE.match(schedule)
    if zone:
        if not is_zone(zone[2]):
            raise ScheduleError(f"provided bad location {zone[2]}: unknown time zone {zone[2]}")
        schedule = schedule[zone.end() :].strip()
    if schedule.startswith("@"):
        _descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for text, field in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            if part:
                _range(part, field)


def is_zone(name: str) -> bool:
    """Report whether a time zone has that name."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # here: few requests need the time zones

    if name in ("", "UTC", "Local"):
        return True
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix(_EVERY)
    if parse_duration(duration) is None:
        raise ScheduleError(f"failed to parse duration {text}: {duration_error(duration)}")


def _range(text: str, field: Field) -> None:
    base, *steps = text.split("/")
    low, *highs = base.split("-")
    if low in ("*", "?"):
        start, end = field.low, field.high
    else:
        start = _number(low, field)
        if len(highs) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        end = _number(highs[0], field) if highs else start
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0], None) if steps else 1
    if steps and not highs:
        end = field.high
    _check_range(start, end, step, field, text)


def _check_range(start: int, end: int, step: int, field: Field, text: str) -> None:
    if start < field.low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({field.low}): {text}")
    if end > field.high:
        raise ScheduleError(f"end of range ({end}) above maximum ({field.high}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, field: Field | None) -> int:
    if field and text.lower() in field.names:
        return field.low + field.names.index(text.lower())
    try:
        number = parse_int(text)
    except ValueError as error:
        reason = str(error).replace("ParseInt", "Atoi", 1)
        raise ScheduleError(f"failed to parse int from {text}: {reason}") from None
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
