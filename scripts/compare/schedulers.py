"""Let kube-scheduler and ours decide about the same pods, and print what differs.

    python -m scripts.compare schedulers --binary PATH/kube-scheduler --emulated-version 1.36
    python -m scripts.compare schedulers --binary PATH/kube-scheduler --emulated-version 1.36 --server URL --token T
    python -m scripts.compare schedulers --binary PATH/kube-scheduler --emulated-version 1.37 --about groups

Without --server both work on understudy. With --about groups the stories are those about groups of pods
(`group_stories.py`), with --about node-allocatable those about devices that use resources of their nodes
(`node_allocatable_stories.py`). For these, feature gates are on that are off by default (`GATES`); a server that is
named needs them too.

Each story (`scheduler_stories.py`) is told twice, in namespaces of their own: once with each scheduler. At the end of
each step pods, claims, groups and events are compared, but for what differs from one run to the next: uids, versions,
times, names of events. The exit status is 1 if anything else differs.

A step has ended with kube-scheduler when it is idle and nothing has changed for --quiet seconds, with ours when the
same is there. With both it has ended too when nothing has changed for --patience seconds. Stories that differ are told
once more, with four times as long a quiet: a busy machine may have made kube-scheduler late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiohttp

from scripts.common.kubeconfig import write_kubeconfig
from scripts.common.ports import free_port
from scripts.compare.cases import group_stories, node_allocatable_stories
from scripts.compare.cases.scheduler_stories import PRIORITIES, Change, Maker, Story, stories_of
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
    device_classes,
    pod_groups,
    resource_claims,
    resource_slices,
)
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.scheduler import queued
from understudy.controlplane.scheduler import run as run_scheduler
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version

Obj = dict[str, Any]
IsIdle = Callable[[], Awaitable[bool]]
Tellings = dict[str, list[list[str]]]  # by story, what there is at the end of each step, as lines
QUIET = 1.0  # seconds without a change after which a step has ended with an idle scheduler
GOAL_REST = 0.3  # seconds without a change when there is what is expected: the scheduler sees it as well
GROUP_REST = 2.0  # the same for groups of pods: they are tried again and again, and so may change their events
PATIENCE = 8.0  # seconds without a change after which it has ended anyway
START_SECONDS = 60.0  # that kube-scheduler may take to follow the server
LONGEST_BACKOFF = 1  # seconds that pods wait between two attempts at most: how long is not what is compared
DRA = "DynamicResourceAllocation"
GROUP_GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
GATES = {"pods": {}, "groups": GROUP_GATES, "node-allocatable": {**GROUP_GATES, "DRANodeAllocatableResources": True}}
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
TIMES = {"creationTimestamp", "deletionTimestamp", "lastTransitionTime", "allocationTimestamp"}
UNSTABLE = {"uid", "resourceVersion", "time", *TIMES}
UNSTABLE_OF_EVENTS = {
    "eventTime",
    "reportingInstance",
    "series",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "name",
    "managedFields",
}
MADE_NAME = re.compile(r"(-extended-resources-)[a-z0-9]{5}")
BUSY = re.compile(  # a metric
    r'^scheduler_(pending_pods\{queue="(active|backoff)"|goroutines\{operation="binding")\} [1-9]', re.MULTILINE
)
TELLINGS = count(1)  # numbers for namespaces
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Stage:
    """A server on which stories are told to a scheduler.

    is_idle  reports whether the scheduler has nothing to do; None if that cannot be known
    """

    def __init__(self, client: APIClient, options: argparse.Namespace, is_idle: IsIdle | None) -> None:
        self.client = client
        self.release: Version = options.emulated_version
        self.quiet: float = options.quiet
        self.patience: float = options.patience
        self._is_idle = is_idle
        self._groups = [pod_groups(self.release)] if options.about != "pods" else []

    async def tell(self, story: Story, namespace: str, expected: Sequence[list[str]] = ()) -> list[list[str]]:
        """Tell a story in a new namespace; return what there is at the end of each step, as lines.

        expected  what another scheduler has made of each step; a step ends as soon as it is there
        """
        ends: list[list[str]] = []
        await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        with suppress(StatusError):
            await self.client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace)
        try:
            steps = story(Maker(self.release))
            for number, step in enumerate(steps):
                for change in step:
                    try:
                        await self._make(change, namespace)
                    except StatusError as why:
                        raise SystemExit(f"{story.__name__}, {change.verb} {change.name}: {why}") from why
                rest = GROUP_REST if self._groups else GOAL_REST if number < len(steps) - 1 else self.quiet
                ends.append(await self._settled(namespace, expected[number] if expected else None, rest))
        finally:
            await self._clear(namespace)
        return ends

    async def _make(self, change: Change, namespace: str) -> None:
        resource, name = change.resource, change.name
        within = namespace if resource.namespaced else ""
        match change.verb:
            case "create":
                body = {**change.body, "metadata": {**change.body["metadata"], "name": name}}
                await self.client.create(resource, body, within)
                if resource is NODES:
                    await self.client.patch(resource, name, {"status": change.body["status"]}, subresource="status")
            case "create-owned":
                kind = change.body.get("of", PODS)
                owner = await self.client.get(kind, change.body["owner"], namespace)
                reference = {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "name": change.body["owner"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
                body = {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": change.body["spec"]}
                await self.client.create(resource, body, within)
            case "reserve":
                claim = await self.client.get(resource, name, namespace)
                users = change.body.get("users") or [await self._consumer(change.body["group"], namespace)]
                claim["status"]["reservedFor"] = claim["status"].get("reservedFor", []) + users
                await self.client.update_status(resource, claim)
            case "patch":
                await self.client.patch(resource, name, change.body, within, subresource=change.subresource)
            case "delete":
                await self.client.delete(resource, name, within, grace_period=0 if resource is PODS else None)

    async def _consumer(self, group: str, namespace: str) -> Obj:
        """Return the reservation of a claim for a group."""
        [resource] = self._groups
        uid = (await self.client.get(resource, group, namespace))["metadata"]["uid"]
        return {"apiGroup": resource.group, "resource": resource.plural, "name": group, "uid": uid}

    async def _settled(self, namespace: str, expected: list[str] | None, rest: float) -> list[str]:
        """Return pods, claims, groups and events at the end of a step.

        rest  seconds for which they have to be as expected
        """
        before: list[str] = []
        since = time.monotonic()
        while True:
            lines = await self._lines(namespace)
            idle = await self._is_idle() if self._is_idle else False
            if lines != before:
                before, since = lines, time.monotonic()
            enough = rest if lines == expected else self.quiet if idle else self.patience
            if time.monotonic() - since > enough:
                return lines
            await asyncio.sleep(0.1)

    async def _lines(self, namespace: str) -> list[str]:
        lines = []
        for resource in (PODS, resource_claims(self.release), *self._groups, EVENTS):
            items = (await self.client.list(resource, namespace))["items"]
            known = UNSTABLE | (UNSTABLE_OF_EVENTS if resource is EVENTS else set())
            texts = {json.dumps(stable(item, known), sort_keys=True, indent=1) for item in items}
            texts = {MADE_NAME.sub(r"\1NAME", UID.sub("UID", text.replace(namespace, "NS"))) for text in texts}
            for text in sorted(texts):
                lines += [f"{resource.kind} {line}" for line in text.splitlines()]
        return lines

    async def _clear(self, namespace: str) -> None:
        """Remove what a story has left, and what the scheduler still adds to it."""
        claims = resource_claims(self.release)
        devices = resource_slices(self.release), device_classes(self.release)
        for resource in (PODS, claims, *self._groups, *devices, NODES, PRIORITIES):
            within = namespace if resource.namespaced else ""
            while names := await self._names(resource, within):
                for name in names:
                    with suppress(StatusError):
                        if resource in (claims, *self._groups):
                            await self.client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
                        await self.client.delete(resource, name, within, grace_period=0 if resource is PODS else None)

    async def _names(self, resource: Resource, namespace: str) -> list[str]:
        """Return the names of all objects but those of the system."""
        names = [item["metadata"]["name"] for item in (await self.client.list(resource, namespace))["items"]]
        return [name for name in names if not name.startswith("system-")]


def stable(value: Any, unstable: set[str]) -> Any:
    """Return an object without what differs from one run to the next, and its managed fields in some order."""
    if isinstance(value, dict):
        fields = {key: stable(item, unstable) for key, item in value.items() if key not in unstable}
        of_uids = sorted((json.dumps(fields.pop(key)), key) for key in list(fields) if key.startswith('k:{"uid"'))
        return fields | {f"k:uid {number}": json.loads(text) for number, (text, _) in enumerate(of_uids)}
    if isinstance(value, list):
        items = [stable(item, unstable) for item in value]
        is_managed = items and isinstance(items[0], dict) and "manager" in items[0]
        return sorted(items, key=json.dumps) if is_managed else items
    return value


class KubeScheduler:
    """A running kube-scheduler, asked over HTTPS for its state."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"https://127.0.0.1:{port}"

    async def wait_until_ready(self) -> None:
        """Wait until it follows the server. Raises TimeoutError."""
        async with asyncio.timeout(START_SECONDS):
            while not await self._get("/readyz"):
                await asyncio.sleep(0.1)

    async def is_idle(self) -> bool:
        """Report whether no pod waits to be looked at, now or after a pause, and none is being bound."""
        metrics = await self._get("/metrics")
        return bool(metrics) and not BUSY.search(metrics)

    async def _get(self, path: str) -> str:
        """Return the answer to a request, "" if it is not 200."""
        with suppress(aiohttp.ClientError):
            async with self._session.get(self._url + path, ssl=False) as answer:
                return await answer.text() if answer.status == 200 else ""
        return ""


