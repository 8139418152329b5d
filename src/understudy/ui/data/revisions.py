"""Reads what the store remembers: earlier writes, and the objects that were stored."""

from __future__ import annotations

from understudy.apiserver.encoding.encoded import encoded
from understudy.apiserver.storage.interface import Entry, Event, Store
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.golang.json_writer import encode


def past_writes(store: Store, prefix: str, after: int = 0) -> list[Event]:
    """Return the writes of a key, or under a prefix that ends with a slash, that the store remembers.

    after  the revision after which they begin; 0 for all

    Raises CompactedError if the store has forgotten some of them.
    """
    watch = store.watch(prefix, after or store.compacted)
    store.unwatch(watch)
    return [event for event in watch.queue if prefix.endswith("/") or event.entry.key == prefix]


def as_read(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry as JSON in a version; as it is stored, if a webhook converts it."""
    if kind.custom is not None and kind.custom.calls_webhook:
        return encode(entry.object)
    return encoded(entry, kind, version)
