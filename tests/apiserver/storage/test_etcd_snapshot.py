"""Snapshots of etcd. `recorded/etcd-snapshot.db.gz` was saved by etcdctl 3.5.21: values that kube-apiserver 1.37.2 had
stored, some of them deleted since, with keys of other programs, a large value and an encrypted one; compacted at 150.
"""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path

import pytest

from understudy.apiserver.registry.stored_values import StoredValues
from understudy.apiserver.serving.release import Release
from understudy.apiserver.storage.engine_store import EngineStore
from understudy.apiserver.storage.engines.bbolt import BoltFile
from understudy.apiserver.storage.engines.etcd_snapshot import READ_ONLY, EtcdSnapshotEngine
from understudy.apiserver.storage.interface import (
    CompactedError,
    KeyExistsError,
    RevisionConflictError,
    StorageError,
    UnreadableError,
)
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates

SAVED = gzip.decompress((Path(__file__).parent / "recorded/etcd-snapshot.db.gz").read_bytes())
# What etcd answered to a range over /registry/ at a revision: the number of keys, and the hash of a line for each key
# with its revision and the hash of its value.
HELD = {
    150: (148, "3abe6c12cbf2fb6d"),
    160: (158, "6cb465a349056a20"),
    200: (122, "2d9113fb70923564"),
    249: (127, "65c460b003ca9a5c"),
    257: (130, "afbb7b8d47876358"),
    258: (131, "a9860d7d69bd150d"),
}
KEY = "/registry/configmaps/default/last"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.db"
    path.write_bytes(SAVED)
    return path


async def opened(engine: EtcdSnapshotEngine) -> EngineStore:
    release = Release.named("1.37")
    store = EngineStore(engine, StoredValues(release, release.version, Gates.of(release.version)))
    await store.open()
    return store


