"""Lists: which objects they hold, at which revision, and the token of the next page.

The real server has two sources. Its watch cache answers lists that may be newer than a version; etcd, which holds
old revisions, answers continued lists, exact versions, and kinds that have no cache (upstream: `shouldDelegateList` in
k8s.io/apiserver/pkg/storage/cacher, `resolveGetListRev` in k8s.io/apiserver/pkg/storage/etcd3).
"""

from __future__ import annotations

from dataclasses import field
from time import perf_counter

from understudy.apiserver.encoding.encoded import is_loaded, load, lookup, matches, read_again
from understudy.apiserver.registry import continue_token, resource_version
from understudy.apiserver.registry.corrupt_objects import unreadable_list
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.interface import (
    CompactedError,
    Entry,
    FutureRevisionError,
    Range,
    Store,
    UnreadableError,
)
from understudy.apiserver.storage.metrics import GET, LIST, StorageMetrics
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.options import EXACT, ListOptions
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, V1_37, ByRelease
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.types import NamedTuple, dataclass

TOO_OLD = "The resourceVersion for the provided list is too old."
TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list "
    "- objects that were created, modified, or deleted between the time the first chunk was returned and now "
    "may show up in the list."
)
AT_ONCE = 64  # entries that are looked at until the time is
MANY = 1000  # entries that it takes about a quarter of a millisecond to read
FEW = 200  # entries that it takes no index to find some of
LATER_BATCH = 1024  # entries that are read at least where the first ones did not all match; twice as many each time
_COUNTS_OTHER_SHARDS = ByRelease({V1_37: False, V1_31: True})  # whether what remains of a list is in any shard


class Page(NamedTuple):
    """A page of a list.

    remaining  the number of objects after it, None if that is not known
    shards     the selector of the shards that it is of, "" for all
    """

    entries: list[Entry]
    revision: int
    token: str
    remaining: int | None
    shards: str = ""


async def cached_revision(store: Store, kind: Kind, prefix: str, version: str) -> int:
    """Return the revision at which the watch cache of a kind answers a read of at least a version; 0 for the newest.

    It is an older one while a webhook has not converted what was written last. Raises 429 if there is no cache.
    """
    cache = kind.watch_cache
    if cache is None:
        return 0
    cache.check_ready()
    if not version or resource_version.exact(version) > cache.revision:
        return 0
    newest = await store.range(prefix)
    return 0 if all(is_loaded(entry, kind) for entry in newest.entries) else cache.revision


class _NotConvertedError(Exception):
    """A webhook does not convert objects of a list, at a revision, for a cause."""

    def __init__(self, revision: int, cause: errors.StatusError) -> None:
        super().__init__(str(cause))
        self.revision = revision
        self.cause = cause


