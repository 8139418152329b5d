"""The nodes of a laptop: each is ready, and has a kubelet if the library that kubelets need is installed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.kubelet.node import NodeKeeper
from understudy.controlplane.kubelet.sandboxes import read_boot_id
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock

log = logging.getLogger(__name__)


class Nodes:
    """Starts a kubelet for each node that appears, and stops it when the node is gone.

    root            folder of the kubelets; that of a node has its name
    tell            is called with a line about each kubelet
    sync_frequency  seconds until a kubelet tries failed claims again
    clock           that of the kubelets
    """

    def __init__(
        self, connection: Connection, client: APIClient, root: Path, version: Version, gates: Gates,
        tell: Callable[[str], None], sync_frequency: float, clock: Clock,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._client = client
        self._root = root
        self._version = version
        self._gates = gates
        self._tell = tell
        self._sync_frequency = sync_frequency
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, node: Obj) -> None:
        """Begin to care for a node."""
        name = node["metadata"]["name"]
        self._tasks[name] = asyncio.create_task(self._care(name), name=f"node {name}")

    def remove(self, node: Obj) -> None:
        """Stop the kubelet of a node that is gone."""
        task = self._tasks.pop(node["metadata"]["name"], None)
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Stop all kubelets."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _care(self, name: str) -> None:
        """Make a node ready and keep its kubelet running."""
        try:
            async with AsyncExitStack() as stack:
                kubelet = self._kubelet(name)
                if kubelet is None:
                    keeper = NodeKeeper(self._client, name, self._version, self._gates, read_boot_id(), self._clock)
                    await keeper.register()
                else:
                    await stack.enter_async_context(kubelet)
                    self._tell(f"node {name}: kubelet looks for drivers in {self._root / name / 'plugins_registry'}")
                await asyncio.Event().wait()
        except Exception as why:  # the other nodes go on
            self._tell(f"node {name}: {why}")
            log.debug("node %s", name, exc_info=True)

    def _kubelet(self, name: str) -> AbstractAsyncContextManager[object] | None:
        """Return the kubelet of a node, which leaves loaded slices alone; None without the library that it needs."""
        try:
            from understudy.controlplane.kubelet.kubelet import Kubelet
        except ImportError:
            return None
        root = self._root / name
        root.mkdir(parents=True, exist_ok=True)
        return Kubelet(
            self._connection,
            name,
            root,
            self._version,
            self._gates,
            register_node=True,
            resync_period=self._sync_frequency,
            backoff_period=self._sync_frequency,
            reconcile_period=self._sync_frequency,
            wipe_at_start=False,
            serves_logs=True,
            clock=self._clock,
        )
