"""The controllers of kube-apiserver itself: those of custom resource definitions, API services, flow schemas, the end
of events, the day since which uses of legacy tokens are noted, and coordinated elections of leaders.

They always run. Those of kube-controller-manager are in `understudy.controlplane`, and reach a server as its
`ControllerManager`.

All work in the same way (`framework`): informers of the store tell what is written, handlers put the keys to look at
into a queue, and a worker looks at what is stored then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.coordinated_leader_election import LeaderElectionController
from understudy.apiserver.controllers.custom_resources.api_services import APIServiceController
from understudy.apiserver.controllers.custom_resources.definitions import DefinitionController
from understudy.apiserver.controllers.event_expiry import EventExpiry
from understudy.apiserver.controllers.flow_schemas import FlowSchemaController
from understudy.apiserver.controllers.framework.controller import Controller, run_controllers
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.token_tracking import TokenTrackingController
from understudy.apiserver.controllers.watch_caches import WatchCaches

NewController = Callable[[ControllerContext, StoreInformers], Controller[str]]

OWN: tuple[NewController, ...] = (
    DefinitionController,
    APIServiceController,
    FlowSchemaController,
    EventExpiry,
    TokenTrackingController,
    LeaderElectionController,
)


class ControllerManager(Protocol):
    """The controllers behind a server that are not kube-apiserver's own: those of kube-controller-manager, and others.

    names  of those that were asked for
    """

    names: Collection[str]

    def start(self, context: ControllerContext) -> None:
        """Start those that run in the server's process, in the running event loop, from what is stored now."""

    def start_components(self) -> None:
        """Start those that are clients of a server that listens."""

    async def stop_components(self) -> None:
        """Stop the clients, while the server still answers them. Raises the error that has ended one before."""

    async def stop(self) -> None:
        """Stop all, each between two writes. Raises the error that has ended one before."""


class Controllers:
    """The controllers of one server: its own, with others that look at things outside, and those of its controller
    manager."""

    def __init__(
        self, context: ControllerContext, manager: ControllerManager, others: Sequence[NewController] = ()
    ) -> None:
        self._context = context
        self._own = (*OWN, *others)
        self._manager = manager
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *, writes: bool = True) -> None:
        """Start the controllers in the running event loop, from what is stored now; those of kube-apiserver only if
        they can write."""
        caches = WatchCaches(self._context.state)
        self._tasks = [asyncio.create_task(caches.forever())]
        if writes:
            self._tasks.append(start(self._context, self._own))
        self._manager.start(self._context)

    async def stop(self) -> None:
        """Stop all controllers, each between two writes. Raises the error that has ended one before."""
        await self._manager.stop()
        tasks, self._tasks = self._tasks, []
        await cancel(tasks)


def start(context: ControllerContext, controllers: Iterable[NewController]) -> asyncio.Task[None]:
    """Start controllers in the running event loop, from what is stored now; return the task that runs them."""
    informers = StoreInformers(context.state.registry.store, context.state.clock)
    return asyncio.create_task(run_controllers(informers, [new(context, informers) for new in controllers]))


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks, one after the other, and wait for them. Raises the error that has ended one before."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
