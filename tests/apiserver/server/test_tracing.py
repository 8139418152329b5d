"""Requests are traced as by the real server: spans, events and attributes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.admission_webhook import validating_webhook
from tests.apiserver.server.traces import LISTED, ask_all
from tests.collector import Collector, Span, collector
from tests.http import Connection, send
from understudy import Server
from understudy.apiserver.server.http.tracing import options
from understudy.machinery.types import Obj

RECORDED = sorted((Path(__file__).parent / "recorded" / "traces").glob("*.jsonl"))
ADMIN = {"Authorization": "Bearer admin"}
VERSION = "apiserver.config.k8s.io/v1beta1"


@pytest.fixture
def collected() -> Iterator[Collector]:
    with pytest.MonkeyPatch.context() as patch, collector() as running:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds until spans are exported
        yield running


def traced(collected: Collector, folder: Path, release: str, rate: int = 1_000_000, **more: Any) -> Server:
    """Return a server whose requests are traced at a rate in a million."""
    configuration, tokens = folder / "tracing.yaml", folder / "tokens.csv"
    lines = (f"apiVersion: {VERSION}", "kind: TracingConfiguration", f"endpoint: {collected.endpoint}")
    configuration.write_text("\n".join((*lines, f"samplingRatePerMillion: {rate}")))
    tokens.write_text("admin,admin,admin,system:masters\nuser,user,user,\n")
    options: Any = {"tracing_config_file": configuration, "token_auth_file": tokens, **more}
    return Server(emulated_version=release, **options)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_spans_are_as_recorded(collected: Collector, tmp_path: Path, file: Path) -> None:
    """The request, its filters, the handler with its events, what it asks of the store, and its answer."""
    with traced(collected, tmp_path, file.stem) as server:
        ours = [*ask_all(server.url, "admin", collected)]
    assert ours == [json.loads(line) for line in file.read_text().splitlines()]


def ask(server: Server, path: str, trace: int, *, sampled: bool = True, token: str = "admin") -> None:
    header = f"00-{trace:032x}-{trace:016x}-{sampled:02}"
    send(server, "GET", path, headers={"Traceparent": header, "Authorization": f"Bearer {token}"})


def known(collected: Collector, trace: int) -> list[Span]:
    """Return the spans of a client's trace, once there are any."""
    return collected.of_client(f"{trace:032x}")


@pytest.mark.parametrize(("release", "is_within"), [("1.32", False), ("1.33", True), ("1.37", True)])
def test_traces_of_trusted_clients(collected: Collector, tmp_path: Path, release: str, is_within: bool) -> None:
    """Since 1.33 the requests of administrators are in the traces of their clients, those of others beside them."""
    first = int(release.removeprefix("1.")) * 10
    with traced(collected, tmp_path, release) as server:
        ask(server, "/version", first)
        ask(server, "/version", first + 1, token="user")
    (of_admin, *_), (of_user, *_) = known(collected, first), known(collected, first + 1)
    assert (of_admin.trace == f"{first:032x}") is is_within
    assert of_user.links == [f"{first + 1:032x}"]
    assert (of_user.trace != of_user.links[0], of_user.parent) == (True, "")


def test_requests_are_traced_if_their_client_says_so(collected: Collector, tmp_path: Path) -> None:
    """Without a rate the client decides, if it is trusted; the rest is not traced."""
    with traced(collected, tmp_path, "1.37", rate=0) as server:
        ask(server, "/version", 1)
        ask(server, "/version", 2, sampled=False)
        ask(server, "/version", 3, token="user")
        send(server, "GET", "/version", headers=ADMIN)
        ask(server, "/api", 4)
    assert [span.attributes["http.target"] for span in known(collected, 4) if span.kind == "server"] == ["/api"]
    names = {span.trace for span in collected.all()}
    assert {f"{number:032x}" for number in (1, 4)} <= names
    assert not {f"{number:032x}" for number in (2, 3)} & names
    assert known(collected, 1)[0].resource["service.name"] == "apiserver"


def test_audit_id_of_traces_is_that_of_the_answer(collected: Collector, tmp_path: Path) -> None:
    """The id with which an answer can be found in the audit log is an attribute since 1.34."""
    with traced(collected, tmp_path, "1.37") as server:
        header = {**ADMIN, "Traceparent": f"00-{7:032x}-{7:016x}-01"}
        answer = send(server, "GET", "/api/v1/namespaces/default", headers=header)
    assert {span.attributes["audit-id"] for span in known(collected, 7) if "audit-id" in span.attributes} == {
        answer.headers["Audit-Id"]
    }


def test_filters_are_spans_within_each_other(collected: Collector, tmp_path: Path) -> None:
    """Since 1.34 all filters behind authentication have spans."""
    with traced(collected, tmp_path, "1.37") as server:
        ask(server, "/version", 8)
    spans = {span.id: span for span in known(collected, 8)}
    innermost = next(span for span in spans.values() if span.name == "authorization")
    names = []
    while innermost.id in spans:
        names.append(innermost.name)
        if innermost.parent not in spans:
            break
        innermost = spans[innermost.parent]
    assert names == ["authorization", "priorityandfairness", "constrainedimpersonation", "audit", "GET"]


