"""The forms of metrics: which one a client gets, and what stands in protobuf, native histograms among it.

The forms were asked of kube-apiservers of 1.32 and 1.37; messages and buckets are those of Prometheus' Go libraries
(client_golang 1.24, common 0.70) for the same observations.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.http import send
from understudy import Server
from understudy.apiserver.server.pages.exposition import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Family,
    Observations,
    Sample,
    negotiate,
    written,
)
from understudy.apiserver.server.pages.native_histogram import NativeHistogram
from understudy.machinery.releases.version import V1_32, V1_33, V1_37

MESSAGES = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
DELIMITED = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping="
TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping="


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", f"{TEXT}underscores"),
        ("*/*", f"{TEXT}underscores"),
        ("text/html", f"{TEXT}underscores"),
        ("application/openmetrics-text;version=1.0.0", f"{TEXT}underscores"),
        ("application/vnd.google.protobuf", f"{TEXT}underscores"),
        (MESSAGES, f"{DELIMITED}underscores"),
        (f"{MESSAGES};q=0", f"{DELIMITED}underscores"),
        (f"{MESSAGES};q=0.7,text/plain;q=0.3", f"{DELIMITED}underscores"),
        (f"text/plain;q=0.9,{MESSAGES};q=0.5", f"{TEXT}underscores"),
        (MESSAGES.replace("delimited", "x"), f"{TEXT}underscores"),
        (f"{MESSAGES};escaping=allow-utf-8", f"{DELIMITED}allow-utf-8"),
        (f"{MESSAGES};escaping=nonsense", f"{DELIMITED}underscores"),
        ("text/plain;version=0.0.4;escaping=dots", f"{TEXT}dots"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", f"{TEXT}allow-utf-8"),
        (f"{MESSAGES};escaping=dots;q=0.1,text/plain;q=0.5", f"{TEXT}underscores"),
    ],
)
def test_form_is_the_one_that_the_client_prefers(accept: str, content_type: str) -> None:
    """Clients get protobuf if they ask for its length-delimited messages first, else text."""
    form = negotiate(accept, V1_37)
    assert (form.content_type, form.is_protobuf) == (content_type, content_type.startswith(DELIMITED))


def test_names_are_escaped_in_another_way_since_1_33() -> None:
    """The content type of metrics says how names are escaped."""
    assert [negotiate("", release).content_type for release in (V1_32, V1_33)] == [
        f"{TEXT}values",
        f"{TEXT}underscores",
    ]


def native(*values: float) -> NativeHistogram:
    histogram = NativeHistogram()
    for value in values:
        histogram.observe(value)
    return histogram


POWERS = [2.0**exponent for exponent in range(-126, 126)]
EIGHTHS = [2 ** (i / 8) for i in range(-8, 9)]


@pytest.mark.parametrize(
    ("values", "schema", "zero", "spans", "deltas"),
    [
        ([0.02], 3, 0, [(-45, 1)], [1]),
        ([0.02, 70], 3, 0, [(-45, 1), (94, 1)], [1, 0]),
        ([0, 1e-40], 3, 2, [], []),
        ([1, 2, 4, 0.5, 0.25], 3, 0, [(-16, 1), (7, 1), (7, 1), (7, 1), (7, 1)], [1, 0, 0, 0, 0]),
        (EIGHTHS, 3, 0, [(-8, 17)], [1, 0, 0, 0, -1, 2, -2, 1, 1, -1, 0, 0, -1, 2, -2, 1, 1]),
        (POWERS, -1, 0, [(-63, 127)], [1, 1, *[0] * 124, -1]),
    ],
    ids=["one", "two", "zero", "powers", "bounds", "wide"],
)
def test_native_buckets(
    values: Sequence[float], schema: int, zero: int, spans: Sequence[tuple[int, int]], deltas: Sequence[int]
) -> None:
    """Buckets grow by 2^(1/8), small gaps are filled with zeros, and each two are joined where there are too many."""
    histogram = native(*values)
    assert (histogram.schema, histogram.zero) == (schema, zero)
    assert histogram.buckets() == (spans, deltas)


RECORDED = bytes.fromhex(
    "4c0a07636c61737369631208436c61737369632e180422353a330801119a9999999999c93f1a0b0800119a9999999999b93f1a0b"
    "080111000000000000f03f7a0c08fe8e91d8061080cab5ee01260a046f70656e120f4f70656e202277617463686573222e180122"
    "0b12090900000000000004c084010a0e72657175657374735f746f74616c120952657175657374732e180022330a0b0a04636f64"
    "6512033230300a0b0a047665726212034745541a170900000000000008401a0c08fe8e91d8061080cab5ee0122300a0b0a04636f"
    "646512033430340a080a047665726212001a1709000000000000f03f1a0c08fe8e91d8061080cab5ee017e0a077365636f6e6473"
    "12085365636f6e64732e180422670a0b0a047665726212034745543a58080511c3f5285c8fa251401a0b0803119a9999999999b9"
    "3f1a0b080411000000000000f03f280631000000000000f03738016204085910016204084810016204087210016804680168007a"
    "0c08fe8e91d8061080cab5ee01"
)


async def test_messages_are_those_of_prometheus() -> None:
    """Families of every kind are written byte for byte as Prometheus' library writes them."""
    since, verb, bounds = 1795442558.5, {"verb": "GET"}, (0.1, 1.0)
    seconds = Observations(bounds, (3, 1, 1), 70.54, native(0, 0.02, 0.02, 0.5, 70))
    requests = [Sample({**verb, "code": "200"}, 3, since), Sample({"verb": "", "code": "404"}, 1, since)]
    families = [
        Family("classic", HISTOGRAM, "Classic.", [Sample({}, Observations(bounds, (0, 1, 0), 0.2), since)]),
        Family("open", GAUGE, 'Open "watches".', [Sample({}, -2.5)]),
        Family("requests_total", COUNTER, "Requests.", requests),
        Family("seconds", HISTOGRAM, "Seconds.", [Sample(verb, seconds, since)]),
    ]
    assert b"".join(await written(families, negotiate(MESSAGES, V1_37))) == RECORDED


@pytest.mark.parametrize(
    ("release", "gates", "has_native"),
    [("1.37", {}, True), ("1.37", {"NativeHistograms": False}, False), ("1.36", {}, False)],
)
def test_durations_have_native_buckets_with_the_gate(release: str, gates: dict[str, bool], has_native: bool) -> None:
    """The durations of requests have native buckets while `NativeHistograms` is on, as it is in 1.37 by default."""
    with Server(emulated_version=release, feature_gates=gates) as server:
        send(server, "GET", "/api/v1/nodes")
        page = send(server, "GET", "/metrics", headers={"Accept": MESSAGES})
        slis = send(server, "GET", "/metrics/slis", headers={"Accept": MESSAGES})

    assert page.headers["Content-Type"] == slis.headers["Content-Type"] == f"{DELIMITED}underscores"
    start = page.body.index(b"apiserver_request_duration_seconds")
    family = page.body[start : page.body.index(b"apiserver_request_total")]
    threshold = bytes.fromhex("31000000000000f037")  # field 6 of a Histogram
    assert (threshold in family) == has_native
    assert threshold not in page.body.replace(family, b"")
    assert b"kubernetes_healthcheck" in slis.body
