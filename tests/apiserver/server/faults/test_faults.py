"""Faults of requests: what clients see, what the server has done, and which requests meet them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.http import send, watch
from tests.waiting import PATIENCE, wait_until
from understudy import Fault, Server, StatusError

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TEXT = "text/plain; charset=utf-8"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def status(code: int, message: str, reason: str = "", **details: Any) -> dict[str, Any]:
    """Return a Status as errors have it."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    body |= {"message": message, **({"reason": reason} if reason else {})}
    return {**body, **({"details": details} if details else {}), "code": code}


def raw(server: Server, method: str, path: str, body: Any = None) -> bytes:
    """Send one request on a connection of its own, without another try; return the body of the answer."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        return connection.getresponse().read()
    finally:
        connection.close()


def read_until_reset(response: http.client.HTTPResponse) -> bytes:
    """Read a body until its connection is reset, and return it; fail if it comes to its end."""
    body = b""
    try:
        while piece := response.read1(1):
            body += piece
    except ConnectionResetError:
        return body
    raise AssertionError(f"the connection was not reset behind {body!r}")


# --- errors ---------------------------------------------------------------------------------------------------


def test_conflict_has_the_text_of_optimistic_concurrency(apiserver: Server) -> None:
    """A conflict answers like a write with an old resourceVersion, and nothing is written."""
    apiserver.apply(config_map("a", x="1"))
    stale = {**apiserver.get("configmaps", "a"), "data": {"x": "2"}}
    apiserver.apply(config_map("a", x="3"))
    real = send(apiserver, "PUT", f"{CONFIG_MAPS}/a", stale)
    apiserver.faults.add(Fault.conflict(), times=1)
    met = send(apiserver, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "4"}})
    assert (met.status, met.json()) == (real.status, real.json())
    assert apiserver.get("configmaps", "a")["data"] == {"x": "3"}
    assert send(apiserver, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"x": "4"}}).status == 200


@pytest.mark.parametrize(
    ("fault", "code", "headers", "body"),
    [
        (
            Fault.too_many_requests(retry_after=7),
            429,
            {"Retry-After": "7", "Content-Type": TEXT, "X-Content-Type-Options": "nosniff"},
            b"Too many requests, please try again later.\n",
        ),
        (Fault.server_error(), 500, {"Retry-After": None}, status(500, "etcdserver: request timed out")),
        (Fault.server_error("etcdserver: leader changed"), 500, {}, status(500, "etcdserver: leader changed")),
        (
            Fault.service_unavailable(),
            503,
            {"Retry-After": "1"},
            status(503, "apiserver is shutting down", "ServiceUnavailable"),
        ),
        (Fault.service_unavailable(retry_after=0), 503, {"Retry-After": None}, None),
    ],
    ids=str,
)
def test_errors_are_those_of_the_real_server(
    apiserver: Server, fault: Fault, code: int, headers: dict[str, str | None], body: Any
) -> None:
    """Code, headers and body of each error are the real server's."""
    apiserver.faults.add(fault)
    answer = send(apiserver, "GET", CONFIG_MAPS)
    assert answer.status == code
    assert {name: answer.headers[name] for name in headers} == headers
    if body is not None:
        assert (answer.body if isinstance(body, bytes) else answer.json()) == body


def test_timeout_is_that_of_reads_and_of_writes(apiserver: Server) -> None:
    """A write and a read get the 504s that they get when their time is over, at once."""
    apiserver.faults.add(Fault.timeout())
    written = send(apiserver, "POST", CONFIG_MAPS, config_map("a"))
    text = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    assert (written.status, written.json()) == (504, status(504, text, "Timeout") | {"details": {}})
    read = send(apiserver, "GET", CONFIG_MAPS)
    assert (read.status, read.headers["Content-Type"]) == (504, TEXT)
    assert read.json()["message"] == "Timeout: request did not complete within the allotted timeout"


