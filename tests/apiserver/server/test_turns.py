"""Requests about many objects: others have their turn meanwhile, and what is answered is what was stored at first."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, cast

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tests.clock import FixedDate
from tests.front_door import front_door
from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.endpoints.handlers import watch
from understudy.apiserver.endpoints.handlers.watch import EventSource
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.responsewriters import lists, shared_items, writers
from understudy.apiserver.endpoints.responsewriters.shared_items import SharedItems
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry import list as list_
from understudy.apiserver.registry.list import AT_ONCE
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.http1.exchange import Http1Exchange
from understudy.apiserver.server.http1.head import HTTP_1_1, Head
from understudy.apiserver.storage import interface, turns
from understudy.apiserver.storage.interface import Entry, Range
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.options import parse_query
from understudy.machinery.releases.version import V1_34
from understudy.machinery.util.deep_recursion import run_to_end

MAPS = "/api/v1/namespaces/default/configmaps"
COUNT = 140
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
    "by label, in pages": ("labelSelector=of=even&limit=60", JSON),
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
    director = front_door(V1_34, FixedDate())  # which ages in tables show

    async def fill_store() -> None:
        await fill.fill(director.state, 0)
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
    director.state.list_items = SharedItems()
    monkeypatch.setattr(turns, "SLICE", 0.0)

    def write(turn: int) -> Any:
        return create(director, f"map-{turn:03}-new") if turn <= COUNT else None

    meanwhile, seen = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), write))
    assert meanwhile.body == before.body
    assert seen > COUNT // AT_ONCE


@pytest.mark.parametrize(("query", "module", "few"), [("", list_, "MANY"), ("watch=1", watch, "FEW")])
def test_lists_and_watches_at_once_are_read_in_turns(
    director: Director, query: str, module: Any, few: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clients that list or watch everything at once have it read one after the other, not all in one turn."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    monkeypatch.setattr(module, few, COUNT - 1)
    store, reads, turn = director.state.registry.store, list[int](), 0
    read = store.range

    async def noted(*args: Any, **kwargs: Any) -> Range:
        reads.append(turn)
        return await read(*args, **kwargs)

    monkeypatch.setattr(store, "range", noted)

    async def ask() -> None:
        nonlocal turn
        asking = [asyncio.create_task(director(request("GET", MAPS, query))) for _ in range(8)]
        while not all(task.done() for task in asking):
            await asyncio.sleep(0)
            turn += 1
        for answer in (task.result() for task in asking):
            if isinstance(answer, WatchResponse):
                answer.source.close()

    asyncio.run(ask())
    assert len(reads) == len(set(reads)) == 8


def test_large_answers_are_sent_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many clients that read large answers at once get parts of them one after the other, but for the first ones."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    monkeypatch.setattr(turns, "FIRST", 0.0)
    sent, turn = Counter[int](), 0

    class Connection:
        async def write(self, *parts: bytes) -> None:
            sent[turn] += parts == (b"p",) * 8

    async def send_all() -> None:
        nonlocal turn
        head = Head("GET", "/", HTTP_1_1, CIMultiDictProxy(CIMultiDict()), 0, False, False)
        exchanges = [Http1Exchange(cast("Any", Connection()), head, cast("Any", None)) for _ in range(8)]
        sending = [asyncio.create_task(each.send(200, CIMultiDict(), [b"p"] * 40)) for each in exchanges]
        while not all(task.done() for task in sending):
            await asyncio.sleep(0)
            turn += 1

    asyncio.run(send_all())
    first, *later = sent.values()
    assert first == 0  # these begin with their heads
    assert later == [1] * (8 * 4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("large", [0, 1 << 30])
def test_parts_make_the_same_list(director: Director, form: str, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list in parts, of many items or of single large ones, is the list in one piece."""
    query, accept = FORMS[form]
    whole, _ = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), lambda turn: None))
    director.state.list_items = SharedItems()
    monkeypatch.setattr(lists, "PART", 1)
    monkeypatch.setattr(lists, "LARGE_ITEM", large)
    parted, _ = asyncio.run(answer_beside(director, request("GET", MAPS, query, accept), lambda turn: None))
    assert len(parted.parts) > COUNT // 2 // AT_ONCE
    assert parted.body == whole.body


