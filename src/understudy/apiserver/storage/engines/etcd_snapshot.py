"""An engine that shows what a snapshot of a cluster's etcd holds, as `etcdctl snapshot save` writes it.

    bucket  key                        value
    key     revision 8, "_", number 8  mvccpb.KeyValue: key 1, create revision 2, mod revision 3, version 4, value 5
            and "t" for a deletion     only the key
    meta    finishedCompactRev         the revision that etcd is compacted to; scheduledCompactRev where it was about to

Such a file is a bbolt file with the SHA-256 of all before it at its end; the file of a member (`member/snap/db`) has no
hash. Keys are in the order of the revisions, so one pass finds the last write of each. Values stay in the file until
somebody asks for them. Nothing is ever written to it: a copy that is `writable` keeps its writes in memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from mmap import mmap
from pathlib import Path

from understudy.apiserver.storage.engine import ChangedError, Contents, Reader, Show, Write, only_last
from understudy.apiserver.storage.engines.bbolt import BoltFile, DamagedFileError
from understudy.apiserver.storage.interface import StorageError
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.serializer.protobuf_wire import read_varint
from understudy.machinery.util.regex import regex

ROOT = "/registry"
READ_ONLY = "etcdserver: permission denied: a snapshot is read-only; start with --writable to change a copy in memory"
HISTORY = 50_000  # writes that clients can read back in time, and watch from; an earlier revision has to be asked for
_HASH = sha256().digest_size
_DELETION = 18  # bytes of the key of one: that of others has no "t" at its end
_NUMBER = rb"[\x80-\xff]*[\x00-\x7f]"
# The numbers between a key and its value, and the tag of the value. A value that is empty is left out.
_BEFORE_VALUE = regex(rb"\x10%b\x18%b\x20%b(\x2a)?" % (_NUMBER, _NUMBER, _NUMBER), re.DOTALL)


class EtcdSnapshotEngine:
    """Shows a snapshot of etcd (see `Engine`).

    revision  the one to show; 0 for the last. Later writes are not known, those before it are its history.
    writable  whether writes are kept, in memory; else they are refused
    prefix    of the keys of Kubernetes (`--etcd-prefix` of the cluster)
    """

    suspends = False
    expires = False

    def __init__(self, file: Path, *, revision: int = 0, writable: bool = False, prefix: str = ROOT) -> None:
        self._file = file
        self._shown = revision
        self._writable = writable
        self._prefix = f"{prefix.rstrip('/')}/".encode()
        self._revision = 0
        self._revisions: dict[str, int] = {}  # of the last writes of the keys that exist

    async def open(self, reader: Reader) -> Contents:
        self._reader = reader
        try:
            bolt = BoltFile(self._file)
            contents, _ = await asyncio.gather(
                asyncio.to_thread(self._read, bolt), asyncio.to_thread(_check_hash, bolt)
            )
        except StorageError:
            raise
        except OSError as why:
            raise StorageError(f"{self._file}: {why.strerror}") from None
        except (DamagedFileError, DecodeError) as why:
            raise StorageError(f"{self._file}: damaged, or no snapshot of etcd: {why}") from None
        self._revision = contents.revision
        self._revisions = _revisions(contents.writes)
        return contents

    async def close(self) -> None:
        """Keep nothing: the file is closed when the last value of it is forgotten."""

    async def write(self, key: str, value: bytes | None, expected: int, seconds_to_live: int = 0) -> int:
        if not self._writable:
            raise StorageError(READ_ONLY)
        if self._revisions.get(key, 0) != expected:
            raise ChangedError
        self._revision += 1
        if value is None:
            del self._revisions[key]
        else:
            self._revisions[key] = self._revision
        self._reader.take([Write(key, value, self._revision)], self._revision)
        return self._revision

    async def newest(self) -> int:
        return self._revision

    async def check(self) -> None:
        """Find nothing wrong: all is known since the file was opened."""

    async def size(self) -> int:
        return self._file.stat().st_size

    async def compact(self, revision: int) -> None:
        """Keep what the file has: memory alone forgets."""

    async def replace(self, contents: Contents, show: Show = iter) -> None:
        if not self._writable and contents.revision != self._revision:
            raise StorageError(READ_ONLY)
        self._revision = contents.revision
        self._revisions = _revisions(contents.writes)

    def _read(self, bolt: BoltFile) -> Contents:
        """Return the contents up to the revision to show. Raises StorageError, DamagedFileError, DecodeError."""
        compacted, shown = _compacted(bolt), self._shown
        last = max(compacted, 1)
        if shown and shown < compacted:
            raise StorageError(f"{self._file}: revision {shown} is compacted: there are those from {compacted} on")
        writes = list[Write]()
        for revision, write in self._writes(bolt):
            last = revision if revision > last else last
            if shown and revision > shown:
                break
            if write is not None:
                writes.append(write)
        if shown > last:
            raise StorageError(f"{self._file}: there is no revision {shown} yet: the last one is {last}")
        if len(writes) > HISTORY:
            compacted = max(compacted, writes[-HISTORY].revision)
        return Contents(only_last(writes, compacted), shown or last, compacted)

    def _writes(self, bolt: BoltFile) -> Iterator[tuple[int, Write | None]]:
        """Yield each revision with its write, None for what is not of Kubernetes, in order."""
        data, prefix, size = bolt.data, self._prefix, len(self._prefix)
        view = memoryview(data)
        for begin, middle, end in bolt.bucket(b"key"):
            revision = int.from_bytes(data[begin : begin + 8], "big")
            at, length = middle + 2, data[middle + 1]
            if length > 0x7F:
                length, at = _number_at(data, middle + 1, end)
            name = data[at : at + length]
            if not name.startswith(prefix):
                yield revision, None
                continue
            value = None if middle - begin == _DELETION else view[_value_at(data, at + length, end)]
            yield revision, Write(f"{ROOT}/{name[size:].decode('utf-8', 'replace')}", value, revision)


def _value_at(data: mmap, at: int, end: int) -> slice:
    """Return the place of the value of a KeyValue whose key ends at `at`. Raises DamagedFileError."""
    before = _BEFORE_VALUE.match(data, at, end)
    if before is None:
        raise DamagedFileError(f"the entry before byte {end} is none of etcd")
    if not before[1]:
        return slice(end, end)
    size, begin = _number_at(data, before.end(), end)
    if begin + size > end:
        raise DamagedFileError(f"the entry before byte {end} is cut off")
    return slice(begin, begin + size)


def _number_at(data: mmap, at: int, end: int) -> tuple[int, int]:
    """Return the number at an offset, and where it ends. Raises DecodeError."""
    some = data[at : min(at + 10, end)]
    number, size = read_varint(some, 0, len(some))
    return number, at + size


def _revisions(writes: Sequence[Write]) -> dict[str, int]:
    """Return the revisions of the last writes of the keys that exist after some writes."""
    last = {write.key: write for write in writes}
    return {key: write.revision for key, write in last.items() if write.value is not None}


def _compacted(bolt: BoltFile) -> int:
    """Return the revision that etcd is compacted to, or about to be; 0 for none."""
    noted = {bolt.data[begin:middle]: bolt.data[middle : middle + 8] for begin, middle, _ in bolt.bucket(b"meta")}
    return max(int.from_bytes(noted.get(name, b"")) for name in (b"finishedCompactRev", b"scheduledCompactRev"))


def _check_hash(bolt: BoltFile) -> None:
    """Raise DamagedFileError if the hash at the end of a file is not that of what is before it."""
    if len(bolt.data) % 512 != _HASH:
        return
    with memoryview(bolt.data) as data:
        if sha256(data[:-_HASH]).digest() != bytes(data[-_HASH:]):
            raise DamagedFileError("the hash at its end is not that of its content")