@asynccontextmanager
async def real_scheduler(binary: str, gates: Obj, connection: Connection, log: Path) -> AsyncIterator[IsIdle]:
    """Run kube-scheduler until the block is left; it gets a function that reports whether the scheduler is idle."""
    with tempfile.TemporaryDirectory() as name, log.open("ab") as file:
        folder = Path(name)
        kubeconfig = write_kubeconfig(folder / "kubeconfig", connection.url, connection.token)
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "podMaxBackoffSeconds": LONGEST_BACKOFF,
        }
        (folder / "config").write_text(json.dumps(config))
        port = free_port()
        flags = [f"--config={folder}/config", f"--secure-port={port}", f"--cert-dir={folder}", "-v=3"]
        flags += [f"--feature-gates={name}=true" for name in gates]
        flags += ["--bind-address=127.0.0.1"]
        flags += ["--authorization-always-allow-paths=/readyz,/metrics"]
        program = subprocess.Popen([binary, *flags], stdout=file, stderr=file)
        try:
            async with aiohttp.ClientSession() as session:
                scheduler = KubeScheduler(session, port)
                await scheduler.wait_until_ready()
                yield scheduler.is_idle
        finally:
            program.terminate()
            program.wait(10)


@asynccontextmanager
async def our_scheduler(version: Version, on: dict[str, bool], connection: Connection) -> AsyncIterator[None]:
    """Run our scheduler until the block is left."""
    gates = Gates.of(version, on)
    with patch.object(queued, "LONGEST_BACKOFF", float(LONGEST_BACKOFF)):
        task = asyncio.create_task(run_scheduler(ComponentContext(lambda _: connection, version, gates)))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def print_difference(name: str, real: list[list[str]], ours: list[list[str]]) -> None:
    """Print whether a story has ended the same, or each step that has not."""
    print(f"{'same' if real == ours else 'DIFFERS':8} {name}")
    for number, (expected, actual) in enumerate(zip(real, ours, strict=True)):
        diff = unified_diff(expected, actual, f"step {number}: kube-scheduler", "ours", lineterm="", n=2)
        for line in diff:
            print(f"  {line}", flush=True)


