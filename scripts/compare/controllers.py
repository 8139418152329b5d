"""Compare controllers by what they make of the same stories: those of Kubernetes with those of understudy.

    python -m scripts.compare controllers --emulated-version 1.36 \\
        --run "SERVER" "CONTROLLERS" --run "SERVER" "CONTROLLERS" …

Each run starts a server and controllers beside it, tells the stories of fixtures/controllers, and ends both. SERVER is
a command that prints the address of the API server, as `understudy serve --port 0` does. CONTROLLERS is a command in
which {kubeconfig} stands for a file that names the server; "" if the server runs them itself. The objects of the first
run are what the others have to make as well, step by step, but for names, uids and times: what differs is printed as a
diff.

In the first run a step ends when nothing has changed for --rest seconds, in the others when there is the same as in the
first. Stories that differ are told once more in all runs, with three times as long a rest: a busy machine may have made
the first controllers late.

The objects in the end are recorded for the tests by `python -m scripts.record again`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

from scripts.common.kubeconfig import write_kubeconfig
from scripts.compare.cases.controller_stories import STORIES, Tellings, digest, is_alone, read_stories, tell
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NAMESPACES
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

START_SECONDS = 180.0  # that a server may take to say where it listens
TOKEN = "admintoken"
AGAIN_TIMES = 3  # as long a rest, for stories that have differed
RULE_PERIOD = 10.0  # seconds between two writes of a rule's status


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; its output goes to a file."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for the line in which a server names its address, and return it. Raises RuntimeError."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if match := re.search(r"API at (https?://\S+)", log.read_text()):
            return match.group(1)
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()}")


@dataclass(frozen=True)
class Comparison:
    """The runs to compare, each a command for a server and one for controllers beside it.

    rest    seconds without a change after each step of the first run
    settle  seconds that controllers may take until they follow the server
    """

    release: Version
    runs: Sequence[tuple[str, str]]
    rest: float
    settle: float

    def differing(self, stories: list[Obj]) -> set[str]:
        """Tell stories in all runs, print what differs, and return the names of those that do."""
        first: Tellings = {}
        different: set[str] = set()
        for number, (server, controllers) in enumerate(self.runs, 1):
            start = time.monotonic()
            tellings = self._run(server, controllers, stories, first)
            first = first or tellings
            other = {story for story, steps in tellings.items() if steps != first[story]}
            same, seconds = len(stories) - len(other), time.monotonic() - start
            print(f"run {number}: {same} of {len(stories)} stories are as in the first, {seconds:.0f} s", flush=True)
            for line in differences(first, tellings):
                print(line, flush=True)
            different |= other
        return different

    def _run(self, server: str, controllers: str, stories: list[Obj], goals: Tellings) -> Tellings:
        """Start a server and controllers, and tell the stories."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "server.log"
            with running(shlex.split(server), log) as process:
                url = address(process, log)
                with controllers_beside(controllers, url, TOKEN, self.settle) if controllers else nullcontext():
                    return asyncio.run(told(url, TOKEN, self.release, stories, self.rest, goals))


@contextmanager
def controllers_beside(command: str, url: str, token: str, settle: float) -> Iterator[None]:
    """Run controllers beside a server until the end of the block. Raises RuntimeError if they end before.

    command  in which {kubeconfig} stands for a file that names the server
    settle   seconds that they may take until they follow the server
    """
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = write_kubeconfig(Path(folder) / "kubeconfig", url, token)
        log = Path(folder) / "controllers.log"
        with running(shlex.split(command.format(kubeconfig=kubeconfig)), log) as beside:
            time.sleep(settle)
            yield
            if beside.poll() is not None:
                raise RuntimeError(f"the controllers ended: {log.read_text()}")


async def told(
    url: str, token: str, release: Version, stories: list[Obj], rest: float, goals: Tellings | None = None
) -> Tellings:
    """Tell stories to a server.

    rest   seconds without a change after each step
    goals  what others have made of them
    """
    connection = Connection(url=url, insecure=True, token=token if url.startswith("https:") else "")
    async with APIClient(connection, "stories") as client:
        while True:  # the namespaces of a new server come a moment after it
            listed = await client.list(NAMESPACES)
            if any(item["metadata"]["name"] == "default" for item in listed["items"]):
                break
            await asyncio.sleep(0.1)
        digests = {story: [digest(end) for end in ends] for story, ends in (goals or {}).items()}
        return await tell(client, release, stories, rest, RULE_PERIOD, digests)


def differences(first: Tellings, other: Tellings) -> Iterator[str]:
    """Yield the lines of a diff for the first step that differs of each story."""
    for story, steps in first.items():
        for number, (expected, actual) in enumerate(zip(steps, other[story], strict=True)):
            if expected != actual:
                before, after = (json.dumps(x, indent=1, sort_keys=True).splitlines() for x in (expected, actual))
                title = f"{story}, step {number}"
                yield from unified_diff(before, after, f"{title}: first run", f"{title}: this run", lineterm="", n=12)
                break


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--emulated-version", type=Version.parse, required=True, metavar="RELEASE")
    parser.add_argument("--run", nargs=2, action="append", required=True, metavar=("SERVER", "CONTROLLERS"))
    parser.add_argument("--file", action="append", help="of stories (default: all)")
    parser.add_argument("--story", action="append", help="tell only this one; may be repeated")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds without a change after each step")
    parser.add_argument("--settle", type=float, default=8.0, help="seconds that controllers may take to start")


def run(args: argparse.Namespace) -> int:
    """Run everything; return 1 if anything differs."""
    release: Version = args.emulated_version
    files = args.file or sorted(path.name for path in STORIES.glob("*.yaml"))
    stories = [story for file in files for story in read_stories(release, file)]
    chosen = chosen_stories(stories, args.story) if args.story else stories
    comparison = Comparison(release, args.run, args.rest, args.settle)
    different = comparison.differing(chosen)
    if different:
        more_rest = replace(comparison, rest=AGAIN_TIMES * args.rest, settle=AGAIN_TIMES * args.settle)
        different = more_rest.differing(chosen_stories(stories, different))
    return 1 if different else 0


def chosen_stories(stories: list[Obj], names: Collection[str]) -> list[Obj]:
    """Return the stories that are told alone, with what is done only once, and those with some names."""
    return [story for story in stories if is_alone(story) or story["story"] in names]
