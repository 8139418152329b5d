"""The forms in which metrics are written: text, and protobuf messages one after the other (`prometheus/common/expfmt`).

Only protobuf has room for native histograms. https://github.com/prometheus/client_model describes its messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from understudy.apiserver.endpoints.negotiation import clauses
from understudy.apiserver.server.pages.native_histogram import ZERO_THRESHOLD, NativeHistogram
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.golang.text import go_float, go_quote
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version
from understudy.machinery.serializer.protobuf_wire import encode_varint, length_delimited
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.metrics import Quantiles

COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"
_TYPES = {COUNTER: 0, GAUGE: 1, SUMMARY: 2, HISTOGRAM: 4}
_QUANTILES = (0.5, 0.9, 0.99)  # of summaries

_DIGITS = 6  # that a number has without an exponent
_MILLION = 10**_DIGITS

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PROTO_TYPE, _PROTOCOL = "application/vnd.google.protobuf", "io.prometheus.client.MetricFamily"
_DELIMITED = f"{_PROTO_TYPE}; proto={_PROTOCOL}; encoding=delimited"
_ESCAPING = ByRelease({V1_33: "underscores", V1_31: "values"})
_ESCAPINGS = frozenset(("allow-utf-8", "underscores", "dots", "values"))


class Observations(NamedTuple):
    """The observations of one series of a histogram.

    bounds   upper bounds of the buckets
    counts   how many fell into each bucket, and beyond the last
    native   the same observations in native buckets, None without them
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float
    native: NativeHistogram | None = None


class Sample(NamedTuple):
    """One series. `created` is since when it is counted, in seconds since 1970; 0 is not said."""

    labels: Mapping[str, str]
    value: float | Observations | Quantiles
    created: float = 0.0


class Family(NamedTuple):
    """The series of one name. `kind` is COUNTER, GAUGE, HISTOGRAM or SUMMARY."""

    name: str
    kind: str
    about: str
    samples: Iterable[Sample]


class Form(NamedTuple):
    """A form in which metrics are written."""

    content_type: str
    is_protobuf: bool


def negotiate(accept: str, release: Version) -> Form:
    """Return the form that a client prefers (`expfmt.Negotiate`): text, whatever it accepts, if it is not protobuf."""
    escaping = _ESCAPING[release]
    for clause in clauses(accept):
        parameters = clause.parameters
        if parameters.get("escaping", "") in _ESCAPINGS:
            escaping = parameters["escaping"]
        media_type = f"{clause.type}/{clause.subtype}"
        if (media_type, parameters.get("proto")) == (_PROTO_TYPE, _PROTOCOL):
            if parameters.get("encoding") == "delimited":
                return Form(f"{_DELIMITED}; escaping={escaping}", True)
        elif media_type == "text/plain" and parameters.get("version", "") in ("", "0.0.4"):
            break
    return Form(f"{_TEXT}; escaping={escaping}", False)


async def written(families: Iterable[Family], form: Form) -> list[bytes]:
    """Return the parts of metrics in a form, one for each turn. Others have theirs meanwhile."""
    turns, parts, made = Turns(), list[bytes](), list[bytes]()
    write: Callable[[Family], Iterator[bytes]] = _messages if form.is_protobuf else _lines
    for family in families:
        for part in write(family):
            made.append(part)
            if turns.is_over:
                parts.append(b"".join(made))
                made = []
                await turns.next()
    return [*parts, b"".join(made)]


# --- text


def _lines(family: Family) -> Iterator[bytes]:
    yield f"# HELP {family.name} {family.about}\n# TYPE {family.name} {family.kind}\n".encode()
    for sample in family.samples:
        yield "".join(f"{line}\n" for line in _lines_of(family.name, sample)).encode()


