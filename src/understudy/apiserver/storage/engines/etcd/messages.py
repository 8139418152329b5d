"""The messages of etcd's gRPC services, with the fields that are used here. Upstream: `rpc.proto`, `kv.proto`."""

from __future__ import annotations

from enum import IntEnum

from understudy.machinery.serializer.rpc.messages import (
    Message,
    binary,
    boolean,
    integer,
    message,
    messages,
    optional_integer,
    optional_message,
    text,
)
from understudy.machinery.types import dataclass

RANGE, TXN, COMPACT = "etcdserverpb.KV/Range", "etcdserverpb.KV/Txn", "etcdserverpb.KV/Compact"
WATCH = "etcdserverpb.Watch/Watch"
GRANT = "etcdserverpb.Lease/LeaseGrant"
STATUS = "etcdserverpb.Maintenance/Status"


@dataclass(frozen=True)
class Header(Message):
    """Begins every answer; `revision` is that of the member's last write."""

    revision: int = integer(3)


@dataclass(frozen=True)
class KeyValue(Message):
    """A key; `version` counts its writes since it was created."""

    key: bytes = binary(1)
    mod_revision: int = integer(3)
    version: int = integer(4)
    value: bytes = binary(5)


@dataclass(frozen=True)
class RangeRequest(Message):
    """Asks for keys from `key` on, before `range_end`, at a revision (0: now)."""

    key: bytes = binary(1)
    range_end: bytes = binary(2)
    limit: int = integer(3)
    revision: int = integer(4)
    keys_only: bool = boolean(8)


@dataclass(frozen=True)
class RangeResponse(Message):
    """Holds the keys; `more`: the limit left some out."""

    header: Header = message(1, Header)
    kvs: tuple[KeyValue, ...] = messages(2, KeyValue)
    more: bool = boolean(3)


@dataclass(frozen=True)
class PutRequest(Message):
    """Writes a key."""

    key: bytes = binary(1)
    value: bytes = binary(2)
    lease: int = integer(3)


@dataclass(frozen=True)
class DeleteRangeRequest(Message):
    """Deletes a key or, with `range_end`, several."""

    key: bytes = binary(1)
    range_end: bytes = binary(2)


@dataclass(frozen=True)
class RequestOp(Message):
    """One operation of a transaction."""

    request_range: RangeRequest | None = optional_message(1, RangeRequest)
    request_put: PutRequest | None = optional_message(2, PutRequest)
    request_delete_range: DeleteRangeRequest | None = optional_message(3, DeleteRangeRequest)


@dataclass(frozen=True)
class ResponseOp(Message):
    """The answer to one operation of a transaction."""

    response_range: RangeResponse = message(1, RangeResponse)


class CompareTarget(IntEnum):
    """Names the number of a key that is compared."""

    VERSION = 0
    MOD = 2


@dataclass(frozen=True)
class Compare(Message):
    """Compares a number of a key, which is 0 for a key that is not there; the other fields say `equal`."""

    target: int = integer(2)
    key: bytes = binary(3)
    version: int | None = optional_integer(4)
    mod_revision: int | None = optional_integer(6)


@dataclass(frozen=True)
class TxnRequest(Message):
    """Does `success` if all comparisons hold, else `failure`."""

    compare: tuple[Compare, ...] = messages(1, Compare)
    success: tuple[RequestOp, ...] = messages(2, RequestOp)
    failure: tuple[RequestOp, ...] = messages(3, RequestOp)


@dataclass(frozen=True)
class TxnResponse(Message):
    """Tells which of the two was done. The revision is that of the write, if there was one."""

    header: Header = message(1, Header)
    succeeded: bool = boolean(2)
    responses: tuple[ResponseOp, ...] = messages(3, ResponseOp)


@dataclass(frozen=True)
class CompactionRequest(Message):
    """Forgets what was replaced before a revision."""

    revision: int = integer(1)


@dataclass(frozen=True)
class CompactionResponse(Message):
    """Answers a compaction."""

    header: Header = message(1, Header)


@dataclass(frozen=True)
class WatchCreateRequest(Message):
    """Begins a watch of the keys in a range, with the writes from a revision on."""

    key: bytes = binary(1)
    range_end: bytes = binary(2)
    start_revision: int = integer(3)
    progress_notify: bool = boolean(4)


@dataclass(frozen=True)
class WatchProgressRequest(Message):
    """Asks up to which revision everything was sent."""


@dataclass(frozen=True)
class WatchRequest(Message):
    """One of the requests of a stream of watches."""

    create_request: WatchCreateRequest | None = optional_message(1, WatchCreateRequest)
    progress_request: WatchProgressRequest | None = optional_message(3, WatchProgressRequest)


@dataclass(frozen=True)
class Event(Message):
    """A write. Deletions (type 1) have the key and the revision only."""

    type: int = integer(1)
    kv: KeyValue = message(2, KeyValue)


@dataclass(frozen=True)
class WatchResponse(Message):
    """Holds writes or, with none and no flag, tells that everything up to the revision of the header was sent."""

    header: Header = message(1, Header)
    created: bool = boolean(3)
    canceled: bool = boolean(4)
    compact_revision: int = integer(5)
    cancel_reason: str = text(6)
    events: tuple[Event, ...] = messages(11, Event)


@dataclass(frozen=True)
class LeaseGrantRequest(Message):
    """Asks for a lease of so many seconds; keys that it is attached to are deleted when it ends."""

    ttl: int = integer(1)


@dataclass(frozen=True)
class LeaseGrantResponse(Message):
    """Names a lease."""

    header: Header = message(1, Header)
    id: int = integer(2)
    ttl: int = integer(3)


@dataclass(frozen=True)
class StatusRequest(Message):
    """Asks a member for its state."""


@dataclass(frozen=True)
class StatusResponse(Message):
    """Holds the version of a member, such as 3.6.8, and the bytes of its database."""

    header: Header = message(1, Header)
    version: str = text(2)
    db_size: int = integer(3)
