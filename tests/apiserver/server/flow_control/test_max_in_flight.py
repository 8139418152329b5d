"""Limits of the requests that are answered at once: what gives a place back, and what /metrics tells of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from multidict import CIMultiDict

from tests.front_door import front_door
from understudy.apiserver.endpoints.request import BodyAwaitedError, Request, Response
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.options.config import ServerConfig
from understudy.machinery.options import parse_query
from understudy.machinery.releases.version import V1_32
from understudy.machinery.util.timers import SteeredClock

MAPS = "/api/v1/namespaces/default/configmaps"


def request(receive: Callable[[], Awaitable[bytes]] | None = None, query: str = "") -> Request:
    """Return a write of a user who is no administrator, whose body may have to be waited for."""
    headers = CIMultiDict([("Impersonate-User", "ann"), ("Content-Type", "application/json")])
    content = b"{}" if receive is None else BodyAwaitedError
    return Request("POST", MAPS, headers, content, parse_query(query), V1_32, receive=receive)


def new_door(clock: SteeredClock | None = None) -> Director:
    return front_door(clock=clock, enable_priority_and_fairness=False, max_mutating_requests_inflight=1)


async def status(door: Director, asked: Request) -> int:
    answer = await door(asked)
    assert isinstance(answer, Response)
    return answer.status


class Held:
    """A request whose body comes when the test says so, or with an error."""

    def __init__(self, door: Director, query: str = "") -> None:
        self.body = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(status(door, request(self._receive, query)))

    async def _receive(self) -> bytes:
        return bytes(await self.body)


async def test_a_place_is_free_again_after_the_answer() -> None:
    """Meanwhile others are refused."""
    door = new_door()
    held = Held(door)
    await asyncio.sleep(0)
    assert await status(door, request()) == 429
    held.body.set_result(b"{}")
    assert await held.task == 404
    assert await status(door, request()) == 404


async def test_a_client_that_goes_away_leaves_its_place() -> None:
    door = new_door()
    held = Held(door)
    await asyncio.sleep(0)
    held.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held.task
    assert await status(door, request()) == 404


async def test_a_handler_that_raises_leaves_its_place() -> None:
    door = new_door()
    held = Held(door)
    held.body.set_exception(RuntimeError("a bug"))
    with pytest.raises(RuntimeError):
        await held.task
    assert await status(door, request()) == 404


async def test_a_request_whose_time_is_over_leaves_its_place() -> None:
    door = new_door()
    assert await Held(door, "timeout=10ms").task == 504
    assert await status(door, request()) == 404


async def test_metrics_have_the_most_requests_of_the_last_second() -> None:
    """A request that began and ended within it counts; in the second after it is forgotten."""
    clock = SteeredClock()
    clock.freeze()
    door = new_door(clock)
    assert await status(door, request()) == 404

    async def told() -> dict[str, str]:
        page = await door(Request("GET", "/metrics", CIMultiDict(), b"", parse_query(""), V1_32))
        assert isinstance(page, Response)
        found = re.findall(r'apiserver_current_inflight_requests\{request_kind="(.*)"\} (\d+)', page.body.decode())
        return dict(found)

    clock.move_to(clock.monotonic() + 1)
    assert await told() == {"mutating": "1", "readOnly": "0"}
    clock.move_to(clock.monotonic() + 1)
    assert await told() == {"mutating": "0", "readOnly": "1"}


async def test_requests_without_room_or_time_are_counted() -> None:
    """Count them by code and the labels of other requests; a path that is no resource is the subresource."""
    door = new_door()
    held = Held(door, "timeout=10ms")
    await asyncio.sleep(0)
    other = Request("POST", "/version", CIMultiDict([("Impersonate-User", "ann")]), b"", parse_query(""), V1_32)
    assert [await status(door, request()), await status(door, other), await held.task] == [429, 429, 504]
    page = await door(Request("GET", "/metrics", CIMultiDict(), b"", parse_query(""), V1_32))
    assert isinstance(page, Response)
    of_maps = 'group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"'
    of_path = 'group="",resource="",scope="",subresource="/version",verb="POST",version=""'
    assert re.findall(r"request_terminations_total\{(.*)\} 1\n", page.body.decode()) == [
        f'code="429",component="apiserver",{of_path}',
        f'code="429",component="apiserver",{of_maps}',
        f'code="504",component="apiserver",{of_maps}',
    ]


def test_limits_are_not_negative() -> None:
    """The text is kube-apiserver's."""
    with pytest.raises(ValueError, match="--max-mutating-requests-inflight can not be negative value"):
        ServerConfig(max_mutating_requests_inflight=-1)


def test_seats_are_shares_of_both_limits() -> None:
    """Without limits, they are those of kube-apiserver's defaults."""
    assert (ServerConfig().concurrency, ServerConfig(max_requests_inflight=5).concurrency) == (600, 205)
    assert ServerConfig(max_requests_inflight=5).in_flight is None
