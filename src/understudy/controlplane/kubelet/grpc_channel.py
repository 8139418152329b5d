"""gRPC calls over a Unix socket. Needs grpcio, which the extra `kubelet` installs.

Errors have the texts of grpc-go, since they end in events that people read and search for.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from understudy.controlplane.kubelet.installation import install_command
from understudy.controlplane.kubelet.protobuf import Message
from understudy.machinery.golang.text import go_quote

try:
    import grpc
    import grpc.aio
except ImportError as why:
    raise ImportError(f"needs grpcio: {install_command()}", name="grpc") from why

M = TypeVar("M", bound=Message)

# Sockets have no name that a server could check; its own backoff keeps a channel from waiting for that of an older one.
_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
_NOT_CONNECTED = "failed to connect to all addresses"
_RESET, _CLOSED = "Connection reset by peer", ("Socket closed", "Stream removed")


class RPCError(Exception):
    """A call that failed: `rpc error: code = Unavailable desc = …`."""

    def __init__(self, code: str, description: str) -> None:
        self.code = code
        super().__init__(f"rpc error: code = {code} desc = {description}")


class GRPCChannel:
    """A gRPC connection to a Unix socket: made when it is needed, and again when it is lost."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._channel = grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)

    async def call(self, method: str, request: Message, answer: type[M], timeout: float) -> M:
        """Call `service/method` and return its answer. Raises RPCError, after `timeout` seconds at the latest."""
        call = self._channel.unary_unary(f"/{method}", Message.encode, answer.decode)
        try:
            response: M = await call(request, timeout=timeout)
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
        elif description.startswith(_NOT_CONNECTED) and (refusal := _refusal(self._path)):
            dial = f"dial unix {self._path}: connect: {refusal}"
            description = f"connection error: desc = {go_quote(f'transport: Error while dialing: {dial}')}"
        elif _RESET in description:
            description = f"error reading from server: read unix @->{self._path}: read: connection reset by peer"
        elif description.startswith(_CLOSED):
            description = "error reading from server: EOF"
        return RPCError(code, description)


def _refusal(path: str) -> str:
    """Return Go's error for a socket that refuses a connection, "" if one can be made."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError as why:
            return os.strerror(why.errno or 0).lower()
    return ""