# --- before and after the commit --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [Fault.server_error, Fault.service_unavailable, Fault.timeout], ids=lambda m: m.__name__
)
@pytest.mark.parametrize("after_commit", [False, True])
def test_error_comes_before_or_after_the_commit(
    apiserver: Server, make: Callable[..., Fault], after_commit: bool
) -> None:
    """The object is there only if the error comes after the commit."""
    rule = apiserver.faults.add(make(after_commit=after_commit))
    assert send(apiserver, "POST", CONFIG_MAPS, config_map("a")).status >= 500
    assert rule.fired == 1
    assert [each["metadata"]["name"] for each in apiserver.list("configmaps", namespace="default")] == (
        ["a"] if after_commit else []
    )


def test_refused_write_meets_no_fault_after_the_commit(apiserver: Server) -> None:
    """A request that the server refuses is answered as ever: there is no commit."""
    rule = apiserver.faults.add(Fault.timeout(after_commit=True))
    assert send(apiserver, "POST", CONFIG_MAPS, config_map("Not a name")).status == 422
    assert (rule.matched, rule.fired) == (1, 0)


def test_reset_loses_request_or_answer(apiserver: Server) -> None:
    """The connection is reset without an answer; the write is done if the fault says so."""
    for name, after_commit in (("before", False), ("after", True)):
        fault = Fault.reset(after_commit=after_commit)
        with apiserver.faults.add(fault, verb="create"), pytest.raises(ConnectionResetError):
            raw(apiserver, "POST", CONFIG_MAPS, config_map(name))
    assert [each["metadata"]["name"] for each in apiserver.list("configmaps", namespace="default")] == ["after"]
    assert [(each.verb, each.status) for each in apiserver.requests.creates("configmaps")] == [
        ("create", 0),
        ("create", 201),
    ]


@pytest.mark.apiserver(tls=True)
def test_reset_over_tls(apiserver: Server) -> None:
    """A connection with TLS is reset as well."""
    apiserver.faults.add(Fault.reset(), times=2)  # `send` tries once more
    with pytest.raises(ConnectionResetError):
        send(apiserver, "GET", CONFIG_MAPS)
    assert send(apiserver, "GET", CONFIG_MAPS).status == 200


def test_reset_in_the_middle_of_an_answer(apiserver: Server) -> None:
    """Head and some bytes of the body arrive; a shorter answer loses its last byte."""
    whole = raw(apiserver, "GET", CONFIG_MAPS)
    for after_bytes, arrive in ((0, 0), (10, 10), (10_000, len(whole) - 1)):
        with apiserver.faults.add(Fault.reset(after_bytes=after_bytes)) as rule:
            connection = http.client.HTTPConnection(urlsplit(apiserver.url).netloc, timeout=30)
            connection.request("GET", CONFIG_MAPS)
            response = connection.getresponse()
            assert (response.status, response.headers["Content-Length"]) == (200, str(len(whole)))
            assert read_until_reset(response) == whole[:arrive]
            connection.close()
            rule.assert_fired()


def test_users_of_the_server_meet_faults(apiserver: Server) -> None:
    """Requests of `Server.user` meet faults as those of other programs; a reset is an error of the connection."""
    ann = apiserver.user("ann")
    apiserver.faults.add(Fault.reset(), nth=1)
    apiserver.faults.add(Fault.service_unavailable(), user="ann", nth=3)
    with pytest.raises(ConnectionResetError):
        ann.list("pods")
    assert ann.list("pods") == []
    with pytest.raises(StatusError, match="apiserver is shutting down"):
        ann.list("pods")
    assert apiserver.list("pods") == []


# --- late -----------------------------------------------------------------------------------------------------


def test_delay_holds_a_request_up(apiserver: Server) -> None:
    """The answer comes after the delay, and others are not held up."""
    with apiserver.faults.add(Fault.delay(0.2), nth=1):
        start = time.monotonic()
        assert send(apiserver, "GET", CONFIG_MAPS).status == 200
        assert time.monotonic() - start >= 0.2