async def tell_all(
    stories: Sequence[Story],
    options: argparse.Namespace,
    connection: Connection,
    scheduler: AbstractAsyncContextManager[IsIdle | None],
    expected: Tellings,
) -> AsyncIterator[tuple[str, list[list[str]]]]:
    """Tell stories to a scheduler; yield the name of each with what it has made of it, as it goes."""
    async with APIClient(connection, "story") as client, scheduler as is_idle:
        stage = Stage(client, options, is_idle)
        for story in stories:
            name = story.__name__
            namespace = f"{name.replace('_', '-')}-{os.getpid()}-{next(TELLINGS)}"
            yield name, await stage.tell(story, namespace, expected.get(name, ()))


def gates_of(options: argparse.Namespace) -> dict[str, bool]:
    """Return the feature gates that are on beside those of the release."""
    return ({DRA: True} if options.emulated_version < V1_34 else {}) | GATES[options.about]


async def compare(stories: Sequence[Story], options: argparse.Namespace, connection: Connection) -> list[Story]:
    """Tell every story twice; return those that differ."""
    real: Tellings = {}
    gates = gates_of(options)
    scheduler = real_scheduler(options.binary, gates, connection, Path(options.log))
    start = time.monotonic()
    async for name, ends in tell_all(stories, options, connection, scheduler, {}):
        real[name] = ends
        print(f"{time.monotonic() - start:8.1f} s  {name}: kube-scheduler has ended", flush=True)
    different = []
    ours = our_scheduler(options.emulated_version, gates, connection)
    async for name, ends in tell_all(stories, options, connection, ours, real):
        print_difference(name, real[name], ends)
        if real[name] != ends:
            different.append(next(story for story in stories if story.__name__ == name))
    print(f"{len(stories) - len(different)} of {len(stories)} stories are the same in {time.monotonic() - start:.0f} s")
    return different


