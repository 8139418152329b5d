"""The limits of a write's size: that of etcd (`--max-request-bytes`), and that of its client for what it sends.

A write is a transaction: if the key has a revision, or none yet, put the value, else (in an update) get what is there.
Measured are the protobuf messages that kube-apiserver sends (`TxnRequest`) and that etcd logs (`InternalRaftRequest`).
"""

from __future__ import annotations

from understudy.apiserver.registry.stored_values import stored_bytes
from understudy.apiserver.storage.interface import Entry
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.serializer.protobuf_wire import encode_varint
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import call_deeply

# Bytes from which on an object is measured: shorter requests about shorter objects do not reach a limit.
MEASURED_FROM = 32 * 1024
MAX_REQUEST = 3 * 512 * 1024  # bytes that etcd logs at most
MAX_SENT = 2 * 1024 * 1024  # bytes that its client sends at most
_HEADER = 13  # bytes of a request's id, of 63 bits for most members of etcd, with what is around it
_LEASE = 10  # bytes that name a lease
_MOD_REVISION = 2  # bytes that say that the revision of the last change is compared


class TooLargeError(StatusError):
    """An object that is too large to be stored. Handlers try again without its managed fields."""

    def __init__(self, message: str) -> None:
        super().__init__(500, "", message)


def check(kind: Kind, key: str, value: Obj, ctx: Context, current: Entry | None, *, updates: bool) -> None:
    """Raise TooLargeError for a value that is too large to be stored.

    current  entry that the value is to replace, None for a new key
    updates  whether the request is an update, which may create the key: it asks what is stored if that is not `current`
    """
    if ctx.payload + (current.encoded_size if current else 0) > MEASURED_FROM:
        in_cbor = ctx.gates[features.CBOR_SERVING_AND_STORAGE]
        size, revision = (
            len(call_deeply(stored_bytes, kind, value, in_cbor=in_cbor)),
            current.revision if current else 0,
        )
        sent = _request_size(kind, len(key.encode()), size, revision, updates=updates)
        if sent > MAX_SENT:
            text = f"trying to send message larger than max ({sent} vs. {MAX_SENT})"
            raise TooLargeError(f"rpc error: code = ResourceExhausted desc = {text}")
        if _HEADER + _field(sent) > MAX_REQUEST:
            raise TooLargeError("etcdserver: request is too large")


def _request_size(kind: Kind, key: int, value: int, revision: int, *, updates: bool) -> int:
    """Return the bytes of the transaction that puts a value under a key, both given by their sizes."""
    comparison = _MOD_REVISION + _field(key) + 1 + len(encode_varint(revision))
    put = _field(key) + _field(value) + (_LEASE if kind.behavior.expires else 0)
    get = _field(_field(_field(key))) if updates else 0
    return _field(comparison) + _field(_field(put)) + get


def _field(size: int) -> int:
    """Return the bytes of a field that holds a text or a message of a size: its tag, that size and the content."""
    return 1 + len(encode_varint(size)) + size