def test_delay_is_by_the_clock_of_the_server(apiserver: Server) -> None:
    """A delay of an hour is over when the clock has moved on by an hour."""
    rule = apiserver.faults.add(Fault.delay(3600))
    apiserver.clock.freeze()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(send, apiserver, "GET", CONFIG_MAPS)
        wait_until(lambda: rule.fired)
        assert not answer.done()
        apiserver.clock.advance(hours=1)
        assert answer.result(PATIENCE).status == 200


def test_hanging_request_ends_with_its_time(apiserver: Server) -> None:
    """A request without an answer gets the 504 of its own deadline."""
    apiserver.faults.add(Fault.hang(after_commit=True), verb="create")
    assert send(apiserver, "POST", f"{CONFIG_MAPS}?timeout=50ms", config_map("a")).status == 504
    assert apiserver.get("configmaps", "a")


def test_hanging_client_may_go_away(apiserver: Server) -> None:
    """A client that gives up leaves nothing behind; the server can be reset meanwhile."""
    rule = apiserver.faults.add(Fault.hang(), nth=1)
    connection = http.client.HTTPConnection(urlsplit(apiserver.url).netloc, timeout=30)
    connection.request("GET", CONFIG_MAPS)
    wait_until(lambda: rule.fired)
    connection.close()
    apiserver.reset()
    assert send(apiserver, "GET", CONFIG_MAPS).status == 200


def test_slow_answer_is_whole(apiserver: Server) -> None:
    """An answer that trickles takes its time, and is complete."""
    whole = raw(apiserver, "GET", CONFIG_MAPS)
    apiserver.faults.add(Fault.slow(2000))
    start = time.monotonic()
    assert raw(apiserver, "GET", CONFIG_MAPS) == whole
    assert time.monotonic() - start >= len(whole) / 2000


# --- which requests meet a fault --------------------------------------------------------------------------------


def test_nth_and_times_count_requests(apiserver: Server) -> None:
    """`nth` chooses one request, `times` how many from there on; others do not count."""
    rule = apiserver.faults.add(Fault.server_error(), verb="get", resource="cm", nth=2)
    many = apiserver.faults.add(Fault.service_unavailable(), verb="list", resource="cm", nth=2, times=2)
    apiserver.apply(config_map("a"))
    assert [send(apiserver, "GET", f"{CONFIG_MAPS}/a").status for _ in range(4)] == [200, 500, 200, 200]
    assert [send(apiserver, "GET", CONFIG_MAPS).status for _ in range(5)] == [200, 503, 503, 200, 200]
    assert [send(apiserver, "GET", "/api/v1/nodes").status, rule.matched, rule.fired] == [200, 4, 1]
    assert (many.matched, many.fired) == (5, 2)


@pytest.mark.parametrize(
    ("where", "meets"),
    [
        ({"resource": "ConfigMap"}, True),
        ({"resource": "secrets"}, False),
        ({"verb": ["get", "list"]}, False),
        ({"verb": ("create", "patch")}, True),
        ({"namespace": "def*", "name": "a?"}, True),
        ({"name": "b*"}, False),
        ({"subresource": ""}, True),
        ({"subresource": "status"}, False),
        ({"user": "system:*"}, True),
        ({"user": "ann"}, False),
        ({"user_agent": "kopf*"}, False),
        ({"user_agent": "driver/*"}, True),
        ({"path": "*/configmaps/*"}, True),
        ({"path": "/version"}, False),
    ],
    ids=str,
)
def test_selectors(apiserver: Server, where: dict[str, Any], meets: bool) -> None:
    """Each selector chooses by what it names."""
    apiserver.apply(config_map("ab"))
    apiserver.faults.add(Fault.server_error(), **where)
    answer = send(apiserver, "PATCH", f"{CONFIG_MAPS}/ab", {}, headers={"User-Agent": "driver/1 (linux)"})
    assert (answer.status == 500) is meets


def test_pages_meet_faults_by_their_path_only(apiserver: Server) -> None:
    """Only a pattern for paths chooses what is no resource."""
    apiserver.faults.add(Fault.server_error())
    assert send(apiserver, "GET", "/version").status == 200
    apiserver.faults.add(Fault.server_error(), path="/version")
    assert send(apiserver, "GET", "/version").status == 500


