"""Options in the query of a request."""

from __future__ import annotations

import pytest

from tests.releases import NEWEST
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query, list_options, request_timeout


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("20s", 20),
        ("-1s", -1),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("100ms", 0.1),
        ("2µs", 2e-6),
        ("", 0),
        ("9223372036854775807ns", 2**63 / 1e9),
    ],
)
def test_timeout_is_a_duration(text: str, seconds: float) -> None:
    """The timeout is a duration as Go writes it."""
    assert request_timeout(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", 'time: invalid duration "abc"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1x", 'time: unknown unit "x" in duration "1x"'),
        (".s", 'time: invalid duration ".s"'),
        ("-", 'time: invalid duration "-"'),
        ("1s5", 'time: missing unit in duration "1s5"'),
        ("1ss", 'time: unknown unit "ss" in duration "1ss"'),
        ("99999999999999999999", 'time: invalid duration "99999999999999999999"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        (f"{'1' * 5000}s", f'time: invalid duration "{"1" * 5000}s"'),
    ],
)
def test_malformed_timeout_is_refused(text: str, message: str) -> None:
    """A malformed timeout is 400 in Go's words."""
    with pytest.raises(StatusError) as error:
        request_timeout(text)
    assert error.value.message == f"invalid timeout specified in the request URL - {message}"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("sendInitialEvents=true", "sendInitialEvents is forbidden for list"),
        ("watch=1&resourceVersionMatch=Exact", "resourceVersionMatch is forbidden for watch unless sendInitialEvents"),
    ],
)
def test_rules_of_watches_need_a_parameter(query: str, message: str) -> None:
    """A watch by its path alone gets the rules of a list, and no initial events that it has not asked for."""
    with pytest.raises(StatusError) as error:
        list_options(Query(query), NEWEST, watch=True, watch_list=True)
    assert message in error.value.message
    assert list_options(Query("watch=1"), NEWEST, watch=True, watch_list=True).initial_events
    assert list_options(Query(""), NEWEST, watch=True, watch_list=True).initial_events is None
