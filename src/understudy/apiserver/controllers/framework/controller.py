"""The base of every controller: a work queue, which handlers of informers fill, and what is done about a key."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

from understudy.apiserver.controllers.framework.informer import SharedInformers
from understudy.apiserver.controllers.framework.workqueue import DELAYS, Delays, WorkQueue

K = TypeVar("K", bound=Hashable)


class Controller(ABC, Generic[K]):
    """Makes things as they have to be, key by key.

    informers  those that the controller follows, and others may too
    workers    how many keys are looked at at the same time
    name       what logs call the controller, that of its class by default
    delays     after failures of a key
    queue      the keys to look at
    """

    def __init__(
        self, informers: SharedInformers[Any, Any], workers: int = 1, name: str = "", delays: Delays = DELAYS
    ) -> None:
        self.queue: WorkQueue[K] = WorkQueue(name or type(self).__name__, informers.clock, delays)
        self._informers = informers
        self._workers = workers

    @abstractmethod
    async def sync(self, key: K) -> None:
        """Do what has to be done about a key. A key for which this raises an error is looked at again later."""

    async def run(self) -> None:
        """Look at keys until cancelled, once the informers know all objects."""
        try:
            await self._informers.wait_for_sync()
            await self.queue.process(self.sync, self._workers)
        finally:
            self.queue.stop()


async def run_controllers(informers: SharedInformers[Any, Any], controllers: Iterable[Controller[Any]]) -> None:
    """Run informers, and the controllers that follow them, until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        informers.start(tasks)
        for controller in controllers:
            tasks.create_task(controller.run(), name=type(controller).__name__)
