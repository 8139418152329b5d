"""Calls of an etcd by its gRPC services, over the first of its endpoints that answers.

Reads are tried at one endpoint after the other until their time is over. A write is tried again only if it was not
sent, since else it may have been done. Upstream: `retry.go` in go.etcd.io/etcd/client/v3.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc

from understudy.apiserver.storage.engines.etcd.messages import WATCH, WatchRequest, WatchResponse
from understudy.apiserver.storage.interface import StorageError
from understudy.machinery.serializer.rpc.grpc_channel import GRPCChannel, GRPCStream, RPCError
from understudy.machinery.serializer.rpc.messages import Message
from understudy.machinery.types import NamedTuple

M = TypeVar("M", bound=Message)

PATIENCE = 2.0  # seconds that a read waits for one of several endpoints
AGAIN = 0.05  # seconds until all endpoints are tried again
_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.use_local_subchannel_pool", 1),
)
# A watch ends at a member that has lost its leader, instead of hearing nothing.
_WITH_LEADER = (("hasleader", "true"),)


class Files(NamedTuple):
    """The files of TLS, in PEM: authorities of the servers, the client's certificate and its key; "" for none."""

    authority: str = ""
    certificate: str = ""
    key: str = ""


NO_FILES = Files()


class EtcdClient:
    """Calls an etcd.

    servers  URLs of its members: http://HOST:PORT, https://HOST:PORT or unix:///PATH

    Raises StorageError for a URL or a file that cannot be used.
    """

    def __init__(self, servers: Sequence[str], files: Files = NO_FILES) -> None:
        self._channels = [_channel(url, files) for url in servers]
        self._first = 0

    async def read(self, method: str, request: Message, answer: type[M], timeout: float) -> M:
        """Make a call that may be made twice. Raises RPCError."""
        return await self._call(method, request, answer, timeout, reads=True)

    async def write(self, method: str, request: Message, answer: type[M], timeout: float) -> M:
        """Make a call that is not made twice. Raises RPCError."""
        return await self._call(method, request, answer, timeout, reads=False)

    async def _call(self, method: str, request: Message, answer: type[M], timeout: float, reads: bool) -> M:
        end = time.monotonic() + timeout
        several = reads and len(self._channels) > 1
        tried = 0
        while True:
            at, left = self._first, max(end - time.monotonic(), 0)
            try:
                return await self._channels[at].call(method, request, answer, min(left, PATIENCE) if several else left)
            except RPCError as why:
                self._turn_from(at)
                again = why.was_sent is False or (reads and why.code in ("Unavailable", "DeadlineExceeded"))
                if not again or not _is_of_connection(why):
                    raise
                tried += 1
                if time.monotonic() + AGAIN > end:
                    raise RPCError("DeadlineExceeded", "context deadline exceeded") from why
            if tried % len(self._channels) == 0:
                await asyncio.sleep(AGAIN)

    def watch(self) -> GRPCStream[WatchRequest, WatchResponse]:
        """Begin a stream of watches at the endpoint that answered last."""
        return self._channels[self._first].both_ways(WATCH, WatchRequest, WatchResponse, _WITH_LEADER)

    @property
    def has_others(self) -> bool:
        """Report whether there is more than one endpoint."""
        return len(self._channels) > 1

    def turn(self) -> None:
        """Go on with the next endpoint."""
        self._turn_from(self._first)

    def _turn_from(self, at: int) -> None:
        if self._first == at:  # else another call was faster
            self._first = (at + 1) % len(self._channels)

    async def close(self) -> None:
        """Close all connections."""
        for channel in self._channels:
            await channel.close()


def _is_of_connection(why: RPCError) -> bool:
    """Report whether an endpoint was not reached, is not in contact with the others, or did not answer."""
    return why.code in ("Unavailable", "DeadlineExceeded")


def _channel(url: str, files: Files) -> GRPCChannel:
    """Return the channel to an endpoint."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme in ("unix", "unixs") and (parts.path or parts.netloc):
        return GRPCChannel(f"{parts.netloc}{parts.path}", options=_OPTIONS)
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
        raise StorageError(f"{url!r} is no URL of an etcd, such as http://127.0.0.1:2379")
    credentials = _credentials(files) if parts.scheme == "https" else None
    return GRPCChannel(parts.netloc, "tcp", credentials, _OPTIONS)


def _credentials(files: Files) -> grpc.ChannelCredentials:
    authority = files.authority or ssl.get_default_verify_paths().cafile
    try:
        roots, chain, key = (
            Path(file).read_bytes() if file else None for file in (authority, files.certificate, files.key)
        )
    except OSError as why:
        raise StorageError(f"{why.filename}: {why.strerror}") from why
    return grpc.ssl_channel_credentials(roots, key, chain)
