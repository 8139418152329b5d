"""Runs the cases of a driver test, each on a node of its own, on one release after the other."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.dev.controllers import controllers_of
from understudy.controlplane.drivers.cases import CASES
from understudy.controlplane.drivers.cases.case import Case
from understudy.controlplane.drivers.node import Node
from understudy.controlplane.drivers.objects import ClaimForm
from understudy.controlplane.drivers.process import StartDriver
from understudy.controlplane.drivers.verdicts import TIMEOUT, FailedError, SkippedError
from understudy.controlplane.server import Server
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.rpc.grpc_channel import RPCError
from understudy.machinery.types import dataclass


class Verdict(StrEnum):
    """Verdict on a driver in one case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """Result of a case on a release: `text` says why it failed or was skipped, `seconds` how long it took."""

    release: str
    case: Case
    verdict: Verdict
    text: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Options of a test: which driver, where and how.

    start     starts a process of the driver
    releases  names of those to test on
    cases     to run
    gates     feature gates, besides those that cases need
    load      manifests that are loaded into each server
    claim     what claims ask for, None for any one device of the driver
    timeout   seconds that the driver has for each thing that is waited for
    jobs      how many cases run at the same time, each with a driver of its own
    """

    start: StartDriver
    releases: Sequence[str]
    cases: Sequence[Case] = CASES
    gates: Mapping[str, bool] | None = None
    load: Collection[str] = ()
    claim: ClaimForm | None = None
    timeout: float = TIMEOUT
    jobs: int = 1


class Servers:
    """Servers that cases use one after the other: each finds one as if it were new. It is an open context manager."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._idle: dict[object, list[Server]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def one(self, version: Version, changes: Mapping[str, bool], load: Collection[str]) -> Iterator[Server]:
        """Lend a server of a release with feature gates, which has loaded manifests. Raises ValueError, LoadError."""
        idle = self._idle.setdefault((version, *sorted(changes.items()), *load), [])
        if idle:
            server = idle.pop()
        else:
            controllers = controllers_of(Gates.of(version, changes), [])
            options: dict[str, Any] = {"feature_gates": dict(changes), "load": list(load), "controllers": controllers}
            server = self._stack.enter_context(Server(emulated_version=str(version), **options))
        try:
            yield server
        finally:
            server.reset()
            idle.append(server)


async def outcomes(plan: Plan, servers: Servers) -> AsyncIterator[Outcome]:
    """Yield the results of the cases. After a required one has failed, the rest of a release is skipped.

    Raises ValueError, LoadError or OSError for a server that cannot be started or a command that is not there.
    """
    for release in plan.releases:
        required = [case for case in plan.cases if case.required]
        others = [case for case in plan.cases if not case.required]
        failed, done = "", set[Case]()
        for case in required:
            if failed:
                break
            outcome = await _run(plan, servers, release, case)
            failed = case.name if outcome.verdict is Verdict.FAILED else ""
            done.add(case)
            yield outcome
        if not failed:
            async for outcome in _side_by_side(plan, servers, release, others):
                yield outcome
        else:
            for case in plan.cases:
                if case not in done:
                    yield Outcome(release, case, Verdict.SKIPPED, f"{failed} failed")


async def _side_by_side(plan: Plan, servers: Servers, release: str, cases: Sequence[Case]) -> AsyncIterator[Outcome]:
    """Run as many cases at the same time as the plan allows; yield what comes of them in their order."""
    turns = asyncio.Semaphore(plan.jobs)

    async def in_turn(case: Case) -> Outcome:
        async with turns:
            return await _run(plan, servers, release, case)

    tasks = [asyncio.create_task(in_turn(case), name=case.name) for case in cases]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(plan: Plan, servers: Servers, release: str, case: Case) -> Outcome:
    version = Version.parse(release)
    if version < case.since:
        return Outcome(release, case, Verdict.SKIPPED, f"needs {case.since}")
    begin, verdict, text = time.monotonic(), Verdict.PASSED, ""
    try:
        await _on_a_node(plan, servers, version, case)
    except SkippedError as why:
        verdict, text = Verdict.SKIPPED, str(why)
    except (FailedError, RPCError, StatusError) as why:
        verdict, text = Verdict.FAILED, str(why)
    return Outcome(release, case, verdict, text, time.monotonic() - begin)


async def _on_a_node(plan: Plan, servers: Servers, version: Version, case: Case) -> None:
    """Run a case with a new folder and driver. Raises FailedError, RPCError, StatusError, SkippedError."""
    known = Gates.of(version)
    changes = {str(gate): True for gate in case.gates if known.has(gate)} | dict(plan.gates or {})
    with (
        servers.one(version, changes, plan.load) as server,
        tempfile.TemporaryDirectory(prefix="understudy-", ignore_cleanup_errors=True) as folder,
    ):
        root, gates = Path(folder), Gates.of(version, changes)
        server.write_kubeconfig(root / "kubeconfig")
        connection = read_kubeconfig(root / "kubeconfig")
        async with (
            APIClient(connection, "understudy-drivers-test") as client,
            Node(client, root / "kubeconfig", root, version, gates, plan.start, plan.claim, plan.timeout) as node,
        ):
            await case.run(node)
