"""The kubelets of a simulation: one for each node that there is, with the drivers of the node."""

from __future__ import annotations

import asyncio

from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import NODES, resource_slices
from understudy.controlplane.simulation.node import Conditions, SimulatedNode, ended
from understudy.machinery.types import Obj


class Kubelets:
    """Runs a kubelet for each node, until cancelled."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._nodes: dict[str, SimulatedNode] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._slices: dict[str, Obj] = {}  # those that there ever were, by name

    async def run(self) -> None:
        """Follow the nodes and the slices, and run the kubelets."""
        conditions = self._conditions
        async with conditions.client("understudy-simulation") as client:
            nodes, slices = Informer(client, NODES), Informer(client, resource_slices(conditions.version))
            nodes.add_handler(self._add, None, self._remove)
            slices.add_handler(self._adopt)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(slices.run())
                    await slices.wait_for_sync()
                    tasks.create_task(nodes.run())
            finally:
                await ended(self._running.values())

    def _add(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        new = self._nodes[name] = SimulatedNode(name, self._conditions)
        for slice_ in self._slices.values():
            _give(slice_, new)
        self._running[name] = asyncio.create_task(new.run(), name=f"node {name}")

    def _remove(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        del self._nodes[name]
        self._running.pop(name).cancel()

    def _adopt(self, slice_: Obj) -> None:
        """Let a driver run, and publish a slice from now on."""
        self._slices.setdefault(slice_["metadata"]["name"], slice_)
        for node in self._nodes.values():
            _give(slice_, node)


def _give(slice_: Obj, node: SimulatedNode) -> None:
    """Let a driver run on a node, if a slice of it is for that node, or for several."""
    only = slice_["spec"].get("nodeName")
    if only in (None, node.name):
        node.add_driver(slice_["spec"]["driver"], slice_ if only else None)
