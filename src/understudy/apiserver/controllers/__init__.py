"""The controllers of kube-apiserver itself: those of custom resource definitions, API services and flow schemas.

They always run. Those of kube-controller-manager are in `understudy.controlplane`, and reach a server as its
`ControllerManager`.

Every controller sees each write of the store and notes the keys to look at; one task looks at them one by one, at what
is stored then. A key that cannot be dealt with is looked at again later, after the delays of client-go's rate limiter
(k8s.io/client-go/util/workqueue).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Protocol

from understudy.apiserver.controllers import flow_schemas
from understudy.apiserver.controllers.controller import Controller, ControllerContext, TryAgainError, UnknownOwnerError
from understudy.apiserver.controllers.custom_resources import definitions
from understudy.apiserver.controllers.custom_resources.api_services import APIServiceController
from understudy.apiserver.controllers.custom_resources.definitions import DefinitionController
from understudy.apiserver.controllers.flow_schemas import FlowSchemaController
from understudy.apiserver.controllers.watch_caches import WatchCaches
from understudy.apiserver.storage.interface import Watch
from understudy.machinery.errors import StatusError

NewController = Callable[[ControllerContext], Controller]

# The controllers of kube-apiserver itself, with the prefix of the keys that each looks at.
OWN: tuple[tuple[NewController, str], ...] = (
    (DefinitionController, definitions.PREFIX),
    (APIServiceController, definitions.PREFIX),
    (FlowSchemaController, flow_schemas.SCHEMAS),
    (FlowSchemaController, flow_schemas.LEVELS),
)
EVERYTHING = "/registry/"
FIRST_DELAY, LONGEST_DELAY = 0.005, 1000.0  # seconds until another try; doubled with each failure

log = logging.getLogger(__name__)


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
    """The controllers of one server: its own, and those of its controller manager."""

    def __init__(self, context: ControllerContext, manager: ControllerManager) -> None:
        self._context = context
        self._manager = manager
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the controllers in the running event loop, from what is stored now."""
        runs = [Run(self._context, [controller], prefix) for controller, prefix in OWN]
        caches = WatchCaches(self._context.state)
        self._tasks = [asyncio.create_task(task) for task in (*(run.forever() for run in runs), caches.forever())]
        self._manager.start(self._context)

    async def stop(self) -> None:
        """Stop all controllers, each between two writes. Raises the error that has ended one before."""
        await self._manager.stop()
        tasks, self._tasks = self._tasks, []
        await cancel(tasks)


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks, one after the other, and wait for them. Raises the error that has ended one before."""
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Run:
    """One task that runs controllers over the keys under a prefix."""

    def __init__(self, context: ControllerContext, controllers: Iterable[NewController], prefix: str) -> None:
        self._store = context.state.registry.store
        self._prefix = prefix
        self._controllers = [controller(context) for controller in controllers]
        self._woken = asyncio.Event()
        self._failures: dict[tuple[Controller, str], int] = {}
        self._later: set[asyncio.TimerHandle] = set()

    async def forever(self) -> None:
        """Run the controllers until the task is cancelled."""
        try:
            while True:
                await self._from_now_on()
        finally:
            for handle in self._later:
                handle.cancel()

    async def _from_now_on(self) -> None:
        """Run the controllers until the watch is cut off, so that they have to start over."""
        revision = self._store.revision
        watch = self._store.watch(self._prefix, revision)
        watch.wake = self._woken.set
        try:
            entries = (await self._store.range(self._prefix, revision=revision)).entries
            for controller in self._controllers:
                controller.begin(entries)
            while not watch.overflown:
                self._woken.clear()
                if not await self._some(watch):
                    await self._woken.wait()
        finally:
            self._store.unwatch(watch)

    async def _some(self, watch: Watch) -> bool:
        """Look at one key of each controller; return whether there were any. All writes are seen before each key."""
        busy = False
        for controller in self._controllers:
            while watch.queue:
                event = watch.take()
                for each in self._controllers:
                    each.observe(event)
            if controller.todo:
                busy = True
                await self._one(controller)
                await asyncio.sleep(0)  # others in the loop have their turn
        return busy

    async def _one(self, controller: Controller) -> None:
        """Look at the next key of a controller, and again later if that fails. No error ends the controller."""
        key = next(iter(controller.todo))
        del controller.todo[key]
        try:
            await controller.sync(key)
        except TryAgainError as wait:
            self._again(controller, key, wait.delay)
        except Exception as why:
            expected = isinstance(why, StatusError | UnknownOwnerError)
            level = logging.DEBUG if expected else logging.ERROR
            log.log(level, "%s: %s: %s", type(controller).__name__, key, why, exc_info=not expected)
            failures = self._failures[controller, key] = self._failures.get((controller, key), 0) + 1
            self._again(controller, key, min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY))
        else:
            self._failures.pop((controller, key), None)

    def _again(self, controller: Controller, key: str, delay: float) -> None:
        def now() -> None:
            self._later.discard(handle)
            controller.todo[key] = None
            self._woken.set()

        handle = asyncio.get_running_loop().call_later(delay, now)
        self._later.add(handle)
