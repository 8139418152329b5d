"""Workers of pods: what they do when changes come in awkward moments."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.clock import FixedClock
from tests.waiting import running, until
from understudy.controlplane.client.resources import Resource
from understudy.controlplane.kubelet.pod_status import PodStatusWriter
from understudy.controlplane.kubelet.pods import PodIPs, PodRuntime, PodWorker
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj

POD: Obj = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 1},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


async def nothing(*_: object) -> None:
    """Prepare or unprepare no claims."""


@pytest.mark.parametrize("in_the_answer", [False, True], ids=["heard of before the answer", "in the answer"])
async def test_deletion_while_the_status_is_written(in_the_answer: bool) -> None:
    """A deletion that comes while the worker writes the status is seen, be it by the informer or by the answer."""
    deletion = {**POD, "metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    deleted = asyncio.Event()

    class Client:
        """Lets the pod be deleted while its status is patched."""

        async def patch(self, resource: Resource, name: str, patch: Obj, *_: Any, **__: Any) -> Obj:
            await asyncio.sleep(0)
            if not in_the_answer:
                worker.update({**deletion})  # each event of an informer is a new object
            return deletion if in_the_answer else POD

        async def delete(self, *_: Any, **__: Any) -> None:
            deleted.set()

    sandboxed: dict[str, object] = {}
    sandboxes = SimpleNamespace(
        get=sandboxed.get, addresses=set, start=sandboxed.__setitem__, stop=lambda uid: sandboxed.pop(uid, None)
    )
    runtime = PodRuntime(
        client=cast(Any, Client()),
        events=cast(Any, None),
        dra=cast(Any, SimpleNamespace(prepare=nothing, unprepare=nothing, cdi_devices=lambda pod: {})),
        status=PodStatusWriter(Gates.of(V1_36), lambda pod, container: []),
        sandboxes=cast(Any, sandboxes),
        pod_ips=PodIPs("10.0.0.0/24"),
        host_ip="192.0.2.1",
        clock=FixedClock(0.0),
    )
    worker = PodWorker(runtime, POD)
    async with running(worker.run()):
        await until(deleted.is_set)
    assert worker.stopped
    assert not sandboxed