def test_rule_ends_with_its_block_and_with_reset(apiserver: Server) -> None:
    """A rule lasts as long as its block; `reset` ends all."""
    with apiserver.faults.add(Fault.service_unavailable()):
        assert send(apiserver, "GET", CONFIG_MAPS).status == 503
    assert send(apiserver, "GET", CONFIG_MAPS).status == 200
    apiserver.faults.add(Fault.service_unavailable())
    apiserver.reset()
    assert (len(apiserver.faults), apiserver.faults.fired) == (0, [])
    assert send(apiserver, "GET", CONFIG_MAPS).status == 200


def test_several_faults_of_a_request(apiserver: Server) -> None:
    """Each takes effect that the ones before let through."""
    apiserver.faults.add(Fault.delay(0))
    apiserver.faults.add(Fault.server_error())
    unheard = apiserver.faults.add(Fault.service_unavailable())
    assert send(apiserver, "GET", CONFIG_MAPS).status == 500
    assert [str(each.fault) for each in apiserver.faults.fired] == [
        "delay(seconds=0)",
        "server_error(message='etcdserver: request timed out', after_commit=False)",
    ]
    assert (unheard.matched, unheard.fired) == (1, 0)


def test_unfired_fault_can_be_asserted(apiserver: Server) -> None:
    """The message names the rule, and how many requests it could have met."""
    apiserver.faults.add(Fault.conflict(), verb="patch", resource="resourceclaims", subresource="status", nth=2)
    rule = "<FaultRule fault=conflict() nth=2 times=1 verb=patch resource=resourceclaims subresource=status>"
    with pytest.raises(
        AssertionError,
        match=f"^{rule} has not fired: no requests were of its kind$".replace("(", r"\(").replace(")", r"\)"),
    ):
        apiserver.faults.assert_fired()
    send(apiserver, "PATCH", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a/status", {})
    with pytest.raises(AssertionError, match="has not fired: 1 request was of its kind"):
        apiserver.faults.assert_fired()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nth": 0}, "want nth from 1 on, not 0"),
        ({"times": -1}, "want times from 1 on, not -1"),
        ({"verb": "pach"}, "no request for a resource has the verb 'pach'; did you mean 'patch'?"),
        ({"verb": "create"}, "no create meets conflict(): update, patch, delete can"),
        ({"ressource": "pods"}, "requests are not chosen by 'ressource'; did you mean 'resource'?"),
        ({"resource": "podz"}, "the server doesn't have a resource type \"podz\"; did you mean 'Pod'?"),
    ],
    ids=str,
)
def test_wrong_rules_are_refused(apiserver: Server, options: dict[str, Any], message: str) -> None:
    """An option that no request can meet is an error that says so."""
    with pytest.raises((ValueError, TypeError, StatusError)) as refused:
        apiserver.faults.add(Fault.conflict(), **options)
    assert str(refused.value) == message
    assert len(apiserver.faults) == 0


def test_custom_resource_may_be_defined_later(apiserver: Server) -> None:
    """A resource of a group that is not served yet can have faults."""
    assert apiserver.faults.add(Fault.conflict(), resource="widgets.example.com").selector.resource == (
        "example.com",
        "widgets",
    )


# --- watches --------------------------------------------------------------------------------------------------


def events(server: Server, query: str = "") -> list[str]:
    """Return the events of a watch until it ends, by type and name."""
    with watch(server, CONFIG_MAPS, query) as stream:
        return [
            f"{each['type']} {each['object'].get('metadata', {}).get('name') or each['object'].get('code', '')}"
            for each in stream
        ]


def test_watch_is_cut_after_some_events(apiserver: Server) -> None:
    """The watch ends behind its nth event, without waiting for another one."""
    for name in "abc":
        apiserver.apply(config_map(name))
    for count in range(3):
        with apiserver.faults.add(Fault.cut_watch(count)) as rule:
            assert events(apiserver) == ["ADDED a", "ADDED b", "ADDED c"][:count]
            rule.assert_fired()