def digest(values: dict[str, tuple[int, bytes]]) -> tuple[int, str]:
    lines = [f"{key} {rev} {sha256(raw).hexdigest()[:16]}\n" for key, (rev, raw) in sorted(values.items())]
    return len(values), sha256("".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize("revision", HELD)
async def test_contents_are_what_etcd_answers_at_a_revision(file: Path, revision: int) -> None:
    store = await opened(EtcdSnapshotEngine(file, revision=revision))
    held = {entry.key: (entry.revision, bytes(entry.raw or b"")) for entry in store.scan("/registry/")}
    assert digest(held) == HELD[revision]
    assert store.revision == revision


async def test_history_since_the_compaction_can_be_read(file: Path) -> None:
    store = await opened(EtcdSnapshotEngine(file))
    for revision in HELD:
        there = (await store.range("/registry/", revision=revision)).entries
        assert digest({each.key: (each.revision, bytes(each.raw or b"")) for each in there}) == HELD[revision]
    with pytest.raises(CompactedError):
        await store.range("/registry/", revision=149)
    assert len(store.watch("/registry/configmaps/", 250).queue) == 6


async def test_values_are_decoded_when_they_are_read(file: Path) -> None:
    store = await opened(EtcdSnapshotEngine(file))
    entry = store.peek(KEY)
    assert entry is not None
    assert entry.object["metadata"]["resourceVersion"] == "258"
    large = store.peek("/registry/configmaps/default/large")
    assert large is not None
    assert large.value["data"] == {"a": "x" * 20000}
    encrypted = store.peek("/registry/secrets/default/encrypted")
    assert encrypted is not None
    with pytest.raises(UnreadableError, match="identity transformer tried to read encrypted data"):
        _ = encrypted.value
    assert all("/other" not in entry.key for entry in store.scan("/"))


async def test_nothing_can_be_written(file: Path) -> None:
    store = await opened(EtcdSnapshotEngine(file))
    with pytest.raises(StatusError) as raised:
        await store.create("/registry/configmaps/default/new", {"metadata": {"name": "new"}})
    assert (raised.value.code, raised.value.message) == (500, READ_ONLY)
    with pytest.raises(StatusError):
        await store.delete(KEY, 258)
    assert store.peek(KEY) is not None
    assert store.revision == 258


async def test_writable_copy_keeps_writes_in_memory(file: Path) -> None:
    store = await opened(EtcdSnapshotEngine(file, writable=True))
    watch = store.watch("/registry/configmaps/", 258)
    new = await store.create("/registry/configmaps/default/new", {"metadata": {"name": "new"}})
    assert new.revision == 259
    with pytest.raises(KeyExistsError):
        await store.create(KEY, {"metadata": {"name": "last"}})
    with pytest.raises(RevisionConflictError):
        await store.update(KEY, {"metadata": {"name": "last"}}, 257)
    assert (await store.delete(KEY, 258)).revision == 260
    assert (await store.create(KEY, {"metadata": {"name": "last"}})).revision == 261
    assert [event.revision for event in watch.queue] == [259, 260, 261]
    await store.close()
    assert file.read_bytes() == SAVED


async def test_file_of_a_member_has_no_hash(file: Path) -> None:
    file.write_bytes(SAVED[:-32] + bytes(4096 * 3))  # which grows in steps
    assert (await opened(EtcdSnapshotEngine(file))).revision == 258


async def test_other_prefix(file: Path) -> None:
    store = await opened(EtcdSnapshotEngine(file, prefix="/registry/configmaps"))
    assert store.peek("/registry/default/last") is not None
    assert store.count("/registry/") == len((await opened(EtcdSnapshotEngine(file))).scan("/registry/configmaps/"))


def flipped(at: int) -> bytes:
    return SAVED[:at] + bytes([SAVED[at] ^ 0xFF]) + SAVED[at + 1 :]


DAMAGED = "damaged, or no snapshot of etcd: "


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", f"{DAMAGED}it is empty"),
        (b"no database" * 1000, f"{DAMAGED}it has no valid meta page, so it is no bbolt file"),
        (SAVED[:-5000], f"{DAMAGED}it is cut off after 154776 of 159744 bytes"),
        (flipped(100_000), f"{DAMAGED}the hash at its end is not that of its content"),
        (flipped(len(SAVED) - 1), f"{DAMAGED}the hash at its end is not that of its content"),
    ],
)
async def test_damaged_files_are_refused(file: Path, content: bytes, text: str) -> None:
    file.write_bytes(content)
    with pytest.raises(StorageError) as raised:
        await opened(EtcdSnapshotEngine(file))
    assert str(raised.value) == f"{file}: {text}"


async def test_missing_file(file: Path) -> None:
    with pytest.raises(StorageError, match="missing: No such file or directory"):
        await opened(EtcdSnapshotEngine(file.with_name("missing")))


@pytest.mark.parametrize(
    ("revision", "text"),
    [
        (149, "revision 149 is compacted: there are those from 150 on"),
        (259, "there is no revision 259 yet: the last one is 258"),
    ],
)
async def test_revisions_that_it_does_not_hold(file: Path, revision: int, text: str) -> None:
    with pytest.raises(StorageError, match=text):
        await opened(EtcdSnapshotEngine(file, revision=revision))


async def test_damage_without_a_hash_is_an_error_and_no_crash(file: Path) -> None:
    """Pages that point anywhere, as in a file of a member that was copied while etcd wrote it."""
    content, texts = SAVED[:-32], list[str]()
    for at in range(8200, len(content), 1999):
        file.write_bytes(content[:at] + b"\xff" * 12 + content[at + 12 :])
        try:
            await opened(EtcdSnapshotEngine(file))
        except StorageError as error:
            texts.append(str(error))
    assert len(texts) > 2
    assert all(text.startswith(f"{file}: {DAMAGED}") for text in texts)


def test_other_buckets_can_be_read(file: Path) -> None:
    """A bucket with few elements is kept inside the value that names it."""
    bolt = BoltFile(file)
    cluster = {bolt.data[begin:middle]: bolt.data[middle:end] for begin, middle, end in bolt.bucket(b"cluster")}
    assert cluster == {b"clusterVersion": b"3.5.0"}
