"""The engine on etcd: replicas, leases, compaction, an etcd that goes away, endpoints and TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.etcd import Etcd, running
from understudy.apiserver.storage.engine import ChangedError, Contents, Write
from understudy.apiserver.storage.engines.etcd import engine as etcd_engine
from understudy.apiserver.storage.engines.etcd import messages as pb
from understudy.apiserver.storage.engines.etcd.client import EtcdClient, Files
from understudy.apiserver.storage.engines.etcd.engine import EtcdEngine
from understudy.apiserver.storage.engines.etcd.leases import KEYS, Leases
from understudy.apiserver.storage.interface import LateError, StorageError

A, B = "/registry/things/a", "/registry/things/b"
_prefixes = count()


class Replica:
    """An engine and what its reader is told."""

    def __init__(self, engine: EtcdEngine) -> None:
        self.engine = engine
        self.writes: list[Write] = []
        self.revision = 0
        self.starts: list[Contents] = []
        self._changed = asyncio.Event()

    def take(self, writes: Sequence[Write], revision: int) -> None:
        assert revision > self.revision
        assert all(self.revision < write.revision <= revision for write in writes)
        self.writes += writes
        self.revision = revision
        self._changed.set()

    def start_over(self, contents: Contents) -> None:
        self.writes, self.revision = [*contents.writes], contents.revision
        self.starts.append(contents)
        self._changed.set()

    async def until(self, done: Callable[[], object]) -> None:
        """Wait until something holds, which is looked at whenever the reader is told of something."""
        async with asyncio.timeout(30):
            while not done():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def prefix() -> str:
    """Return a place in etcd that no other test uses."""
    return f"/test-{next(_prefixes)}"


class Replicas:
    def __init__(self, stack: AsyncExitStack, etcd: Etcd, prefix: str) -> None:
        self._stack, self._etcd, self._prefix = stack, etcd, prefix

    async def open(self, *servers: str) -> Replica:
        replica = Replica(EtcdEngine(servers or (self._etcd.url,), prefix=self._prefix))
        replica.start_over(await replica.engine.open(replica))
        self._stack.push_async_callback(replica.engine.close)
        return replica


@pytest.fixture
async def replicas(etcd: Etcd, prefix: str) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as stack:
        yield Replicas(stack, etcd, prefix)


async def read(etcd: Etcd, key: bytes, behind: bytes = b"") -> tuple[pb.KeyValue, ...]:
    client = EtcdClient([etcd.url])
    try:
        return (await client.read(pb.RANGE, pb.RangeRequest(key, behind), pb.RangeResponse, 10)).kvs
    finally:
        await client.close()


async def test_keys_are_below_the_prefix(replicas: Replicas, etcd: Etcd, prefix: str) -> None:
    """etcd has the key with the prefix in place of /registry, at the revision of the write."""
    one = await replicas.open()
    revision = await one.engine.write(A, b"1", 0)
    (kept,) = await read(etcd, f"{prefix}/things/a".encode())
    assert (kept.value, kept.mod_revision, one.writes) == (b"1", revision, [Write(A, b"1", revision)])


async def test_replicas_learn_of_each_others_writes(replicas: Replicas) -> None:
    """A replica is told of every write once and in order; a write on what is outdated fails once it knows the newer."""
    one, other = await replicas.open(), await replicas.open()
    first = await one.engine.write(A, b"1", 0)
    second = await other.engine.write(A, b"2", first)
    with pytest.raises(ChangedError):
        await one.engine.write(A, b"3", first)
    assert one.writes[-1] == Write(A, b"2", second)
    third = await one.engine.write(A, None, second)
    await asyncio.gather(
        *(replica.engine.write(f"{B}{i}", b"", 0) for i in range(20) for replica in (one, other)),
        return_exceptions=True,
    )
    assert await other.engine.newest() >= third
    assert await one.engine.newest() == one.revision
    assert one.writes == other.writes
    assert one.writes[:3] == [Write(A, b"1", first), Write(A, b"2", second), Write(A, None, third)]
    assert len(one.writes) == 23


async def test_newest_waits_for_what_others_keep(replicas: Replicas, etcd: Etcd) -> None:
    """Writes outside the prefix take revisions, which a reader is told of as well."""
    one = await replicas.open()
    elsewhere = EtcdEngine([etcd.url], prefix="/elsewhere")
    reader = Replica(elsewhere)
    reader.start_over(await elsewhere.open(reader))
    revision = await elsewhere.write(A, b"1", 0)
    await elsewhere.close()
    assert await one.engine.newest() >= revision
    assert (one.revision >= revision, one.writes) == (True, [])


async def test_reads_share_a_question(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that begin while etcd is being asked share the next question: that one's answer may be from before them."""
    one, other = await replicas.open(), await replicas.open()
    answers, is_asked, go_on = list[object](), asyncio.Event(), asyncio.Event()
    read_at_once = EtcdClient.read

    async def read_late(client: EtcdClient, *call: Any) -> Any:
        answers.append(await read_at_once(client, *call))
        is_asked.set()
        await go_on.wait()
        return answers[-1]

    monkeypatch.setattr(EtcdClient, "read", read_late)
    first = asyncio.create_task(one.engine.newest())
    await is_asked.wait()
    revision = await other.engine.write(A, b"1", 0)
    later = [asyncio.create_task(one.engine.newest()) for _ in range(20)]
    await asyncio.sleep(0)  # they begin
    go_on.set()
    assert await first < revision
    assert min(await asyncio.gather(*later)) >= revision
    assert len(answers) == 2


