#!/usr/bin/env python3
"""Let kube-scheduler and ours decide about the same pods, and print what differs.

    scripts/compare_schedulers.py --binary PATH/kube-scheduler --emulated-version 1.36
    scripts/compare_schedulers.py --binary PATH/kube-scheduler --emulated-version 1.36 --server URL --token T

Without --server both work on understudy. Each story (`scheduler_stories.py`) is told twice, in namespaces of their own:
once with each scheduler. At the end of each step, when nothing changes any more, pods, claims and events are compared,
but for what differs from one run to the next: uids, versions, times, names of events. The exit status is 1 if anything
else differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from difflib import unified_diff
from pathlib import Path
from typing import Any

from scheduler_stories import PRIORITIES, Change, Maker, Story, stories_of

from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.apiserver.controllers.components import ComponentContext
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
    device_classes,
    resource_claims,
    resource_slices,
)
from understudy.controlplane.scheduler import run as run_scheduler
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version

Obj = dict[str, Any]
QUIET = 1.2  # seconds without a change after which a step has ended
PATIENCE = 20.0  # seconds after which it has ended anyway
DRA = "DynamicResourceAllocation"
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
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Stage:
    """A server on which stories are told."""

    def __init__(self, client: APIClient, release: Version, quiet: float) -> None:
        self.client = client
        self.release = release
        self.quiet = quiet

    async def tell(self, story: Story, namespace: str) -> list[str]:
        """Tell a story in a new namespace; return what there is at the end of each step, as lines."""
        lines: list[str] = []
        await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        with suppress(StatusError):
            await self.client.create(ACCOUNTS, {"metadata": {"name": "default"}}, namespace)
        try:
            for number, step in enumerate(story(Maker(self.release))):
                for change in step:
                    try:
                        await self._make(change, namespace)
                    except StatusError as why:
                        raise SystemExit(f"{story.__name__}, {change.verb} {change.name}: {why}") from why
                lines += [f"--- after step {number}", *await self._settled(namespace)]
        finally:
            await self._clear(namespace)
        return lines

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
                owner = await self.client.get(PODS, change.body["owner"], namespace)
                uid = owner["metadata"]["uid"]
                reference = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": change.body["owner"],
                    "uid": uid,
                    "controller": True,
                }
                body = {"metadata": {"name": name, "ownerReferences": [reference]}, "spec": change.body["spec"]}
                await self.client.create(resource, body, within)
            case "reserve":
                claim = await self.client.get(resource, name, namespace)
                claim["status"]["reservedFor"] += change.body["users"]
                await self.client.update_status(resource, claim)
            case "patch":
                await self.client.patch(resource, name, change.body, within, subresource=change.subresource)
            case "delete":
                await self.client.delete(resource, name, within, grace_period=0 if resource is PODS else None)

    async def _settled(self, namespace: str) -> list[str]:
        """Return pods, claims and events once they have not changed for a while."""
        before, quiet, waited = "", 0.0, 0.0
        while quiet < self.quiet and waited < PATIENCE:
            await asyncio.sleep(0.1)
            seen = json.dumps(lines := await self._lines(namespace))
            quiet, waited = (quiet + 0.1 if seen == before else 0.0), waited + 0.1
            before = seen
        return lines

    async def _lines(self, namespace: str) -> list[str]:
        lines = []
        for resource in (PODS, resource_claims(self.release), EVENTS):
            items = (await self.client.list(resource, namespace))["items"]
            known = UNSTABLE | (UNSTABLE_OF_EVENTS if resource is EVENTS else set())
            texts = {json.dumps(stable(item, known), sort_keys=True, indent=1) for item in items}
            texts = {MADE_NAME.sub(r"\1NAME", UID.sub("UID", text.replace(namespace, "NS"))) for text in texts}
            for text in sorted(texts):
                lines += [f"{resource.kind} {line}" for line in text.splitlines()]
        return lines

    async def _clear(self, namespace: str) -> None:
        """Remove what a story has left."""
        claims = resource_claims(self.release)
        for resource in (PODS, claims, resource_slices(self.release), device_classes(self.release), NODES, PRIORITIES):
            within = namespace if resource.namespaced else ""
            for item in (await self.client.list(resource, within))["items"]:
                name = item["metadata"]["name"]
                if name.startswith("system-"):
                    continue
                with suppress(StatusError):
                    if resource is claims:
                        await self.client.patch(claims, name, {"metadata": {"finalizers": None}}, namespace)
                    await self.client.delete(resource, name, within, grace_period=0 if resource is PODS else None)
        await asyncio.sleep(0.5)


def stable(value: Any, unstable: set[str]) -> Any:
    """Return an object without what differs from one run to the next, and its managed fields in some order."""
    if isinstance(value, dict):
        return {key: stable(item, unstable) for key, item in value.items() if key not in unstable}
    if isinstance(value, list):
        items = [stable(item, unstable) for item in value]
        is_managed = items and isinstance(items[0], dict) and "manager" in items[0]
        return sorted(items, key=json.dumps) if is_managed else items
    return value


def write_kubeconfig(file: Path, connection: Connection) -> Path:
    """Write a kubeconfig for a server that trusts any certificate; return the file."""
    cluster: Obj = {"server": connection.url}
    if connection.url.startswith("https:"):
        cluster["insecure-skip-tls-verify"] = True
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": connection.token} if connection.token else {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    file.write_text(json.dumps(content))
    file.chmod(0o600)
    return file


@asynccontextmanager
async def real_scheduler(binary: str, connection: Connection, log: Path) -> AsyncIterator[None]:
    """Run kube-scheduler until the block is left."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = write_kubeconfig(Path(folder) / "kubeconfig", connection)
        flags = ["--secure-port=0", "--leader-elect=false", f"--feature-gates={DRA}=true", "-v=3"]
        with log.open("wb") as file:
            program = subprocess.Popen([binary, f"--kubeconfig={kubeconfig}", *flags], stdout=file, stderr=file)
            try:
                await asyncio.sleep(3)
                yield
            finally:
                program.terminate()
                program.wait(10)


