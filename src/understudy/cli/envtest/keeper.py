"""Keeps what API servers store, and runs one for as long as a `kube-apiserver` holds its connection.

What is stored is handed from one server to the next as a snapshot: revisions go on, and watches from before are
answered with 410, as by a kube-apiserver that has just started.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from understudy.cli.process import run_until_signal

if TYPE_CHECKING:
    from understudy.apiserver.storage.interface import StoreSnapshot

FILE = "understudy.pickle"  # in the data folder: the keys, revisions and objects of the last run
TURN_SECONDS = 10.0  # until a second API server is refused; the first one may be ending
PAGES = {"/health": {"health": "true", "reason": ""}, "/version": {"etcdserver": "3.5.21", "etcdcluster": "3.5.0"}}
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: understudy\r\n\r\n"


def keep(addresses: Sequence[tuple[str, int]], folder: Path) -> None:
    """Answer at some addresses until a signal comes; the data are in a folder. Raises OSError."""

    async def answer(stopped: Future[None], waits: Callable[[], None]) -> None:
        keeper = Keeper(folder)
        servers = [await asyncio.start_server(keeper.answer, host, port) for host, port in addresses]
        waits()
        Thread(target=_import_server, daemon=True).start()  # an end need not wait for it, which may take long
        await asyncio.wrap_future(stopped)
        await keeper.close()
        for server in servers:
            server.close()

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    run_until_signal(answer)


def _import_server() -> None:
    """Import what a server needs, before it is asked for."""
    import_module("understudy.cli.envtest.server")
    import_module("understudy.cli.envtest.options")


class Keeper:
    """Answers the clients of an `etcd`, whose data are in a folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._snapshot: StoreSnapshot | None = None
        self._turn = asyncio.Lock()  # held by the API server that runs
        self._closing = asyncio.Event()
        self._attached: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End the API server, and write what is stored. Raises OSError."""
        self._closing.set()
        await asyncio.gather(*self._attached, return_exceptions=True)
        if self._snapshot is not None:
            _write(self._file, self._snapshot)

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one request of a client."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            path = head[0].partition(" ")[2].partition(" ")[0]
            if path == "/understudy/kube-apiserver" and "upgrade: understudy" in map(str.lower, head):
                writer.write(SWITCHING)
                await self._attach(reader, writer)
            else:
                writer.write(_page(path))
                await writer.drain()
        writer.close()

    async def _attach(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Run an API server until its program lets go; tell that program of errors."""
        from understudy.apiserver.client.manifests import LoadError

        task = asyncio.current_task()
        assert task is not None
        self._attached.add(task)
        try:
            request = json.loads(await reader.readline())
            async with asyncio.timeout(TURN_SECONDS):
                await self._turn.acquire()
            try:
                await self._serve(request, reader, writer)
            finally:
                self._turn.release()
            ended = (
                {"error": "etcd was stopped, and with it the server"} if self._closing.is_set() else {"stopped": True}
            )
            _tell(writer, **ended)
        except TimeoutError:
            _tell(writer, error="another kube-apiserver uses this etcd; understudy's takes one at a time")
        except (ValueError, LoadError, OSError) as why:
            _tell(writer, error=" ".join(str(why).splitlines()))
        finally:
            self._attached.discard(task)

    async def _serve(self, request: dict[str, Any], reader: StreamReader, writer: StreamWriter) -> None:
        """Run an API server on what is stored until its program lets go. Raises ValueError, LoadError, OSError."""
        from understudy.apiserver.storage.memory import MemoryStore
        from understudy.cli.envtest.options import server_options, without_effect
        from understudy.cli.envtest.server import Server

        store = MemoryStore()
        if snapshot := self._stored():
            await store.restore(snapshot)
        server = Server(**server_options(request["flags"], request["cwd"]), store=lambda: store)
        for flag in without_effect(request["flags"]):
            _tell(writer, log=f"understudy: {flag} has no effect")
        await server.start()
        try:
            _tell(writer, log=f"understudy: Kubernetes {server.state.release.version} API at {server.url}")
            await self._until_let_go(reader)
        finally:
            await server.stop()
            self._snapshot = store.snapshot()

    async def _until_let_go(self, reader: StreamReader) -> None:
        """Wait until the program at the other end lets go or is killed, or this one is to end."""
        ends = [asyncio.create_task(each) for each in (_end_of(reader), self._closing.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in ends:
            task.cancel()

    def _stored(self) -> StoreSnapshot | None:
        """Return the objects that the last server has stored, here or in an earlier process. Raises OSError."""
        if self._snapshot is None and self._file.exists():
            self._snapshot = _read(self._file)
        return self._snapshot


async def _end_of(reader: StreamReader) -> None:
    with suppress(OSError):
        await reader.read()


def _tell(writer: StreamWriter, **message: Any) -> None:
    """Send a line to the program that runs a server, if it is still there."""
    with suppress(OSError, RuntimeError):
        writer.write(json.dumps(message).encode() + b"\n")


def _page(path: str) -> bytes:
    """Return the response to a GET of a page, as etcd answers."""
    status, kind, body = "404 Not Found", "text/plain; charset=utf-8", "404 page not found\n"
    if page := PAGES.get(path):
        status, kind, body = "200 OK", "application/json", json.dumps(page, separators=(",", ":"))
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


def _write(file: Path, snapshot: StoreSnapshot) -> None:
    """Write a snapshot, which replaces that of the file at once."""
    new = file.with_suffix(".new")
    entries = [(entry.key, entry.revision, entry.pickled) for entry in snapshot.entries]
    new.write_bytes(pickle.dumps((snapshot.revision, entries), pickle.HIGHEST_PROTOCOL))
    os.replace(new, file)


def _read(file: Path) -> StoreSnapshot:
    """Read a snapshot. Raises OSError."""
    from understudy.apiserver.storage.interface import Entry, StoreSnapshot

    revision, entries = pickle.loads(file.read_bytes())
    return StoreSnapshot(tuple(Entry(key, pickle.loads(value), at) for key, at, value in entries), revision)
