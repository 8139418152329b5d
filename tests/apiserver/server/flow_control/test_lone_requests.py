"""Requests that nothing is beside take no place in a queue, and are counted as if they had."""

from __future__ import annotations

import random
import re

from multidict import CIMultiDict

from tests.clock import FixedClock
from tests.front_door import front_door
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.filters.limits.limiter import Limiter
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.pages.exposition import Form, written
from understudy.apiserver.server.wiring import new_flow_control, new_parts
from understudy.apiserver.storage.interface import Store
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.options import parse_query
from understudy.machinery.releases.version import V1_32

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
ANN, ADMIN = User("ann", ["system:authenticated"]), User("admin", [MASTERS])
REQUESTS = [("GET", f"{MAPS}/a"), ("GET", MAPS), ("POST", MAPS), ("DELETE", f"{MAPS}/a"), ("GET", "/version")]
TEXT = Form("text/plain", is_protobuf=False)


async def new_limiter(clock: FixedClock) -> tuple[FlowControl, Limiter, Store]:
    """Return the limiter of a new server."""
    config = ServerConfig(emulated_version="1.32", clock=clock, enable_priority_and_fairness=True)
    state = new_parts(config).state
    await fill.fill(state, 0)
    flow_control, limiter = new_flow_control(config, state)
    assert flow_control is not None
    assert limiter is not None
    flow_control.refresh()  # else time begins with the first request
    return flow_control, limiter, state.registry.store


def admitted(limiter: Limiter, method: str = "GET", path: str = MAPS, user: User = ANN, query: str = "") -> Request:
    """Let a request of a user be executed, until `ended`."""
    request = Request(method, path, CIMultiDict(), b"", parse_query(query), V1_32)
    request.info, request.user = request_info(method, path, request.query), user
    limiter.admit(request)
    return request


def ended(request: Request) -> None:
    leave = request.leave
    assert leave is not None
    request.leave = None
    leave()


async def lines(flow_control: FlowControl, limiter: Limiter, level: str) -> list[str]:
    """Return the lines of /metrics about a priority level."""
    page = b"".join(await written(limiter.families(), TEXT)).decode()
    dispatched = [f"{flow} {count}" for flow, count in flow_control.usage.dispatched.items() if level in flow]
    return [line for line in page.splitlines() if f'priority_level="{level}"' in line] + dispatched


async def played(seed: int, *, alone: bool) -> list[str]:
    """Return the metrics of random requests; if not `alone`, one of an administrator is there all the time."""
    chance, clock, told = random.Random(seed), FixedClock(1000.0), list[str]()
    flow_control, limiter, _ = await new_limiter(clock)
    admitted(limiter, user=ADMIN) if not alone else None
    running: list[Request] = []
    for _ in range(120):
        clock.seconds += chance.choice((0, 1, 2, 40)) / 64
        if running and chance.random() < 0.7:
            ended(running.pop(chance.randrange(len(running))))
        elif len(running) < 4:
            running.append(admitted(limiter, *chance.choice(REQUESTS)))
        if chance.random() < 0.05:
            told += await lines(flow_control, limiter, "global-default")
    return told + await lines(flow_control, limiter, "global-default")


async def test_lone_requests_are_counted_like_others() -> None:
    """Whatever is counted of requests and their level is the same with a request of another level beside them."""
    for seed in range(10):
        assert await played(seed, alone=True) == await played(seed, alone=False)


async def test_a_request_that_looks_is_seen() -> None:
    """The request for /metrics is executed while the page is made, and so are its page's requests before it."""
    door = front_door(enable_priority_and_fairness=True)
    for _ in range(2):
        page = await door(Request("GET", "/metrics", CIMultiDict(), b"", parse_query(""), V1_32))
    assert isinstance(page, Response)
    text = page.body.decode()
    flow = '{flow_schema="exempt",priority_level="exempt"}'
    assert f"apiserver_flowcontrol_current_executing_requests{flow} 1" in text
    assert f"apiserver_flowcontrol_dispatched_requests_total{flow} 2" in text
    assert re.search(
        r'execution_seconds_count\{flow_schema="exempt",priority_level="exempt",type="regular"\} 1\n', text
    )


async def test_seconds_have_their_most_requests() -> None:
    """A lone request counts in the second in which it began."""
    clock = FixedClock(1000.0)
    _, limiter, _ = await new_limiter(clock)
    most = []
    for step in range(4):
        if step % 2:
            ended(admitted(limiter, "POST"))
        clock.seconds += 1
        page = b"".join(await written(limiter.families(), TEXT)).decode()
        most += re.findall(r'current_inflight_requests\{request_kind="mutating"\} (\d)', page)
    assert most == ["0", "1", "0", "1"]


async def test_seats_follow_what_is_stored_after_a_reset() -> None:
    """The store comes to a revision that it had before, with fewer objects."""
    _, limiter, store = await new_limiter(FixedClock(1000.0))
    empty = store.snapshot()

    async def seats(folder: str) -> list[str]:
        for number in range(60):
            await store.create(f"/registry/{folder}/default/n{number}", {"metadata": {"name": f"n{number}"}})
        ended(admitted(limiter, query="limit=60"))
        page = b"".join(await written(limiter.families(), TEXT)).decode()
        return re.findall(r"work_estimated_seats_sum.* (\d+)$", page, re.MULTILINE)

    assert await seats("configmaps") == ["2"]
    await store.rewind(empty)
    assert await seats("secrets") == ["3"]
