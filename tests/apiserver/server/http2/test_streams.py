"""Watches and large answers over HTTP/2: they come as they are made, and as far as the client has room for them."""

from __future__ import annotations

import json

from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from tests.apiserver.server.http2.client import MAPS, Client
from tests.waiting import wait_until
from understudy import Fault, Server

WATCH = f"{MAPS}?watch=true&resourceVersion="


def create(server: Server, name: str, size: int = 1) -> None:
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x" * size}})


def revision(client: Client) -> str:
    listed = json.loads(client.ask("GET", MAPS).body)
    return str(listed["metadata"]["resourceVersion"])


def names(body: bytes) -> list[str]:
    return [json.loads(line)["object"]["metadata"]["name"] for line in body.splitlines()]


def test_many_watches_on_one_connection(server: Server, client: Client) -> None:
    """Each watch gets every event, and other requests are answered beside them."""
    since = revision(client)
    numbers = [client.begin("GET", WATCH + since) for _ in range(50)]
    client.until(lambda: all(client.answers[number].status for number in numbers))
    for name in ("one", "two"):
        create(server, name)
    client.until(lambda: all(client.answers[number].body.count(b"\n") == 2 for number in numbers))
    assert {tuple(names(client.answers[number].body)) for number in numbers} == {("one", "two")}
    assert client.ask("GET", "/healthz").body == b"ok"


def test_watch_ends_with_its_time(client: Client) -> None:
    answer = client.ask("GET", f"{WATCH}{revision(client)}&timeoutSeconds=1")
    assert (answer.status, answer.body, answer.ended) == (200, b"", True)


def test_client_that_gives_up_a_watch(server: Server, client: Client) -> None:
    """A stream that is reset ends its watch, and nothing else."""
    given_up, kept = (client.begin("GET", WATCH + revision(client)) for _ in range(2))
    client.until(lambda: bool(client.answers[given_up].status and client.answers[kept].status))
    assert len(server._lifecycle.watches) == 2
    client.http2.reset_stream(given_up, ErrorCodes.CANCEL)
    client.flush()
    wait_until(lambda: len(server._lifecycle.watches) == 1)
    create(server, "one")
    client.until(lambda: names(client.answers[kept].body) == ["one"])


def test_watches_end_with_their_connection(server: Server) -> None:
    with Client(server.url) as client:
        client.begin("GET", WATCH + revision(client))
        wait_until(lambda: len(server._lifecycle.watches) == 1)
    wait_until(lambda: not server._lifecycle.watches)


def test_answer_waits_for_room(server: Server, client: Client) -> None:
    """A client that does not read an answer gets no more of it than it has room for, and the others get theirs."""
    create(server, "large", 500_000)
    client.http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100_000})
    client.http2.increment_flow_control_window(1_000_000)
    client.reads_bodies = False
    number = client.begin("GET", f"{MAPS}/large")
    client.until(lambda: len(client.answers[number].body) == 100_000)
    assert client.ask("GET", "/healthz").body == b"ok"
    assert len(client.answers[number].body) == 100_000
    client.http2.increment_flow_control_window(1_000_000, number)
    client.flush()
    assert len(json.loads(client.answer(number).body)["data"]["a"]) == 500_000


def test_answer_waits_for_room_on_the_connection(server: Server, client: Client) -> None:
    """The room of the connection counts for all its streams."""
    create(server, "large", 200_000)
    client.reads_bodies = False
    numbers = [client.begin("GET", f"{MAPS}/large") for _ in range(2)]
    bodies = [client.answers[number] for number in numbers]
    client.until(lambda: sum(len(answer.body) for answer in bodies) == 65535)
    client.http2.increment_flow_control_window(1_000_000)
    for number in numbers:
        client.http2.increment_flow_control_window(1_000_000, number)
    client.flush()
    assert {len(json.loads(client.answer(number).body)["data"]["a"]) for number in numbers} == {200_000}


def test_room_may_come_by_other_settings(server: Server, client: Client) -> None:
    """A client that changes its first window gives room to streams that have begun (RFC 9113, section 6.9.2)."""
    create(server, "large", 300_000)
    client.reads_bodies = False
    client.http2.increment_flow_control_window(1_000_000)
    number = client.begin("GET", f"{MAPS}/large")
    client.until(lambda: len(client.answers[number].body) == 65535)
    client.http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    client.flush()
    assert client.answer(number).ended


def test_faults_over_http2(server: Server, client: Client) -> None:
    """An answer that trickles comes as a whole; one that is cut off ends with its connection."""
    create(server, "one")
    with server.faults.add(Fault.slow(bytes_per_second=100_000)):
        assert client.ask("GET", f"{MAPS}/one").ended
    with server.faults.add(Fault.reset(after_bytes=10)):
        number = client.begin("GET", f"{MAPS}/one")
        client.until_closed()
    assert len(client.answers[number].body) == 10
    with Client(server.url) as other, server.faults.add(Fault.reset()):
        number = other.begin("GET", f"{MAPS}/one")
        other.until_closed()
        assert other.answers[number].status == 0
