"""Requests that end before their webhooks have answered: what webhooks are told, and what clients get."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.extensions.conversion_webhook import V1, V2, Webhook, converted, define, widget
from tests.clock import FixedClock
from tests.http import TIMEOUT, Response, exchange, send, watch
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.endpoints import request
from understudy.apiserver.extensions import conversion
from understudy.apiserver.server.filters import request_deadline
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"
TIMED_OUT = (
    b'{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",'
    b'"reason":"Timeout","details":{},"code":504}\n'
)
WRITE_TIMED_OUT = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: request did not complete '
    b'within requested timeout - context deadline exceeded","reason":"Timeout","details":{},"code":504}\n'
)
KINDS = ("Mutating", "Validating")


def answered(review: Obj) -> Any:
    """Return the review that answers another: it allows a request, or converts objects."""
    if review["kind"] == "ConversionReview":
        return converted(review)
    return {**review, "response": {"uid": review["request"]["uid"], "allowed": True}}


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    webhook.convert = answered
    thread = threading.Thread(target=webhook.server.serve_forever, args=(0.01,))
    thread.start()
    yield webhook
    webhook.server.shutdown()
    thread.join()
    webhook.server.server_close()


class Hold:
    """Lets a webhook answer nothing until `go_on` is set; sets `is_asked` when it is asked."""

    def __init__(self, webhook: Webhook) -> None:
        self.go_on, self.is_asked = threading.Event(), threading.Event()
        webhook.convert = self

    def __call__(self, review: Obj) -> Any:
        self.is_asked.set()
        self.go_on.wait()
        return dict(answered(review))


@pytest.fixture
def hold(webhook: Webhook) -> Iterator[Hold]:
    hold = Hold(webhook)
    yield hold
    hold.go_on.set()


def ask(server: Server, webhook: Webhook, kind: str, *seconds: int, policy: str = "Fail") -> None:
    """Ask a webhook about writes of config maps, once for each of its timeouts."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    hooks = [
        {
            "name": f"{number}.example.com",
            "clientConfig": {"url": f"{webhook.url}/{kind.lower()}{number}", "caBundle": webhook.ca_bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": policy,
            "timeoutSeconds": timeout,
        }
        for number, timeout in enumerate(seconds)
    ]
    kind = f"{kind}WebhookConfiguration"
    obj = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "hooks"},
        "webhooks": hooks,
    }
    code, body = exchange(server, "POST", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s", obj)
    assert code == 201, body


def config_map(name: str = "a") -> Obj:
    return {"metadata": {"name": name}}


def seen(answer: Response) -> tuple[int, bytes, str | None, str | None]:
    """Return a client's view of an answer: its status, body, type and headers of flow control."""
    flow = answer.headers["X-Kubernetes-Pf-FlowSchema-Uid"]
    return answer.status, answer.body, answer.headers["Content-Type"], flow and "a flow schema"


@pytest.mark.parametrize(
    ("timeout", "taken", "told"),
    [
        ("?timeout=10s", 0.0, ["10s", "10s", "2s", "10s"]),
        ("?timeout=10s", 3.4, ["10s", "7s", "2s", "4s"]),  # what is left is rounded up
        ("?timeout=1500ms", 0.0, ["2s", "2s", "2s", "2s"]),
        ("?timeout=25s", 0.0, ["20s", "20s", "2s", "25s"]),
        ("", 10.0, ["20s", "20s", "2s", "14s"]),  # the server gives a write 34 seconds
        ("?timeout=50s", 10.0, ["20s", "20s", "2s", "14s"]),
        ("?timeout=0s", 10.0, ["20s", "20s", "2s", "14s"]),
        ("?timeout=-1s", 10.0, ["20s", "20s", "2s", "14s"]),
    ],
)
def test_webhooks_are_told_what_is_left(
    webhook: Webhook, timeout: str, taken: float, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook is told its own timeout, or what is left of the request's time if that is less.

    taken  seconds that each mutating webhook takes
    """
    clock = FixedClock(0)
    for module in (request, request_deadline):
        monkeypatch.setattr(module, "monotonic", clock.monotonic)

    def answer(review: Obj) -> Obj:
        clock.seconds += taken if "mutating" in webhook.paths[-1] else 0
        return dict(answered(review))

    webhook.convert = answer
    with Server() as server:
        ask(server, webhook, "Mutating", 20, 20)
        ask(server, webhook, "Validating", 2, 30)
        send(server, "POST", f"{MAPS}{timeout}", config_map())
    paths = dict(path.removeprefix("/convert/").split("?timeout=") for path in webhook.paths)
    assert [paths[name] for name in ("mutating0", "mutating1", "validating0", "validating1")] == told


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("kind", KINDS)
def test_request_ends_before_its_webhook_answers(webhook: Webhook, hold: Hold, kind: str, policy: str) -> None:
    """A client whose time is over is answered then, whatever the failure policy; nothing is stored later."""
    with Server() as server:
        exchange(server, "POST", MAPS, config_map("old"))
        ask(server, webhook, kind, 20, policy=policy)
        answers = [
            send(server, "POST", f"{MAPS}?timeout=50ms", config_map()),
            send(server, "PUT", f"{MAPS}/old?timeout=50ms", {**config_map("old"), "data": {"a": "b"}}),
            send(server, "PATCH", f"{MAPS}/old?timeout=50ms", {"data": {"a": "b"}}),
            send(server, "DELETE", f"{MAPS}/old?timeout=50ms"),
            send(server, "DELETE", f"{MAPS}?timeout=50ms"),
        ]
        hold.go_on.set()
        last = send(server, "POST", MAPS, config_map("last"))
        items = exchange(server, "GET", MAPS)[1]["items"]
    assert [seen(answer) for answer in answers] == [(504, TIMED_OUT, "text/plain; charset=utf-8", None)] * 5
    assert last.status == 201
    assert [
        (item["metadata"]["name"], item.get("data")) for item in items if item["metadata"]["name"] != "kube-root-ca.crt"
    ] == [
        ("last", None),
        ("old", None),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_longest_write(webhook: Webhook, hold: Hold, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A write of one object ends after 34 seconds although its client would wait, with a Status; others after 60."""
    assert (request_deadline.LONGEST_WRITE, request_deadline.LONGEST) == (34, 60)
    with Server() as server:
        exchange(server, "POST", MAPS, config_map())
        ask(server, webhook, kind, 20)
        monkeypatch.setattr(request_deadline, "LONGEST_WRITE", 0.05)
        answer = send(server, "PUT", f"{MAPS}/a", config_map())
        monkeypatch.setattr(request_deadline, "LONGEST", 0.1)
        others = send(server, "DELETE", MAPS)
    assert seen(answer) == (504, WRITE_TIMED_OUT, "application/json", "a flow schema")
    assert seen(others) == (504, TIMED_OUT, "text/plain; charset=utf-8", None)


def test_request_ends_before_a_conversion(webhook: Webhook) -> None:
    """Requests that wait for a conversion webhook end in time, writes and reads; nothing is stored later."""
    with Server() as server:
        define(server, conversion=webhook.conversion())
        exchange(server, "POST", V1, widget())
        hold = Hold(webhook)
        asked = len(webhook.paths)
        answers = [
            send(server, "GET", f"{V2}?timeout=50ms"),
            send(server, "GET", f"{V2}/a?timeout=50ms"),
            send(server, "POST", f"{V2}?timeout=50ms", widget("v2", "b")),
            send(server, "PATCH", f"{V2}/a?timeout=50ms", {"spec": {"width": 3}}),
            send(server, "DELETE", f"{V2}/a?timeout=50ms"),
        ]
        paths = webhook.paths[asked:]
        hold.go_on.set()
        wait_until(lambda: exchange(server, "GET", V2)[0], lambda code: code == 200)
        stored = exchange(server, "GET", V1)[1]["items"]
    assert [seen(answer) for answer in answers] == [(504, TIMED_OUT, "text/plain; charset=utf-8", None)] * 5
    assert set(paths) == {"/convert?timeout=30s"}  # of its own: the client's time is none of its business
    assert [(item["metadata"]["name"], item["spec"]) for item in stored] == [("a", {})]


def test_server_stops_while_a_thread_waits_for_a_webhook(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops gives up the conversions of requests that have ended."""
    monkeypatch.setattr(conversion, "_TIMEOUT", 3600)
    server = Server()
    server.__enter__()
    define(server, conversion=webhook.conversion())
    hold = Hold(webhook)
    timeouts = ["5s", "500ms", "50ms"]  # a slow machine needs more, until the webhook is asked
    while not hold.is_asked.is_set():
        answer = send(server, "POST", f"{V2}?timeout={timeouts.pop()}", widget("v2"))
    stopping = threading.Thread(target=server.__exit__)
    stopping.start()
    stopping.join(TIMEOUT)
    still_waits = stopping.is_alive()
    hold.go_on.set()
    stopping.join()
    assert (answer.status, len(webhook.paths) <= 3 - len(timeouts), still_waits) == (504, True, False)


def test_request_that_is_over_at_once(apiserver: Server) -> None:
    """A client that gives no time gets no answer, and writes nothing."""
    answers = [
        send(apiserver, "GET", f"{MAPS}?timeout=1ns"),
        send(apiserver, "POST", f"{MAPS}?timeout=1ns", config_map()),
    ]
    assert [seen(answer) for answer in answers] == [(504, TIMED_OUT, "text/plain; charset=utf-8", None)] * 2
    assert send(apiserver, "GET", f"{MAPS}/a").status == 404


def test_watches_have_no_deadline(apiserver: Server) -> None:
    """The parameter `timeout` of a watch is not even read."""
    with watch(apiserver, MAPS, "&timeout=1ns") as events, watch(apiserver, MAPS, "&timeout=x") as others:
        exchange(apiserver, "POST", MAPS, config_map())
        assert [next(events)["type"], next(others)["type"]] == ["ADDED", "ADDED"]
