"""The client that calls webhooks, on the event loop and for other threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from understudy.admission.webhooks import Call, CallError, LoopWouldWaitError, Reply, TimedReply
from understudy.apiserver.server.webhooks.certificates import CertificateCounts
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.apiserver.server.worker.loading import load
from understudy.apiserver.storage.waiting import is_on_loop
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.util.deep_recursion import is_alone

if TYPE_CHECKING:
    from understudy.apiserver.server.webhooks.egress.dialing import Dial
    from understudy.apiserver.server.webhooks.egress.tunnels import Egress
    from understudy.apiserver.server.webhooks.exchange import Connections
    from understudy.apiserver.server.webhooks.exec_credentials import ExecCredentials
    from understudy.machinery.auth.exec_plugin import ExecPlugin


_CANCELED = "context canceled"
_EXCHANGE = "understudy.apiserver.server.webhooks.exchange"


class HttpWebhookClient:
    """Calls webhooks over HTTPS, on the event loop that it is opened on. Connections are kept until `close`.

    version  of the release, whose errors name lines of its source
    egress   the proxies to webhooks, None where they are reached directly
    certificates
             count those of webhooks that are deprecated

    Other threads than the loop's may call webhooks as well: they are blocked until the loop has the answer.
    """

    def __init__(
        self,
        services: ServiceResolver,
        version: Version,
        egress: Egress | None = None,
        certificates: CertificateCounts | None = None,
    ) -> None:
        stage = "BETA" if version >= V1_37 else "ALPHA"
        self.certificates = certificates or CertificateCounts("webhooks", stage)
        self._services = services
        self._version = version
        self._egress = egress
        self._connections: dict[Dial | None, Connections] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._credentials: dict[ExecPlugin, ExecCredentials] = {}
        self._awaited: set[Future[list[TimedReply]]] = set()  # by threads

    def open(self) -> None:
        """Call webhooks on the running event loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._is_closed = False

    async def call(self, calls: Sequence[Call]) -> list[TimedReply]:
        if not is_on_loop():
            return self._wait(calls)
        if len(calls) == 1:
            return [await self._timed(calls[0])]
        return list(await asyncio.gather(*map(self._timed, calls)))

    async def pause(self, seconds: float) -> None:
        if is_on_loop():
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)

    def call_and_wait(self, call: Call) -> Reply | CallError:
        if is_on_loop():
            raise LoopWouldWaitError
        return self._wait([call])[0].result

    def _wait(self, calls: Sequence[Call]) -> list[TimedReply]:
        """Call webhooks from a thread, and return their answers in the same order."""
        if is_alone():  # the loop is blocked
            return [TimedReply(CallError("exceeded max depth"), 0.0) for _ in calls]
        assert self._loop is not None
        waiting = asyncio.run_coroutine_threadsafe(self.call(calls), self._loop)
        self._awaited.add(waiting)
        try:
            return waiting.result()
        except CancelledError:
            return [TimedReply(CallError(_CANCELED), 0.0) for _ in calls]
        finally:
            self._awaited.discard(waiting)

    async def close(self) -> None:
        """Give up what threads wait for, and close the connections that are kept."""
        self._is_closed = True
        for waiting in tuple(self._awaited):
            waiting.cancel()
        for credentials in self._credentials.values():
            credentials.close()
        self._credentials.clear()
        opened, self._connections = self._connections, {}
        for connections in opened.values():
            await connections.close()

    def _credentials_of(self, plugin: ExecPlugin | None) -> ExecCredentials | None:
        """Return the credentials that a command prints, the same ones for all who name it."""
        if plugin is None:
            return None
        from understudy.apiserver.server.webhooks.exec_credentials import ExecCredentials

        if plugin not in self._credentials:
            self._credentials[plugin] = ExecCredentials(plugin, self._version)
        return self._credentials[plugin]

    def _dial_of(self, call: Call) -> Dial | None:
        """Return the way to a webhook through a proxy, None to connect to it directly."""
        if self._egress is None:
            return None
        return self._egress.control_plane if call.target.service is None else self._egress.cluster

    async def _timed(self, call: Call) -> TimedReply:
        started = time.monotonic()
        return TimedReply(await self._call(call), time.monotonic() - started)

    async def _call(self, call: Call) -> Reply | CallError:
        await load(_EXCHANGE)
        if self._is_closed:
            return CallError(_CANCELED)
        from understudy.apiserver.server.webhooks.exchange import (  # aiohttp, which takes a while
            Connections,
            OutgoingCall,
        )

        dial = self._dial_of(call)
        if dial not in self._connections:
            self._connections[dial] = Connections(dial=dial, certificates=self.certificates)
        plugin = self._credentials_of(call.caller.plugin)
        outgoing = OutgoingCall(self._connections[dial], self._services, call, plugin)
        try:
            async with asyncio.timeout(call.timeout):
                return await outgoing.run()
        except TimeoutError:
            return outgoing.error("context deadline exceeded")
        except CallError as error:
            return error
