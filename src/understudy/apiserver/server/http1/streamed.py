"""An answer that another server gives, and that is sent as it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from multidict import CIMultiDict

from understudy.apiserver.endpoints.request import Response
from understudy.apiserver.server.http1.exchange import Exchange

Send = Callable[[Exchange, CIMultiDict[str]], Awaitable[None]]


class StreamedResponse(Response):
    """An answer with the headers of another server, all of them, and repeated ones too.

    send  sends head and body
    """

    __slots__ = ("send",)

    def __init__(self, status: int, content_type: str, headers: list[tuple[str, str]], send: Send) -> None:
        super().__init__(status, b"", content_type, headers)
        self.send = send

    async def deliver(self, exchange: Exchange) -> None:
        """Send the answer."""
        await self.send(exchange, CIMultiDict(self.headers))