def test_watch_is_cut_by_a_reset(apiserver: Server) -> None:
    """The connection is reset instead of the end of the body."""
    apiserver.apply(config_map("a"))
    apiserver.faults.add(Fault.cut_watch(1, reset=True))
    connection = http.client.HTTPConnection(urlsplit(apiserver.url).netloc, timeout=30)
    connection.request("GET", f"{CONFIG_MAPS}?watch=1")
    seen = read_until_reset(connection.getresponse())
    connection.close()
    assert [json.loads(line)["type"] for line in seen.splitlines()] == ["ADDED"]


def test_resumed_watch_and_list_are_expired(apiserver: Server) -> None:
    """A watch that goes on gets the 410 of a compacted revision as its only event, a list its own; others do not."""
    for name in "ab":
        apiserver.apply(config_map(name))
    page = send(apiserver, "GET", f"{CONFIG_MAPS}?limit=1").json()["metadata"]
    start = page["resourceVersion"]
    apiserver.apply(config_map("c"))
    with apiserver.faults.add(Fault.expired()):
        with watch(apiserver, CONFIG_MAPS, f"&resourceVersion={start}") as stream:
            met = list(stream)
        listed = send(apiserver, "GET", f"{CONFIG_MAPS}?limit=1&continue={page['continue']}")
        with watch(apiserver, CONFIG_MAPS, "&resourceVersion=0") as stream:
            assert next(stream)["type"] == "ADDED"
    apiserver.compact()
    with watch(apiserver, CONFIG_MAPS, f"&resourceVersion={start}") as stream:
        assert met == list(stream)
    real = send(apiserver, "GET", f"{CONFIG_MAPS}?limit=1&continue={page['continue']}")
    assert (listed.status, listed.json()) == (real.status, real.json()) != (200, None)


def test_watch_expires_in_the_middle(apiserver: Server) -> None:
    """A watch is told after some events that its version is too old."""
    for name in "abc":
        apiserver.apply(config_map(name))
    apiserver.faults.add(Fault.expired(2))
    assert events(apiserver) == ["ADDED a", "ADDED b", "ERROR 410"]


def test_bookmarks_are_withheld_but_for_the_end_of_initial_events(apiserver: Server) -> None:
    """Only the bookmark that clients wait for is sent."""
    apiserver.apply(config_map("a"))
    rule = apiserver.faults.add(Fault.no_bookmarks())
    query = "&allowWatchBookmarks=true&timeoutSeconds=3&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with watch(apiserver, CONFIG_MAPS, query) as stream:
        seen = [next(stream)["type"], next(stream)["type"]]
        apiserver.apply({**config_map("b"), "metadata": {"name": "b", "namespace": "kube-system"}})
        seen += [each["type"] for each in stream]
    assert seen == ["ADDED", "BOOKMARK"]
    rule.assert_fired()


# --- a replica that lags behind -------------------------------------------------------------------------------


def test_stale_reads(apiserver: Server) -> None:
    """Reads that any state will do for get an old one; a watch begins there, and gets what was written since."""
    for name in "abc":
        apiserver.apply(config_map(name, x="1"))
    apiserver.apply(config_map("a", x="2"))
    current = int(send(apiserver, "GET", CONFIG_MAPS).json()["metadata"]["resourceVersion"])
    apiserver.faults.add(Fault.stale(2))

    def listed(query: str) -> tuple[int, list[str]]:
        body = send(apiserver, "GET", f"{CONFIG_MAPS}{query}").json()
        return int(body["metadata"]["resourceVersion"]), [
            f"{each['metadata']['name']}{each['data']['x']}" for each in body["items"]
        ]

    assert listed("?resourceVersion=0") == (current - 2, ["a1", "b1"])
    assert listed("?resourceVersion=1&resourceVersionMatch=NotOlderThan") == (current - 2, ["a1", "b1"])
    assert listed("") == (current, ["a2", "b1", "c1"])
    assert listed(f"?resourceVersion={current}&resourceVersionMatch=Exact") == (current, ["a2", "b1", "c1"])
    assert send(apiserver, "GET", f"{CONFIG_MAPS}/a?resourceVersion=0").json()["data"] == {"x": "1"}
    assert send(apiserver, "GET", f"{CONFIG_MAPS}/c?resourceVersion=0").status == 404
    assert send(apiserver, "GET", f"{CONFIG_MAPS}/a").json()["data"] == {"x": "2"}
    assert events(apiserver, "&resourceVersion=0&timeoutSeconds=1") == ["ADDED a", "ADDED b", "ADDED c", "MODIFIED a"]


