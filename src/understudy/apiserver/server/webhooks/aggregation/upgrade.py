"""Requests for another protocol, which an aggregated server and a client then speak through a plain relay."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from http.client import parse_headers
from io import BytesIO

from multidict import CIMultiDict

from understudy.admission.webhooks import CallError
from understudy.apiserver.endpoints.request import Response
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.streamed import Send, StreamedResponse
from understudy.apiserver.server.webhooks.aggregation.headers import Headers
from understudy.apiserver.server.webhooks.certificates import verification_error
from understudy.apiserver.server.webhooks.egress.dialing import (
    DIAL,
    NO_TLS,
    Dial,
    DialError,
    joined,
    os_reason,
    place,
)
from understudy.apiserver.server.webhooks.streams.stream import SocketWire, close_writer

_PORTION = 64 * 1024  # bytes that are passed on at once
_LONGEST_ANSWER = 10.0  # seconds that a refusal may take
MakeRelay = Callable[[asyncio.StreamReader, asyncio.StreamWriter, CIMultiDict[str]], Send]


class Upgrade:
    """The connection to a server that is asked to speak another protocol (upstream: `tryUpgrade`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def dial(
        cls, address: str, port: int, name: str, context: ssl.SSLContext | None, dial: Dial | None = None
    ) -> Upgrade:
        """Return a new connection, without TLS if there is no context for it. Raises CallError."""
        server = None if context is None else name
        try:
            async with asyncio.timeout(DIAL):
                where = await place(dial, address, port)
                return cls(*await asyncio.open_connection(ssl=context, server_hostname=server, **where))
        except ssl.SSLCertVerificationError:
            why = await verification_error(await place(dial, address, port), name)
            text = f"tls: failed to verify certificate: x509: {why}"
        except ssl.SSLError:
            text = NO_TLS
        except DialError as error:
            text = str(error)
        except TimeoutError:
            text = f"dial tcp {joined(address, port)}: i/o timeout"
        except OSError as error:
            text = f"dial tcp {joined(address, port)}: connect: {os_reason(error)}"
        raise CallError(f"error dialing backend: {text}")

    async def ask(self, method: str, target: str, headers: Headers, relay: MakeRelay | None = None) -> Response:
        """Send a request and return the answer, which relays the other protocol. Raises CallError.

        relay  makes what relays it otherwise than byte by byte
        """
        status, fields = await self.send(method, target, headers)
        if status == 101:
            make = relay or _Relay
            return StreamedResponse(status, "", [*fields.items()], make(self._reader, self._writer, fields))
        try:
            if status < 400:
                raise CallError(f"invalid upgrade response: status code {status}")
            return StreamedResponse(status, "", [*fields.items()], _Refusal(await self.rest(fields), status, fields))
        finally:
            await self.close()

    async def send(self, method: str, target: str, headers: Headers) -> tuple[int, CIMultiDict[str]]:
        """Send a request and return status and headers of the answer. Raises CallError and closes the connection."""
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self._writer.write("\r\n".join(lines).encode("utf-8", "surrogateescape"))
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await self.close()
            raise CallError("unexpected EOF") from None
        line, _, rest = head.partition(b"\r\n")
        return int(line.split()[1]), CIMultiDict(parse_headers(BytesIO(rest)).items())

    async def rest(self, headers: Headers) -> bytes:
        """Return the body of an answer, b"" for one that does not come to its end."""
        with suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_LONGEST_ANSWER):
                length = headers.get("Content-Length")
                return await (self._reader.read() if length is None else self._reader.readexactly(int(length)))
        return b""

    def wire(self) -> SocketWire:
        """Return the connection, on which another protocol is spoken behind the answer."""
        return SocketWire(self._reader, self._writer)

    async def close(self) -> None:
        """Close the connection."""
        await close_writer(self._writer)


class _Refusal:
    """Passes on the answer of a server that speaks no other protocol, and closes the connection."""

    def __init__(self, body: bytes, status: int, headers: CIMultiDict[str]) -> None:
        self._body = body
        self._status = status
        self._headers = headers

    async def __call__(self, exchange: Exchange, _: CIMultiDict[str]) -> None:
        """Send the answer without headers of this server."""
        exchange.closes = True
        for name in ("Connection", "Transfer-Encoding"):
            self._headers.popall(name, None)
        await exchange.send(self._status, self._headers, [self._body])


class _Relay:
    """Passes on what client and server send to each other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: CIMultiDict[str]) -> None:
        self._reader = reader
        self._writer = writer
        self._headers = headers

    async def __call__(self, exchange: Exchange, _: CIMultiDict[str]) -> None:
        """Relay until one of both closes its connection."""
        assert isinstance(exchange, Http1Exchange), "HTTP/2 has no upgrades"
        try:
            await exchange.upgrade(self._headers, self._writer.write)
            while data := await self._reader.read(_PORTION):
                await exchange.send_raw(data)
        except OSError:
            exchange.reset()
        finally:
            await close_writer(self._writer)
