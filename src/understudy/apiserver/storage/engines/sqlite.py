"""An engine that keeps everything in one SQLite file: the objects, their history, and what a server has generated.

    writes     revision, key, value (NULL: deleted)    each write, until compaction finds a newer one of its key
    numbers    name, value                             the revision of the file, and the one that it is compacted to
    generated  name, value                             keys and certificates that the server has made for itself

The last write of a key is what is stored there. The file is in WAL mode, in which readers and writers do not wait for
each other. Where a write need not wait for the disk (`synchronous` is "normal") the event loop makes it at once; else a
thread makes all writes that wait in one transaction. Another connection moves the WAL into the file beside them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from understudy.apiserver.storage.engine import ChangedError, Contents, Reader, Show, Write
from understudy.apiserver.storage.interface import StorageError
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.types import NamedTuple

T = TypeVar("T")

APPLICATION = 0x6B753873  # marks the files of this program (`application_id`)
FORMAT = 1  # of a file (`user_version`)
CHECKPOINT_BYTES = 4 << 20  # of values after which the WAL is moved into the file
LONG_WAL = 16_384  # pages of 4 KiB in a WAL for which writers wait until it is moved, so that it begins anew
COMPACTED_AT_ONCE = 250  # revisions: a millisecond or two
NORMAL, FULL = "normal", "full"

_TABLES = """
CREATE TABLE writes (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB);
CREATE INDEX writes_of_key ON writes (key, revision);
CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE generated (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
INSERT INTO numbers VALUES ('compacted', 0), ('revision', 1);
"""
# Writes only if the last write of the key is the expected one, where 0 stands for none and for a deletion.
_WRITE = """
INSERT INTO writes SELECT :revision, :key, :value WHERE :expected = ifnull(
    (
        SELECT CASE WHEN value IS NULL THEN 0 ELSE revision END
        FROM writes WHERE key = :key ORDER BY revision DESC LIMIT 1
    ),
    0
)
"""
# Delete what some writes have replaced, and those of them that are deletions.
_COMPACT = (
    """
    DELETE FROM writes WHERE revision IN (
        SELECT older.revision FROM writes AS newer JOIN writes AS older USING (key)
        WHERE newer.revision BETWEEN :first AND :last AND older.revision < newer.revision
    )
    """,
    "DELETE FROM writes WHERE revision BETWEEN :first AND :last AND value IS NULL",
)


class _Order(NamedTuple):
    """A write that is to be made; `outcome` is told of its revision."""

    key: str
    value: bytes | None
    expected: int
    outcome: Future[int]


class SQLiteEngine:
    """Keeps bytes in a SQLite file (see `Engine`), which one server at a time may use.

    synchronous  "normal": what was answered survives the end of the process, however it comes; "full": a power cut, too
    """

    def __init__(self, file: Path, synchronous: str = NORMAL) -> None:
        self._file = file
        self._synchronous = synchronous
        self.suspends = synchronous == FULL
        self.expires = False
        self._revision = self._told = 1
        self._unmoved = 0  # bytes that were written since the WAL was moved
        self._orders: deque[_Order] = deque()
        self._is_writing = False  # whether a thread is about to look for orders

    # --- life cycle ---------------------------------------------------------------------------------------------------

    async def open(self, reader: Reader) -> Contents:
        self._reader = reader
        self._loop: AbstractEventLoop = asyncio.get_running_loop()
        with ExitStack() as opened:
            try:
                self._lock = opened.enter_context(closing(_locked(self._file)))
                self._connection = opened.enter_context(closing(_opened(self._file)))
                self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                self._connection.execute("PRAGMA wal_autocheckpoint = 0")
                contents = _read(self._connection, self._file)
            except sqlite3.Error as why:
                raise StorageError(f"{self._file}: {why}") from None
            opened.pop_all()  # both stay open
        self._revision = self._told = contents.revision
        self._writer = ThreadPoolExecutor(1, "understudy-sqlite") if self.suspends else None
        self._mover = ThreadPoolExecutor(1, "understudy-sqlite-wal")
        return contents

    async def close(self) -> None:
        if self._writer is not None:
            await asyncio.wrap_future(self._writer.submit(self._write_orders))
            self._writer.shutdown()
        self._mover.shutdown()
        self._connection.close()  # moves the WAL into the file
        self._lock.close()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def write(self, key: str, value: bytes | None, expected: int, seconds_to_live: int = 0) -> int:
        order = _Order(key, value, expected, self._loop.create_future())
        if self._writer is None:
            self._finish([order], self._made([order]))
        else:
            self._orders.append(order)
            if not self._is_writing:
                self._is_writing = True
                self._writer.submit(self._write_orders)
        return await order.outcome

    def _write_orders(self) -> None:
        """Make all writes that wait, in the writing thread."""
        self._is_writing = False  # what is ordered from now on may be seen below, or asks for this again
        orders = []
        while self._orders:
            orders.append(self._orders.popleft())
        if orders:
            self._loop.call_soon_threadsafe(self._finish, orders, self._made(orders))

    def _made(self, orders: Sequence[_Order]) -> list[int | Exception]:
        """Make writes in one transaction; return the revision of each, or what it raises."""
        before, outcomes = self._revision, list[int | Exception]()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for order in orders:
                outcomes.append(self._made_one(order))
            self._connection.execute("COMMIT")
        except sqlite3.Error as why:
            self._revision = before
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return [StorageError(f"{self._file}: {why}")] * len(orders)
        return outcomes

    def _made_one(self, order: _Order) -> int | Exception:
        """Make a write; return its revision, or the error of one that does not find what it expects."""
        key, value, expected, _ = order
        parameters = {"revision": self._revision + 1, "key": key, "value": value, "expected": expected}
        if not self._connection.execute(_WRITE, parameters).rowcount:
            return ChangedError()
        self._revision += 1
        return self._revision

    def _finish(self, orders: Sequence[_Order], outcomes: Sequence[int | Exception]) -> None:
        """Tell of writes that were made, and then those who wait for them."""
        made = [(order, made) for order, made in zip(orders, outcomes, strict=True) if isinstance(made, int)]
        if made:
            self._told = made[-1][1]
            self._reader.take([Write(order.key, order.value, revision) for order, revision in made], self._told)
            self._unmoved += sum(len(order.value or b"") for order, _ in made)
            if self._unmoved > CHECKPOINT_BYTES:
                self._unmoved = 0
                self._mover.submit(self._move_wal)
        for order, outcome in zip(orders, outcomes, strict=True):
            if order.outcome.cancelled():
                continue
            if isinstance(outcome, int):
                order.outcome.set_result(outcome)
            else:
                order.outcome.set_exception(outcome)

    def _move_wal(self) -> None:
        """Move the WAL into the file, beside the writers, which wait only for the last part of a very long one."""
        with closing(_connected(self._file)) as connection:
            _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if pages > LONG_WAL:
                connection.execute("PRAGMA wal_checkpoint(RESTART)")

    async def check(self) -> None:
        pass

    async def size(self) -> int:
        return self._file.stat().st_size

    async def newest(self) -> int:
        return self._told

    # --- history ------------------------------------------------------------------------------------------------------

    async def compact(self, revision: int) -> None:
        compacted, turns = await self._do(lambda: self._number("compacted")), Turns()
        for first in range(compacted + 1, revision + 1, COMPACTED_AT_ONCE):
            await self._do(partial(self._compact, first, min(first + COMPACTED_AT_ONCE - 1, revision)))
            if turns.is_over:
                await turns.next()

    def _compact(self, first: int, last: int) -> None:
        """Forget what the writes of some revisions have replaced, and note that."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in _COMPACT:
                self._connection.execute(statement, {"first": first, "last": last})
            self._note(compacted=last, revision=self._revision)

    async def replace(self, contents: Contents, show: Show = iter) -> None:
        def replace() -> None:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.execute("DELETE FROM writes")
                rows = ((revision, key, value) for key, value, revision in show(contents.writes))
                self._connection.executemany("INSERT INTO writes VALUES (?, ?, ?)", rows)
                self._note(compacted=contents.compacted, revision=contents.revision)
            self._revision = contents.revision

        await self._do(replace)
        self._told = contents.revision

    async def _do(self, function: Callable[[], T]) -> T:
        """Call a function where writes are made. Raises StorageError."""
        try:
            if self._writer is None:
                return function()
            return await asyncio.wrap_future(self._writer.submit(function))
        except sqlite3.Error as why:
            raise StorageError(f"{self._file}: {why}") from why

    def _number(self, name: str) -> int:
        return _number(self._connection, name)

    def _note(self, **numbers: int) -> None:
        """Write numbers that concern all of the file."""
        self._connection.executemany(
            "UPDATE numbers SET value = ? WHERE name = ?", [(v, n) for n, v in numbers.items()]
        )


def generated(file: Path, name: str, make: Callable[[], bytes]) -> bytes:
    """Return a key or certificate that the servers on a file share, as the first one has made it. Raises
    StorageError."""
    try:
        with closing(_opened(file)) as connection:
            find = "SELECT value FROM generated WHERE name = ?"
            if (row := connection.execute(find, [name]).fetchone()) is None:
                connection.execute("INSERT OR IGNORE INTO generated VALUES (?, ?)", [name, make()])
                row = connection.execute(find, [name]).fetchone()
            return bytes(row[0])
    except sqlite3.Error as why:
        raise StorageError(f"{file}: {why}") from None


def _connected(file: Path) -> sqlite3.Connection:
    """Connect to a file; a new one is only for its owner, since keys and Secrets are in it. Raises sqlite3.Error."""
    with suppress(OSError):  # sqlite3 says why it cannot be opened
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    return sqlite3.connect(file, isolation_level=None, check_same_thread=False)


def _locked(file: Path) -> sqlite3.Connection:
    """Return a connection that keeps others from using a file until it is closed. Raises StorageError.

    It locks another file, since the one with the data has to stay open for the checkpoints of the WAL.
    """
    with ExitStack() as opened:
        try:
            connection = sqlite3.connect(f"{file}-lock", timeout=0, isolation_level=None, check_same_thread=False)
            opened.callback(connection.close)
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as why:
            if not file.parent.is_dir():
                raise StorageError(f"{file}: there is no folder {file.parent}") from None
            reason = "another server uses it" if "locked" in str(why) else str(why)
            raise StorageError(f"{file}: {reason}") from None
        opened.pop_all()  # it stays open
    return connection


def _opened(file: Path) -> sqlite3.Connection:
    """Return a connection to a file, which has the tables. Raises StorageError for one of another program or of a newer
    format, and sqlite3.Error."""
    connection = _connected(file)
    try:
        _check(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """Check a file, and give an empty one its tables. Raises StorageError, sqlite3.Error."""
    pages, application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "application_id", "user_version")
    )
    if not pages:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT"
        )
        return
    if application != APPLICATION:
        raise StorageError(f"{file}: a SQLite file of another program")
    if version > FORMAT:
        raise StorageError(f"{file}: written by a newer understudy (format {version}, this one knows {FORMAT})")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageError(f"{file}: cannot be used in SQLite's WAL mode here, but only in mode {mode}")
    connection.execute("UPDATE numbers SET value = value")  # fails where nothing can be written


def _read(connection: sqlite3.Connection, file: Path) -> Contents:
    """Return everything that a file holds. Raises StorageError for a damaged one, and sqlite3.Error."""
    (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        raise StorageError(f"{file}: damaged: {' '.join(result.split())}")
    writes = [*map(Write._make, connection.execute("SELECT key, value, revision FROM writes ORDER BY revision"))]
    compacted = _number(connection, "compacted")
    last = writes[-1].revision if writes else 0
    return Contents(writes, max(last, compacted, _number(connection, "revision")), compacted)


def _number(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute("SELECT value FROM numbers WHERE name = ?", [name]).fetchone()
    return int(value)
