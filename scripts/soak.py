#!/usr/bin/env python3
"""Watch a server for a while as hundreds of clients do, and check that none misses or repeats an event.

    scripts/soak.py                                    200 watchers, a minute
    scripts/soak.py --watchers 500 --seconds 600

The server runs in a thread of this process. Writers create, update, patch and delete claims, slices, pods and config
maps. Watchers lose their connection at random and resume from the last version they have seen; history is compacted
now and then, so that some get 410 and list again. One more watcher of each collection, which never loses its
connection, is the reference.

The script checks that every watcher has seen the same events as the reference since its last list, each once and in
order; that memory stays within bounds; and that, once all clients are gone and the server has tried to send them one
more write, it has no more watches, connections and tasks than before. The exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from understudy import Server

Obj = dict[str, Any]
Event = tuple[int, str, str]  # version, type, name
NAMES = 40  # objects of each collection
NAMESPACED = "namespaces/default"
CLAIMS = f"/apis/resource.k8s.io/v1beta1/{NAMESPACED}/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
PODS = f"/api/v1/{NAMESPACED}/pods"
MAPS = f"/api/v1/{NAMESPACED}/configmaps"
CONTENT: dict[str, Obj] = {
    CLAIMS: {"spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu.example.com"}]}}},
    SLICES: {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "p", "resourceSliceCount": 1},
            "devices": [{"name": f"d{i}", "basic": {}} for i in range(8)],
        }
    },
    PODS: {"spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    MAPS: {"data": {"k": "v" * 200}},
}
MAX_GROWTH = 150  # MiB by which memory may grow
SETTLE_SECONDS = 30.0  # for watchers to catch up, and for the server to release its resources


class HTTPError(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body[:300].decode(errors='replace')}")
        self.status = status


@dataclass
class Address:
    """The address of the server."""

    host: str
    port: int

    @asynccontextmanager
    async def request(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> AsyncIterator[Answer]:
        """Send one request on a connection of its own, and yield the answer. Raises HTTPError for an error."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**24)
        try:
            sent = b"" if body is None else json.dumps(body).encode()
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\nContent-Length: {len(sent)}\r\n\r\n"
            )
            writer.write(head.encode() + sent)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
            answer = Answer(reader, int(headers.get("content-length", -1)))
            if (status := int(lines[0].split()[1])) >= 400:
                raise HTTPError(status, await answer.read())
            yield answer
        finally:
            writer.transport.abort()

    async def call(self, *request: Any) -> Any:
        """Send one request, and return the answer's JSON."""
        async with self.request(*request) as answer:
            return json.loads(await answer.read())


@dataclass
class Answer:
    """The body of an answer, read as a whole, in chunks or in lines."""

    reader: asyncio.StreamReader
    length: int  # -1: in chunks

    async def read(self) -> bytes:
        """Return the whole body."""
        if self.length >= 0:
            return await self.reader.readexactly(self.length)
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the body."""
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the body."""
        rest = b""
        async for chunk in self.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line


# --- the clients


@dataclass
class Run:
    """The counts and failures of a run; `resumes` and `relists` are those of watchers that are no reference."""

    address: Address
    writing: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def fail(self, what: str) -> None:
        """Count a failure, and print the first ones."""
        self.failures.append(what)
        if len(self.failures) <= 20:
            print(f"FAILED: {what}")


