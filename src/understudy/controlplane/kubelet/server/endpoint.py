"""The port at which the API server asks a kubelet. Upstream: `pkg/kubelet/server`, which has many more paths.

Nobody is asked for a certificate, as by a kubelet without a configuration: who reaches the port can read the logs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from understudy.controlplane.kubelet.server.container_logs import Log, LogError, LogOptions, check_container, lines_of
from understudy.controlplane.kubelet.pod_status import is_terminal
from understudy.controlplane.kubelet.sandboxes import Sandboxes
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import Clock, parse_timestamp

FindPod = Callable[[str, str], Awaitable[Obj | None]]


class KubeletEndpoint:
    """Answers requests for logs over HTTPS.

    find       returns the pod of a namespace and name as it is now, None if the node has none
    sandboxes  the pods that run
    """

    def __init__(self, find: FindPod, sandboxes: Sandboxes, clock: Clock) -> None:
        self._find = find
        self._sandboxes = sandboxes
        self._clock = clock
        self._changed = asyncio.Event()
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{name}/{container}", self._log)
        self._runner = web.AppRunner(application, shutdown_timeout=0)

    async def start(self, address: str) -> int:
        """Listen at a free port of an address, and return it. Raises OSError if this machine has no such address."""
        await self._runner.setup()
        context = await asyncio.to_thread(_context, address)
        await web.TCPSite(self._runner, address, 0, ssl_context=context).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening, and end all logs that are followed."""
        await self._runner.cleanup()

    def note_change(self, *_: Obj) -> None:
        """Look at the pods of logs that are followed: one has changed, or is gone."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _log(self, request: web.Request) -> web.StreamResponse:
        """Answer with the log of a container (`getContainerLogs`)."""
        place = request.match_info["namespace"], request.match_info["name"], request.match_info["container"]
        try:
            options = LogOptions.of(request.query, self._clock.now())
            pod = check_container(await self._find(*place[:2]), *place)
            log = Log(options, self._started(pod, place[2], options))
        except LogError as why:
            return web.Response(status=why.status, text=str(why))
        except ValueError as why:
            return web.Response(status=400, text=str(why))
        answer = web.StreamResponse()
        answer.content_type = "text/plain"
        await answer.prepare(request)
        await self._send(answer, log, pod["metadata"]["uid"], place, follow=options.follow)
        await answer.write_eof()
        return answer

    def _started(self, pod: Obj, container: str, options: LogOptions) -> float:
        """Return the time at which a container was started (`validateContainerLogStatus`). Raises LogError."""
        name, sandbox = pod["metadata"]["name"], self._sandboxes.get(pod["metadata"]["uid"])
        which = f"container {go_quote(container)} in pod {go_quote(name)}"
        if options.previous:
            raise LogError(400, f"previous terminated {which} not found")
        if sandbox is not None:
            return sandbox.started
        if not is_terminal(pod):
            raise LogError(400, f"{which} is waiting to start: ContainerCreating")
        return parse_timestamp(pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"])

    async def _send(
        self, answer: web.StreamResponse, log: Log, uid: str, place: tuple[str, str, str], *, follow: bool
    ) -> None:
        """Send a log, and what comes to it until the pod has ended if it is followed."""
        while True:
            changed = self._changed
            pod = await self._find(*place[:2])
            if pod is None or pod["metadata"]["uid"] != uid:
                return
            if text := log.more(lines_of(pod, place[2])):
                await answer.write(text)
            if not follow or log.is_full or is_terminal(pod):
                return
            await changed.wait()


def _context(address: str) -> ssl.SSLContext:
    """Return the context of a server with a new certificate, which no authority that is known has signed."""
    import trustme  # takes a while

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(address).configure_cert(context)
    return context