def test_stale_replica_has_not_seen_a_version(apiserver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of at least a newer version waits, and gets the 504 of a cache that does not get there."""
    monkeypatch.setattr("understudy.apiserver.server.filters.faults.effects.WAIT_SECONDS", 0.01)
    apiserver.apply(config_map("a"))
    current = int(send(apiserver, "GET", CONFIG_MAPS).json()["metadata"]["resourceVersion"])
    apiserver.faults.add(Fault.stale(1))
    answer = send(apiserver, "GET", f"{CONFIG_MAPS}?resourceVersion={current}&resourceVersionMatch=NotOlderThan")
    assert (answer.status, answer.headers["Retry-After"]) == (504, "1")
    assert answer.json()["message"] == f"Timeout: Too large resource version: {current}, current: {current - 1}"


def test_stale_reads_of_compacted_history(apiserver: Server) -> None:
    """The oldest state that is left is read if older ones were compacted."""
    apiserver.apply(config_map("a"))
    apiserver.compact()
    apiserver.apply(config_map("b"))
    apiserver.faults.add(Fault.stale(1000))
    listed = send(apiserver, "GET", f"{CONFIG_MAPS}?resourceVersion=0").json()
    assert [each["metadata"]["name"] for each in listed["items"]] == ["a"]


# --- chaos ----------------------------------------------------------------------------------------------------


def history(server: Server, seed: int, order: list[str]) -> tuple[list[str], dict[str, list[int]]]:
    """Send the same requests for some names; return the faults, and the codes for each name."""
    server.reset()
    server.faults.chaos(
        seed=seed, share=0.4, faults=[Fault.server_error(), Fault.conflict(), Fault.timeout(after_commit=True)]
    )
    codes: dict[str, list[int]] = {}
    for name in order:
        for _ in range(10):
            codes.setdefault(name, []).append(send(server, "PUT", f"{CONFIG_MAPS}/{name}", config_map(name)).status)
    return [str(each) for each in server.faults.fired], codes


def test_same_seed_gives_the_same_faults(apiserver: Server) -> None:
    """A sequence of requests meets the same faults, in whatever order others come; another seed gives others."""
    for name in "ab":
        apiserver.apply(config_map(name))
    first = history(apiserver, 7, ["a", "b"])
    assert history(apiserver, 7, ["a", "b"]) == first
    assert history(apiserver, 7, ["b", "a"])[1] == first[1]
    assert history(apiserver, 8, ["a", "b"]) != first
    assert {404, 409, 500} <= {code for codes in first[1].values() for code in codes}


def test_share_of_chaos(apiserver: Server) -> None:
    """About the share of all requests meets a fault."""
    rule = apiserver.faults.chaos(seed=1, share=0.25, faults=[Fault.server_error()])
    for at in range(100):
        send(apiserver, "GET", f"{CONFIG_MAPS}/{at}")
    assert rule.matched == 100
    assert 10 < rule.fired < 40
    assert apiserver.faults.chaos(seed=1, share=0).fired == 0


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_share_is_part_of_a_whole(apiserver: Server, share: float) -> None:
    """A share is between 0 and 1."""
    with pytest.raises(ValueError, match=f"want a share from 0 to 1, not {share}"):
        apiserver.faults.chaos(seed=1, share=share)
