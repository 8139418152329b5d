"""The interface of an engine, which keeps bytes under keys for an `EngineStore`.

An engine needs one module in `engines`. It knows nothing of objects: the store above it turns them into bytes and back
(`Values`), answers every read and watch from memory, and learns of each write, whoever made it, in the order of the
revisions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from understudy.apiserver.storage.interface import Raw
from understudy.machinery.types import NamedTuple, Obj

Show = Callable[[Collection[Any]], Iterator[Any]]


class ChangedError(Exception):
    """A key that is not at the revision that a write expects. The reader has been told of what is there instead."""


class EncryptedError(ValueError):
    """A value that cannot be read since it is encrypted."""


class Write(NamedTuple):
    """A write: a key got a value, or was deleted if that is None."""

    key: str
    value: Raw | None
    revision: int


def only_last(writes: Sequence[Write], revision: int) -> list[Write]:
    """Return writes, in the order of their revisions, but of those up to a revision only the last one of each key that
    existed then."""
    existing, first = dict[str, Write](), bisect_right(writes, revision, key=lambda write: write.revision)
    for write in writes[:first]:
        existing.pop(write.key, None)  # so that they stay in order
        if write.value is not None:
            existing[write.key] = write
    return [*existing.values(), *writes[first:]]


class Contents(NamedTuple):
    """The bytes that an engine holds, and when they were written.

    writes     the last write of each key that exists, and all writes since `compacted`, in the order of revisions
    revision   that of the last write
    compacted  the revision up to which older writes are forgotten; 0 if none are
    """

    writes: Sequence[Write]
    revision: int
    compacted: int


class Reader(Protocol):
    """Learns what an engine holds after it was opened. Both methods are called on the event loop, and never wait."""

    def take(self, writes: Sequence[Write], revision: int) -> None:
        """Take the next writes, in the order of their revisions; everything up to `revision` is known then.

        There may be none: others may keep things in the same place, and share its revisions.
        """

    def start_over(self, contents: Contents) -> None:
        """Hold other contents, after writes were missed; readers of watches have to start over as well."""


class Engine(Protocol):
    """Keeps bytes under keys, with one counter of revisions for all of them, which begins with 1.

    suspends  whether `write` and `newest` may wait for something
    expires   whether it deletes keys after their time to live
    """

    suspends: bool
    expires: bool

    async def open(self, reader: Reader) -> Contents:
        """Open the place where the bytes are, which is created if it is missing; return what it holds.

        The reader is told of all writes after that, those of `write` too, before that returns. Raises StorageError.
        """

    async def close(self) -> None:
        """Write what is not written yet, and let the place go."""

    async def check(self) -> None:
        """Raise StorageError unless the place can be read now."""

    async def size(self) -> int:
        """Return the bytes of the file in which everything is kept. Raises StorageError."""

    async def write(self, key: str, value: bytes | None, expected: int, seconds_to_live: int = 0) -> int:
        """Put a value under a key, or delete the key for None; return the revision of the write.

        expected         the revision of the last write of the key, 0 if there is no such key
        seconds_to_live  after which the engine deletes the key if it is not written again; 0 for never. An engine that
                         does not expire keys ignores it.

        Raises ChangedError and, if nothing can be written, StorageError.
        """

    async def newest(self) -> int:
        """Return a revision no older than that of any write which was done before this call, by whomever.

        The reader has been told of everything up to there. Raises StorageError if that is not known.
        """

    async def compact(self, revision: int) -> None:
        """Forget the writes up to a revision but for the last one of each key that existed then."""

    async def replace(self, contents: Contents, show: Show = iter) -> None:
        """Forget everything, and hold other contents.

        show  returns what is written as it gets it, and so learns how far that has come

        The reader is told to start over only if they could not be given their revisions.
        """


class Values(Protocol):
    """Turns objects into the bytes that are stored, and back."""

    def encode(self, key: str, value: Obj) -> bytes:
        """Return the bytes of an object, which is in its internal form, without a resourceVersion."""

    def is_current(self, key: str, raw: Raw, value: Obj) -> bool:
        """Report whether bytes, of which a value was decoded, have the form in which it would be stored now."""

    def decode(self, key: str, raw: Raw) -> Obj:
        """Return the object of some bytes. Raises ValueError, whose text begins with the key; EncryptedError."""

    def labels(self, key: str, raw: Raw) -> Mapping[str, str] | None:
        """Return the labels of the object of some bytes; None where only `decode` tells them, or what is wrong."""
