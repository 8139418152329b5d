"""How long admission takes: which requests are measured, for which others they stand, and quantiles of late."""

from __future__ import annotations

import math

import pytest

from understudy.admission.times import ADMIT, STEPS, AdmissionTimes, Handler, Step
from understudy.machinery.util.metrics import Histogram, Summary

HANDLERS = {"first": Handler(("CREATE",), STEPS), "deletes": Handler(("DELETE",), STEPS)}
HANDLERS |= {"second": Handler(("CREATE",), (ADMIT,)), "asks": Handler(("CREATE",), (ADMIT,), waits=True)}


def sums(times: AdmissionTimes) -> dict[tuple[str, ...], tuple[int, float]]:
    """Return count and sum of each series, without the summary."""
    families = [family for family in times.families if isinstance(family, Histogram)]
    series = {labels: each for family in families for labels, each in family.series.items()}
    return {labels: (sum(each.counts), round(each.sum, 6)) for labels, each in series.items()}


def take(step: Step, *seconds: tuple[str, float], waits: bool = False, refused: str = "") -> bool:
    """Take a step whose plugins need some seconds; return whether it was measured."""
    times = step.begin(waits=waits)
    if times is not None:
        times.seconds += seconds
    step.end(times, refused)
    return times is not None


def test_one_of_many_requests_is_measured() -> None:
    """One of 128 requests is measured, and stands for those before it; one that is slow only for itself."""
    times = AdmissionTimes(HANDLERS)
    step = times.step(ADMIT, "CREATE")
    assert [take(step, ("first", seconds)) for seconds in (0.25, 0.5)] == [True, True]  # slow ones
    assert [take(step, ("first", 0.004)) for _ in range(129)] == [True, *[False] * 127, True]
    step.skipped += 69
    passed, seconds = ("CREATE", "false", ADMIT), round(0.75 + 129 * 0.004, 6)
    assert sums(times) == {
        ("first", *passed): (200, seconds),
        ("second", *passed): (200, 0),
        ("asks", *passed): (200, 0),
        passed: (200, seconds),
    }


def test_requests_that_wait_stand_for_themselves() -> None:
    """Each request is measured where a plugin asks others; what refuses one counts apart, and those behind it not."""
    times = AdmissionTimes(HANDLERS)
    step = times.step(ADMIT, "CREATE")
    for _ in range(3):
        take(step, ("first", 0.001))
    assert take(step, ("first", 0.125), ("asks", 4.0), waits=True)
    assert take(step, ("first", 0.125), ("second", 0.25), waits=True, refused="second")
    passed, refused = ("CREATE", "false", ADMIT), ("CREATE", "true", ADMIT)
    assert sums(times) == {
        ("first", *passed): (5, 0.253),
        ("second", *passed): (4, 0),
        ("second", *refused): (1, 0.25),
        ("asks", *passed): (4, 4.0),
        passed: (4, 4.128),
        refused: (1, 0.375),
    }


def test_plugins_that_are_asked_twice_count_twice() -> None:
    """A plugin counts each time that it is asked, the step once."""
    times = AdmissionTimes(HANDLERS)
    step = times.step(ADMIT, "CREATE")
    step.begin(waits=False)
    step.end(None, again=True)
    counted = {labels: count for labels, (count, _) in sums(times).items()}
    passed = "CREATE", "false", ADMIT
    assert counted == {("first", *passed): 2, ("second", *passed): 2, ("asks", *passed): 2, passed: 1}


@pytest.mark.parametrize(("hours", "count"), [(0, 6), (4.9, 6), (5.1, 4), (9.8, 0)])
def test_quantiles_are_those_of_late(hours: float, count: int) -> None:
    """Number and sum of a summary are those since the start, its quantiles those of the last five hours."""
    now = 0.0
    summary = Summary("seconds", "", (), lambda: now * 3600)
    summary.observe(1.0, (), 2)
    now = 4.8
    summary.observe(0.001, (), 3)
    summary.observe(20.0, ())
    now = hours if hours > now else now
    counted = summary.series[()]
    assert (counted.number, counted.sum) == (6, 22.003)
    assert sum(counted.recent.values()) == count
    half = counted.at(0.5)
    assert math.isnan(half) if count == 0 else half == pytest.approx(0.001, rel=0.01)
    if count:
        assert counted.at(0.99) == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize(("value", "counted_as"), [(0.0, 1e-9), (1e-9, 1e-9), (1e9, 1e9), (1e12, 1e9)])
def test_values_out_of_range_have_a_quantile(value: float, counted_as: float) -> None:
    """A summary counts a value that is lower or higher than those it tells apart as the least or the most of them."""
    summary = Summary("seconds", "", ())
    summary.observe(value, ())
    assert summary.series[()].at(0.5) == pytest.approx(counted_as, rel=0.01)