@pytest.mark.parametrize("form", ["JSON", "over several lines", "YAML", "protobuf"])
@pytest.mark.parametrize("kept", [0, 1 << 20])
@pytest.mark.usefixtures("slices")
def test_equal_lists_share_their_items(
    director: Director, form: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that ask for the same at once, or while it is sent, get the same items; few of them are kept longer."""
    query, accept = FORMS[form]
    monkeypatch.setattr(shared_items, "KEPT", kept)
    asked = partial(request, "GET", MAPS, query, accept)
    whole, _ = asyncio.run(answer_beside(director, asked(), lambda turn: None))
    director.state.list_items = shared = SharedItems()

    async def ask() -> None:
        leaving, *asking = [asyncio.create_task(director(asked())) for _ in range(4)]
        while not shared._items:
            await asyncio.sleep(0)
        leaving.cancel()
        answers: list[Any] = [await task for task in asking]
        answers.append(await director(asked()))
        assert [answer.body for answer in answers] == [whole.body] * 4
        await director(request("POST", "/api/v1/namespaces", body={"metadata": {"name": "other"}}))
        answers.append(await director(asked()))
        assert answers[-1].body != whole.body  # which is of an earlier revision
        assert len({id(answer.parts.items) for answer in answers}) == 1
        await create(director, "newer")
        newer: Any = await director(asked())
        assert b"newer" in newer.body

    asyncio.run(ask())
    gc.collect()
    assert bool(shared._items) == bool(kept)


def test_items_that_were_made_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are kept after they were sent, up to a number of bytes; the oldest ones go first."""
    monkeypatch.setattr(shared_items, "KEPT", 250)
    shared, made = SharedItems(), list[str]()
    entries = {name: [Entry(name, {}, 1)] for name in "abc"}

    async def make(some: list[Entry]) -> list[bytes]:
        made.append(some[0].key)
        return [b"x" * 60, b"y" * 40]

    async def ask(names: str) -> str:
        made.clear()
        for name in names:
            assert await shared.of("form", entries[name], make) == [b"x" * 60, b"y" * 40]
        return "".join(made)

    assert asyncio.run(ask("aabbab")) == "ab"
    assert asyncio.run(ask("cbca")) == "ca"
    entries["c"] = [Entry("c", {}, 2)]
    assert asyncio.run(ask("ccc")) == "c"
    monkeypatch.setattr(shared_items, "KEPT", 50)
    assert asyncio.run(ask("bb")) == "bb"


@pytest.mark.parametrize(
    ("form", "makes"),
    [("over several lines", "indent"), ("YAML", "yaml_of"), ("protobuf", "encoded_protobuf protobuf_item")],
)
def test_large_objects_get_their_form_beside_the_loop(
    director: Director, form: str, makes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form that takes long is made of large objects in a thread, whether they are listed, read or deleted."""
    query, accept = FORMS[form]
    threads = set[int]()

    def noted(make: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            made = make(*args)
            if b"map-" in made:  # an object, and not the begin and end of a list
                threads.add(threading.get_ident())
            return made

        return call

    def ask(method: str, path: str, more: str = "") -> bytes:
        asked = request(method, path, f"{query}&{more}", accept)
        return asyncio.run(answer_beside(director, asked, lambda turn: None))[0].body

    def read() -> list[bytes]:
        return [ask("GET", f"{MAPS}/map-007"), ask("GET", MAPS, "fieldSelector=metadata.name=map-007")]

    small = read()
    for module, make in product((lists, writers), makes.split()):
        if hasattr(module, make):
            monkeypatch.setattr(module, make, noted(getattr(module, make)))
    assert read() == small
    assert threads == {threading.get_ident()}
    threads.clear()
    for limit in ("LARGE", "LARGE_YAML"):
        monkeypatch.setattr(writers, limit, 0)
    for entry in cast("MemoryStore", director.state.registry.store).scan("/registry/configmaps/"):
        entry.drop_unpacked()
    assert read() == small
    ask("DELETE", MAPS)
    assert threads
    assert threading.get_ident() not in threads


def test_lists_share_the_bytes_of_large_objects(director: Director, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that wait for their clients do not hold a copy each: the parts are views of what is stored."""
    whole, _ = asyncio.run(answer_beside(director, request("GET", MAPS), lambda turn: None))
    cast("MemoryStore", director.state.registry.store)._recent.drop_unpacked()
    monkeypatch.setattr(lists, "PART", 1)
    monkeypatch.setattr(lists, "LARGE_ITEM", 0)
    monkeypatch.setattr(interface, "LENT", 0)
    monkeypatch.setattr(lists, "SHARED", COUNT + 1)
    answers = [asyncio.run(answer_beside(director, request("GET", MAPS), lambda turn: None))[0] for _ in range(2)]
    assert [answer.body for answer in answers] == [whole.body] * 2
    one, other = ({id(memoryview(part).obj) for part in answer.parts} for answer in answers)
    assert len(one & other) >= COUNT


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
    assert max(map(len, taken)) <= AT_ONCE
    events = [json.loads(frame) for frames in taken for frame in frames]
    assert [event["type"] for event in events] == ["ADDED"] * COUNT + ["BOOKMARK", "ADDED"]
    assert events[-1]["object"]["metadata"]["name"] == "new"


@pytest.mark.parametrize("accept", [PROTOBUF, f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io", TABLE])
def test_large_events_are_made_beside_the_loop(
    director: Director, accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch has events of large objects made in a thread, one after the other, and what follows waits for them."""
    threads, make = set[int](), EventSource._frame_of

    def noted(self: EventSource, *args: Any, **kwargs: Any) -> bytes:
        threads.add(threading.get_ident())
        return make(self, *args, **kwargs)

    async def opened() -> EventSource:
        more = "watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dmap-007"
        answer = await director(request("GET", MAPS, more, accept))
        assert isinstance(answer, WatchResponse)
        assert isinstance(answer.source, EventSource)
        return answer.source

    async def taken(source: EventSource) -> list[bytes]:
        frames = source.take()
        while len(frames) < 2:
            if source.must_load:
                load = source.begin_load()
                assert source.take() == []
                assert load.request is not None
                await load.request.make(load.function)
            frames += source.take()
        source.close()
        return frames

    async def watched() -> tuple[list[bytes], list[bytes]]:
        store, key = director.state.registry.store, "/registry/configmaps/default/map-007"
        before, sources = store.peek(key), [await opened(), await opened()]
        changed = request("PATCH", f"{MAPS}/map-007", "fieldManager=test", body={"data": {"k": "new"}})
        cast("dict[str, str]", changed.headers)["Content-Type"] = "application/merge-patch+json"
        await director(changed)
        threads.clear()
        small = await taken(sources[0])
        assert threads == {threading.get_ident()}
        for entry in (before, store.peek(key)):
            assert entry is not None
            entry.drop_unpacked()
        threads.clear()
        monkeypatch.setattr(writers, "LARGE", 0)
        return small, await taken(sources[1])

    monkeypatch.setattr(EventSource, "_frame_of", noted)
    small, large = asyncio.run(watched())
    assert large == small
    assert threads
    assert threading.get_ident() not in threads


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
    """A task that is cancelled while it waits for its turn gives its place to the next one."""
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


def test_longest_pause_is_a_metric(apiserver: Server) -> None:
    """`/metrics` has the longest time in which the event loop answered nobody, its CPU, and how many were how long."""

    def samples() -> dict[str, float]:
        text = send(apiserver, "GET", "/metrics").body.decode()
        return {name: float(value) for name, value in re.findall(r"^(understudy_event_loop\S+) (\S+)$", text, re.M)}

    async def hold_up() -> None:
        time.sleep(0.3)

    async def compute() -> None:
        begun = time.process_time()
        while time.process_time() < begun + 0.3:
            pass

    longest, busiest = "understudy_event_loop_longest_pause_seconds", "understudy_event_loop_busiest_pause_cpu_seconds"
    assert apiserver._thread is not None
    apiserver._thread.run(hold_up())
    wait_until(lambda: samples()[longest] > 0.2)
    assert samples()[busiest] < samples()[longest]
    apiserver._thread.run(compute())
    wait_until(lambda: samples()[busiest] > 0.2)
    seen, name = samples(), "understudy_event_loop_pause_seconds"
    assert seen[f'{name}_bucket{{le="+Inf"}}'] == seen[f"{name}_count"]
    assert seen[f'{name}_bucket{{le="0.1"}}'] < seen[f"{name}_count"]


@pytest.mark.usefixtures("slices")
def test_metrics_are_written_in_turns(director: Director) -> None:
    """Others have their turn while the text of /metrics is made, of which each turn makes a part."""
    answer, seen = asyncio.run(answer_beside(director, request("GET", "/metrics"), lambda turn: None))
    assert seen > 100
    assert len(answer.parts) > 100
    assert answer.body.endswith(b"\n")


def test_openapi_is_made_beside_the_loop(director: Director) -> None:
    """The documents of OpenAPI, which take long to make, are made in a thread, and not their index."""
    threads: list[int] = []
    page = director._page

    async def noted(state: ServerState, asked: Request) -> Any:
        threads.append(threading.get_ident())
        return await page(state, asked)

    director._page = noted  # type: ignore[method-assign, assignment]
    asyncio.run(answer_beside(director, request("GET", "/openapi/v2"), lambda turn: None))
    asyncio.run(answer_beside(director, request("GET", "/openapi/v3/api/v1"), lambda turn: None))
    asyncio.run(answer_beside(director, request("GET", "/openapi/v3"), lambda turn: None))
    assert threads[0] != threading.get_ident() == threads[2]
    assert threads[1] != threading.get_ident()


def test_long_search_for_cycles_is_the_last_of_its_objects() -> None:
    """A search for cycles that took long freezes the objects that it saw, so that no later search looks at them."""
    code = """
import gc, sys
from understudy.cli import garbage
garbage.LONG_GARBAGE_PAUSE = float(sys.argv[1])
gc.callbacks.append(garbage._KeepGarbagePausesShort())
gc.collect()
print(gc.get_freeze_count())
"""
    for pause, frozen in ((60.0, False), (0.0, True)):
        out = subprocess.run([sys.executable, "-c", code, str(pause)], capture_output=True, check=True, text=True)
        assert (int(out.stdout) > 1000) is frozen


def test_searches_for_cycles_see_few_objects() -> None:
    """While a server is filled, no search for cycles looks at more than some tens of thousands of objects."""
    code = """
import gc
from understudy.cli import garbage
garbage.LONG_GARBAGE_PAUSE = 0.0
seen = []
def look(phase, info):
    if phase == "start":
        seen.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))
gc.freeze()
gc.callbacks.append(look)
with garbage.little_garbage_collection():
    stored = [[{}] for _ in range(200_000)]
    print(len(seen), max(seen))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    searches, most = map(int, out.stdout.split())
    assert searches > 20
    assert most < 40_000
