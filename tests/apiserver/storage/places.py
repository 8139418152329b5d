"""Places where stores keep their objects, and what tests write there: the same tests run on each kind of store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from tests.etcd import running
from understudy.apiserver.storage.engine import Engine
from understudy.apiserver.storage.engine_store import EngineStore
from understudy.apiserver.storage.engines.etcd.engine import EtcdEngine
from understudy.apiserver.storage.engines.sqlite import SQLiteEngine
from understudy.apiserver.storage.interface import Entry, Raw, Store
from understudy.machinery.types import Obj

PREFIX = "/registry/things/"


def thing(name: str, **fields: str) -> Obj:
    return {"metadata": {"name": name}, **fields}


def names(entries: list[Entry]) -> list[str]:
    return [entry.value["metadata"]["name"] for entry in entries]


async def written(store: Store) -> None:
    """Write the worked example of the memory store: a and b created, a updated, b deleted."""
    a = await store.create(PREFIX + "a", thing("a"))
    b = await store.create(PREFIX + "b", thing("b"))
    await store.update(PREFIX + "a", thing("a", x="1"), a.revision)
    await store.delete(PREFIX + "b", b.revision)


class JSONValues:
    """Stores objects as JSON."""

    def encode(self, key: str, value: Obj) -> bytes:
        return json.dumps(value).encode()

    def is_current(self, key: str, raw: Raw, value: Obj) -> bool:
        return True

    def decode(self, key: str, raw: Raw) -> Obj:
        value: Obj = json.loads(bytes(raw))
        return value

    def labels(self, key: str, raw: Raw) -> None:
        return None


def sqlite(synchronous: str) -> Callable[[Path], Engine]:
    return lambda folder: SQLiteEngine(folder / "store", synchronous)


_etcds = ExitStack()  # those that run, by the folder of their data
_urls: dict[Path, str] = {}


def etcd(folder: Path) -> Engine:
    """Return an engine on the etcd of a folder, which runs until `stop_etcds`."""
    if folder not in _urls:
        _urls[folder] = _etcds.enter_context(running(folder)).url
    return EtcdEngine([_urls[folder]])


def stop_etcds() -> None:
    _etcds.close()
    _urls.clear()


# Makes an engine, whose place is in a folder.
ENGINES: dict[str, Callable[[Path], Engine]] = {
    "sqlite": sqlite("normal"),
    "sqlite-full": sqlite("full"),
    "etcd": etcd,
}


@asynccontextmanager
async def opened(new: Callable[[], Store]) -> AsyncIterator[Store]:
    """Open a store for the block."""
    store = new()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def engine_store(name: str, folder: Path) -> EngineStore:
    """Return a store on an engine; one that was closed before has left its objects in the folder."""
    return EngineStore(ENGINES[name](folder), JSONValues())