def test_webhooks_are_told_of_traces(collected: Collector, tmp_path: Path) -> None:
    """Calls of webhooks are spans, and have the header by which a webhook goes on with the trace."""
    headers: list[str] = []

    def respond(request: BaseHTTPRequestHandler) -> Obj:
        headers.append(request.headers["Traceparent"])
        return {"allowed": True}

    with validating_webhook(respond) as hook, traced(collected, tmp_path, "1.37") as server:
        server.create({**named("ValidatingWebhookConfiguration", "validating"), "webhooks": [hook]})
        header = {**ADMIN, "Traceparent": f"00-{9:032x}-{9:016x}-01"}
        path = "/api/v1/namespaces/default/configmaps"
        assert send(server, "POST", path, {"metadata": {"name": "x"}}, headers=header).status == 201
    spans = {span.name: span for span in known(collected, 9)}
    call, post = spans["Call validating webhook"], spans["HTTP POST"]
    assert call.parent == spans["Create"].id
    assert {name: call.attributes[name] for name in ("configuration", "webhook", "resource", "operation")} == {
        "configuration": "validating",
        "webhook": "w.example.com",
        "resource": "/v1, Resource=configmaps",
        "operation": "CREATE",
    }
    assert call.events == [("Request completed", {})]
    assert (post.parent, post.kind) == (call.id, "client")
    assert headers == [f"00-{9:032x}-{post.id}-01"]


def test_watch_list_lasts_until_everything_is_sent(collected: Collector, tmp_path: Path) -> None:
    """The span of what a watch sends ends with the bookmark behind the stored objects, which may be sent in parts."""
    path, token = "/api/v1/namespaces/default/configmaps", {**ADMIN, "Traceparent": f"00-{10:032x}-{10:016x}-01"}
    with traced(collected, tmp_path, "1.37") as server:
        for name in ("a", "b"):
            body = {"metadata": {"name": name}, "data": {"x": "x" * 300_000}}
            assert send(server, "POST", path, body, headers=ADMIN).status == 201
        connection = Connection(server.url)
        response = connection.open("GET", f"{path}?{LISTED}", headers=token)
        kinds = [json.loads(response.readline())["type"] for _ in range(3)]
        response.close()
        connection.close()
        spans = {span.name: span for span in known(collected, 10)}
    assert kinds == ["ADDED", "ADDED", "BOOKMARK"]
    watch, sent = spans["WatchList"], spans["WatchServer.HandleHTTP"]
    assert (sent.parent, spans["cacher.Watch"].parent) == (watch.id, watch.id)
    assert [name for name, _ in sent.events] == ["About to start writing response", "Writing initial events done"]


def test_read_of_what_cannot_be_decoded(collected: Collector, tmp_path: Path) -> None:
    """A read tells how far it came."""
    file, path = tmp_path / "store", "/api/v1/namespaces/default/configmaps/x"
    with Server(storage=f"sqlite:{file}") as server:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}})
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE writes SET value = x'00' WHERE key = '/registry/configmaps/default/x'")
    with traced(collected, tmp_path, "1.37", storage=f"sqlite:{file}") as server:
        ask(server, path, 11)
    events = next(span.events for span in known(collected, 11) if span.name == "Get etcd3")
    names = ["Get call succeeded", "TransformFromStorage succeeded", "Decode failed"]
    assert [name for name, _ in events] == names
    assert events[-1][1]["err"]


def named(kind: str, name: str) -> Obj:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}


# Errors of kube-apiserver 1.32, but for the last one.
READ = "failed to read tracing config: unable to decode tracing configuration data: "
CHECKED = "failed to validate tracing configuration: "
SCHEMES = "Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
SCHEME = 'in scheme "k8s.io/apiserver/pkg/server/options/tracing.go:49"'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "apiVersion: apiserver.config.k8s.io/v1",
            f'{READ}no kind "TracingConfiguration" is registered for version "apiserver.config.k8s.io/v1" {SCHEME}',
        ),
        ("foo: 1", f'{READ}strict decoding error: unknown field "foo"'),
        ("kind: Other", f'{READ}no kind "Other" is registered for version "{VERSION}" {SCHEME}'),
        (
            "samplingRatePerMillion: -1",
            f"{CHECKED}samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        ),
        (
            "samplingRatePerMillion: 1000001\nendpoint: http://x",
            f"{CHECKED}[samplingRatePerMillion: Invalid value: 1000001: sampling rate per million must be less than or "
            f'equal to one million, endpoint: Invalid value: "http://x": unsupported scheme: http.  {SCHEMES}]',
        ),
        (
            'endpoint: "dns://a b"',
            f'{CHECKED}endpoint: Invalid value: "dns://a b": parse "dns://a b": invalid character " " in host name',
        ),
        (
            "endpoint: 5",
            f"{READ}json: cannot unmarshal number into Go struct field TracingConfiguration.endpoint of type string",
        ),
    ],
)
def test_mistakes_in_a_configuration(tmp_path: Path, text: str, error: str) -> None:
    """A server with such a configuration does not start."""
    file, own = tmp_path / "tracing.yaml", {line.partition(":")[0] for line in text.splitlines()}
    head = {"apiVersion": VERSION, "kind": "TracingConfiguration"}
    file.write_text("\n".join([*(f"{name}: {value}" for name, value in head.items() if name not in own), text]))
    with pytest.raises(ValueError, match="tracing config") as raised:
        Server(emulated_version="1.32", tracing_config_file=file)
    assert str(raised.value) == error


def test_extra_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    (tmp_path / "tracing.yaml").write_text("")
    monkeypatch.setattr(options, "NEEDED", ("understudy.nothing.sdk",))
    with pytest.raises(ValueError, match="needs the extra"):
        Server(tracing_config_file=tmp_path / "tracing.yaml")


def test_configuration_counts_with_the_gate_only(tmp_path: Path) -> None:
    """Without the gate, which can be turned off until 1.33, the file is not even read."""
    Server(
        emulated_version="1.32",
        feature_gates={"APIServerTracing": False},
        tracing_config_file=tmp_path / "nothing",
    )
