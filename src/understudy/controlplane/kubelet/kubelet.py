"""The kubelet of one node, put together.

async with Kubelet(connection, "node-1", "/tmp/kubelet", "1.36"):
    ...                                     # drivers register in /tmp/kubelet/plugins_registry
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.kubelet.dra.claim_info import ClaimInfoCache
from understudy.controlplane.kubelet.dra.health_info import DeviceHealthCache
from understudy.controlplane.kubelet.dra.manager import DRAManager
from understudy.controlplane.kubelet.dra.plugins import PLUGIN_TYPE, DRAPluginManager
from understudy.controlplane.kubelet.node import NodeKeeper, address_of
from understudy.controlplane.kubelet.pluginmanager import PluginManager
from understudy.controlplane.kubelet.pod_status import PodStatusWriter
from understudy.controlplane.kubelet.pods import BACKOFF_PERIOD, RESYNC_PERIOD, PodIPs, PodRuntime, PodWorkers
from understudy.controlplane.kubelet.sandboxes import Sandboxes, read_boot_id
from understudy.controlplane.kubelet.server.host import host_of
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)

RECONCILE_PERIOD = 60.0  # seconds until claims of pods that are gone are looked for again


class Kubelet:
    """Prepares the claims of a node's pods. It is an asynchronous context manager, which ends what it has begun.

    connection        the way to the API server
    node              name of the node; drivers need the Node object, which `register_node` creates
    root              folder of `plugins_registry/`, of the file of prepared claims and of the running pods
    version           release of the kubelet, which decides about services, checks and texts
    gates             feature gates, those of the release by default
    resync_period     seconds until claims that could not be prepared are tried again (up to half as much more)
    backoff_period    seconds until claims that could not be unprepared are tried again
    reconcile_period  seconds between two searches for prepared claims whose pods are gone
    wiping_delay      seconds until the ResourceSlices of a driver that went away are deleted, None for the release's
    wipe_at_start     whether the node's ResourceSlices are deleted at the start, since drivers publish theirs again
    clock             by which it waits, that of the machine by default
    serves_logs       whether it answers the API server at the node's address, see `KubeletEndpoint`
    client_ca_file    certificates (PEM) of the authorities whose clients it answers there; all of them without
    exec_command      is run with the commands of clients as arguments, who exec in pods, attach to them and forward
                      ports of theirs; only with `client_ca_file`
    pod_addresses     {"NAMESPACE/NAME:PORT": "HOST:PORT"}: where ports of pods are forwarded to, by default to the same
                      port of 127.0.0.1
    boot_id           another one than before means a reboot: no pod runs any more. That of the machine by default

    Raises ValueError for options without sense, and CheckpointError at its start if the file of prepared claims is
    broken.
    """

    def __init__(
        self,
        connection: Connection,
        node: str,
        root: Path | str,
        version: Version | str,
        gates: Gates | None = None,
        *,
        register_node: bool = False,
        resync_period: float = RESYNC_PERIOD,
        backoff_period: float = BACKOFF_PERIOD,
        reconcile_period: float = RECONCILE_PERIOD,
        wiping_delay: float | None = None,
        wipe_at_start: bool = True,
        serves_logs: bool = False,
        client_ca_file: Path | str | None = None,
        exec_command: Sequence[str] | None = None,
        pod_addresses: Mapping[str, str] | None = None,
        boot_id: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._version = version = Version.parse(version) if isinstance(version, str) else version
        self._clock: Clock = clock or SYSTEM_CLOCK
        self._client = APIClient(connection, f"kubelet/v{version.number}.0", self._clock)
        self._node = node
        self._root = Path(root).resolve()
        self._gates = gates or Gates.of(version)
        self._register_node = register_node
        self._resync_period = resync_period
        self._backoff_period = backoff_period
        self._reconcile_period = reconcile_period
        self._wiping_delay = wiping_delay
        self._wipe_at_start = wipe_at_start
        self._serves = serves_logs or exec_command is not None
        self._client_ca_file = None if client_ca_file is None else Path(client_ca_file)
        self._host = None if exec_command is None else host_of(exec_command, pod_addresses or {}, client_ca_file)
        self._boot_id = read_boot_id() if boot_id is None else boot_id
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        cache = ClaimInfoCache(self._root, self._version)
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(cache, ready), name=f"kubelet of {self._node}")
        waiter = asyncio.create_task(ready.wait())
        await asyncio.wait({self._task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if self._task.done():
            await self._task
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self, cache: ClaimInfoCache, ready: asyncio.Event) -> None:
        """Run all parts until cancelled; `ready` is set when the node's pods are known."""
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._client)
            events = await stack.enter_async_context(EventRecorder(client, "kubelet", host=self._node))
            keeper = NodeKeeper(
                client, self._node, self._version, self._gates, self._boot_id, self._clock, is_dialed=self._serves
            )
            if self._register_node:
                await keeper.register()
            node = await keeper.get()
            if not self._register_node:
                keeper.warn_of(node)
            health = DeviceHealthCache(
                self._root, cache, self._version, self._gates, self._clock, lambda uids: workers.wake(uids)
            )
            follows_health = self._version >= V1_34 and self._gates[features.RESOURCE_HEALTH_STATUS]
            plugins = DRAPluginManager(
                client, self._node, self._version, health.follow if follows_health else None, self._wiping_delay
            )
            stack.push_async_callback(plugins.stop)
            stack.callback(health.close)
            dra = DRAManager(client, cache, plugins, self._version, self._gates)
            runtime = PodRuntime(
                client=client,
                events=events,
                dra=dra,
                status=PodStatusWriter(self._gates, health.allocated_resources_status),
                sandboxes=Sandboxes(self._root, self._boot_id),
                pod_ips=PodIPs(pod_network(self._node, node)),
                host_ip=address_of(node),
                clock=self._clock,
                resync_period=self._resync_period,
                backoff_period=self._backoff_period,
            )
            pods = Informer(client, PODS, fields=f"spec.nodeName={self._node}")
            async with asyncio.TaskGroup() as tasks:
                workers = PodWorkers(runtime, tasks)
                pods.add_handler(workers.update, workers.replace, workers.remove)
                if self._serves and node is not None:
                    await self._serve(stack, keeper, runtime, pods)
                if self._wipe_at_start:
                    plugins.start()
                registry = PluginManager(self._root / "plugins_registry", {PLUGIN_TYPE: plugins})
                tasks.create_task(registry.run(), name="plugin manager")
                tasks.create_task(pods.run(), name="pods")
                tasks.create_task(keeper.renew_lease(), name="node lease")
                await pods.wait_for_sync()
                ready.set()
                while True:
                    await dra.reconcile(workers.active())
                    await sleep(self._clock, self._reconcile_period)

    async def _serve(self, stack: AsyncExitStack, keeper: NodeKeeper, runtime: PodRuntime, pods: Informer) -> None:
        """Listen at the node's address, if it is one of this machine, and let the Node say where."""
        from understudy.controlplane.kubelet.server.endpoint import KubeletEndpoint
        from understudy.controlplane.kubelet.server.pod_streams import PodStreams

        async def find(namespace: str, name: str) -> Obj | None:
            pod = await runtime.client.find(PODS, name, namespace)
            return pod if pod is not None and pod["spec"].get("nodeName") == self._node else None

        streams = None
        if self._host is not None:
            speaks_websockets = self._gates[features.EXTEND_WEB_SOCKETS_TO_KUBELET]
            streams = PodStreams(self._host, runtime.sessions, speaks_websockets=speaks_websockets)
        endpoint = KubeletEndpoint(
            find, runtime.sandboxes, self._clock, runtime.sessions, self._client_ca_file, streams
        )
        stack.push_async_callback(endpoint.stop)
        try:
            port = await endpoint.start(runtime.host_ip)
        except OSError as why:
            log.warning("node %s answers no requests: %s", self._node, why)
            return
        pods.add_handler(endpoint.note_change, endpoint.note_change, endpoint.note_change)
        await keeper.name_port(port)


def pod_network(name: str, node: Obj | None) -> str:
    """Return the network of a node's pods: its `podCIDR`, or one that its name decides."""
    network: str | None = (node or {}).get("spec", {}).get("podCIDR")
    return network or f"10.{1 + zlib.crc32(name.encode()) % 254}.0.0/16"
