"""Watch a server for a while as hundreds of clients do, and check that none misses or repeats an event.

    python -m scripts.torture soak                           300 watchers, 8 writers, a minute
    python -m scripts.torture soak --watchers 500 --minutes 30 --epoch 60
    python -m scripts.torture soak --minutes 60 --torture    beside the attacks of `attack`, one after the other

The server runs in a process of its own. Writers create, update, patch, apply and delete claims, slices, pods and config
maps, and note what the server acknowledges. Watchers lose their connection at random, by FIN or by RST, and resume from
the last version they have seen; some do not read for a while. History is compacted every few seconds, so that some get
410 and list again, and feature gates are flipped. One more watcher of each collection never loses its connection.

After each epoch the writers pause, and what every watcher has received is compared with the acknowledged writes: lists
and events, each once, in order and with its content; `soak_checks` has the rules. Then the server is reset, which must
end every watch, and the next epoch begins. At the end the server must have no watches, descriptors and memory more
than before, and by its own metric its event loop must never have answered nobody for half a second. Too few writes,
events, resumes, lists after 410, compactions and resets are failures as well, since they check nothing. The exit
status is 1 if anything fails.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import multiprocessing.process
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import orjson

from scripts.common.comparing import MEDIA, Obj
from scripts.common.connection import Answer, Connection, DroppedError, StatusError
from scripts.common.pauses import longest_pauses
from scripts.common.server_process import ServerProcess
from scripts.torture.attacks import edge
from scripts.torture.attacks.case import Target
from scripts.torture.soak_checks import EXPIRED, Ledger, Stream
from understudy.apiserver.server.worker.loop_thread import new_loop

NAMES = 40  # objects of each collection
NAMESPACED = "namespaces/default"
CLAIMS = f"/apis/resource.k8s.io/v1beta1/{NAMESPACED}/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1beta1/resourceslices"
PODS = f"/api/v1/{NAMESPACED}/pods"
MAPS = f"/api/v1/{NAMESPACED}/configmaps"
DEVICES = {
    "driver": "gpu.example.com",
    "nodeName": "node-1",
    "pool": {"name": "p", "resourceSliceCount": 1},
    "devices": [{"name": f"d{i}", "basic": {}} for i in range(8)],
}
REQUESTS = {"requests": [{"name": "r", "deviceClassName": "gpu.example.com"}]}
CONTENT: dict[str, Obj] = {
    CLAIMS: {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "spec": {"devices": REQUESTS}},
    SLICES: {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "spec": DEVICES},
    PODS: {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    MAPS: {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v" * 200}},
}
GATES = ("DRAAdminAccess", "InPlacePodVerticalScaling", "PodLevelResources")  # those flipped, if the release has them
COMPACT_SECONDS = 4.0  # between two compactions, on average; less in epochs shorter than PACE; likewise
FLIP_SECONDS = 3.0
CONNECTED_SECONDS = 5.0  # that a watcher keeps its connection
PACE = 30.0
SETTLE_SECONDS = 60.0  # in which everybody must have seen the last write, or the end of a watch
PAUSE = 0.5  # seconds for which the server may compute while its event loop answers nobody
EPOCHS = 5  # after which memory is taken at its least: it is more after one that an attack has not ended with
GROWTH = 64.0  # MiB that the server may have more after the last of them than after the first, without the very first
# A run with fewer of these in a minute has checked too little: events and resumes are those of one watcher.
MINIMUM = {"writes": 300.0, "events": 30.0, "resumes": 2.0, "expired": 2.0, "compactions": 6.0, "flips": 6.0}


def encoded(method: str, path: str, body: Any = None, media: str = "application/json") -> bytes:
    """Return the bytes of a request."""
    sent = b"" if body is None else orjson.dumps(body)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    return head.encode() + sent


@dataclass
class Run:
    """The counts and failures of a run."""

    url: str
    own: int = 0  # watches of the server's own
    counts: Counter[str] = field(default_factory=Counter)
    failures: int = 0

    def fail(self, what: str) -> None:
        """Count a failure, and print the first ones."""
        self.failures += 1
        if self.failures <= 20:
            print(f"FAILED: {what[:1000]}", flush=True)


class Epoch:
    """The time between two resets: its ledgers and streams, and whether clients write and lose connections."""

    def __init__(self, run: Run, watchers: int, seconds: float, rng: random.Random) -> None:
        self.run, self.rng = run, rng
        self.pace = min(1.0, seconds / PACE)
        self.busy = True
        self._timers: set[asyncio.Timeout] = set()  # of connections that are lost at random
        self.ledgers = {path: Ledger(marks=path == PODS) for path in CONTENT}
        self.references = {path: Stream(f"{path}, reference") for path in CONTENT}
        paths = list(CONTENT)
        self.streams = [(path, Stream(f"{path}, watcher {i}")) for i in range(watchers) for path in [paths[i % 4]]]

    # --- watchers

    async def follow(self, path: str, stream: Stream, *, is_reference: bool) -> None:
        """Watch a collection until the server ends the watch, and go on after every other end."""
        while True:
            with closing(Connection(self.run.url)) as connection:
                try:
                    if not stream.version:
                        stream.list(await self._list(connection, path))
                    stays = is_reference or not self.busy
                    seconds = None if stays else self.rng.expovariate(1 / (CONNECTED_SECONDS * self.pace))
                    async with asyncio.timeout(seconds) as timer:
                        self._timers.add(timer)
                        try:
                            if await self._watch(connection, path, stream):
                                return
                        finally:
                            self._timers.discard(timer)
                except TimeoutError:
                    await self._disconnect(connection)
                except (DroppedError, StatusError) as why:
                    self.run.fail(f"{stream.name}: {why!r}")
                    return

    def calm_down(self) -> None:
        """Let writers end, and watchers keep their connections."""
        self.busy = False
        for timer in self._timers:
            if not timer.expired():
                timer.reschedule(None)

    async def _list(self, connection: Connection, path: str) -> bytes:
        answer = await connection.send(encoded("GET", path))
        if answer.status != 200:
            raise StatusError(answer.status, answer.body)
        return answer.body

    async def _watch(self, connection: Connection, path: str, stream: Stream) -> bool:
        """Watch until the server ends it, and report whether it did so although the version is not too old."""
        query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={stream.version}"
        try:
            async for line in connection.lines(encoded("GET", path + query)):
                self.run.counts["events"] += 1
                if not stream.take(line):
                    break
                if not self.busy or self.rng.random() > 0.0005:
                    continue
                self.run.counts["stalls"] += 1
                await asyncio.sleep(self.rng.random() * 2)
        except StatusError as why:
            if why.status != EXPIRED:
                raise
            stream.expire()
        if stream.version:
            return True
        self.run.counts["expired"] += 1
        return False

    async def _disconnect(self, connection: Connection) -> None:
        """Lose the connection, and come back at once or when history may be forgotten."""
        reset = self.rng.random() < 0.5
        connection.close(reset=reset)
        self.run.counts["resumes"] += 1
        self.run.counts["disconnects by RST"] += reset
        if self.rng.random() < 0.2:
            await asyncio.sleep(self.rng.random() * COMPACT_SECONDS * self.pace)

    # --- writers

    async def write(self, path: str, pause: float) -> None:
        """Write to a collection until the epoch ends; a refusal that a race explains is only counted."""
        with closing(Connection(self.run.url)) as connection:
            while self.busy:
                name = f"o{self.rng.randrange(NAMES)}"
                try:
                    await self._write_once(connection, path, name)
                except StatusError as why:
                    self.run.counts["refused"] += 1
                    if why.status not in (404, 409):
                        self.run.fail(f"{path}/{name}: {why}")
                except DroppedError as why:
                    self.run.fail(f"{path}/{name}: {why!r}")
                    return
                await asyncio.sleep(pause * self.rng.random() * 2)

    async def _write_once(self, connection: Connection, path: str, name: str) -> None:
        """Create an object, or change or delete it if it is there, and note what the server acknowledges."""
        ledger, where = self.ledgers[path], f"{path}/{name}"
        label = {"labels": {"n": str(self.rng.random())}}
        new = {**CONTENT[path], "metadata": {"name": name, **label}}
        current = await connection.send(encoded("GET", where))
        if current.status == 404:
            if self.rng.random() < 0.7:
                answer = await self._written(connection, "POST", path, new)
            else:
                answer = await self._written(connection, "PATCH", f"{where}?fieldManager=m", new, MEDIA["apply"])
            ledger.wrote(answer.status == 201, orjson.loads(answer.body))
            return
        if current.status != 200:
            raise StatusError(current.status, current.body)
        stored = orjson.loads(current.body)
        match self.rng.choice(("merge", "strategic", "apply", "put", "delete")):
            case "delete":
                options = {"preconditions": {"uid": stored["metadata"]["uid"]}, "gracePeriodSeconds": 0}
                await self._written(connection, "DELETE", where, options)
                ledger.deleted(name, stored["metadata"]["uid"])
                return
            case "put":
                stored["metadata"] |= label
                answer = await self._written(connection, "PUT", where, stored)
            case "apply":
                new["metadata"] = {"name": name, "uid": stored["metadata"]["uid"], **label}
                target = f"{where}?fieldManager=m&force=true"
                answer = await self._written(connection, "PATCH", target, new, MEDIA["apply"])
            case form:
                answer = await self._written(connection, "PATCH", where, {"metadata": label}, MEDIA[form])
        ledger.wrote(answer.status == 201, orjson.loads(answer.body))

    async def _written(self, connection: Connection, method: str, path: str, body: Obj, media: str = "") -> Answer:
        """Send a write, and return the answer if it succeeds. Raises StatusError."""
        answer = await connection.send(encoded(method, path, body, media or "application/json"))
        if answer.status not in (200, 201):
            raise StatusError(answer.status, answer.body)
        self.run.counts["writes"] += 1
        self.run.counts[method if method != "PATCH" else media.removeprefix("application/")] += 1
        return answer

    async def write_last(self) -> dict[str, int]:
        """Create one more object of each kind, and return their versions by the path of the collection."""
        versions = {}
        with closing(Connection(self.run.url)) as connection:
            for path, content in CONTENT.items():
                new = {**content, "metadata": {"name": "last"}}
                obj = orjson.loads((await self._written(connection, "POST", path, new)).body)
                self.ledgers[path].wrote(True, obj)
                versions[path] = int(obj["metadata"]["resourceVersion"])
        return versions

    # --- the server's operator

    async def compact(self) -> None:
        """Compact history now and then."""
        while self.busy:
            await asyncio.sleep(self.rng.random() * 2 * COMPACT_SECONDS * self.pace)
            if self.busy:
                await control(self.run, "compact")
                self.run.counts["compactions"] += 1

    async def flip(self) -> None:
        """Turn a feature gate on or off now and then."""
        in_force: dict[str, bool] = await control(self.run, "feature-gates", {})
        names = [name for name in GATES if name in in_force]
        while self.busy:
            await asyncio.sleep(self.rng.random() * 2 * FLIP_SECONDS * self.pace)
            name, on = self.rng.choice(names), self.rng.random() < 0.5
            if (await control(self.run, "feature-gates", {name: on}))[name] is not on:
                self.run.fail(f"{name} is not {on}")
            self.run.counts["flips"] += 1


async def control(run: Run, action: str, body: Any = None) -> Any:
    """Ask the server's control API, on a connection of its own, and return the answer."""
    with closing(Connection(run.url)) as connection:
        answer = await connection.send(encoded("POST", f"/understudy/{action}", body))
    if answer.status != 200:
        raise StatusError(answer.status, answer.body)
    return orjson.loads(answer.body)


