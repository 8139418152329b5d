"""Stored objects as JSON, protobuf and CBOR, in every served version: encoded once per revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.apiserver.encoding.conversion import from_internal, stored
from understudy.apiserver.storage.interface import Entry, Kept, Lookup
from understudy.kinds.declarations.codec import Codec
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.selectors.selector import Condition, Selector
from understudy.machinery.serializer.protobuf_wire import length_delimited, make_envelope
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import call_deeply

ITEMS = b"\x12"  # tag of the field `items` in the protobuf of every list


def versioned(entry: Entry, kind: Kind, version: str) -> Obj:
    """Return the object of an entry in a version. It is shared: do not edit it."""
    key = _key(kind, version)
    cached: Obj | None = entry.made(key)
    if cached is None:
        cached = entry.cache[key] = call_deeply(_versioned, entry.object, kind, version)
    return cached


def _key(kind: Kind, version: str) -> Kept | tuple[str, Codec]:
    """Return under which key an entry has its object in a version; it keeps that for which a webhook would be asked."""
    codec = kind.codec(version)
    return Kept("object", codec) if kind.custom is not None and kind.custom.calls_webhook else ("object", codec)


def _versioned(obj: Obj, kind: Kind, version: str) -> Obj:
    """Return a stored object in a version, its fields in the order in which they are written."""
    if kind.custom is not None:
        return kind.custom.load(obj)
    return kind.codec(version).in_order(from_internal(kind, version, obj))


def is_loaded(entry: Entry, kind: Kind) -> bool:
    """Report whether the object of an entry of a custom resource is at hand in the version of the kind."""
    return _key(kind, kind.versions[0]) in entry.cache


def keep_new(entry: Entry, kind: Kind) -> None:
    """Keep the object of an entry of a custom resource, which was decoded and stored just now, as reading it would give
    it. Nothing is kept where that is not sure without reading it."""
    if kind.custom is not None:
        obj = kind.custom.load_new(entry.object)
        if obj is not None:
            entry.cache[_key(kind, kind.versions[0])] = obj


def read_again(entry: Entry, kind: Kind) -> Entry:
    """Return an entry as if it had just been read: a webhook converts it again. GET is not answered from caches."""
    if kind.custom is None or not kind.custom.calls_webhook:
        return entry
    return entry.at_revision(entry.revision)


def decoded_anew(entry: Entry, kind: Kind) -> Entry:
    """Return an entry that a write has left, decoded as if for itself: a webhook converts it, too."""
    if kind.custom is not None and kind.custom.calls_webhook:
        entry = entry.at_revision(entry.revision)
        internal(entry, kind)
    return entry


def shown_as(entry: Entry, kind: Kind, obj: Obj) -> Entry:
    """Return an entry, which is gone, with an object that an update has made of it, in the form that rules read."""
    if kind.watch_cache is None:
        return Entry(entry.key, stored(kind, obj), entry.revision)
    shown = entry.at_revision(entry.revision)
    shown.cache[_key(kind, kind.versions[0])] = obj
    return shown


def load(entries: Sequence[Entry], kind: Kind) -> None:
    """Let a webhook convert the objects of all entries, one by one, if one converts objects of the kind."""
    if kind.custom is not None and kind.custom.calls_webhook:
        for entry in entries:
            internal(entry, kind)


def left(entry: Entry, previous: Entry, kind: Kind) -> Entry:
    """Return the object that an entry has replaced, at the revision of the entry: as watches see it whose selector
    only matched before. A webhook that converted it is not asked again."""
    made: Entry = entry.cache.setdefault("left", Entry(entry.key, previous.value, entry.revision))
    if kind.custom is not None and not is_loaded(made, kind):
        before = internal(previous, kind)
        metadata = {**before["metadata"], "resourceVersion": str(entry.revision)}
        made.cache[_key(kind, kind.versions[0])] = {**before, "metadata": metadata}
    return made


def internal(entry: Entry, kind: Kind) -> Obj:
    """Return the object of an entry in the form that rules, selectors and tables read. It is shared: do not edit it.

    That is the internal form of built-in kinds, and the version of the kind for custom resources.
    """
    return entry.object if kind.custom is None else versioned(entry, kind, kind.versions[0])


def matches(selector: Selector, entry: Entry, kind: Kind) -> bool:
    """Report whether a selector matches an entry. What it reads is not converted if no conversion changes it."""
    if kind.custom is not None and kind.custom.calls_webhook:
        return selector.matches(internal(entry, kind))
    if not selector.matches_labels(entry.labels):
        return False
    if selector.reads_labels_only:
        return True
    is_kept = kind.custom is None or selector.reads_metadata_only
    return selector.matches(entry.value if is_kept else internal(entry, kind))


def lookup(condition: Condition, selector: Selector, kind: Kind) -> Lookup:
    """Return the lookup that finds the entries of a kind that meet a condition of its selectors."""
    name = condition.name
    if condition.is_label:
        return Lookup(f"label {name}", lambda entry: entry.labels.get(name), condition.values)
    is_kept = kind.custom is None or condition.is_of_key

    def read(entry: Entry) -> str:
        return selector.value(name, entry.passing_value if is_kept else internal(entry, kind))

    return Lookup(f"field {name} of {kind.versions[0]}", read, condition.values)


def encoded_fields(entry: Entry, kind: Kind, version: str, codec: Codec) -> bytes:
    """Return the JSON of an entry after the head that its codec gives it. Encodes it once."""
    cached: bytes | None = entry.made(codec)
    if cached is None:
        cached = entry.cache[codec] = codec.encode_fields(versioned(entry, kind, version))
    return cached


def encoded(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as JSON, without a newline at the end."""
    codec = kind.codec(version)
    return codec.head + encoded_fields(entry, kind, version, codec)


