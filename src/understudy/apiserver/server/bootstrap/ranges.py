"""Keeps the bitmaps of node ports and cluster IPs as the services are, at the start and every three minutes.

Upstream: `Repair` in pkg/registry/core/service/portallocator/controller and ipallocator/controller.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator

from understudy.apiserver.registry.store import Registry
from understudy.kinds.core.services.held_numbers import held_numbers, kept_ranges
from understudy.kinds.number_range import NumberRange
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates

INTERVAL = 180.0  # seconds

log = logging.getLogger(__name__)


async def repair_periodically(registry: Registry, gates: Gates, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Repair the ranges every three minutes, until cancelled; `sleep` waits for seconds."""
    while True:
        await sleep(INTERVAL)
        try:
            await repair(registry, gates)
        except StatusError as why:
            log.error("node ports and cluster IPs are checked again in %g s: %s", INTERVAL, why)


async def repair(registry: Registry, gates: Gates) -> None:
    """Repair the ranges once. Raises StatusError."""
    for each in kept_ranges(gates):
        await registry.allocations.ranges.repair(each, _held(registry, gates, each))


def _held(registry: Registry, gates: Gates, numbers: NumberRange) -> Iterator[int]:
    """Yield the bitmaps of the numbers that the services hold when it is asked for the first."""
    for service in registry.listing("", "services"):
        yield held_numbers(service, gates)[numbers]