async def open_watches(run: Run) -> int:
    """Return the number of open watches of the collections by the server's metrics, without its own."""
    with closing(Connection(run.url)) as connection:
        answer = await connection.send(encoded("GET", "/metrics"))
    resources = "|".join(path.rpartition("/")[2] for path in CONTENT)
    pattern = rf'apiserver_longrunning_requests{{.*resource="(?:{resources})".*}} (\d+)'
    return sum(map(int, re.findall(pattern, answer.body.decode()))) - run.own


def attack(url: str) -> None:
    """Attack a server in every way, again and again, until this process is killed. All of its clients are trusted."""
    while True:
        for case in edge.CASES:
            case.attack(Target(url, "any"))


async def live(run: Run, watchers: int, writers: int, seconds: float, rng: random.Random) -> None:
    """Run one epoch, compare, and reset the server."""
    epoch = Epoch(run, watchers, seconds, rng)
    following = [asyncio.create_task(epoch.follow(p, s, is_reference=True)) for p, s in epoch.references.items()]
    following += [asyncio.create_task(epoch.follow(path, s, is_reference=False)) for path, s in epoch.streams]
    pause = max(0.02, watchers / 1500)  # all share the machine: so many watchers get as many events as they can take
    paths = list(CONTENT)
    working = [asyncio.create_task(epoch.write(paths[i % 4], pause)) for i in range(writers)]
    working += [asyncio.create_task(epoch.compact()), asyncio.create_task(epoch.flip())]
    await asyncio.sleep(seconds)
    epoch.calm_down()
    await asyncio.gather(*working)
    until = await epoch.write_last()
    every = [*epoch.references.items(), *epoch.streams]

    async def have_caught_up() -> bool:
        seen = all(s.segments and s.segments[-1].until >= until[path] for path, s in every)
        return seen and await open_watches(run) == len(every)

    if not await settled(have_caught_up):
        run.fail(
            f"not everybody watches and has caught up within {SETTLE_SECONDS:g} s: {await open_watches(run)} watches"
        )
    if ended := sum(task.done() for task in following):
        run.fail(f"{ended} watches have ended before the reset")
    for path, ledger in epoch.ledgers.items():
        others = [stream for at, stream in epoch.streams if at == path]
        for failure in ledger.check(epoch.references[path], others, until[path]):
            run.fail(failure)
    await control(run, "reset")
    run.counts["resets"] += 1
    _, pending = await asyncio.wait(following, timeout=SETTLE_SECONDS)
    if pending:
        run.fail(f"{len(pending)} watches have not ended with the reset")
    for task in following:
        task.cancel()
    for outcome in await asyncio.gather(*following, return_exceptions=True):
        if isinstance(outcome, Exception):
            run.fail(f"a watcher failed: {outcome!r}")


