"""A server with everything that makes claims move, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.resources import (
    EVENTS,
    NODES,
    PODS,
    device_classes,
    device_taint_rules,
    resource_claims,
    resource_slices,
)
from understudy.controlplane.dev.account import Account
from understudy.controlplane.dev.holdings import holdings, published, table
from understudy.controlplane.dev.nodes import Nodes
from understudy.controlplane.dev.why_not import WhyNot
from understudy.controlplane.server import Server
from understudy.machinery.releases.version import Version

KUBELET_LOG = "understudy.controlplane.kubelet"
SYNC_FREQUENCY = 10.0  # seconds; a real kubelet takes 60


class Cluster:
    """Follows a server that has started, keeps its kubelets, and tells what happens.

    root            folder of the kubelets
    tell            is called with each line of the account
    sync_frequency  seconds until the kubelets try failed claims again (up to half as much more)
    """

    def __init__(
        self, server: Server, root: Path, tell: Callable[[str], None], sync_frequency: float = SYNC_FREQUENCY
    ) -> None:
        self._connection = read_kubeconfig(server.kubeconfig)
        self._state = server.state
        self._root = root
        self._tell = tell
        self._sync_frequency = sync_frequency
        self._informers: Informers | None = None

    def tell_devices(self) -> None:
        """Print a table of devices and their users."""
        if self._informers is None:
            return
        version = self._state.release.version
        kinds = (resource_slices(version), resource_claims(version), PODS)
        slices, claims, pods = (self._informers.of(kind).store.objects() for kind in kinds)
        self._tell("devices:")
        for line in table(holdings(slices, claims, pods), published(slices)):
            self._tell(f"    {line}")

    async def run(self) -> None:
        """Run until cancelled."""
        version, gates = self._state.release.version, self._state.gates
        handler = _Teller(self._tell)
        kubelets = logging.getLogger(KUBELET_LOG)
        before = kubelets.level, kubelets.propagate
        kubelets.addHandler(handler)
        kubelets.setLevel(logging.INFO)
        kubelets.propagate = False  # what they log is told once
        async with APIClient(self._connection, "understudy-dev", self._state.clock) as client:
            clock = self._state.clock
            nodes = Nodes(self._connection, client, self._root, version, gates, self._tell, self._sync_frequency, clock)
            try:
                await self._follow(client, nodes, WhyNot(version, gates), version)
            finally:
                kubelets.removeHandler(handler)
                kubelets.propagate = before[1]
                kubelets.setLevel(before[0])
                await nodes.stop()

    async def _follow(self, client: APIClient, nodes: Nodes, why_not: WhyNot, version: Version) -> None:
        """Let every part know of changes. What explains is told first, so that explanations are up to date."""
        account = Account(self._tell, why_not.lines)
        informers = self._informers = Informers(client)
        claims, devices = why_not.claims, why_not.devices
        of_nodes, of_claims = informers.of(NODES), informers.of(resource_claims(version))
        of_nodes.add_handler(why_not.put_node, _second(why_not.put_node), why_not.remove_node)
        of_nodes.add_handler(nodes.add, None, nodes.remove)
        of_claims.add_handler(claims.put, _second(claims.put), claims.remove)
        of_claims.add_handler(account.claim_added, account.claim_updated, account.claim_deleted)
        of_classes, of_slices = informers.of(device_classes(version)), informers.of(resource_slices(version))
        of_classes.add_handler(devices.put_class, _second(devices.put_class), devices.remove_class)
        of_slices.add_handler(devices.put_slice, _second(devices.put_slice), devices.remove_slice)
        of_slices.add_handler(account.slice_added, account.slice_updated, account.slice_deleted)
        if devices.follows_taint_rules:
            of_rules = informers.of(device_taint_rules(version))
            of_rules.add_handler(devices.put_taint_rule, _second(devices.put_taint_rule), devices.remove_taint_rule)
        informers.of(PODS).add_handler(account.pod_added, account.pod_updated, account.pod_deleted)
        informers.of(EVENTS).add_handler(account.event_changed, _second(account.event_changed))
        await informers.run()


def _second(function: Callable[[Any], None]) -> Callable[[Any, Any], None]:
    """Return a handler of changes that is only told the new object."""
    return lambda _, new: function(new)


class _Teller(logging.Handler):
    """Makes lines of what kubelets log: drivers that come and go, claims that are prepared and unprepared."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell_line = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one record."""
        self._tell_line(record.getMessage())


async def until(waiting: asyncio.Future[None], cluster: Cluster) -> None:
    """Run a cluster until a future is done. Raises what ends it before."""
    running = asyncio.create_task(cluster.run())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        running.result()
    running.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