def _message(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as a protobuf message. Encodes it once."""
    codec = kind.codec(version)
    key = ("protobuf", codec)
    cached: bytes | None = entry.made(key)
    if cached is None:
        cached = entry.cache[key] = call_deeply(codec.encode_message, versioned(entry, kind, version))
    return cached


def encoded_protobuf(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as protobuf, in its envelope (`runtime.Unknown`)."""
    key = ("protobuf body", kind.codec(version))
    cached: bytes | None = entry.made(key)
    if cached is None:
        cached = make_envelope(kind.gvk(version).api_version, kind.name, _message(entry, kind, version))
        entry.cache[key] = cached
    return cached


def encoded_cbor(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry in a version as a data item of CBOR. Encodes it once."""
    codec = kind.codec(version)
    return _encode_once(entry, codec, Kept("cbor", codec), lambda: codec.named(versioned(entry, kind, version)))


def cbor_item_key(kind: Kind, version: str) -> Kept:
    """Return under which key an entry keeps what `cbor_item` returns."""
    return Kept("cbor item", kind.codec(version))


def cbor_item(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the object of an entry as an item of a list in CBOR. Encodes it once."""
    codec = kind.codec(version)
    return _encode_once(
        entry,
        codec,
        cbor_item_key(kind, version),
        lambda: codec.list_of({}, [versioned(entry, kind, version)])["items"][0],
    )


def _encode_once(entry: Entry, codec: Codec, key: Kept, obj: Callable[[], Obj]) -> bytes:
    """Return the object that `obj` makes in CBOR, which the entry keeps under a key."""
    cached: bytes | None = entry.made(key)
    if cached is None:
        cached = entry.cache[key] = codec.encode_cbor(obj())
    return cached


def protobuf_item_key(kind: Kind, version: str) -> Kept:
    """Return under which key an entry keeps what `protobuf_item` returns."""
    return Kept("protobuf item", kind.codec(version))


def protobuf_item(entry: Entry, kind: Kind, version: str) -> bytes:
    """Return the protobuf message of an entry as an item of a list, with tag and length. Encodes it once."""
    key = protobuf_item_key(kind, version)
    cached: bytes | None = entry.made(key)
    if cached is None:
        cached = entry.cache[key] = length_delimited(ITEMS, _message(entry, kind, version))
    return cached
