"""Lists and watches of shards (`shardSelector`), as recorded beside kube-apiserver 1.37.2 with ShardedListAndWatch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.apiserver.endpoints.shard_flow import rows
from tests.http import MERGE_PATCH, Connection, send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.selectors.shards import fnv1a
from understudy.machinery.types import Obj

RECORDED = Path(__file__).with_name("recorded") / "shard_selectors.jsonl"
EXCHANGES = sorted((RECORDED.parent / "shards").glob("*.jsonl"))
EVENTS = "/api/v1/namespaces/default/events"
MAPS = "/api/v1/namespaces/default/configmaps"
MIDDLE, END = "0x8000000000000000", "0x10000000000000000"
FIRST = f"shardRange(object.metadata.uid, '0x0000000000000000', '{MIDDLE}')"
SECOND = f"shardRange(object.metadata.uid, '{MIDDLE}', '{END}')"
NAMES = {f"a{index}" for index in range(24)}


def path(selector: str, more: str = "") -> str:
    return f"{MAPS}?shardSelector={quote(selector)}{more}"


def names(listed: Obj) -> set[str]:
    return {item["metadata"]["name"] for item in listed["items"]}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(feature_gates={"ShardedListAndWatch": True}) as running:
        for name in NAMES:
            send(running, "POST", MAPS, {"metadata": {"name": name}})
        yield running


def test_selectors_are_read_as_recorded() -> None:
    """A selector is echoed in the form of its ranges, and each that is wrong has its error."""
    with Server(feature_gates={"ShardedListAndWatch": True}) as server:
        for row in map(json.loads, RECORDED.read_text().splitlines()):
            answer = send(server, "GET", path(row["selector"]))
            assert answer.status == row["status"], row
            body = answer.json()
            if answer.status == 200:
                assert body["metadata"]["shardInfo"] == row["metadata"]["shardInfo"]
            else:
                assert body["message"] == row["message"]


@pytest.mark.maintenance
@pytest.mark.parametrize("file", EXCHANGES, ids=lambda file: file.stem)
def test_shards_are_as_recorded(file: Path) -> None:
    """Lists in all forms and pages, watches, deletions, the order of errors, and metrics."""
    gates = {"ShardedListAndWatch": True, "CBORServingAndStorage": True}
    with Server(emulated_version=file.stem, feature_gates=gates) as server:
        ours = [*rows(server.url, "", 1)]
    for row, line in zip(ours, file.read_text().splitlines(), strict=True):
        assert json.loads(json.dumps(row)) == json.loads(line)


def test_unknown_field_comes_before_a_wrong_shard(server: Server) -> None:
    """Fields are looked at before the registry is asked, shards then; a deletion has read its body in between."""
    wrong = path("nonsense")
    for method in ("GET", "DELETE"):
        assert send(server, method, f"{wrong}&fieldSelector=a%3Db").status == 400
        assert send(server, method, wrong).status == 500
    assert send(server, "DELETE", wrong, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["x"]}).status == 422


def test_watches_of_shards_are_counted(server: Server) -> None:
    """Metrics count watches of shards, and what these leave out: at the beginning, before and after each write."""

    def counted() -> list[str]:
        page = send(server, "GET", "/metrics").body.decode().splitlines()
        return [line.rpartition(" ")[2] for line in page if re.match("apiserver_watch_(shards|filtered)", line)]

    with closing(Connection(server.url)) as connection:
        response = connection.open("GET", path(FIRST, "&watch=1"))
        mine = names(send(server, "GET", path(FIRST)).json())
        assert {json.loads(response.readline())["object"]["metadata"]["name"] for _ in mine} == mine
        name = min(NAMES - mine)
        for change in ("a", "b"):
            send(server, "PATCH", f"{MAPS}/{name}", {"data": {"a": change}}, MERGE_PATCH)
        others = len(NAMES - mine)
        assert wait_until(counted, lambda seen: seen == [str(others + 4), "1"])
        response.close()
    assert wait_until(counted, lambda seen: seen == [str(others + 4), "-1"])


def test_what_1_36_does_otherwise() -> None:
    """1.36 takes shards for no selector: the rest of a page has objects of all, and watches of events are whole."""
    with Server(emulated_version="1.36", feature_gates={"ShardedListAndWatch": True}) as server:
        for name in NAMES:
            send(server, "POST", MAPS, {"metadata": {"name": name}})
            event = {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}}
            send(server, "POST", EVENTS, event)
        page = send(server, "GET", path(FIRST, "&limit=1")).json()
        assert page["metadata"]["remainingItemCount"] == len(NAMES) - 1
        watched = f"{EVENTS}?shardSelector={quote(FIRST)}&resourceVersion=0&watch=1"
        with closing(Connection(server.url)) as connection:
            response = connection.open("GET", watched)
            assert {json.loads(response.readline())["object"]["metadata"]["name"] for _ in NAMES} == NAMES
            response.close()


def test_shards_have_each_object_once(server: Server) -> None:
    """The hash of its uid puts an object in one shard, of lists, pages, watches and deletions."""
    first, second = (send(server, "GET", path(shard)).json() for shard in (FIRST, SECOND))
    assert names(first) | names(second) == NAMES
    assert not names(first) & names(second)
    assert all(fnv1a(item["metadata"]["uid"]) < int(MIDDLE, 16) for item in first["items"])
    page = send(server, "GET", path(FIRST, "&limit=1")).json()
    assert len(page["items"]) == 1
    assert "remainingItemCount" not in page["metadata"]
    events = send(server, "GET", path(SECOND, "&watch=1&timeoutSeconds=1")).body.splitlines()
    assert {json.loads(event)["object"]["metadata"]["name"] for event in events} == names(second)
    assert names(send(server, "DELETE", path(FIRST)).json()) == names(first)
    assert names(send(server, "GET", MAPS).json()) == names(second)


def test_other_forms_of_lists_do_not_name_shards(server: Server) -> None:
    """Tables and lists of metadata are of a shard and do not say so."""
    for kind in ("Table", "PartialObjectMetadataList"):
        listed = send(server, "GET", path(FIRST), accept=f"application/json;as={kind};g=meta.k8s.io;v=v1").json()
        assert "shardInfo" not in listed["metadata"]
        assert len(listed["rows" if kind == "Table" else "items"]) < len(NAMES)


def test_selector_is_ignored_without_the_gate() -> None:
    """Everything is listed, whatever the parameter says."""
    with Server() as server:
        send(server, "POST", MAPS, {"metadata": {"name": "a"}})
        listed = send(server, "GET", path("nonsense")).json()
    assert names(listed) == {"a"}
    assert "shardInfo" not in listed["metadata"]
