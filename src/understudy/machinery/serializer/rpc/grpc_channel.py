"""gRPC calls over a Unix socket or TCP. Needs grpcio, which the extras `kubelet` and `etcd` install.

Errors have the texts of grpc-go, since they end in events that people read and search for.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

from understudy.machinery.golang.text import go_quote
from understudy.machinery.serializer.rpc.installation import install_command
from understudy.machinery.serializer.rpc.messages import Message
from understudy.machinery.util.regex import regex

try:
    import grpc
    import grpc.aio
except ImportError as why:
    raise ImportError(f"needs grpcio: {install_command()}", name="grpc") from why

M = TypeVar("M", bound=Message)
Sent = TypeVar("Sent", bound=Message)

# Sockets have no name that a server could check; its own backoff keeps a channel from waiting for that of an older one.
_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
_NOT_CONNECTED = "failed to connect to all addresses"
_REFUSAL = regex(r"connect: ([A-Za-z ]+) \(\d+\)")  # the operating system's reason in grpcio's text
_RESET, _CLOSED = "Connection reset by peer", ("Socket closed", "Stream removed")


class RPCError(Exception):
    """A call that failed: `rpc error: code = Unavailable desc = …`."""

    def __init__(self, code: str, description: str, *, was_sent: bool = True) -> None:
        self.code = code
        self.description = description
        self.was_sent = was_sent  # False if no connection could be made
        super().__init__(f"rpc error: code = {code} desc = {description}")


class GRPCStream(Generic[Sent, M]):
    """A call in which both sides send messages until one ends it."""

    def __init__(self, call: Any, error: Callable[[grpc.aio.AioRpcError], RPCError]) -> None:
        self._call = call
        self._error = error

    async def send(self, request: Sent) -> None:
        """Send a message. Raises RPCError."""
        try:
            await self._call.write(request)
        except grpc.aio.AioRpcError as why:
            raise self._error(why) from why

    async def __aiter__(self) -> AsyncIterator[M]:
        """Yield the answers until the server ends them. Raises RPCError."""
        try:
            async for response in self._call:
                yield response
        except grpc.aio.AioRpcError as why:
            raise self._error(why) from why

    async def cancel(self) -> None:
        """End the call, and wait until nothing of it is left for the event loop."""
        self._call.cancel()
        await self._call.code()


class GRPCChannel:
    """A gRPC connection: made when it is needed, and again when it is lost.

    network      "unix" for the path of a socket, "tcp" for "HOST:PORT"
    credentials  those of TLS; None for a connection that is not encrypted
    options      more options of grpcio
    """

    def __init__(
        self,
        address: str,
        network: str = "unix",
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self._network = network
        self._address = address
        if network == "unix":
            address, options = f"unix:{address}", (*_OPTIONS, *options)
        self._channel = (
            grpc.aio.insecure_channel(address, options=options)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=options)
        )

    async def call(self, method: str, request: Message, answer: type[M], timeout: float) -> M:
        """Call `service/method` and return its answer. Raises RPCError, after `timeout` seconds at the latest."""
        call = self._channel.unary_unary(f"/{method}", Message.encode, answer.decode)(request, timeout=timeout)
        try:
            await call.code()  # the call itself would cancel the task that waits for it when the channel is closed
        finally:
            call.cancel()  # nothing if it is done
        if call.cancelled():
            raise RPCError("Canceled", "grpc: the client connection is closing")
        try:
            response: M = await call
        except grpc.aio.AioRpcError as why:
            raise self._error(why) from why
        return response

    async def stream(self, method: str, request: Message, answer: type[M]) -> AsyncIterator[M]:
        """Call `service/method` and yield its answers until the server ends them. Raises RPCError."""
        call = self._channel.unary_stream(f"/{method}", Message.encode, answer.decode)(request)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as why:
            raise self._error(why) from why
        finally:
            call.cancel()

    def both_ways(
        self, method: str, sent: type[Sent], answer: type[M], metadata: Sequence[tuple[str, str]] = ()
    ) -> GRPCStream[Sent, M]:
        """Begin a call of `service/method` in which both sides send."""
        call = self._channel.stream_stream(f"/{method}", Message.encode, answer.decode)(metadata=metadata)
        return GRPCStream(call, self._error)

    async def keep_connected(self, changed: Callable[[bool], None]) -> None:
        """Connect, and again when the connection is lost, until cancelled; report each change."""
        connected = False
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if connected != (state == grpc.ChannelConnectivity.READY):
                connected = not connected
                changed(connected)
            await self._channel.wait_for_state_change(state)

    async def close(self) -> None:
        """Close the connection; calls under way fail."""
        await self._channel.close()

    def _error(self, why: grpc.aio.AioRpcError) -> RPCError:
        """Return an error with the text that grpc-go has for it."""
        code = "".join(word.title() for word in why.code().name.split("_")).replace("Cancelled", "Canceled")
        description = why.details() or ""
        if why.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            description = "context deadline exceeded"
        elif description.startswith(_NOT_CONNECTED) and (refusal := self._refusal(description)):
            dial = f"dial {self._network} {self._address}: connect: {refusal}"
            description = f"connection error: desc = {go_quote(f'transport: Error while dialing: {dial}')}"
            return RPCError(code, description, was_sent=False)
        elif _RESET in description:
            description = (
                f"error reading from server: read {self._network} @->{self._address}: read: connection reset by peer"
            )
        elif description.startswith(_CLOSED):
            description = "error reading from server: EOF"
        return RPCError(code, description, was_sent=not description.startswith(_NOT_CONNECTED))

    def _refusal(self, description: str) -> str:
        """Return Go's error for an address that refuses connections, "" if one can be made or nothing is known."""
        if self._network == "unix":
            return _refusal(self._address)
        matched = _REFUSAL.search(description)
        return matched[1].lower() if matched else ""


def _refusal(path: str) -> str:
    """Return Go's error for a socket that refuses a connection, "" if one can be made."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError as why:
            return os.strerror(why.errno or 0).lower()
    return ""