@dataclass(slots=True)
class Listing:
    """One list request.

    prefix        of the keys that are listed
    name          rest of the only key that is listed; "" for all keys
    wait_seconds  time to wait for a version that the store has not reached yet
    metrics       counts the list
    has_cache     whether kube-apiserver has a watch cache of the kind
    """

    store: Store
    kind: Kind
    prefix: str
    name: str
    options: ListOptions
    selector: Selector
    gates: Gates
    wait_seconds: float
    metrics: StorageMetrics
    has_cache: bool = field(kw_only=True)
    _turns: Turns = field(default_factory=Turns, init=False)
    _is_cached: bool = field(
        default=False, init=False
    )  # whether kube-apiserver answers from what is or was in its cache
    _fetched: int = field(default=0, init=False)  # objects: by etcd or, if it answers, the watch cache
    _seconds: float = field(default=0.0, init=False)  # that the store took

    async def page(self) -> Page:
        """Return the requested page. Raises 400, 410, 500 and 504 for versions and tokens that cannot be served."""
        options, start, revision = self.options, "", 0
        if options.token:
            start, revision = self._continued()
        elif self.kind.release >= V1_33:
            resource_version.exact(options.version)
        is_newest = self._from_cache()
        self._is_cached = is_newest or self._reads_snapshots
        if is_newest:
            await resource_version.wait_for(self.store, options.version, self.wait_seconds)
            if not options.limit or options.version == "0":  # etcd answers the others if there is no cache
                revision = await cached_revision(self.store, self.kind, self.prefix, options.version)
        elif not options.token:
            revision = self._exact_revision()
        if self._reads_snapshots:
            await resource_version.wait_for(self.store, str(revision), self.wait_seconds)
        try:
            page = await (self._one(revision) if self.name else self._several(start, revision))
            self._count(len(page.entries))
            return page if self.selector.shards is None else page._replace(shards=str(self.selector.shards))
        except _NotConvertedError as error:
            raise await self._unreadable(start, error.revision) or error.cause from None
        except CompactedError:
            raise self._too_old(start) from None
        except FutureRevisionError:
            if self.kind.release >= V1_34:
                raise resource_version.too_large(revision, self.store.revision, 0) from None
            raise errors.unknown_error("etcdserver: mvcc: required revision is a future revision") from None

    def _count(self, returned: int) -> None:
        """Count a list that is answered with so many objects."""
        metrics, kind, prefix = self.metrics, self.kind, prefix_of(self.kind)
        if not self._is_cached:
            metrics.observe(GET if self.name else LIST, kind, self._seconds)
        elif not self.options.version and not self.options.token:
            metrics.observe_consistent_read(kind, prefix, self._seconds)
        metrics.observe_list(kind, prefix, self._fetched, returned, is_cached=self._is_cached)

    @property
    def _reads_snapshots(self) -> bool:
        """Report whether the watch cache has old revisions, too."""
        return self.gates[features.LIST_FROM_CACHE_SNAPSHOT] and self.has_cache and not self.name

    def _from_cache(self) -> bool:
        """Report whether the real server answers from its watch cache."""
        exact = self.options.match == EXACT or self._legacy_exact()
        return self.has_cache and not self.options.token and not exact

    def _legacy_exact(self) -> bool:
        """Report whether `limit` with `resourceVersion` means exactly that version.

        It does without `resourceVersionMatch`, for clients from before that parameter.
        """
        options = self.options
        return options.limit > 0 and not options.match and options.version not in ("", "0")

    def _continued(self) -> tuple[str, int]:
        """Return the start key of the token, without the prefix, and its revision; 0 is the newest. Raises 400."""
        start, revision = continue_token.decode(self.options.token)
        if self.options.version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        return start, max(revision, 0)

    def _exact_revision(self) -> int:
        """Return the revision that etcd is asked for, 0 if any that is new enough will do. Raises 400 and 504."""
        if self.options.match == EXACT or (self._legacy_exact() and not self.name):
            return resource_version.exact(self.options.version)
        resource_version.check(self.store, self.options.version)
        return 0

    async def _one(self, revision: int) -> Page:
        """Return the page of the only object that can match."""
        batch = await self._range(self.prefix + self.name, 1, revision)
        return Page(await self._matching(batch.entries, self.selector), batch.revision, "", None)

    async def _several(self, start: str, revision: int) -> Page:
        """Return the matching objects from `start` on, up to the limit, reading on until it is reached."""
        limit = 0 if self.options.version == "0" and self._from_cache() else self.options.limit
        if (page := await self._page_of_index(start, limit, revision)) is not None:
            return page
        batch = await self._range(self.prefix + start, limit, revision)
        if self.selector.everything:
            token = self._token(batch.entries[-1], batch.revision) if batch.remaining > 0 else ""
            return Page(batch.entries, batch.revision, token, batch.remaining or None)
        everywhere = len(batch.entries) + batch.remaining
        entries, size = await self._matching(batch.entries, self.selector), limit
        while batch.remaining > 0 and len(entries) < limit:
            more, size = batch.entries[-1].key + "\0", max(2 * size, LATER_BATCH)
            batch = await self._range(more, size, batch.revision)
            matching = (await self._matching(batch.entries, self.selector))[: limit - len(entries)]
            entries += matching
            if len(entries) == limit:
                read = batch.entries.index(matching[-1]) + 1
                left = len(batch.entries) - read + batch.remaining
                batch = batch._replace(entries=batch.entries[:read], remaining=left)
        token = self._token(batch.entries[-1], batch.revision) if batch.remaining > 0 else ""
        ignores = self.selector.has_shards_only and _COUNTS_OTHER_SHARDS[self.kind.release]
        return Page(entries, batch.revision, token, everywhere - limit if token and ignores else None)

    async def _range(self, start: str, limit: int, revision: int) -> Range:
        """Return stored entries from a key on, ready to be read in the version of the kind."""
        if not limit and self._turns.others_wait and self.store.count(self.prefix) > MANY:
            await self._turns.next()
        if not revision and self._may_be_known():
            revision = self.store.revision
        began = perf_counter()
        batch = await self.store.range(self.prefix, start=start, limit=limit, revision=revision)
        self._seconds += perf_counter() - began
        if not self._is_cached:
            self._fetched += len(batch.entries)
            if self.kind.watch_cache is not None:
                batch = batch._replace(entries=[read_again(entry, self.kind) for entry in batch.entries])
        elif not self._fetched:  # the watch cache finds all of them, whatever the limit
            self._fetched = len(batch.entries) + (0 if self.name else batch.remaining)
        try:
            load(batch.entries, self.kind)
        except errors.StatusError as error:
            raise _NotConvertedError(batch.revision, error) from None
        return batch

    async def _unreadable(self, start: str, revision: int) -> errors.StatusError | None:
        """Return the error for a list with objects that a webhook does not convert, None if it converts them now.

        A version that the watch cache has not reached is waited for in vain.
        """
        cache, version = self.kind.watch_cache, self.options.version
        if cache is not None and version not in ("", "0") and (self._from_cache() or self._reads_snapshots):
            asked_for = resource_version.exact(version)
            if asked_for > cache.revision:
                return resource_version.too_large(asked_for, cache.revision, resource_version.RETRY_AFTER)
        first, limit = (self.prefix + self.name, 1) if self.name else (self.prefix + start, 0)
        listed = await self.store.range(self.prefix, start=first, limit=limit, revision=revision)
        return unreadable_list(self.kind, listed.entries, self.selector, self.options.limit, self.gates)

    def _may_be_known(self) -> bool:
        """Report whether there is no need to ask what others have written."""
        return bool(self.options.version) and self._from_cache()

    async def _page_of_index(self, start: str, limit: int, revision: int) -> Page | None:
        """Return the page of `_several` from an index of the store, None if there is none for the selector."""
        kind, store, indexed = self.kind, self.store, self.selector.indexed()
        if indexed is None or indexed[0].is_of_key or store.count(self.prefix) < FEW:
            return None
        condition, rest = indexed
        if kind.custom is not None and (kind.custom.calls_webhook or not condition.is_label):
            return None  # what is stored is not what the selector reads
        if not revision and not self._may_be_known():
            await store.catch_up()

        try:
            entries = await store.find(self.prefix, lookup(condition, rest, kind))
        except UnreadableError:
            return None  # it may be none of those that are read for the page
        at = store.revision
        if entries is None or revision not in (0, at):
            return None
        self._fetched = store.count(self.prefix)
        if start:
            entries = [entry for entry in entries if entry.key >= self.prefix + start]
        if not rest.everything:
            entries = await self._matching(entries, rest)
        token = ""
        if limit and len(entries) >= limit:
            entries = entries[:limit]
            behind = await store.range(self.prefix, start=entries[-1].key + "\0", limit=1, revision=at)
            token = self._token(entries[-1], at) if behind.entries else ""
        return Page(entries, at, token, None)

    async def _matching(self, entries: list[Entry], selector: Selector) -> list[Entry]:
        """Return the entries that a selector matches. Others have their turn meanwhile: a read is what it was."""
        matching: list[Entry] = []
        at_once = AT_ONCE if selector.reads_labels_only else 1  # others look into objects, which may be large
        for at in range(0, len(entries), at_once):
            matching += [entry for entry in entries[at : at + at_once] if matches(selector, entry, self.kind)]
            if self._turns.is_over:
                await self._turns.next()
        return matching

    def _token(self, last: Entry, revision: int) -> str:
        """Return the token of the page after an entry."""
        start = last.key.removeprefix(self.prefix) + "\0"
        return continue_token.encode(f"/{start}" if self._from_cache() else start, revision)

    def _too_old(self, start: str) -> errors.StatusError:
        """Return the 410 for a revision that was compacted."""
        if not self.options.token:
            return errors.expired(TOO_OLD)
        return errors.expired(TOKEN_TOO_OLD, continue_token.encode(start, continue_token.INCONSISTENT))
