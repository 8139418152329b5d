"""Lists in the form that the client negotiated, made item by item: others have their turn between two items.

Every form of a list is what comes before its items, the items with a separator between them, and what stands after:

    {"kind":"PodList",…,"items":[{    "metadata":…}    ,{    "metadata":…}    ]}

An entry keeps its item, where other lists have the same one. A long list is not joined to one body, but to parts of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial as partial_function
from typing import Any

from understudy.apiserver.encoding.encoded import (
    cbor_item,
    cbor_item_key,
    encoded_fields,
    internal,
    protobuf_item,
    protobuf_item_key,
    versioned,
)
from understudy.apiserver.endpoints.negotiation import CBOR, PROTOBUF, YAML, Output
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.shared_items import Items, SharedItems
from understudy.apiserver.endpoints.responsewriters.tables import (
    check_conversion,
    list_endpoint,
    partial,
    partial_list,
    row_maker,
    table,
)
from understudy.apiserver.endpoints.responsewriters.writers import (
    is_pretty,
    negotiate_output,
    struct_of,
    takes_long,
    yaml_of,
)
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.registry.list import AT_ONCE, Page
from understudy.apiserver.storage.interface import Entry
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.golang.json_writer import encode, indent
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.cbor import encode as cbor
from understudy.machinery.serializer.cbor.items import ARRAY
from understudy.machinery.serializer.protobuf_wire import around_message, length_delimited
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.types import NamedTuple, Obj

SHARED = 100  # entries from which on equal lists share their items
PART = 64 << 10  # bytes from which on items are joined to a part of the body; larger blocks are mapped each time
LARGE_ITEM = 16 << 10  # bytes of an item, on average, from which on items are parts themselves
_MARK = "items-of-understudy"  # stands where items belong in a list that is made without them
_ITEM_INDENT = b"\n    "  # of the lines of an item, in JSON over several lines

# Returns the items of entries in the form of a list: those of an equal list, or new ones.
Share = Callable[[list[Entry], Callable[[list[Entry]], Awaitable[list[bytes]]]], Awaitable[Items]]


class _Layout(NamedTuple):
    """The form of one list. `item` makes an item of an entry, which keeps it under `key`, None if it does not."""

    before: bytes
    separator: bytes
    after: bytes
    item: Callable[[Entry], bytes]
    key: Any = None


def _without_items(document: bytes) -> _Layout:
    """Return the layout of a list that has no items."""
    return _Layout(document, b"", b"", lambda entry: b"")


async def list_response(
    request: Request, scope: RequestScope, page: Page, shared: SharedItems | None = None
) -> Response:
    """Return a list of stored objects in the negotiated form. Raises 406.

    shared  holds items of other lists, for a request on the event loop
    """
    form = negotiate_output(request, list_endpoint(scope.kind))
    check_conversion(form, scope.kind, listing=True)
    metadata: Obj = {"resourceVersion": str(page.revision)} if page.revision else {}
    if page.token:
        metadata["continue"] = page.token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    if page.shards and not form.target and scope.kind.custom is None:  # no field of an `UnstructuredList`
        metadata["shardInfo"] = {"selector": page.shards}
    share = None
    if shared is not None and len(page.entries) >= SHARED and not form.target and request.beside is not None:
        share = partial_function(shared.of, (scope.kind, scope.version, form.media_type, is_pretty(request, form)))
    return Response(200, await _made(request, scope, form, metadata, page.entries, share), form.media_type)


class _Body(list[bytes]):
    """The parts of a list, with items that equal lists share as long as it is sent."""

    def __init__(self, before: bytes, items: Items, after: bytes) -> None:
        super().__init__((before, *items, after))
        self.items = items


async def _made(
    request: Request, scope: RequestScope, form: Output, metadata: Obj, entries: list[Entry], share: Share | None
) -> list[bytes]:
    """Return the parts of a list in a form."""
    if form.target == "Table":
        entries = _in_order_of_rows(scope, entries)
    if form.media_type == PROTOBUF:
        return await _protobuf(request, scope, form, metadata, entries, share)
    if form.media_type == CBOR:
        return await _joined(request, form, _cbor(scope, form, metadata, entries), entries, share)
    layout = _json_layout(request, scope, form, metadata, entries)
    if form.media_type == YAML:
        layout = _in_yaml(layout, bool(entries))
    elif is_pretty(request, form):
        layout = _indented(layout, bool(entries))
    elif form.target:
        layout = layout._replace(after=layout.after + b"\n")
    return await _joined(request, form, layout, entries, share)


def _in_order_of_rows(scope: RequestScope, entries: list[Entry]) -> list[Entry]:
    """Return entries in the order in which a table has them."""
    order = scope.kind.behavior.row_order
    return sorted(entries, key=lambda entry: order(entry.object)) if order else entries


async def _joined(
    request: Request, form: Output, layout: _Layout, entries: list[Entry], share: Share | None
) -> list[bytes]:
    """Return the parts of a list."""
    make = partial_function(_items, request, form, layout)
    if share is not None:
        return _Body(layout.before, await share(entries, make), layout.after)
    parts = [layout.before, *await make(entries), layout.after]
    return parts if sum(map(len, parts)) > PART else [b"".join(parts)]


async def _items(request: Request, form: Output, layout: _Layout, entries: list[Entry]) -> list[bytes]:
    """Return the items of a list with separators between them, in parts; large ones are made beside the event loop."""
    turns, item, key = Turns(), layout.item, layout.key

    async def made(entry: Entry) -> bytes:
        is_long = takes_long(entry.packed_size, form)
        new = await request.make(partial_function(item, entry)) if is_long else item(entry)
        if turns.is_over:
            await turns.next()
        return new

    parts, items, size = list[bytes](), list[bytes](), 0
    for at in range(0, len(entries), AT_ONCE):
        batch = entries[at : at + AT_ONCE]
        some = [entry.forms.get(key) or entry.lent(key) or await made(entry) for entry in batch]
        items += some
        size += sum(map(len, some))
        if size > PART:
            parts += _parts(items, size, layout.separator)
            items, size = [b""], 0  # so that a separator comes first
        if turns.is_over:
            await turns.next()
    return parts + _parts(items, size, layout.separator) if size else parts


def _parts(items: list[bytes], size: int, separator: bytes) -> list[bytes]:
    """Return items, of some size together, with separators between them: joined, unless they are large."""
    if size < LARGE_ITEM * len(items):
        return [separator.join(items)]
    separated = [part for item in items for part in (item, separator)][:-1]
    return [part for part in separated if part]


# --- JSON


def _json_layout(request: Request, scope: RequestScope, form: Output, metadata: Obj, entries: list[Entry]) -> _Layout:
    """Return the layout of a list in JSON; without the newline at the end where the form is not that of the objects."""
    kind, version = scope.kind, scope.version
    if form.target == "Table":
        made = kind.behavior.list_row
        cells = None if made is None else made([internal(entry, kind) for entry in entries])
        row = row_maker(kind, version, request=request, form=form, cells=cells)
        empty = table(kind, version, [], versioned=[], request=request, form=form, metadata=metadata)
        if not entries:
            return _without_items(encode(empty))
        around = encode({**empty, "rows": []})
        return _Layout(
            around[:-2], b",", around[-2:], lambda e: encode(row(internal(e, kind), versioned(e, kind, version)))
        )
    if form.target:
        part = _partial_of(scope, form)
        if not entries:
            return _without_items(encode(partial_list((), form.target_version, metadata)))
        around = encode({**partial_list((), form.target_version, metadata), "items": []})
        return _Layout(around[:-2], b",", around[-2:], lambda e: encode(part(e)))
    codec = kind.codec(version)
    before, after = codec.around_items(metadata)
    head = codec.item_head if entries else b""
    return _Layout(before + head, b"," + head, after, lambda entry: encoded_fields(entry, kind, version, codec), codec)


def _partial_of(scope: RequestScope, form: Output) -> Callable[[Entry], Obj]:
    """Return the function that makes the metadata-only form of an entry."""
    kind, version, codec = scope.kind, scope.version, scope.codec
    return lambda entry: partial(codec.metadata(versioned(entry, kind, version)), form.target_version)


def _indented(layout: _Layout, has_items: bool) -> _Layout:
    """Return the layout of the same list over several lines."""
    if not has_items:
        return _without_items(indent((layout.before + layout.after).rstrip(b"\n")))
    head, mark = layout.separator[1:], encode(_MARK)
    around = indent(layout.before.removesuffix(head) + mark + layout.after.rstrip(b"\n"))
    before, _, after = around.partition(mark)

    def item(entry: Entry) -> bytes:
        return indent(head + _item(layout, entry)).replace(b"\n", _ITEM_INDENT)

    return _Layout(before, b"," + _ITEM_INDENT, after, item)


def _in_yaml(layout: _Layout, has_items: bool) -> _Layout:
    """Return the layout of the same list in YAML."""
    if not has_items:
        return _without_items(yaml_of(layout.before + layout.after))
    head = layout.separator[1:]
    around = yaml_of(layout.before.removesuffix(head) + encode(_MARK) + layout.after)
    before, _, after = around.partition(f"- {_MARK}\n".encode())
    return _Layout(before, b"", after, lambda entry: yaml_of(b"[" + head + _item(layout, entry) + b"]"))


def _item(layout: _Layout, entry: Entry) -> bytes:
    """Return the item of an entry, which may have kept it."""
    return entry.made(layout.key) or layout.item(entry)


# --- CBOR


def _cbor(scope: RequestScope, form: Output, metadata: Obj, entries: list[Entry]) -> _Layout:
    """Return the layout of a list in CBOR, where the number of items stands before them."""
    kind, version = scope.kind, scope.version
    item: Callable[[Entry], bytes] = partial_function(cbor_item, kind=kind, version=version)
    key: Any = cbor_item_key(kind, version)
    whole = scope.codec.list_of(metadata, [])
    if form.target:
        part, whole = _partial_of(scope, form), partial_list((), form.target_version, metadata)
        item, key = lambda entry: cbor.write_any(part(entry)), None
    around = {**{name: field for name, field in whole.items() if name != "items"}, "items": None}
    before, after = cbor.turn(cbor.encode_item(around, None).removesuffix(cbor.NULL))
    before = cbor.PREFIX + before
    if form.target and not entries:
        return _without_items(before + cbor.NULL + after)
    return _Layout(before + cbor.head(ARRAY, len(entries)), b"", after, item, key)


# --- protobuf


async def _protobuf(
    request: Request, scope: RequestScope, form: Output, metadata: Obj, entries: list[Entry], share: Share | None
) -> list[bytes]:
    """Return the parts of a list in protobuf, in its envelope."""
    kind, version, schemas = scope.kind, scope.version, Schemas.of(scope.kind.release)
    if form.target:
        part, body = _partial_of(scope, form), partial_list((), form.target_version, {})
        struct, one = struct_of(schemas, body), struct_of(schemas, partial({}, form.target_version))
        api_version, name, tag = body["apiVersion"], body["kind"], _tag(struct, "items")
        layout = _Layout(b"", b"", b"", lambda entry: length_delimited(tag, protobuf.encode_message(part(entry), one)))
    else:
        api_version, name = kind.gvk(version).api_version, f"{kind.name}List"
        struct, key = schemas.kind(kind.group, version, name), protobuf_item_key(kind, version)
        layout = _Layout(b"", b"", b"", lambda entry: protobuf_item(entry, kind, version), key)
    shape = struct.fields["metadata"].type
    assert isinstance(shape, Struct)
    own = length_delimited(_tag(struct, "metadata"), protobuf.encode_message(metadata, shape))
    is_first = struct.fields["metadata"].number < struct.fields["items"].number
    layout = layout._replace(before=own) if is_first else layout._replace(after=own)
    parts = await _joined(request, form, layout, entries, share)
    head, tail = around_message(api_version, name, sum(map(len, parts)))
    parts.insert(0, head)
    parts.append(tail)
    return parts


def _tag(struct: Struct, field: str) -> bytes:
    """Return the tag of a field that holds messages."""
    return bytes((struct.fields[field].number << 3 | 2,))