async def settled(is_ready: Callable[[], Awaitable[bool]]) -> bool:
    """Wait until something is so, and report whether that was within SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not await is_ready():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True


async def soak(
    process: ServerProcess,
    watchers: int,
    writers: int,
    minutes: float,
    epoch: float,
    seed: int,
    attacker: multiprocessing.process.BaseProcess | None,
) -> Run:
    """Run epochs for some minutes, then end the attacks, and check the counts and the resources of the server."""
    run, rng = Run(process.url), random.Random(seed)
    run.own = await open_watches(run)
    before, memory = process.descriptors(), [process.memory_mib()]
    began = time.monotonic()
    while (left := began + minutes * 60 - time.monotonic()) > 0:
        await live(run, watchers, writers, min(epoch, left), rng)
        memory.append(process.memory_mib())
        print(f"{(time.monotonic() - began) / 60:.1f} min, {memory[-1]:.0f} MiB, {run.failures} failures: "
              + ", ".join(f"{count} {what}" for what, count in sorted(run.counts.items())), flush=True)  # fmt: skip
    for what, minimum in MINIMUM.items():
        least = minimum * minutes * (watchers if what in ("events", "resumes") else 1)
        if run.counts[what] < least:
            run.fail(f"{run.counts[what]} {what}, fewer than {least:.0f}: too little was checked")

    async def is_released() -> bool:
        return process.descriptors() <= before and not await open_watches(run)

    with closing(Connection(run.url)) as connection:
        longest, busiest = longest_pauses((await connection.send(encoded("GET", "/metrics"))).body.decode())
    if busiest > PAUSE:
        run.fail(f"the event loop answered nobody during {busiest:.2f} s of CPU")
    print(f"longest pause of the event loop: {longest * 1e3:.0f} ms, {busiest * 1e3:.0f} ms of CPU at most")
    if attacker is not None:
        attacker.kill()
    if not await settled(is_released):
        run.fail(f"{process.descriptors()} descriptors, {before} at the start; {await open_watches(run)} watches")
    if len(memory) > 2 and (last := min(memory[-EPOCHS:])) > (first := min(memory[2 : 2 + EPOCHS])) + GROWTH:
        run.fail(f"memory has grown from {first:.0f} to {last:.0f} MiB")
    print(f"{memory[0]:.0f} MiB and {before} descriptors at the start, {memory[-1]:.0f} and {process.descriptors()} "
          "at the end")  # fmt: skip
    return run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watchers", type=int, default=300)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--epoch", type=float, default=60, metavar="SECONDS", help="between two resets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--emulated-version", default="1.32")
    parser.add_argument("--torture", action="store_true", help="attack the server meanwhile")


def run(options: argparse.Namespace) -> int:
    with ServerProcess("--control", "--accept-hosts", "a", "--emulated-version", options.emulated_version) as process:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            attacker = multiprocessing.get_context("spawn").Process(target=attack, args=(process.url,), daemon=True)
            if options.torture:
                attacker.start()
            sizes = options.watchers, options.writers, options.minutes, options.epoch, options.seed
            run = runner.run(soak(process, *sizes, attacker if options.torture else None))
        if status := process.stop():
            run.fail(f"the server ended with status {status}")
        if text := process.stderr():
            run.fail(f"stderr: {text[-2000:]}")
    print(f"{run.failures} failures")
    return 1 if run.failures else 0
