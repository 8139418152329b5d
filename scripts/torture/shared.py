"""Write to several API servers of one etcd at once, and check that they behave as one.

    python -m scripts.torture shared http://127.0.0.1:8001 http://127.0.0.1:8002 --seconds 120
    python -m scripts.torture shared http://127.0.0.1:8001 https://127.0.0.1:6443 --token admintoken

The servers run already: understudies, kube-apiservers, or both. Writers count in shared ConfigMaps: each reads one from
one server, adds to its own counter, and puts it to another server, which must refuse it if somebody else was faster;
in between they create and delete ConfigMaps of their own. After each acknowledged write any server that is read must
answer with it or a later one. Watchers begin at one server and go on, from the last version they have seen, at another.

At the end every watcher must have received every acknowledged write once and in order, all of them the same, and each
counter must be what was acknowledged. A write that failed in another way than by a conflict may have been done; it is
told apart by its content. The exit status is 1 if anything is lost, doubled, out of order or stale.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from scripts.common.connection import Connection, DroppedError, StatusError

JSON = "application/json"
MAPS = "/api/v1/namespaces/default/configmaps"
SHARED = 8  # ConfigMaps that all writers count in
CATCH_UP = 20.0  # seconds that watchers have at the end


@dataclass
class Ledger:
    """Notes what was acknowledged, and what is wrong."""

    writes: dict[int, tuple[str, str]] = field(default_factory=dict)  # revision: name, type of the event
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)  # by ConfigMap and writer
    unsure: set[tuple[str, str]] = field(default_factory=set)  # counters with a write that may have been done
    numbers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ends: float = 0.0

    @property
    def is_over(self) -> bool:
        """Report whether writers stop."""
        return time.monotonic() >= self.ends


class Client:
    """A client with a connection to each server."""

    def __init__(self, servers: Sequence[str], token: str, ledger: Ledger, patience: float = 60.0) -> None:
        """Connect to servers, which have so many seconds for an answer."""
        self._patience = patience
        self._connections = [Connection(url) for url in servers]
        self._token = token
        self.ledger = ledger

    def request(self, method: str, path: str, body: bytes = b"", media: str = JSON) -> bytes:
        token = f"Authorization: Bearer {self._token}\r\n" if self._token else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Type: {media}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def send(self, method: str, path: str, obj: Any = None, media: str = JSON) -> tuple[int, Any]:
        """Send a request to some server; return status 0 if there is no answer."""
        connection = random.choice(self._connections)
        try:
            async with asyncio.timeout(self._patience):
                answer = await connection.send(self.request(method, path, orjson.dumps(obj) if obj else b"", media))
        except (TimeoutError, DroppedError, OSError):
            connection.close()
            self.ledger.numbers["requests without an answer"] += 1
            return 0, {}
        return answer.status, orjson.loads(answer.body)

    async def follow(self, path: str, version: int) -> AsyncIterator[tuple[str, Any]]:
        """Watch a collection from a version on, at one server after the other; yield types and objects, without end."""
        while True:
            try:
                events = await self._events(path, version, random.uniform(1, 8))
            except StatusError as why:
                self.ledger.numbers[f"watches answered {why.status}"] += 1
                await asyncio.sleep(0.2)
                continue
            self.ledger.numbers["watches"] += 1
            for event in events:
                kind, obj = event["type"], event["object"]
                if kind == "ERROR":
                    self.ledger.wrong.append(f"a watch from {version} ended with {obj}")
                    return
                version = revision_of(obj)
                yield kind, obj

    async def _events(self, path: str, version: int, seconds: float) -> list[Any]:
        """Watch a collection at some server from a version on; return the events of so many seconds. Raises
        StatusError."""
        connection, events = random.choice(self._connections), list[Any]()
        path = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=600"
        try:
            async with asyncio.timeout(seconds):
                async for line in connection.lines(self.request("GET", path)):
                    events.append(orjson.loads(line))
        except (TimeoutError, DroppedError, OSError):
            pass
        finally:
            connection.close()
        return events


def revision_of(obj: Any) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def write(client: Client, writer: str) -> None:
    """Count in shared ConfigMaps, and create and delete others, until the time is over."""
    ledger, number = client.ledger, 0
    while not ledger.is_over:
        number += 1
        await count(client, writer, f"shared-{random.randrange(SHARED)}")
        name = f"{writer}-{number}"
        new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        status, obj = await client.send("POST", MAPS, new)
        if status != 201:
            ledger.numbers[f"creations answered {status}"] += 1
            continue
        ledger.writes[revision_of(obj)] = name, "ADDED"
        status, _ = await client.send("GET", f"{MAPS}/{name}")
        if status == 404:
            ledger.wrong.append(f"{name} was created, and then not found")
        if number % 2:
            status, _ = await client.send("DELETE", f"{MAPS}/{name}")
            ledger.numbers[f"deletions answered {status}"] += 1
            if status == 200:
                status, _ = await client.send("GET", f"{MAPS}/{name}")
                if status == 200:
                    ledger.wrong.append(f"{name} was deleted, and then found")


async def count(client: Client, writer: str, name: str) -> None:
    """Add one to a counter, and read it again."""
    ledger = client.ledger
    while not ledger.is_over:
        status, obj = await client.send("GET", f"{MAPS}/{name}")
        if status != 200:
            ledger.numbers[f"reads answered {status}"] += 1
            continue
        data = obj.setdefault("data", {})
        before = int(data.get(writer, 0))
        known = ledger.counters[name, writer]
        if before != known and (name, writer) not in ledger.unsure:
            ledger.wrong.append(f"{name}: {writer} has counted to {known}, and reads {before}")
        ledger.unsure.discard((name, writer))
        ledger.counters[name, writer] = before
        data[writer] = str(before + 1)
        status, written = await client.send("PUT", f"{MAPS}/{name}", obj)
        if status == 409:
            ledger.numbers["conflicts"] += 1
            continue
        if status != 200:
            ledger.numbers[f"writes answered {status}"] += 1
            ledger.unsure.add((name, writer))
            continue
        ledger.counters[name, writer] = before + 1
        ledger.writes[revision_of(written)] = name, "MODIFIED"
        status, read = await client.send("GET", f"{MAPS}/{name}")
        if status == 200 and revision_of(read) < revision_of(written):
            ledger.wrong.append(f"{name}: read at {revision_of(read)} after a write at {revision_of(written)}")
        return


async def watch(client: Client, version: int, seen: list[tuple[int, str, str, Any]]) -> None:
    """Note the events that a client receives, without end."""
    async for kind, obj in client.follow(MAPS, version):
        seen.append((revision_of(obj), kind, obj["metadata"]["name"], obj.get("data")))


def check(ledger: Ledger, streams: list[list[tuple[int, str, str, Any]]]) -> None:
    """Compare what the watchers have received with what was acknowledged, and with each other."""
    whole = max(streams, key=len)
    for number, seen in enumerate(streams):
        revisions = [event[0] for event in seen]
        if any(later <= earlier for earlier, later in pairwise(revisions)):
            ledger.wrong.append(f"watcher {number}: doubled or out of order")
        known = {revision: (name, kind) for revision, kind, name, _ in seen}
        if lost := [revision for revision, write in ledger.writes.items() if known.get(revision) != write]:
            ledger.wrong.append(f"watcher {number}: {len(lost)} acknowledged writes are lost, such as {lost[:3]}")
        if seen != whole:
            ledger.wrong.append(f"watcher {number}: {len(seen)} events, and not the {len(whole)} of another")


async def torture(args: argparse.Namespace) -> int:
    """Write and watch, and check; return the exit status."""
    ledger = Ledger()
    client = Client(args.servers, args.token, ledger)
    for number in range(SHARED):
        new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"shared-{number}"}}
        await client.send("DELETE", f"{MAPS}/shared-{number}")
        status, obj = await client.send("POST", MAPS, new)
        assert status == 201, obj
    begin = revision_of(obj)
    ledger.ends = time.monotonic() + args.seconds
    streams: list[list[tuple[int, str, str, Any]]] = [[] for _ in range(args.watchers)]
    watchers = [asyncio.create_task(watch(Client(args.servers, args.token, ledger), begin, seen)) for seen in streams]
    names = [f"writer-{random.randrange(1 << 32):08x}" for _ in range(args.writers)]
    await asyncio.gather(*(write(Client(args.servers, args.token, ledger), name) for name in names))
    end, latest = time.monotonic() + CATCH_UP, max(ledger.writes)
    while time.monotonic() < end and any(not seen or seen[-1][0] < latest for seen in streams):
        await asyncio.sleep(0.2)
    for task in watchers:
        task.cancel()
    await asyncio.wait(watchers)
    check(ledger, [[event for event in seen if event[0] <= latest] for seen in streams])
    print(f"{len(ledger.writes)} acknowledged writes, {sum(map(len, streams))} events, {dict(ledger.numbers)}")
    print("\n".join(ledger.wrong[:20]) or "nothing is lost, doubled, out of order or stale")
    return 1 if ledger.wrong or not ledger.writes else 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("servers", nargs="+", metavar="URL")
    parser.add_argument("--token", default="", help="of a user who may do everything")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--watchers", type=int, default=16)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    return asyncio.run(torture(args))
