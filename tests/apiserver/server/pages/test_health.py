"""The pages of health checks and metrics."""

from __future__ import annotations

import re

import pytest

from tests.http import send
from tests.releases import NEWEST
from understudy import Server
from understudy.admission.metrics import AdmissionMetrics
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.flowcontrol.classification import Usage
from understudy.apiserver.flowcontrol.seats import SeatLimits
from understudy.apiserver.server.pages import healthz
from understudy.apiserver.server.pages.exposition import negotiate, written
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.metric_options import MetricSettings
from understudy.apiserver.server.pages.metrics import Metrics, slis
from understudy.apiserver.server.pages.request_counts import RequestCounts
from understudy.apiserver.serving.release import Release
from understudy.machinery.options import Query
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32

CHECKS = Release.of(NEWEST).health_checks


def ask(path: str, query: str = "", failing: tuple[str, ...] = ()) -> Response:
    return healthz.answer(
        CHECKS, Request("GET", path, {}, b"", Query(query), NEWEST), {name: f"{name} failed" for name in failing}
    )


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/healthz/ping", "/readyz/shutdown", "/livez/etcd"])
def test_healthy_check_is_ok(path: str) -> None:
    """A healthy check is answered with "ok" in plain text."""
    reply = ask(path)
    assert (reply.status, reply.body, reply.content_type) == (200, b"ok", "text/plain; charset=utf-8")


@pytest.mark.parametrize("path", ["/healthz/", "/healthz/nosuch", "/livez/shutdown", "/health"])
def test_unknown_check_is_not_found(path: str) -> None:
    """Only listed checks have a page; /livez has no shutdown check."""
    assert path not in healthz.paths(CHECKS)


def test_checks_of_what_gates_turn_off_are_missing() -> None:
    """A hook that a feature gate turns off has no check, such as that for the lease of the server."""
    gates = Gates.of(NEWEST, {"APIServerIdentity": False, "UnknownVersionInteroperabilityProxy": False})
    started, missing = healthz.started(CHECKS, gates), ("identity-lease", "peer-endpoint")
    assert healthz.started(CHECKS, Gates.of(NEWEST)) == CHECKS
    for name, checks in CHECKS.items():
        assert list(started[name]) == [check for check in checks if not any(text in check for text in missing)]
        assert len(checks) - len(started[name]) == 3


def test_verbose_lists_the_checks() -> None:
    """`?verbose` lists the checks in the order of their installation, and the excluded ones."""
    lines = ask("/readyz", "verbose&exclude=etcd&exclude=nosuch").body.decode().splitlines()
    assert lines[:5] == [
        "[+]ping ok",
        "[+]log ok",
        "[+]etcd excluded: ok",
        "[+]etcd-readiness ok",
        "[+]informer-sync ok",
    ]
    assert lines[-3:] == [
        "[+]shutdown ok",
        'warn: some health checks cannot be excluded: no matches for "nosuch"',
        "readyz check passed",
    ]


def test_failed_check_is_listed_without_reason() -> None:
    """A failed check lists all checks and hides the reason, unless it is excluded."""
    reply = ask("/readyz", failing=("shutdown",))
    assert reply.status == 500
    assert reply.body.endswith(b"[-]shutdown failed: reason withheld\nreadyz check failed\n")
    assert ask("/readyz", "exclude=shutdown", failing=("shutdown",)).status == 200
    assert ask("/livez", failing=("shutdown",)).status == 200
    assert ask("/readyz/shutdown", failing=("shutdown",)).status == 500


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("POST", "namespaces", "POST"),
        ("PUT", "namespaces/a", "PUT"),
        ("DELETE", "namespaces/a", "DELETE"),
        ("DELETE", "nodes", "DELETE"),
        ("GET", "nodes", "LIST"),
    ],
)
def test_metrics_name_verbs_as_http_does(apiserver: Server, method: str, path: str, verb: str) -> None:
    """Requests are counted by their method, lists and watches apart."""
    resource = path.partition("/")[0]

    def counted() -> int:
        lines = re.findall(r"apiserver_request_total\{(.*)\} (\d+)", send(apiserver, "GET", "/metrics").body.decode())
        return sum(int(n) for labels, n in lines if f'verb="{verb}"' in labels and f'resource="{resource}"' in labels)

    before = counted()  # of other tests
    send(apiserver, method, f"/api/v1/{path}")
    assert counted() == before + 1


async def test_metrics_count_requests() -> None:
    """Requests are counted by verb, resource and code, durations in buckets, watches while they are open."""
    counts = RequestCounts(lambda: 0.0, V1_32)
    pods = ("LIST", "", "v1", "pods", "", "namespace", "")
    counts.observe(pods, 200, 0.02)
    counts.observe(pods, 200, 70.0)
    counts.open(("WATCH", *pods[1:]))
    families = Metrics(counts, V1_32, MetricSettings()).families(
        held=[],
        admission=AdmissionMetrics(V1_32).families,
        flow_control=Usage({"exempt": SeatLimits(0, 0, 600), "b": SeatLimits(10, 5, 12)}, {("probes", "exempt"): 3}),
        limiter=[],
        pauses=LoopPauses(),
    )
    text = b"".join(await written(families, negotiate("", V1_32))).decode()
    labels = 'dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"'
    assert f'apiserver_request_total{{code="200",component="apiserver",{labels}}} 2\n' in text
    timed = f'component="apiserver",{labels}'
    assert f"apiserver_request_duration_seconds_count{{{timed}}} 2\n" in text
    assert f"apiserver_request_duration_seconds_sum{{{timed}}} 70.02\n" in text
    assert 'le="0.025"' in text
    open_watch = labels.removeprefix('dry_run="",').replace("LIST", "WATCH")
    assert f'apiserver_longrunning_requests{{component="apiserver",{open_watch}}} 1\n' in text
    assert 'apiserver_flowcontrol_lower_limit_seats{priority_level="b"} 5\n' in text
    probes = 'flow_schema="probes",priority_level="exempt"'
    assert f"apiserver_flowcontrol_dispatched_requests_total{{{probes}}} 3\n" in text


async def test_slis_have_a_sample_for_each_check() -> None:
    """/metrics/slis has one sample for each check of each path."""
    text = b"".join(await written([slis(CHECKS, ("etcd",))], negotiate("", NEWEST)))
    assert b'kubernetes_healthcheck{name="etcd",type="readyz"} 0\n' in text