async def compare_twice(options: argparse.Namespace, connection: Connection) -> int:
    """Compare all stories, and those that differ once more; return how many still do."""
    told = {"groups": group_stories.STORIES, "node-allocatable": node_allocatable_stories.STORIES}
    all_stories = told.get(options.about) or stories_of(options.emulated_version)
    stories = [story for story in all_stories if not options.story or story.__name__ in options.story]
    different = await compare(stories, options, connection)
    if different:
        options.quiet *= 4
        different = await compare(different, options, connection)
    return len(different)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--binary", required=True, help="kube-scheduler of the release")
    parser.add_argument("--emulated-version", required=True, type=Version.parse, metavar="RELEASE")
    parser.add_argument("--server", default="")
    parser.add_argument("--token", default="")
    parser.add_argument("--about", choices=GATES, default="pods", help="which stories to tell (default: %(default)s)")
    parser.add_argument("--story", action="append", help="tell only this one; may be repeated")
    help_ = "seconds without a change after which a step has ended with kube-scheduler (default: %(default)s)"
    parser.add_argument("--quiet", type=float, default=QUIET, help=help_)
    help_ = "seconds without a change after which it has ended anyway (default: %(default)s)"
    parser.add_argument("--patience", type=float, default=PATIENCE, help=help_)
    parser.add_argument("--log", default="/dev/null", help="where kube-scheduler's log goes")


def run(options: argparse.Namespace) -> int:
    return min(1, asyncio.run(compare_all(options)))


async def compare_all(options: argparse.Namespace) -> int:
    """Compare on the server that is named, or on understudy; return the number of differences."""
    if options.server:
        return await compare_twice(options, Connection(url=options.server, token=options.token, insecure=True))
    version, gates = str(options.emulated_version), gates_of(options)
    async with Server(emulated_version=version, feature_gates=gates) as server:
        return await compare_twice(options, Connection(url=server.url))
