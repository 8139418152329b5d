"""Kill a server in the middle of writes, again and again, and compare its file with what it has acknowledged.

    python -m scripts.torture kills --kills 200 --synchronous full

Some writers create, change and delete config maps. The server is killed by SIGKILL at a random time, and the next one
goes on with the same storage: it must tell a watch, from the revision at which the round began, of each write that was
acknowledged, once and in order, and list what those writes have left. A write that was not answered may have happened.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.common.server_process import ServerProcess

PATH = "/api/v1/namespaces/default/configmaps"
WRITERS = 4
LONGEST = 1.0  # seconds from the first acknowledged write to a kill
PAUSE = 0.01  # seconds between two looks for that write

Event = tuple[int, str, str]  # the revision, the name, and the value that was written; "" for a deletion


@dataclass
class Outcome:
    """The number of acknowledged writes, and a line for each that the next server did not have."""

    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)


class Writer:
    """Writes config maps of its own, until the server is gone. `done` has the writes that were acknowledged."""

    def __init__(self, server: ServerProcess, number: int, known: Mapping[str, str], rng: random.Random) -> None:
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
        self._prefix = f"writer-{number}-"
        self._values = {name: value for name, value in known.items() if name.startswith(self._prefix)}
        self._rng = rng
        self.done: list[Event] = []

    def run(self) -> None:
        """Write until a request fails."""
        with suppress(OSError, http.client.HTTPException, ValueError):
            while True:
                self._write()

    def _write(self) -> None:
        name = f"{self._prefix}{self._rng.randrange(20)}"
        value = f"{self._rng.random()}"
        if name not in self._values:
            obj = self._ask("POST", PATH, {"metadata": {"name": name}, "data": {"value": value}})
        elif self._rng.random() < 0.3:
            obj, value = self._ask("DELETE", f"{PATH}/{name}", None), ""
        else:
            obj = self._ask("PUT", f"{PATH}/{name}", {"metadata": {"name": name}, "data": {"value": value}})
        if value:
            self._values[name] = value
        else:
            del self._values[name]
        # The answer to a DELETE does not have the revision of the deletion.
        self.done.append((int(obj["metadata"]["resourceVersion"]) if value else 0, name, value))

    def _ask(self, method: str, path: str, body: Any) -> Any:
        self._connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        obj = json.loads(answer.read())
        if answer.status >= 300:
            raise ValueError(obj)
        return obj["details"] and {"metadata": {}} if obj["kind"] == "Status" else obj


def kill_and_compare(storage: Path, *, kills: int, synchronous: str = "normal", seed: int = 1) -> Outcome:
    """Kill the server so often, and return what the next one had of its writes each time."""
    rng, outcome = random.Random(seed), Outcome()
    flags = ("--storage", f"sqlite:{storage}", "--sqlite-synchronous", synchronous)
    known: dict[str, str] = {}
    revision = 0
    done: list[list[Event]] = []
    for number in range(kills + 1):
        with ServerProcess(*flags) as server:
            if number:
                outcome.acknowledged += sum(map(len, done))
                outcome.lost += missing(done, told(server, revision))
            known, revision = listed(server)
            if number == kills:
                break
            writers = [Writer(server, each, known, random.Random(rng.random())) for each in range(WRITERS)]
            threads = [threading.Thread(target=writer.run) for writer in writers]
            for thread in threads:
                thread.start()
            while not any(writer.done for writer in writers) and all(thread.is_alive() for thread in threads):
                time.sleep(PAUSE)
            time.sleep(rng.random() * LONGEST)
            server.process.kill()
            for thread in threads:
                thread.join()
            done = [writer.done for writer in writers]
    return outcome


def missing(done: list[list[Event]], events: list[Event]) -> list[str]:
    """Return a line for each acknowledged write of some writers that is not among the events, in its place."""
    lost = []
    if [event[0] for event in events] != sorted({event[0] for event in events}):
        lost.append("the events are not in order, each once")
    for acknowledged in done:
        names = {name for _, name, _ in acknowledged}
        mine = iter([event for event in events if event[1] in names])
        for revision, name, value in acknowledged:
            same = (event[1:] == (name, value) and (not value or event[0] == revision) for event in mine)
            if not any(same):
                lost.append(f"{name} = {value or 'deleted'} at {revision}")
    return lost


def told(server: ServerProcess, revision: int) -> list[Event]:
    """Return the writes that a watch from a revision on is told of."""
    raw = _get(server, f"{PATH}?watch=true&resourceVersion={revision}&timeoutSeconds=1")
    return [_event(json.loads(line)) for line in raw.splitlines()]


def _event(event: Any) -> Event:
    obj = event["object"]
    value = "" if event["type"] == "DELETED" else obj["data"]["value"]
    return int(obj["metadata"]["resourceVersion"]), obj["metadata"]["name"], value


def listed(server: ServerProcess) -> tuple[dict[str, str], int]:
    """Return the values of all config maps by name, and the revision of the list."""
    result = json.loads(_get(server, PATH))
    values = {obj["metadata"]["name"]: obj["data"]["value"] for obj in result["items"]}
    return values, int(result["metadata"]["resourceVersion"])


def _get(server: ServerProcess, path: str) -> bytes:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse().read()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--synchronous", default="normal")
    parser.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        outcome = kill_and_compare(
            Path(folder) / "store", kills=options.kills, synchronous=options.synchronous, seed=options.seed
        )
    for line in outcome.lost:
        print(f"lost: {line}")
    print(f"{options.kills} kills, {outcome.acknowledged} acknowledged writes, {len(outcome.lost)} lost")
    return 1 if outcome.lost else 0
