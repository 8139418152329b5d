#!/usr/bin/env python3
"""Compare controllers by what they make of the same stories: those of Kubernetes with those of understudy.

    scripts/compare_controllers.py --emulated-version 1.36 \\
        --run "SERVER" "CONTROLLERS" --run "SERVER" "CONTROLLERS" …

Each run starts a server and controllers beside it, tells the stories of fixtures/controllers, and ends both. SERVER is
a command that prints the address of the API server, as `understudy serve --port 0` does. CONTROLLERS is a command in
which {kubeconfig} stands for a file that names the server; "" if the server runs them itself. The objects of the first
run are what the others have to make as well, but for names, uids and times: what differs is printed as a diff.

With --record the objects of the first run are written to fixtures/controllers/recorded, for the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller_stories import STORIES, read_stories, tell

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NAMESPACES
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

START_SECONDS = 180.0  # that a server may take to say where it listens
TOKEN = "admintoken"
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


def write_kubeconfig(path: Path, url: str) -> Path:
    """Write a kubeconfig of a server's administrator, whose certificate is not checked."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "c", "user": {"token": TOKEN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(content))
    return path


async def ends(url: str, release: Version, files: list[str], rest: float) -> Obj:
    """Tell the stories of files to a server; return the objects in the end, by story."""
    connection = Connection(url=url, insecure=True, token=TOKEN if url.startswith("https:") else "")
    async with APIClient(connection, "stories") as client:
        while True:  # the namespaces of a new server come a moment after it
            listed = await client.list(NAMESPACES)
            if any(item["metadata"]["name"] == "default" for item in listed["items"]):
                break
            await asyncio.sleep(0.1)
        stories = [story for file in files for story in read_stories(release, file)]
        return await tell(client, release, stories, rest, RULE_PERIOD)


def run(server: str, controllers: str, release: Version, files: list[str], rest: float, settle: float) -> Obj:
    """Start a server and controllers, tell the stories, and return the objects in the end, by story.

    settle  seconds that controllers may take until they follow the server
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with running(shlex.split(server), log) as process:
            url = address(process, log)
            kubeconfig = write_kubeconfig(Path(folder) / "kubeconfig", url)
            if not controllers:
                return asyncio.run(ends(url, release, files, rest))
            command = shlex.split(controllers.format(kubeconfig=kubeconfig))
            with running(command, Path(folder) / "controllers.log") as beside:
                time.sleep(settle)
                result = asyncio.run(ends(url, release, files, rest))
                if beside.poll() is not None:
                    raise RuntimeError(f"the controllers ended: {(Path(folder) / 'controllers.log').read_text()}")
                return result


def differences(expected: Obj, actual: Obj) -> Iterator[str]:
    """Yield the lines of a diff for each story that has ended differently."""
    for story, objects in expected.items():
        before, after = (json.dumps(value, indent=1, sort_keys=True).splitlines() for value in (objects, actual[story]))
        if before != after:
            yield from difflib.unified_diff(
                before, after, f"{story}: first run", f"{story}: this run", lineterm="", n=12
            )


def main() -> int:
    """Run everything; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulated-version", type=Version.parse, required=True, metavar="RELEASE")
    parser.add_argument("--run", nargs=2, action="append", required=True, metavar=("SERVER", "CONTROLLERS"))
    parser.add_argument("--file", action="append", help="of stories (default: all)")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds without a change after each step")
    parser.add_argument("--settle", type=float, default=8.0, help="seconds that controllers may take to start")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    files = args.file or sorted(path.name for path in STORIES.glob("*.yaml"))
    first, *others = (
        run(server, controllers, args.emulated_version, files, args.rest, args.settle)
        for server, controllers in args.run
    )
    if args.record:
        for file in files:
            names = [story["story"] for story in read_stories(args.emulated_version, file)]
            path = STORIES / "recorded" / f"{Path(file).stem}-{args.emulated_version}.jsonl"
            path.write_text("".join(json.dumps([name, first[name]], sort_keys=True) + "\n" for name in names))
    status = 0
    for number, other in enumerate(others, 2):
        lines = list(differences(first, other))
        same = sum(first[story] == other[story] for story in first)
        print(f"run {number}: {same} of {len(first)} stories end as in the first")
        for line in lines:
            print(line)
        status |= bool(lines)
    return status


if __name__ == "__main__":
    sys.exit(main())
