"""Requests to a server in the same event loop, without sockets, which would let a simulation wait."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from math import inf

from understudy.apiserver.client.connection import AskInside
from understudy.apiserver.endpoints.request import NO_ANSWER, Delivery, Response, WatchResponse

RESET = "a fault resets the connection"


class InsideResponse:
    """An answer, with what `APIClient` reads of one of aiohttp. Faults slow it down, or cut it off."""

    def __init__(self, path: str, answer: Response | WatchResponse) -> None:
        self.url = path
        self.status = answer.status if isinstance(answer, Response) else 200
        self.content_type = re.split("[,;]", answer.content_type)[0]
        self._answer = answer
        self._delivery = answer.delivery or Delivery()

    @property
    def content(self) -> InsideResponse:
        """Return the answer, to be read in parts."""
        return self

    async def read(self) -> bytes:
        """Return the body. Raises ConnectionResetError."""
        return b"".join([part async for part in self.iter_any()])

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the body, or the events of a watch until it ends. Raises ConnectionResetError."""
        left, rate = self._delivery.body_bytes, self._delivery.bytes_per_second
        async with aclosing(self._parts()) as parts:
            async for part in parts:
                if rate != inf:
                    await asyncio.sleep(len(part) / rate)
                if left is not None and len(part) >= left:
                    yield part[:left]
                    raise ConnectionResetError(RESET)
                left = left if left is None else left - len(part)
                yield part
        if left is not None:
            raise ConnectionResetError(RESET)

    async def _parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, or each event as soon as there is one."""
        if isinstance(self._answer, Response):
            yield self._answer.body
            return
        source, woken = self._answer.source, asyncio.Event()
        source.wake = woken.set
        loop = asyncio.get_running_loop()
        while True:
            woken.clear()
            if frames := source.take():
                yield b"".join(frames)
            elif source.ended:
                return
            else:
                alarm = loop.call_at(source.due, woken.set)
                try:
                    await woken.wait()
                finally:
                    alarm.cancel()

    def close(self) -> None:
        """End a watch."""
        if isinstance(self._answer, WatchResponse):
            self._answer.source.close()
            self._answer.on_end()


@asynccontextmanager
async def inside(
    ask: AskInside, method: str, path: str, headers: Mapping[str, str], body: bytes | None, query: Mapping[str, str]
) -> AsyncIterator[InsideResponse]:
    """Send a request to a server in this event loop. Raises ConnectionResetError if a fault resets the connection."""
    answer = await ask(method, path, headers, body or b"", query)
    response = InsideResponse(path, answer)
    try:
        if answer.delivery is not None and answer.delivery.body_bytes == NO_ANSWER:
            raise ConnectionResetError(RESET)
        yield response
    finally:
        response.close()
