"""A gRPC server on a Unix socket, with the messages of `protobuf`: what a stand-in for a driver answers with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from understudy.machinery.serializer.rpc.installation import install_command
from understudy.machinery.serializer.rpc.messages import Message

try:
    import grpc
    import grpc.aio
except ImportError as why:
    raise ImportError(f"needs grpcio: {install_command()}", name="grpc") from why

LONGEST_PATH = 103  # bytes of a socket's path that every system takes: 107 on Linux, 103 on macOS
Methods = Mapping[str, "grpc.RpcMethodHandler"]


async def serve(path: Path, services: Mapping[str, Methods]) -> grpc.aio.Server:
    """Start a server on a socket; one that is there is replaced.

    services  the methods of each service, by name

    Raises ValueError for a path that no socket can have.
    """
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ValueError(f"no socket can have a path of more than {LONGEST_PATH} bytes, take a shorter folder: {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server = grpc.aio.server()
    for name, methods in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    return server


def unary(request: type[Message], answer: Callable[[Any], Any]) -> grpc.RpcMethodHandler:
    """Return a method that answers one message with one; `answer` may be a coroutine function."""

    async def handle(message: Message, _: object) -> Message:
        answered = answer(message)
        result: Message = await answered if asyncio.iscoroutine(answered) else answered
        return result

    return grpc.unary_unary_rpc_method_handler(handle, request.decode, Message.encode)


def stream(request: type[Message], answer: Callable[[Any], AsyncIterator[Message]]) -> grpc.RpcMethodHandler:
    """Return a method that answers one message with many."""

    async def handle(message: Message, _: object) -> AsyncIterator[Message]:
        async for answered in answer(message):
            yield answered

    return grpc.unary_stream_rpc_method_handler(handle, request.decode, Message.encode)