class Watcher:
    """Follows one collection; `seen` are the events since `start`, the version of the last list.

    A watcher without `rng` is a reference and never disconnects.
    """

    def __init__(self, run: Run, path: str, rng: random.Random | None) -> None:
        self.run, self.path, self.rng = run, path, rng
        self.start = self.version = 0
        self.seen: list[Event] = []

    async def follow(self) -> None:
        """List the collection and watch it, and list again whenever the version is too old."""
        while True:
            if not self.version:
                listed = await self.run.address.call("GET", self.path)
                self.start = self.version = int(listed["metadata"]["resourceVersion"])
                self.seen = []
            try:
                await self._watch()
            except (ConnectionError, asyncio.IncompleteReadError, ValueError) as why:
                if self.rng is None:
                    self.run.fail(f"{self.path}: the reference lost its connection: {why!r}")
                    return

    async def _watch(self) -> None:
        """Watch until the connection is lost, by chance, or the version is too old."""
        path = f"{self.path}?watch=true&allowWatchBookmarks=true&resourceVersion={self.version}"
        wait_seconds = self.rng.expovariate(1 / 3) if self.rng else None
        try:
            async with asyncio.timeout(wait_seconds), self.run.address.request("GET", path) as answer:
                async for line in answer.lines():
                    if not self._take(json.loads(line)):
                        return
        except TimeoutError:
            self.run.counts["resumes"] += 1
            assert self.rng is not None
            if self.rng.random() < 0.2:
                await asyncio.sleep(self.rng.random() * 3)  # long enough for history to be forgotten
        except HTTPError as error:
            if error.status != 410:
                raise
            self._too_old()

    def _take(self, event: Obj) -> bool:
        """Check and keep an event; report whether the watch continues."""
        obj = event["object"]
        if event["type"] == "ERROR":
            if obj["code"] != 410:
                self.run.fail(f"{self.path}: {obj}")
            self._too_old()
            return False
        version = int(obj["metadata"]["resourceVersion"])
        if version <= self.version and event["type"] != "BOOKMARK":
            self.run.fail(f"{self.path}: {event['type']} {version} after {self.version}")
        self.version = max(version, self.version)
        if event["type"] != "BOOKMARK":
            self.run.counts["events"] += 1
            self.seen.append((version, event["type"], obj["metadata"]["name"]))
        return True

    def _too_old(self) -> None:
        self.version = 0
        self.run.counts["relists"] += 1
        if self.rng is None:
            self.run.fail(f"{self.path}: the reference got 410")


