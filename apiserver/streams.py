"""Pumps a watch into a chunked response until either side has had enough."""

from __future__ import annotations

import asyncio
import time

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from understudy.apiserver.watching import EventSource


class Pumps:
    """The watches of one server, so that it can end them."""

    def __init__(self) -> None:
        self._open: dict[EventSource, asyncio.Event] = {}
        self._stopped = False

    def add(self, source: EventSource, woken: asyncio.Event) -> None:
        self._open[source] = woken
        if self._stopped:
            source.close()

    def discard(self, source: EventSource) -> None:
        self._open.pop(source, None)

    def close(self) -> None:
        """Every open watch ends as if its time were up."""
        for source, woken in self._open.items():
            source.close()
            woken.set()

    def stop(self) -> None:
        """And so does every one that begins from now on."""
        self._stopped = True
        self.close()


class Unsigned(web.StreamResponse):
    """Without the Server header, which the real server does not send; aiohttp has no other way to leave it out."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


async def pump(
    request: web.BaseRequest, source: EventSource, headers: CIMultiDict[str], pumps: Pumps
) -> web.StreamResponse:
    response = Unsigned(headers=headers)
    if request.version >= HttpVersion11:
        response.enable_chunked_encoding()
    woken = asyncio.Event()
    source.wake = woken.set
    pumps.add(source, woken)
    try:
        await response.prepare(request)
        while True:
            woken.clear()
            if data := source.take():
                await response.write(data)
            elif source.ended:
                break
            else:
                await _until(woken, source.due)
        await response.write_eof()
    except ConnectionError:
        pass  # the client went away, which is how most watches end
    finally:
        pumps.discard(source)
        source.close()
    return response


async def _until(woken: asyncio.Event, due: float) -> None:
    """Until there may be something to send, or it is time."""
    try:
        async with asyncio.timeout(max(due - time.monotonic(), 0)):
            await woken.wait()
    except TimeoutError:
        return