@asynccontextmanager
async def our_scheduler(release: Version, connection: Connection) -> AsyncIterator[None]:
    """Run our scheduler until the block is left."""
    gates = Gates.of(release) if release >= V1_34 else Gates.of(release, {DRA: True})
    task = asyncio.create_task(run_scheduler(ComponentContext(lambda _: connection, release, gates)))
    try:
        await asyncio.sleep(0.5)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def compare(options: argparse.Namespace, connection: Connection) -> int:
    """Tell every story twice; return how many differ."""
    release = Version.parse(options.emulated_version)
    stories = [story for story in stories_of(release) if not options.story or story.__name__ in options.story]
    told: list[dict[str, list[str]]] = []
    async with APIClient(connection, "story") as client:
        stage = Stage(client, release, options.quiet)
        for who, scheduler in (
            ("real", real_scheduler(options.binary, connection, Path(options.log))),
            ("ours", our_scheduler(release, connection)),
        ):
            async with scheduler:
                told.append(
                    {
                        s.__name__: await stage.tell(s, f"{who}-{s.__name__.replace('_', '-')}-{os.getpid()}")
                        for s in stories
                    }
                )
    different = 0
    for name, lines in told[0].items():
        diff = list(unified_diff(lines, told[1][name], "kube-scheduler", "ours", lineterm="", n=2))
        different += bool(diff)
        print(f"{'DIFFERS' if diff else 'same':8} {name}", *diff, sep="\n  ")
    print(f"{len(stories) - different} of {len(stories)} stories are the same")
    return different


async def main() -> int:
    """Compare on the server that is named, or on understudy."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True, help="kube-scheduler of the release")
    parser.add_argument("--emulated-version", required=True)
    parser.add_argument("--server", default="")
    parser.add_argument("--token", default="")
    parser.add_argument("--story", action="append", help="tell only this one; may be repeated")
    help_ = "seconds without a change after which a step has ended; pods may wait for up to ten after many attempts"
    parser.add_argument("--quiet", type=float, default=QUIET, help=help_)
    parser.add_argument("--log", default="/dev/null", help="where kube-scheduler's log goes")
    options = parser.parse_args()
    if options.server:
        return await compare(options, Connection(url=options.server, token=options.token, insecure=True))
    async with Server(emulated_version=options.emulated_version) as server:
        return await compare(options, Connection(url=server.url))


if __name__ == "__main__":
    sys.exit(min(1, asyncio.run(main())))
