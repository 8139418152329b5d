"""Runs the controllers of APIServices that others serve, or that this server was not made to serve.

Most servers never have one, so nothing of theirs is imported or started before.
"""

from __future__ import annotations

import asyncio
from functools import partial

from understudy.apiserver.controllers import cancel, start
from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.custom_resources.api_services import API_SERVICES
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.server.webhooks.aggregation.aggregator import Aggregator
from understudy.apiserver.server.webhooks.aggregation.backends import adds_version
from understudy.apiserver.storage.interface import Entry


class AggregationController(Controller[str]):
    """Starts the controllers that check APIServices and merge their documents, once there is an APIService for them;
    keys are those of the store."""

    def __init__(self, context: ControllerContext, informers: StoreInformers, aggregator: Aggregator) -> None:
        super().__init__(informers)
        self._context = context
        self._aggregator = aggregator
        self._running: list[asyncio.Task[None]] = []
        informers.of(API_SERVICES).on_change(self._changed)

    def _changed(self, entry: Entry) -> None:
        if not self._running and adds_version(entry.value):
            self.queue.add(entry.key)

    async def run(self) -> None:
        """Wait for such an APIService until cancelled."""
        state = self._context.state
        self._aggregator.forget()
        state.serve(state.serving.with_aggregated({}))
        try:
            await super().run()
        finally:
            await cancel(self._running)

    async def sync(self, key: str) -> None:
        """Start the controllers, which look at all APIServices."""
        if self._running:
            return
        from understudy.apiserver.server.webhooks.aggregation.availability import AvailabilityController
        from understudy.apiserver.server.webhooks.aggregation.discovery import DiscoveryController
        from understudy.apiserver.server.webhooks.aggregation.openapi import OpenAPIController

        controllers = (AvailabilityController, DiscoveryController, OpenAPIController)
        new = [partial(controller, aggregator=self._aggregator) for controller in controllers]
        self._running = [start(self._context, new)]
