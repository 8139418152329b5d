"""Times that CBOR tags as such (RFC 8949, section 3.4): the text that Go makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import modf

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.times import TimeError, canonical_time
from understudy.machinery.util.regex import regex

RFC3339, EPOCH = 0, 1  # the tags
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_ZEROS = regex(r"(?:\.0+|(\.[0-9]*[1-9])0+)(?=[Z+-])")
_OUT_OF_RANGE = (
    "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: "
    "Time.MarshalText: year outside of range [0,9999]"
)


def time_text(value: str | float) -> str:
    """Return a time as RFC 3339 with nanoseconds: a text as it is, less zeros; seconds since 1970 in UTC. Raises
    DecodeError."""
    if isinstance(value, str):
        try:
            canonical_time(value)
        except TimeError as error:
            raise DecodeError(f"cbor: cannot set {value} for time.Time: {error}") from None
        return _LAST_ZEROS.sub(lambda match: match[1] or "", value)
    fraction, seconds = modf(value) if isinstance(value, float) else (0.0, value)
    nanos = int(fraction * 1e9)
    try:
        at = _EPOCH + timedelta(seconds=int(seconds) - (nanos < 0))
    except OverflowError:
        raise DecodeError(_OUT_OF_RANGE) from None
    text = at.isoformat().removesuffix("+00:00")
    return _LAST_ZEROS.sub(lambda match: match[1] or "", f"{text}.{nanos % 10**9:09d}Z")
