"""A store whose objects an engine keeps, below a memory store that answers all reads and watches.

    create   encode → engine writes the bytes → engine tells of the write → memory store → watches → answer

Nothing is seen before the engine has it. Objects that were read from the engine are decoded when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.apiserver.storage.engine import ChangedError, Contents, EncryptedError, Engine, Values, Write
from understudy.apiserver.storage.interface import (
    Entry,
    Event,
    KeyExistsError,
    LateError,
    Range,
    Raw,
    RevisionConflictError,
    StorageError,
    StoreSnapshot,
    UnreadableError,
)
from understudy.apiserver.storage.memory import HISTORY_LIMIT, MemoryStore
from understudy.machinery import errors
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

EVENTS, MASTER_LEASES = "/registry/events/", "/registry/masterleases/"
MASTER_LEASE_SECONDS = 15  # after which the engine deletes the address of a server that was killed
_LATE = "Timeout: request did not complete within requested timeout - context deadline exceeded"


class EngineStore(MemoryStore):
    """A store on an engine (see `Store`). Raises StatusError when the engine fails: 500, or 504 if it is late.

    event_seconds  how long the engine keeps events after they were last written, 0 for ever
    """

    def __init__(
        self, engine: Engine, values: Values, event_seconds: int = 0, history_limit: int = HISTORY_LIMIT
    ) -> None:
        super().__init__(history_limit)
        self.suspends, self.expires = engine.suspends, engine.expires
        self._event_seconds = event_seconds
        self._is_open = False
        self._engine = engine
        self._values = values
        # Objects that are being written, and whether they are stored in another form, by what the engine is told.
        self._given: dict[tuple[str, bytes], tuple[Obj, bool]] = {}

    async def open(self) -> None:
        contents = await self._engine.open(self)
        self._is_open = True
        self.start_over(contents)

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._engine.close()

    async def check(self) -> None:
        await self._engine.check()

    async def size(self) -> int | None:
        return await self._engine.size()

    async def get(self, key: str) -> Entry | None:
        await self.catch_up()
        return self.peek(key)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        if not 0 < revision <= self._revision:
            await self.catch_up()
        return await super().range(prefix, start=start, limit=limit, revision=revision)

    async def create(self, key: str, value: Obj, stored_as: Obj | None = None) -> Entry:
        try:
            return await self._write(key, value, 0, stored_as)
        except ChangedError:
            raise KeyExistsError from None

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        self._expect(key, expected)
        try:
            return await self._write(key, value, expected)
        except ChangedError:
            raise RevisionConflictError(self.peek(key)) from None

    async def delete(self, key: str, expected: int) -> Entry:
        current = self._expect(key, expected)
        try:
            return current.at_revision(await self._asked(key, None, expected))
        except ChangedError:
            raise RevisionConflictError(self.peek(key)) from None

    async def rewind(self, snapshot: StoreSnapshot) -> None:
        await super().rewind(snapshot)
        await self._engine.replace(self._contents())

    async def restore(self, snapshot: StoreSnapshot) -> None:
        await super().restore(snapshot)
        await self._engine.replace(self._contents())

    async def compact(self, revision: int) -> None:
        await super().compact(revision)
        await self._engine.compact(revision)

    async def catch_up(self) -> None:
        if not self.suspends:
            return
        try:
            await self._engine.newest()
        except StorageError as why:
            raise _status(why) from why

    async def _write(self, key: str, value: Obj, expected: int, stored_as: Obj | None = None) -> Entry:
        """Put an object under a key; return its entry. Raises ChangedError, StatusError."""
        raw = self._values.encode(key, value if stored_as is None else stored_as)
        self._given[key, raw] = value, stored_as is not None
        try:
            revision = await self._asked(key, raw, expected)
        finally:
            self._given.pop((key, raw), None)
        entry = self.peek(key)
        return entry if entry is not None and entry.revision == revision else Entry(key, value, revision)

    async def _asked(self, key: str, raw: bytes | None, expected: int) -> int:
        """Let the engine write; return the revision. Raises ChangedError, StatusError."""
        try:
            return await self._engine.write(key, raw, expected, self._seconds_to_live(key))
        except StorageError as why:
            raise _status(why) from why

    def _seconds_to_live(self, key: str) -> int:
        if key.startswith(EVENTS):
            return self._event_seconds
        return MASTER_LEASE_SECONDS if key.startswith(MASTER_LEASES) else 0

    def start_over(self, contents: Contents) -> None:
        """Hold what an engine holds, and cut off every watch (see `Reader`)."""
        old = [write for write in contents.writes if write.revision <= contents.compacted]
        self._hold([self._entry(write) for write in old])
        self._revision = self._compacted = contents.compacted
        self.take(contents.writes[len(old) :], contents.revision)

    def take(self, writes: Sequence[Write], revision: int) -> None:
        """Learn of all writes up to a revision (see `Reader`)."""
        for write in writes:
            previous = self.peek(write.key)
            if write.value is not None:
                self._commit(Event(False, self._entry(write), previous))
            elif previous is not None:
                self._commit(Event(True, previous.at_revision(write.revision), previous))
        if revision > self._revision:
            self._revision = revision
            for watch in self._watches:
                watch.wake()  # some wait for the revision

    def _entry(self, write: Write) -> Entry:
        """Return the entry of a write that puts a value."""
        key, raw, revision = write
        assert raw is not None
        given = self._given.pop((key, bytes(raw)), None) if self._given else None
        if given is not None:
            entry = Entry(key, given[0], revision)
            entry.is_outdated = given[1]
            return entry
        return Entry.of_bytes(key, raw, revision, self)

    def decode(self, key: str, raw: Raw) -> Obj:
        """Return the object of some bytes. Raises UnreadableError."""
        try:
            value = self._values.decode(key, raw)
            current = self.peek(key)
            if current is not None and current.raw is raw:
                current.is_outdated = not self._values.is_current(key, raw, value)
            return value
        except ValueError as why:
            reason = str(why).removeprefix(f"{key}: ")
            raise UnreadableError(key, reason, is_encrypted=isinstance(why, EncryptedError)) from None

    def labels(self, key: str, raw: Raw) -> Mapping[str, str] | None:
        return self._values.labels(key, raw)

    def _contents(self) -> Contents:
        """Return everything that memory holds, as an engine keeps it."""
        began = self._log[0].revision if self._log else self._revision + 1
        old = sorted((entry for entry in self._live.values() if entry.revision < began), key=lambda each: each.revision)
        writes = [self._as_write(entry, deleted=False) for entry in old]
        writes += [self._as_write(event.entry, deleted=event.deleted) for event in self._log]
        writes = [write for write in writes if not write.key.startswith(MASTER_LEASES)]  # of servers that write again
        return Contents(writes, self._revision, self._compacted)

    def _as_write(self, entry: Entry, *, deleted: bool) -> Write:
        raw = None if deleted else entry.raw
        if raw is None and not deleted:
            raw = self._values.encode(entry.key, entry.value)
        return Write(entry.key, raw, entry.revision)


def _status(why: StorageError) -> StatusError:
    """Return the Status that tells a client of an engine that fails."""
    if isinstance(why, LateError):
        return errors.timeout(_LATE, 0)
    return StatusError(500, "", str(why))
