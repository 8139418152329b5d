"""Validation of the schedules of CronJobs."""

from __future__ import annotations

import pytest

from understudy.kinds.batch import cron


@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "*/5 0-6/2 1,15 jan-mar ?", "0 0 * * SUN", "@hourly", "@every 1h30m", "CRON_TZ=UTC 1 2 3 4 5"],
)
def test_valid_schedule_is_accepted(schedule: str) -> None:
    """Names, ranges, steps, lists, descriptors and time zones are valid."""
    cron.check(schedule)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("* *", "expected exactly 5 fields, found 2: [* *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
    ],
)
def test_invalid_schedule_is_refused(schedule: str, text: str) -> None:
    """The error names the part of the schedule that is invalid."""
    with pytest.raises(cron.ScheduleError) as raised:
        cron.check(schedule)
    assert str(raised.value) == text
