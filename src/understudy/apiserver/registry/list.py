"""What a list answers: which objects, of which revision, and the token to go on with.

The real server has two sources. Its watch cache answers what is not older than a version; etcd, which has the past,
answers continued lists, exact versions and all of the kinds that have no cache (shouldDelegateList in
k8s.io/apiserver/pkg/storage/cacher, resolveGetListRev in …/storage/etcd3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from understudy.apiserver.registry import continue_token, resource_version
from understudy.apiserver.storage.interface import CompactedError, Entry, FutureRevisionError, Store
from understudy.machinery import errors
from understudy.machinery.options import EXACT, ListOptions
from understudy.machinery.selectors import Selector

TOO_OLD = "The resourceVersion for the provided list is too old."
TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list "
    "- objects that were created, modified, or deleted between the time the first chunk was returned and now "
    "may show up in the list."
)


class Page(NamedTuple):
    """A list's part. `remaining` None: not told."""

    entries: list[Entry]
    revision: int
    token: str
    remaining: int | None


@dataclass(slots=True)
class Listing:
    """One list.

    prefix    of the keys that are looked at
    name      what follows it in the only key that is looked at; "" for all
    cached    whether the real server has a cache of the kind
    patience  seconds to wait for a version that is not there yet
    """

    store: Store
    prefix: str
    name: str
    options: ListOptions
    selector: Selector
    cached: bool
    wait_seconds: float

    async def page(self) -> Page:
        """Raises 400, 410, 500 and 504 for versions and tokens that cannot be served."""
        options, start, revision = self.options, "", 0
        if options.token:
            start, revision = self._continued()
        elif self._from_cache():
            await resource_version.wait_for(self.store, options.version, self.wait_seconds)
        else:
            revision = self._exact_revision()
        try:
            return await (self._one(revision) if self.name else self._several(start, revision))
        except CompactedError:
            raise self._too_old(start) from None
        except FutureRevisionError:
            raise errors.unknown_error("etcdserver: mvcc: required revision is a future revision") from None

    def _from_cache(self) -> bool:
        exact = self.options.match == EXACT or self._legacy_exact()
        return self.cached and not self.options.token and not exact

    def _legacy_exact(self) -> bool:
        """A limit beside a version has meant that very version before there was a parameter to say so."""
        options = self.options
        return options.limit > 0 and not options.match and options.version not in ("", "0")

    def _continued(self) -> tuple[str, int]:
        """Where a token goes on, behind the prefix, and at which revision; 0: the newest."""
        start, revision = continue_token.decode(self.options.token)
        if self.options.version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        return start, max(revision, 0)

    def _exact_revision(self) -> int:
        """The revision that etcd is asked for, 0 if any that is new enough will do."""
        if self.options.match == EXACT or (self._legacy_exact() and not self.name):
            return resource_version.exact(self.options.version)
        resource_version.check(self.store, self.options.version)
        return 0

    async def _one(self, revision: int) -> Page:
        found = await self.store.range(self.prefix, start=self.prefix + self.name, limit=1, revision=revision)
        return Page([e for e in found.entries if self.selector.matches(e.object)], found.revision, "", None)

    async def _several(self, start: str, revision: int) -> Page:
        limit = 0 if self.options.version == "0" and self._from_cache() else self.options.limit
        found = await self.store.range(self.prefix, start=self.prefix + start, limit=limit, revision=revision)
        if self.selector.everything:
            token = self._token(found.entries[-1], found.revision) if found.remaining > 0 else ""
            return Page(found.entries, found.revision, token, found.remaining or None)
        entries = [e for e in found.entries if self.selector.matches(e.object)]
        while found.remaining > 0 and len(entries) < limit:
            more = found.entries[-1].key + "\0"
            found = await self.store.range(self.prefix, start=more, limit=limit, revision=found.revision)
            for i, entry in enumerate(found.entries):
                if self.selector.matches(entry.object):
                    entries.append(entry)
                    if len(entries) == limit:
                        left = len(found.entries) - i - 1 + found.remaining
                        found = found._replace(entries=found.entries[: i + 1], remaining=left)
                        break
        token = self._token(found.entries[-1], found.revision) if found.remaining > 0 else ""
        return Page(entries, found.revision, token, None)

    def _token(self, last: Entry, revision: int) -> str:
        start = last.key.removeprefix(self.prefix) + "\0"
        return continue_token.encode(f"/{start}" if self._from_cache() else start, revision)

    def _too_old(self, start: str) -> errors.StatusError:
        if not self.options.token:
            return errors.expired(TOO_OLD)
        return errors.expired(TOKEN_TOO_OLD, continue_token.encode(start, continue_token.INCONSISTENT))