async def test_history_is_fetched(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that starts knows the last writes, so that it resumes watches that others have begun."""
    one = await replicas.open()
    revisions = [await one.engine.write(A, b"1", 0)]
    for value in (b"2", None, b"3"):
        revisions.append(await one.engine.write(A, value, revisions[-1] if value != b"3" else 0))
    monkeypatch.setattr(etcd_engine, "HISTORY", 2)
    late = await replicas.open()
    (contents,) = late.starts
    assert (contents.compacted, contents.revision) == (revisions[1], revisions[3])
    assert contents.writes == [Write(A, b"2", revisions[1]), Write(A, None, revisions[2]), Write(A, b"3", revisions[3])]


async def test_one_replica_compacts(replicas: Replicas) -> None:
    """The replica whose turn it is compacts etcd; another one learns that it was done, and is the next if it stops."""
    one, other = await replicas.open(), await replicas.open()
    revision = 0
    for _ in range(5):
        revision = await one.engine.write(A, b"1", revision)
    for replica in (one, other, one, other):
        await replica.engine.compact(revision - 3)
        await replica.engine.newest()
    late = await replicas.open()
    assert late.starts[0].compacted == revision - 3
    await one.engine.compact(revision - 1)
    assert (await replicas.open()).starts[0].compacted in (revision - 3, revision - 1)
    assert [len(replica.starts) for replica in (one, other)] == [1, 1]


async def test_leases_end(replicas: Replicas, etcd: Etcd, prefix: str) -> None:
    """A key with a time to live is deleted by etcd, and the reader is told."""
    one = await replicas.open()
    await one.engine.write(A, b"1", 0, seconds_to_live=1)
    await one.until(lambda: one.writes[-1].value is None)
    assert await read(etcd, f"{prefix}/things/a".encode()) == ()


async def test_leases_are_shared() -> None:
    """Keys that are written within a twentieth of their time share a lease, up to a thousand."""
    now, granted = [0.0], list[int]()

    async def grant(seconds: int) -> int:
        granted.append(seconds)
        return len(granted)

    leases = Leases(grant, lambda: now[0])
    assert [await leases.get(3600) for _ in range(KEYS + 1)] == [1] * KEYS + [2]
    now[0] = 59
    assert await leases.get(3600) == 2
    now[0] = 61
    assert await leases.get(3600) == 3
    assert await leases.get(7200) == 4
    assert granted == [3660, 3660, 3660, 7260]


async def test_other_contents(replicas: Replicas) -> None:
    """Contents that are replaced have new revisions; others learn of them as of writes."""
    one, other = await replicas.open(), await replicas.open()
    revision = await one.engine.write(A, b"1", 0)
    await one.engine.replace(Contents([Write(B, b"2", 1)], 1, 0))
    assert [write[:2] for write in one.writes] == [(B, b"2")]
    assert one.revision == one.writes[0].revision > revision
    await other.engine.newest()
    assert [write[:2] for write in other.writes] == [(A, b"1"), (A, None), (B, b"2")]
    assert await one.engine.write(B, b"3", one.revision) == one.revision


async def test_etcd_goes_away(tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls wait for an etcd that comes back, and fail once their time is over; nothing that was written is lost."""
    monkeypatch.setattr(etcd_engine, "CHECKS", 0.2)
    async with AsyncExitStack() as stack:
        with running(tmp_path) as etcd:
            replicas = Replicas(stack, etcd, prefix)
            one, other = await replicas.open(), await replicas.open()
            first = await one.engine.write(A, b"1", 0)
            await one.engine.check()
            etcd.kill()
            with pytest.raises(StorageError, match=r"^error getting data from etcd: context deadline exceeded$"):
                await one.engine.check()
            monkeypatch.setattr(etcd_engine, "WRITES", 0.2)
            with pytest.raises(LateError):
                await one.engine.write(A, b"2", first)
            monkeypatch.setattr(etcd_engine, "WRITES", 30)
            writing = asyncio.create_task(one.engine.write(A, b"2", first))
            newest = asyncio.create_task(other.engine.newest())
            etcd.start()
            second = await writing
            assert await newest <= second
            await other.until(lambda: other.revision >= second)
            assert other.writes[-2:] == [Write(A, b"1", first), Write(A, b"2", second)]
            assert len(other.starts) == 1


async def test_writes_that_were_missed(tmp_path: Path, prefix: str) -> None:
    """A replica that was cut off until what it missed was compacted starts over."""
    async with AsyncExitStack() as stack:
        with running(tmp_path) as etcd:
            replicas = Replicas(stack, etcd, prefix)
            one, other = await replicas.open(), await replicas.open()
            assert other.engine._watching is not None
            other.engine._watching.cancel()
            revision = 0
            for value in (b"1", b"2", b"3"):
                revision = await one.engine.write(A, value, revision)
            client = EtcdClient([etcd.url])
            await client.write(pb.COMPACT, pb.CompactionRequest(revision), pb.CompactionResponse, 10)
            await client.close()
            other.engine._watching = asyncio.create_task(other.engine._keep_watching())
            await other.until(lambda: len(other.starts) == 2)
            assert other.writes == [Write(A, b"3", revision)]


async def test_another_endpoint_is_asked(replicas: Replicas, etcd: Etcd) -> None:
    """Calls go to the first of several endpoints that answers."""
    one = await replicas.open("http://127.0.0.1:1", etcd.url)
    assert await one.engine.write(A, b"1", 0) == await one.engine.newest()


async def test_tls(tmp_path: Path, prefix: str) -> None:
    """Over https etcd shows a certificate of the authority, and asks for the client's."""
    import trustme

    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("client@example.com")
    paths = {name: str(tmp_path / name) for name in ("ca", "server", "key", "client", "client-key")}
    authority.cert_pem.write_to_path(paths["ca"])
    for issued, certificate, key in ((server, "server", "key"), (client, "client", "client-key")):
        issued.private_key_pem.write_to_path(paths[key])
        issued.cert_chain_pems[0].write_to_path(paths[certificate])
    flags = (
        "--cert-file",
        paths["server"],
        "--key-file",
        paths["key"],
        "--client-cert-auth",
        "--trusted-ca-file",
        paths["ca"],
    )
    with running(tmp_path, *flags, scheme="https") as etcd:
        replica = Replica(EtcdEngine([etcd.url], Files(paths["ca"], paths["client"], paths["client-key"]), prefix))
        await replica.engine.open(replica)
        assert await replica.engine.write(A, b"1", 0) == 2
        await replica.engine.close()


@pytest.mark.parametrize(
    ("server", "files", "message"),
    [
        ("127.0.0.1:2379", Files(), "'127.0.0.1:2379' is no URL of an etcd, such as http://127.0.0.1:2379"),
        ("http://etcd:x", Files(), "'http://etcd:x' is no URL of an etcd, such as http://127.0.0.1:2379"),
        ("https://127.0.0.1:1", Files("/no/ca"), "/no/ca: No such file or directory"),
        ("http://127.0.0.1:1", Files(), "etcd at http://127.0.0.1:1 does not answer: context deadline exceeded"),
    ],
)
async def test_places_that_cannot_be_opened(
    server: str, files: Files, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of the error is one line."""
    monkeypatch.setattr(etcd_engine, "OPENS", 0.3)
    engine = EtcdEngine([server], files)
    with pytest.raises(StorageError) as failed:
        await engine.open(Replica(engine))
    await engine.close()
    assert str(failed.value) == message
