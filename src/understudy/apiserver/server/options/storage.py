"""The options of a server that say where it keeps its objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from pathlib import Path

from understudy.apiserver.authentication.options import PathLike, flag
from understudy.apiserver.registry.stored_values import MEDIA_TYPES, PROTOBUF
from understudy.apiserver.server.options.etcd import EtcdOptions
from understudy.apiserver.storage.engine import Engine, Values
from understudy.apiserver.storage.interface import Store
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.types import dataclass

MEMORY = "memory"
SQLITE = "sqlite:"
SYNCHRONOUS = ("normal", "full")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class StorageOptions(EtcdOptions):
    """The options that say where objects are kept, with those of `EtcdOptions`.

    Raises ValueError for options that make no sense.

    storage             "memory", or "sqlite:FILE": a file, made if it is missing, from which a server goes on where the
                        one before has ended: with its objects, its history, and its keys and certificates
    sqlite_synchronous  "normal": what was answered survives the end of the process, however it comes; "full": a power
                        cut as well, for which every write waits for the disk
    storage_media_type  what built-in kinds are stored as: "application/vnd.kubernetes.protobuf", "application/json" or
                        "application/yaml"
    watch_cache         whether lists and reads are answered as from kube-apiserver's watch cache; else as from etcd, so
                        that a list with `resourceVersion=0` and a limit is cut, for example
    etcd_snapshot       a snapshot of a cluster's etcd to show, as `etcdctl snapshot save` makes it, or the file
                        `member/snap/db` of a member that is stopped. Nothing is written to it
    etcd_snapshot_revision
                        the revision to show of it; by default the last
    writable            whether the objects of the snapshot can be changed, in memory; else each write is refused
    """

    storage: str = field(
        default=MEMORY, metadata=flag("where objects are kept: memory or sqlite:FILE (default: %(default)s)", "PLACE")
    )
    sqlite_synchronous: str = field(
        default="normal",
        metadata=flag("normal or full, which survives power cuts and is slower (default: %(default)s)", "MODE"),
    )
    storage_media_type: str = field(
        default=PROTOBUF, metadata=flag("what built-in kinds are stored as (default: %(default)s)", "TYPE")
    )
    watch_cache: bool = field(
        default=True, metadata=flag("answer reads as from kube-apiserver's watch cache (default: true)", "BOOL")
    )

    etcd_snapshot: PathLike | None = field(
        default=None, metadata=flag("show what a snapshot of etcd holds, read-only unless --writable", "FILE")
    )
    etcd_snapshot_revision: int = field(
        default=0, metadata=flag("the revision of the snapshot to show, 0 for the last (default: %(default)s)", "N")
    )
    writable: bool = field(default=False, metadata=flag("change what the snapshot holds, in memory", "BOOL"))

    def check_storage(self) -> None:
        """Raise ValueError for options that make no sense."""
        self.check_etcd()
        if self.etcd_servers and self.storage != MEMORY:
            raise ValueError("--storage and --etcd-servers exclude each other")
        if self.etcd_snapshot is None and (self.writable or self.etcd_snapshot_revision):
            raise ValueError("--writable and --etcd-snapshot-revision are for --etcd-snapshot")
        if self.etcd_snapshot is not None and (self.storage != MEMORY or self.etcd_servers):
            raise ValueError("--etcd-snapshot excludes --storage and --etcd-servers")
        if self.etcd_snapshot_revision < 0:
            raise ValueError(f"want a revision that is not negative, not {self.etcd_snapshot_revision}")
        if self.storage != MEMORY and (not self.storage.startswith(SQLITE) or self.storage == SQLITE):
            raise ValueError(f"--storage: want memory or sqlite:FILE, not {self.storage!r}")
        if self.sqlite_synchronous not in SYNCHRONOUS:
            raise ValueError(f"--sqlite-synchronous: want normal or full, not {self.sqlite_synchronous!r}")
        if self.storage_media_type not in MEDIA_TYPES:
            allowed = ", ".join(MEDIA_TYPES)
            raise ValueError(f'--storage-media-type "{self.storage_media_type}" invalid, allowed values: {allowed}')

    @cached_property
    def sqlite_file(self) -> Path | None:
        """Return the SQLite file, None for a server without."""
        return Path(self.storage.removeprefix(SQLITE)) if self.storage.startswith(SQLITE) else None

    @property
    def is_read_only(self) -> bool:
        """Report whether nothing can be written, by the server itself neither."""
        return self.etcd_snapshot is not None and not self.writable

    def new_store(self, values: Callable[[], Values], event_seconds: float) -> Store:
        """Return a store that is not open yet. Events are kept so long after they were last written; 0 is for ever."""
        engine: Engine
        if self.etcd_servers:
            engine = self.etcd_engine()
        elif self.etcd_snapshot is not None:
            from understudy.apiserver.storage.engines.etcd_snapshot import EtcdSnapshotEngine

            file, revision, prefix = Path(self.etcd_snapshot), self.etcd_snapshot_revision, self.etcd_prefix
            engine = EtcdSnapshotEngine(file, revision=revision, writable=self.writable, prefix=prefix)
        elif self.sqlite_file is not None:
            from understudy.apiserver.storage.engines.sqlite import SQLiteEngine

            engine = SQLiteEngine(self.sqlite_file, self.sqlite_synchronous)
        else:
            return MemoryStore()
        from understudy.apiserver.storage.engine_store import EngineStore

        return EngineStore(engine, values(), int(event_seconds))

    def generated(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a key or certificate that the server has made for itself: each time anew, or as long as its objects
        live, and then for all servers that share them. Raises StorageError."""
        if self.etcd_servers:
            return self.generated_in_etcd(name, make)
        if self.sqlite_file is None:
            return make()
        from understudy.apiserver.storage.engines.sqlite import generated

        return generated(self.sqlite_file, name, make)