async def write(run: Run, rng: random.Random, path: str, pause: float) -> None:
    """Write until the run ends; refusals that a race explains are only counted."""
    while run.writing:
        name = f"o{rng.randrange(NAMES)}"
        verb = rng.choice(("POST", "POST", "PATCH", "PATCH", "apply", "PUT", "DELETE"))
        label = {"metadata": {"labels": {"n": str(rng.random())}}}
        try:
            if verb == "POST":
                await run.address.call("POST", path, {"metadata": {"name": name}, **CONTENT[path]})
            elif verb == "PATCH":
                await run.address.call("PATCH", f"{path}/{name}", label, "application/merge-patch+json")
            elif verb == "apply":
                current = await run.address.call("GET", f"{path}/{name}")
                applied = {k: current[k] for k in ("apiVersion", "kind")} | label
                where = f"{path}/{name}?fieldManager=soak&force=true"
                await run.address.call("PATCH", where, applied, "application/apply-patch+yaml")
            elif verb == "PUT":
                current = await run.address.call("GET", f"{path}/{name}")
                current["metadata"] |= label["metadata"]
                await run.address.call("PUT", f"{path}/{name}", current)
            else:
                await run.address.call("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
            run.counts["writes"] += 1
        except HTTPError as error:
            run.counts[f"refused with {error.status}"] += 1
            # 422: the apply creates an object without a spec, because it was deleted a moment ago
            if error.status not in (404, 409) and not (verb == "apply" and error.status == 422):
                run.fail(f"{verb} {path}/{name}: {error}")
        await asyncio.sleep(pause * rng.random() * 2)


async def compact_repeatedly(run: Run, server: Server, every: float) -> None:
    """Compact the history at an interval."""
    while run.writing:
        await asyncio.sleep(every)
        await asyncio.to_thread(server.compact)
        run.counts["compactions"] += 1


# --- the checks


def compare(run: Run, references: dict[str, Watcher], watchers: list[Watcher]) -> None:
    """Check that each watcher has seen the events of the reference since its last list, and no others."""
    for watcher in watchers:
        expected = [event for event in references[watcher.path].seen if event[0] > watcher.start]
        if watcher.seen != expected:
            missed, unexpected = set(expected) - set(watcher.seen), set(watcher.seen) - set(expected)
            run.fail(
                f"{watcher.path} since {watcher.start}: {len(missed)} missed {sorted(missed)[:3]}, "
                f"{len(unexpected)} too many {sorted(unexpected)[:3]}, {len(watcher.seen)} seen of {len(expected)}"
            )


class ServerResources:
    """Counts the resources that the server holds for its clients."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def count(self) -> dict[str, int]:
        """Return how many tasks, watches and connections the server has."""
        return asyncio.run_coroutine_threadsafe(self._count(), self._loop).result()

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        assert self._server._thread is not None
        return self._server._thread._loop

    async def _count(self) -> dict[str, int]:
        listening: Any = self._server._listener
        store: Any = self._server.state.registry.store
        return {
            "tasks": len(asyncio.all_tasks()),
            "watches in the store": len(store._watches),
            "watches being sent": len(listening._pumps._open),
            "connections": len(listening._server.connections),
        }


def memory() -> float:
    """Return the MiB that this process has in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def wait_until_caught_up(references: dict[str, Watcher], watchers: list[Watcher]) -> bool:
    """Wait until every watcher has seen the last event, and report whether that was within SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        if all(
            w.start > last or (w.version >= last and w.version)
            for w in watchers
            for last in [references[w.path].seen[-1][0] if references[w.path].seen else 0]
        ):
            return True
        await asyncio.sleep(0.1)
    return False


async def soak(server: Server, count: int, seconds: float, seed: int, growth: float) -> Run:
    """Run the writers and watchers, then check the events, the memory and the resources of the server."""
    parts = urlsplit(server.url)
    run = Run(Address(parts.hostname or "", parts.port or 0))
    resources = ServerResources(server)
    before = resources.count()
    references = {path: Watcher(run, path, None) for path in CONTENT}
    watchers = [Watcher(run, list(CONTENT)[i % len(CONTENT)], random.Random(seed + i)) for i in range(count)]
    following = [asyncio.create_task(watcher.follow()) for watcher in (*references.values(), *watchers)]
    await asyncio.sleep(0.5)
    at_start = memory()
    pause = max(0.02, count / 4000)  # all share the machine: so many watchers get as many events as they can take
    writers = [asyncio.create_task(write(run, random.Random(-seed - i), path, pause)) for i, path in enumerate(CONTENT)]
    writers.append(asyncio.create_task(compact_repeatedly(run, server, max(seconds / 12, 0.5))))
    await asyncio.sleep(seconds)
    run.writing = False
    await asyncio.gather(*writers)
    if not await wait_until_caught_up(references, watchers):
        run.fail(f"not everybody has caught up within {SETTLE_SECONDS} s")
    ended = [task for task in following if task.done()]
    for task in ended:
        run.fail(f"a watcher ended: {task.exception()!r}")
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    compare(run, references, watchers)
    increase = memory() - at_start
    print(f"memory: {at_start:.0f} MiB at the start, {increase:+.0f} MiB by the end (this process: clients and server)")
    if increase > growth:
        run.fail(f"memory has grown by {increase:.0f} MiB, more than {growth:.0f}")
    connected = await asyncio.to_thread(resources.count)
    for path, content in CONTENT.items():  # a server may notice that a client has gone when it has something to send
        await run.address.call("POST", path, {"metadata": {"name": "last"}, **content})
    after = await wait_until_released(resources, before)
    print(", ".join(f"{name} {before[name]} → {connected[name]} → {after[name]}" for name in after))
    print("    (before there were clients → when they have gone → after one more write)")
    for name, number in after.items():
        if number > before[name]:
            run.fail(f"{name}: {number}, before there were {before[name]}")
    return run


async def wait_until_released(resources: ServerResources, before: dict[str, int]) -> dict[str, int]:
    """Return the resources that are still held, once they are no more than before, or after SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        now = await asyncio.to_thread(resources.count)
        if time.monotonic() > deadline or all(now[name] <= before[name] for name in now):
            return now
        await asyncio.sleep(0.2)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--growth", type=float, default=MAX_GROWTH, help="MiB that memory may grow by (default: %(default)s)"
    )
    parser.add_argument("--emulated-version", default="1.32")
    options = parser.parse_args(argv)
    with Server(emulated_version=options.emulated_version) as server:
        run = asyncio.run(soak(server, options.watchers, options.seconds, options.seed, options.growth))
    print(
        f"{options.watchers} watchers, {options.seconds:g} s: " + ", ".join(f"{n} {c}" for n, c in run.counts.items())
    )
    print(f"{len(run.failures)} failures")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
