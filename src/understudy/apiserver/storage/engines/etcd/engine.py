"""An engine that keeps its bytes in etcd, under the keys that kube-apiserver has for them.

A write is a transaction on the revision of one key. A watch of all keys tells of everybody's writes, one's own too;
what others keep outside the prefix takes revisions without a word, so the watch is asked for its progress where a
reader waits for a revision. With etcd away, calls wait for it until their time is over; the watch is resumed where it
ended.

Upstream: k8s.io/apiserver/pkg/storage/etcd3.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import TypeVar

from understudy.apiserver.storage.engine import ChangedError, Contents, Reader, Show, Write
from understudy.apiserver.storage.engines.etcd import messages as pb
from understudy.apiserver.storage.engines.etcd.client import AGAIN, NO_FILES, EtcdClient, Files
from understudy.apiserver.storage.engines.etcd.leases import Leases
from understudy.apiserver.storage.engines.etcd.progress import Progress
from understudy.apiserver.storage.interface import LateError, StorageError
from understudy.machinery.serializer.rpc.grpc_channel import GRPCStream, RPCError
from understudy.machinery.serializer.rpc.messages import Message

M = TypeVar("M", bound=Message)

PREFIX = "/registry"  # where the keys of a store are, whatever their place in etcd
COMPACTED = b"compact_rev_key"  # holds the revision of the last compaction; its version counts them
WRITES, READS, OPENS, CHECKS, SIZES = 34.0, 60.0, 20.0, 2.0, 1.0  # seconds that calls take at most, as kube-apiserver's
PAGE = 1000  # keys that are listed at once
AT_ONCE = 200  # writes that are under way at once when everything is replaced
HISTORY = 5000  # revisions before the newest whose writes are fetched at the start, for watches that are resumed
SILENCE = 3.0  # seconds in which a watch has to answer, where there are other endpoints
OLDEST = (3, 5, 8)  # the first version in which progress is told only once everything was sent
_GONE = "required revision has been compacted"


class EtcdEngine:
    """Keeps bytes in etcd.

    servers  URLs of its members: http://HOST:PORT, https://HOST:PORT or unix:///PATH
    prefix   what the keys begin with there
    """

    suspends = True
    expires = True

    def __init__(self, servers: Sequence[str], files: Files = NO_FILES, prefix: str = PREFIX) -> None:
        self._servers, self._files = servers, files
        self._client = EtcdClient((), files)
        self._prefix = f"/{prefix.strip('/')}"
        self._first, self._behind = f"{self._prefix}/".encode(), f"{self._prefix}0".encode()  # "0" follows "/"
        self._leases: dict[int, Leases] = {}  # by their seconds
        self._progress = Progress(self._ask_for_progress)
        self._base = 0  # the revision with which the history begins
        self._reader: Reader | None = None  # None until everything is fetched that there was
        self._fetched: list[Write] = []
        self._own: dict[int, Write] = {}  # writes of which the watch has not told yet, by revision
        self._watching: asyncio.Task[None] | None = None
        self._stream: GRPCStream[pb.WatchRequest, pb.WatchResponse] | None = None
        self._asked = 0.0  # since when the watch owes an answer, in monotonic seconds; 0 if it does not
        self._reading: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None
        self._compactions = 0

    # --- life cycle

    async def open(self, reader: Reader) -> Contents:
        self._client = EtcdClient(self._servers, self._files)
        try:
            await self._check_version()
            contents = await self._fetch()
        except (RPCError, TimeoutError) as why:
            text = why.description if isinstance(why, RPCError) else "its watch is late"
            raise StorageError(f"etcd at {', '.join(self._servers)} does not answer: {text}") from why
        self._reader = reader
        return contents

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        self._progress.close()
        await self._client.close()

    async def check(self) -> None:
        try:
            await self._revision(CHECKS)
        except RPCError as why:
            text = why.description if why.code == "DeadlineExceeded" else why
            raise StorageError(f"error getting data from etcd: {text}") from why

    async def size(self) -> int:
        try:
            return (await self._status(SIZES)).db_size
        except RPCError as why:
            raise StorageError(f"the size of etcd's database is not known: {why}") from why

    async def _status(self, seconds: float) -> pb.StatusResponse:
        return await self._client.read(pb.STATUS, pb.StatusRequest(), pb.StatusResponse, seconds)

    async def _check_version(self) -> None:
        status = await self._status(OPENS)
        if tuple(map(int, re.findall(r"\d+", status.version)[:3])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise StorageError(f"etcd is of version {status.version}, and needs to be of {oldest} or later")

    async def _fetch(self) -> Contents:
        """Read what there was some time ago, and what was written since; go on watching."""
        newest = await self._revision(OPENS)
        writes, base = await self._list_oldest(newest)
        self._hold(writes, base)
        self._watching = asyncio.create_task(self._keep_watching())
        await self._progress.reach(newest, OPENS)
        return Contents(self._fetched, self._progress.revision, self._base)

    async def _list_oldest(self, newest: int) -> tuple[list[Write], int]:
        """Return the writes up to the oldest revision that is worth it and not compacted, and that revision."""
        while True:
            for base in (max(newest - HISTORY, 1), await self._last_compaction(), newest):
                with suppress(_CompactedError):
                    return await self._list(base), base
            newest = await self._revision(OPENS)  # it was compacted just now

    async def _last_compaction(self) -> int:
        """Return the revision of the last compaction by one of the API servers, 1 if there was none."""
        answer = await self._client.read(pb.RANGE, pb.RangeRequest(COMPACTED), pb.RangeResponse, OPENS)
        return max(int(answer.kvs[0].value), 1) if answer.kvs else 1

    async def _list(self, revision: int) -> list[Write]:
        """Return the last write of each key that exists at a revision, in the order of the writes."""
        writes: list[Write] = []
        key, more = self._first, True
        while more:
            request = pb.RangeRequest(key, self._behind, PAGE, revision)
            try:
                page = await self._client.read(pb.RANGE, request, pb.RangeResponse, READS)
            except RPCError as why:
                if _GONE in why.description:
                    raise _CompactedError from why
                raise
            writes += [Write(self._name(kv.key), kv.value, kv.mod_revision) for kv in page.kvs]
            more = page.more
            key = page.kvs[-1].key + b"\0" if page.kvs else key
        return sorted(writes, key=lambda write: write.revision)

    def _hold(self, writes: list[Write], revision: int) -> None:
        """Begin with what there is at a revision, or begin again."""
        self._base = revision if revision > 1 else 0
        if self._reader is None:
            self._fetched = writes
        else:
            self._reader.start_over(Contents(writes, revision, self._base))
        self._progress.advance(revision)

    # --- the watch

    async def _keep_watching(self) -> None:
        """Watch from where the last watch has ended, until cancelled."""
        while True:
            watch = asyncio.create_task(self._watch())
            try:
                self._asked = 0.0
                while not watch.done() and not (self._client.has_others and 0 < self._asked < monotonic() - SILENCE):
                    await asyncio.wait({watch}, timeout=1)
            finally:
                watch.cancel()
                await asyncio.wait({watch})
            if not watch.cancelled() and (why := watch.exception()) is not None:
                if not isinstance(why, (RPCError, asyncio.InvalidStateError, _CompactedError)):
                    raise why
            self._client.turn()
            await asyncio.sleep(AGAIN)

    async def _watch(self) -> None:
        """Tell of writes until the watch ends."""
        stream = self._client.watch()
        try:
            begin = pb.WatchCreateRequest(self._first, self._behind, self._progress.revision + 1, progress_notify=True)
            await stream.send(pb.WatchRequest(create_request=begin))
            self._stream = stream
            async for response in stream:
                self._asked = 0.0
                if response.compact_revision > self._progress.revision:
                    revision = await self._revision(READS)
                    self._hold(await self._list(revision), revision)
                if response.canceled:
                    return
                self._take(response)
        finally:
            self._stream = None
            await stream.cancel()

    def _take(self, response: pb.WatchResponse) -> None:
        """Tell of the writes that are not known yet, and of one's own that follow them."""
        known = self._progress.revision
        writes = [
            Write(self._name(event.kv.key), None if event.type else event.kv.value, event.kv.mod_revision)
            for event in response.events
            if event.kv.mod_revision > known
        ]
        if writes:
            self._tell(writes, writes[-1].revision)
        elif not response.created and not response.events and response.header.revision > known:
            self._tell(writes, response.header.revision)
        self._tell_of_own()

    def _tell_of_own(self) -> None:
        """Tell of one's own writes that come next, before the watch does: each is all that its revision has."""
        while (write := self._own.pop(self._progress.revision + 1, None)) is not None:
            self._tell([write], write.revision)

    def _tell(self, writes: list[Write], revision: int) -> None:
        if self._reader is None:
            self._fetched += writes
        else:
            self._reader.take(writes, revision)
        for write in writes:
            self._own.pop(write.revision, None)
        self._progress.advance(revision)

    async def _ask_for_progress(self) -> None:
        if self._stream is not None:
            self._asked = self._asked or monotonic()
            with suppress(RPCError, asyncio.InvalidStateError):  # the watch is over, and another begins
                await self._stream.send(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))

    # --- calls

    async def write(self, key: str, value: bytes | None, expected: int, seconds_to_live: int = 0) -> int:
        place = self._place(key)
        if value is None:
            operation = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(place))
        else:
            lease = await self._lease(seconds_to_live) if seconds_to_live else 0
            operation = pb.RequestOp(request_put=pb.PutRequest(place, value, lease))
        is_expected = pb.Compare(pb.CompareTarget.MOD, place, mod_revision=expected)
        done = await self._write(pb.TXN, pb.TxnRequest((is_expected,), (operation,)), pb.TxnResponse)
        revision = done.header.revision
        if done.succeeded and revision > self._progress.revision:
            self._own[revision] = Write(key, value, revision)
            self._tell_of_own()
        await self._reach(revision)
        if not done.succeeded:
            raise ChangedError
        return revision

    async def newest(self) -> int:
        if self._next is None:
            self._next = asyncio.create_task(self._read_newest(self._reading))
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            revision = await asyncio.shield(self._next)
        except RPCError as why:
            raise _error(why) from why
        await self._reach(revision)
        return revision

    async def _read_newest(self, before: asyncio.Task[int] | None) -> int:
        """Ask once for all who have begun to wait while somebody else's question was under way."""
        if before is not None:
            await asyncio.wait({before})
        self._reading, self._next = self._next, None
        return await self._revision(READS)

    async def _revision(self, timeout: float) -> int:
        """Return the revision of the last write that was done before this call."""
        request = pb.RangeRequest(self._first + b"health", limit=1, keys_only=True)
        answer = await self._client.read(pb.RANGE, request, pb.RangeResponse, timeout)
        return answer.header.revision

    async def compact(self, revision: int) -> None:
        """Compact etcd, unless another of the API servers has done so since this one tried last."""
        is_turn = pb.Compare(pb.CompareTarget.VERSION, COMPACTED, version=self._compactions)
        take = pb.RequestOp(request_put=pb.PutRequest(COMPACTED, str(revision).encode()))
        look = pb.RequestOp(request_range=pb.RangeRequest(COMPACTED))
        done = await self._write(pb.TXN, pb.TxnRequest((is_turn,), (take,), (look,)), pb.TxnResponse)
        if not done.succeeded:
            self._compactions = done.responses[0].response_range.kvs[0].version
            return
        self._compactions += 1
        try:
            await self._client.write(pb.COMPACT, pb.CompactionRequest(revision), pb.CompactionResponse, WRITES)
        except RPCError as why:
            if _GONE not in why.description:
                raise _error(why) from why

    async def replace(self, contents: Contents, show: Show = iter) -> None:
        """Write other contents in place of what there is, with new revisions."""
        live: dict[str, bytes] = {}
        for key, value, _ in contents.writes:
            if value is None:
                live.pop(key, None)
            else:
                live[key] = bytes(value)
        reader, self._reader = self._reader, None  # it is not told of the way there
        try:
            everything = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(self._first, self._behind))
            done = await self._write(pb.TXN, pb.TxnRequest((), (everything,)), pb.TxnResponse)
            revision, puts = done.header.revision, show(live.items())
            while some := [*islice(puts, AT_ONCE)]:
                revision = max(revision, *await asyncio.gather(*(self._put(key, value) for key, value in some)))
            await self._reach(revision)
            self._fetched, base = [], self._progress.revision
            writes = await self._list(base)
        except RPCError as why:
            raise _error(why) from why
        finally:
            self._reader = reader
        if reader is not None:
            since = [write for write in self._fetched if write.revision > base]
            reader.start_over(Contents([*writes, *since], self._progress.revision, base))

    async def _lease(self, seconds: int) -> int:
        return await self._leases.setdefault(seconds, Leases(self._grant)).get(seconds)

    async def _put(self, key: str, value: bytes) -> int:
        """Put a value under a key, whatever is there; return the revision."""
        put = pb.RequestOp(request_put=pb.PutRequest(self._place(key), value))
        return (await self._write(pb.TXN, pb.TxnRequest((), (put,)), pb.TxnResponse)).header.revision

    async def _grant(self, seconds: int) -> int:
        try:
            asked = pb.LeaseGrantRequest(seconds)
            return (await self._client.read(pb.GRANT, asked, pb.LeaseGrantResponse, WRITES)).id
        except RPCError as why:
            raise _error(why) from why

    async def _write(self, method: str, request: Message, answer: type[M]) -> M:
        try:
            return await self._client.write(method, request, answer, WRITES)
        except RPCError as why:
            raise _error(why) from why

    async def _reach(self, revision: int) -> None:
        try:
            await self._progress.reach(revision, WRITES)
        except TimeoutError as why:
            raise LateError("context deadline exceeded") from why

    # --- keys

    def _place(self, key: str) -> bytes:
        """Return the key in etcd."""
        return f"{self._prefix}{key.removeprefix(PREFIX)}".encode()

    def _name(self, place: bytes) -> str:
        """Return the store's key of one in etcd."""
        return f"{PREFIX}{place.decode(errors='replace').removeprefix(self._prefix)}"


class _CompactedError(Exception):
    """A revision that etcd has forgotten."""


def _error(why: RPCError) -> StorageError:
    return LateError(why.description) if why.code == "DeadlineExceeded" else StorageError(str(why))
