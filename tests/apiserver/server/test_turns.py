"""Requests about many objects: others have their turn meanwhile, and what is answered is what was stored at first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.endpoints.handlers.watch import EventSource
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.responsewriters import lists
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.kinds.release import Release
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Director
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery import turns
from understudy.machinery.golang.deep_recursion import run_to_end
from understudy.machinery.options import parse_query
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 300
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
METADATA = ";as=PartialObjectMetadataList;v={};g=meta.k8s.io"
FORMS = {
    "JSON": ("", JSON),
    "over several lines": ("pretty=true", JSON),
    "YAML": ("", YAML),
    "protobuf": ("", PROTOBUF),
    "metadata": ("", JSON + METADATA.format("v1")),
    "metadata in protobuf": ("", PROTOBUF + METADATA.format("v1")),
    "metadata in old protobuf": ("", PROTOBUF + METADATA.format("v1beta1")),
    "a table": ("", TABLE),
    "a table with objects": ("includeObject=Object", TABLE),
    "by label": ("labelSelector=of=even", JSON),
    "by field": ("fieldSelector=metadata.name!=x", JSON),
    "by label, in pages": ("labelSelector=of=even&limit=200", JSON),
}


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every slice of work be over as soon as it begins."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    monkeypatch.setattr(turns, "FIRST", 0.0)


def request(method: str, path: str, query: str = "", accept: str = JSON, body: Any = None) -> Request:
    raw = b"" if body is None else json.dumps(body).encode()
    headers = {"Accept": accept, "Content-Type": JSON, "User-Agent": "test"}
    return Request(method, path, headers, raw, parse_query(query), V1_34)


async def create(director: Director, name: str) -> None:
    labels = {"of": "even" if name[-1] in "02468" else "odd"}
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"k": "<&>"}}
    answer = await director(request("POST", MAPS, body=new))
    assert isinstance(answer, Response)
    assert answer.status == 201, answer.body


@pytest.fixture
def director() -> Director:
    release = Release.of(V1_34)
    state = ServerState(Serving(release), Gates.of(V1_34, {}), Registry(MemoryStore(), release))
    director = Director(state, Authenticator(state.user_of, LoopbackTokens(), is_open=True), "http://127.0.0.1:1")

    async def fill_store() -> None:
        await fill.fill(state, 0)
        for number in range(COUNT):
            await create(director, f"map-{number:03}")

    asyncio.run(fill_store())
    return director


async def answer_beside(director: Director, asked: Request, other: Callable[[int], Any]) -> tuple[Response, int]:
    """Answer a request, and call `other` in every turn of the loop meanwhile; return the answer and the turns."""
    answering = asyncio.create_task(director(asked))
    seen = 0
    while not answering.done():
        await asyncio.sleep(0)
        seen += 1
        if (work := other(seen)) is not None:
            await work
    answer = answering.result()
    assert isinstance(answer, Response)
    assert answer.status == 200, answer.body
    return answer, seen


@pytest.mark.parametrize("form", FORMS)
def test_list_is_made_in_turns(director: Director, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of every form lets others have their turn, and what they write meanwhile is not in it."""
    query, accept = FORMS[form]
    before, _ = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), lambda turn: None))
    monkeypatch.setattr(turns, "SLICE", 0.0)

    def write(turn: int) -> Any:
        return create(director, f"map-{turn:03}-new") if turn <= COUNT else None

    meanwhile, seen = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), write))
    assert meanwhile.body == before.body
    assert seen > COUNT // lists.AT_ONCE


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("large", [0, 1 << 30])
def test_parts_make_the_same_list(director: Director, form: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list in parts, of many items or of single large ones, is the list in one piece."""
    query, accept = FORMS[form]
    whole, _ = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), lambda turn: None))
    monkeypatch.setattr(lists, "PART", 1)
    monkeypatch.setattr(lists, "LARGE_ITEM", large)
    parted, _ = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), lambda turn: None))
    assert len(parted.parts) > COUNT // 2 // lists.AT_ONCE
    assert parted.body == whole.body


@pytest.mark.usefixtures("slices")
def test_collection_is_deleted_in_turns(director: Director) -> None:
    """Others have their turn while a collection is deleted; what they create meanwhile stays."""

    def write(turn: int) -> Any:
        return create(director, "new") if turn == 5 else None

    _, seen = asyncio.run(answer_beside(director, request("DELETE", MAPS), write))
    assert seen > COUNT
    left, _ = asyncio.run(answer_beside(director, request("GET", MAPS), lambda turn: None))
    assert [each["metadata"]["name"] for each in json.loads(left.body)["items"]] == ["new"]


@pytest.mark.usefixtures("slices")
def test_initial_events_are_made_in_turns(director: Director) -> None:
    """A watch that begins with what is stored makes few events at once; what is written meanwhile comes behind them."""
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    async def watched() -> list[list[bytes]]:
        answer = await director(request("GET", MAPS, query))
        assert isinstance(answer, WatchResponse)
        source = answer.source
        assert isinstance(source, EventSource)
        taken = [source.take()]
        await create(director, "new")
        while source.due == 0.0:
            taken.append(source.take())
        taken.append(source.take())
        source.close()
        return taken

    taken = asyncio.run(watched())
    assert max(map(len, taken)) <= lists.AT_ONCE
    events = [json.loads(frame) for frames in taken for frame in frames]
    assert [event["type"] for event in events] == ["ADDED"] * COUNT + ["BOOKMARK", "ADDED"]
    assert events[-1]["object"]["metadata"]["name"] == "new"


def test_workers_share_the_turns_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many work in turns, one of them works between two turns of the others, each in its order."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    worked: list[int] = []

    async def work(number: int) -> None:
        turn = turns.Turns()
        for _ in range(4):
            await turn.next()
            worked.append(number)

    async def all_work() -> list[int]:
        tasks = [asyncio.create_task(work(number)) for number in range(5)]
        in_each_turn = []
        while not all(task.done() for task in tasks):
            before = len(worked)
            await asyncio.sleep(0)
            in_each_turn.append(len(worked) - before)
        return in_each_turn

    in_each_turn = asyncio.run(all_work())
    assert max(in_each_turn) == 1
    assert sum(in_each_turn) == 20
    assert sorted(worked[:5]) == [0, 1, 2, 3, 4]


def test_worker_that_is_cancelled_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for its turn when it is cancelled gives its place to the next one."""
    monkeypatch.setattr(turns, "SLICE", 0.0)

    async def forever() -> None:
        turn = turns.Turns()
        while True:
            await turn.next()

    async def cancel_all_but_one() -> int:
        tasks = [asyncio.create_task(forever()) for _ in range(4)]
        for _ in range(3):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        turn = turns.Turns()
        await turn.next()
        return 1

    assert asyncio.run(cancel_all_but_one()) == 1


def test_turns_need_no_loop() -> None:
    """In a thread beside the loop, where nobody waits for a turn, work goes on at once."""

    async def work() -> int:
        turn = turns.Turns()
        for _ in range(3):
            await turn.next()
        return 3

    assert run_to_end(work()) == 3