def _lines_of(name: str, sample: Sample) -> Iterator[str]:
    labels, value = _pairs(sample.labels), sample.value
    if not isinstance(value, Observations | Quantiles):
        yield f"{name}{_in_braces(labels)} {_number(value)}"
        return
    more, total = f"{labels}," if labels else "", 0
    if isinstance(value, Quantiles):
        total = value.number
        for share in _QUANTILES:
            yield f'{name}{{{more}quantile="{share:g}"}} {_number(value.at(share))}'
    else:
        for bound, count in zip((*value.bounds, inf), value.counts, strict=True):
            total += count
            text = "+Inf" if bound == inf else f"{bound:g}"
            yield f'{name}_bucket{{{more}le="{text}"}} {_number(total)}'
    yield f"{name}_sum{_in_braces(labels)} {_number(value.sum)}"
    yield f"{name}_count{_in_braces(labels)} {_number(total)}"


def _pairs(labels: Mapping[str, str]) -> str:
    """Return labels as they are written, sorted by their names."""
    return ",".join(f"{key}={go_quote(text)}" for key, text in sorted(labels.items()))


def _in_braces(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(value: float) -> str:
    """Return a number as Go writes it, with an exponent from a million on (`writeFloat`)."""
    return str(value) if isinstance(value, int) and abs(value) < _MILLION else go_float(float(value), _DIGITS)


# --- protobuf


def _messages(family: Family) -> Iterator[bytes]:
    """Yield a MetricFamily with its length in front; nothing while its samples are encoded."""
    message = _bytes(1, family.name.encode()) + _bytes(2, family.about.encode()) + _varint(3, _TYPES[family.kind])
    metrics = []
    for sample in family.samples:
        metrics.append(_bytes(4, _metric(family.kind, sample)))
        yield b""
    body = b"".join((message, *metrics))
    yield encode_varint(len(body)) + body


def _metric(kind: str, sample: Sample) -> bytes:
    labels = sorted(sample.labels.items())
    pairs = b"".join(_bytes(1, _bytes(1, key.encode()) + _bytes(2, text.encode())) for key, text in labels)
    value = sample.value
    if isinstance(value, Observations):
        return pairs + _bytes(7, _histogram(value) + _created(15, sample.created))
    if isinstance(value, Quantiles):
        return pairs + _bytes(4, _summary(value))
    if kind == GAUGE:
        return pairs + _bytes(2, _double(1, value))
    return pairs + _bytes(3, _double(1, value) + _created(3, sample.created))


def _histogram(value: Observations) -> bytes:
    parts = [_varint(1, sum(value.counts)), _double(2, value.sum)]
    seen = 0
    for bound, count in zip(value.bounds, value.counts, strict=False):
        seen += count
        parts.append(_bytes(3, _varint(1, seen) + _double(2, bound)))
    if value.native is not None:
        parts += _native(value.native)
    return b"".join(parts)


def _summary(value: Quantiles) -> bytes:
    quantiles = (_bytes(3, _double(1, share) + _double(2, value.at(share))) for share in _QUANTILES)
    return b"".join((_varint(1, value.number), _double(2, value.sum), *quantiles))


def _native(native: NativeHistogram) -> Iterator[bytes]:
    spans, deltas = native.buckets()
    yield _signed(5, native.schema) + _double(6, ZERO_THRESHOLD) + _varint(7, native.zero)
    for span in spans:
        yield _bytes(12, _signed(1, span.offset) + _varint(2, span.length))
    for delta in deltas:
        yield _signed(13, delta)


def _created(number: int, seconds: float) -> bytes:
    """Encode a Timestamp, nothing for 0."""
    whole = int(seconds)
    nanoseconds = int((seconds - whole) * 1e9)
    return _bytes(number, _varint(1, whole) + _varint(2, nanoseconds)) if seconds else b""


def _bytes(number: int, payload: bytes) -> bytes:
    return length_delimited(encode_varint(number << 3 | 2), payload)


def _varint(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value)


def _signed(number: int, value: int) -> bytes:
    return _varint(number, value << 1 if value >= 0 else (-value << 1) - 1)


def _double(number: int, value: float) -> bytes:
    return encode_varint(number << 3 | 1) + struct.pack("<d", value)
