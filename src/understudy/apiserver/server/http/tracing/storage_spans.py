"""Spans of what requests ask of the store. Upstream: those of `k8s.io/apiserver/pkg/storage`, and of its calls of etcd.

What kube-apiserver would ask of its etcd and its watch cache is known from the metrics, which are counted alike. Writes
of an update are told without the time of admission.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from time import time_ns
from typing import Any

from opentelemetry.trace import Span

from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.registry.keys import resource_prefix
from understudy.apiserver.server.http.tracing.attributes import call_of_etcd
from understudy.apiserver.server.http.tracing.request_trace import CURRENT, NONE, Attributes, RequestTrace
from understudy.apiserver.storage.interface import Entry, UnreadableError
from understudy.apiserver.storage.metrics import CONSISTENT_READ, CREATE, DELETE, GET, UPDATE, Kind, StorageMetrics, T
from understudy.machinery.errors import group_resource_text
from understudy.machinery.releases.version import V1_31, V1_34, V1_37, ByRelease, Version
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas
from understudy.machinery.types import Obj

_SPANS = {CREATE: "Create etcd3", UPDATE: "GuaranteedUpdate etcd3"}
_READ = "initial value restored"
_CALLS = {
    CREATE: ("Txn call succeeded",),
    UPDATE: ("Transaction prepared", "Txn call completed", "Transaction committed"),
}
_FROM_STORAGE = "TransformFromStorage"
_DECODED = ByRelease({V1_37: "Decode succeeded", V1_31: "decode succeeded"})
FRESH = ("watchCache locked acquired", "watchCache fresh enough")
_TXN, _RANGE = "Txn", "Range"  # methods of etcd
_VERSION = "resourceVersion"


class TracedStorage(StorageMetrics):
    """Counts the requests of one server to its store, and tells of those that belong to a request that is traced.

    encode  returns the bytes of an object, given its key, that would be in etcd
    """

    def __init__(self, encode: Callable[[str, Obj], bytes]) -> None:
        super().__init__()
        self._encode = encode

    async def timed(self, name: str, kind: Kind, request: Coroutine[Any, Any, T]) -> T:
        begun = time_ns()
        result = await super().timed(name, kind, request)
        trace = CURRENT.get()
        if trace is None or not isinstance(result, Entry):
            return result
        call, ended = call_of_etcd(kind.release, _TXN), time_ns()
        if name in _SPANS:
            about = {**_key(trace, result.key), **_kind(kind)}
            trace.is_written = True
            trace.add(_SPANS[name], about, begun, ended, self._written(name, kind, result), call=call)
        elif name == DELETE and trace.handler is not None:
            trace.call(call, begun, ended)
        return result

    def _written(self, name: str, kind: Kind, entry: Entry) -> Iterator[tuple[str, Attributes]]:
        """Yield the events of the write of an entry."""
        size = {"len": len(self._encode(entry.key, entry.value))}
        if name == UPDATE:
            yield _READ, NONE
        yield "About to Encode", NONE
        yield "Encode succeeded", size
        yield "TransformToStorage succeeded", NONE
        yield from ((event, NONE) for event in _CALLS[name])
        yield _DECODED[kind.release], size

    def observe(self, name: str, kind: Kind, seconds: float, entry: Entry | None = None) -> None:
        super().observe(name, kind, seconds)
        trace, now = CURRENT.get(), time_ns()
        if trace is None or trace.handler is None or trace.request is None:
            return
        begun = now - int(seconds * 1e9)
        trace.ask_store(begun, now)
        info = trace.request.info
        if name != GET or not info.name or info.verb not in ("get", "delete", "update", "patch"):
            return
        key, call = _key_of_request(trace, kind, info), call_of_etcd(kind.release, _RANGE)
        if info.verb in ("update", "patch"):
            if not trace.is_written:  # the update ends with what it has read
                restored = [] if kind.release >= V1_34 else [(_READ, NONE)]  # else an object that is not there is none
                trace.add(_SPANS[UPDATE], {**key, **_kind(kind)}, begun, now, restored, call=call)
        elif kind.release >= V1_37:
            about = {**key, "group": kind.group, "resource": kind.resource}
            trace.add("Get etcd3", about, begun, now, self._read(kind, entry), call=call)
        else:
            asks = [("About to Get from underlying storage", NONE)]
            trace.add("cacher.Get", {**key, "resource-version": ""}, begun, now, asks, call=call)

    def _read(self, kind: Kind, entry: Entry | None) -> Iterator[tuple[str, Attributes]]:
        """Yield the events of a read, which has found an entry or none."""
        yield "Get call succeeded", NONE
        if entry is None:
            return
        try:
            value = entry.value
        except UnreadableError as error:
            if not error.is_encrypted:
                yield f"{_FROM_STORAGE} succeeded", NONE
            yield f"{_FROM_STORAGE if error.is_encrypted else 'Decode'} failed", {"err": error.text}
            return
        yield f"{_FROM_STORAGE} succeeded", NONE
        yield _DECODED[kind.release], {"len": len(self._encode(entry.key, value))}

    def observe_cached_get(self, kind: Kind) -> None:
        trace, now = CURRENT.get(), time_ns()
        if trace is None or trace.handler is None or trace.request is None:
            return
        trace.ask_store(now, now)
        about = {
            **_key_of_request(trace, kind, trace.request.info),
            "resource-version": trace.request.query.get(_VERSION),
        }
        events = (*FRESH, "GetByKey success") if kind.release >= V1_37 else ("About to fetch object from cache", *FRESH)
        trace.add("cacher.Get", about, now, now, [(event, NONE) for event in events])

    def observe_list(self, kind: Kind, prefix: str, fetched: int, returned: int, *, is_cached: bool) -> None:
        super().observe_list(kind, prefix, fetched, returned, is_cached=is_cached)
        trace = CURRENT.get()
        if trace is None or trace.handler is None:
            return
        now = time_ns()
        trace.listed += returned
        trace.ask_store(now, now)
        if is_cached:
            about = {"audit-id": trace.audit_id, "type": group_resource_text(kind.group, kind.resource)}
            span = trace.add("cacher.GetList", about, now, now, _cached_events(trace, kind, fetched, returned))
            if trace.is_newest and kind.release >= V1_34:
                add_revision_read(trace, kind.release, prefix, now, now, span)
        else:
            call = call_of_etcd(kind.release, _RANGE)
            trace.add("List(recursive=true) etcd3", _list(trace, prefix, 0), now, now, call=call)

    def observe_consistent_read(self, kind: Kind, prefix: str, seconds: float) -> None:
        name = CONSISTENT_READ[kind.release]
        self.observe(name, kind, seconds)
        trace, now = CURRENT.get(), time_ns()
        if trace is not None:
            trace.is_newest = True
        if name != GET:
            return
        super().observe_list(kind, prefix, 0, 0, is_cached=False)
        if trace is not None and trace.handler is not None and kind.release < V1_34:  # else the cache reads it
            add_revision_read(trace, kind.release, prefix, now - int(seconds * 1e9), now)


def add_revision_read(
    trace: RequestTrace, release: Version, prefix: str, begun: int, ended: int, within: Span | None = None
) -> None:
    """Add what etcd is asked for its newest revision: before 1.37 that is a list (`GetCurrentResourceVersion`).

    `prefix` is that of all keys of the kind.
    """
    call = call_of_etcd(release, _RANGE)
    if release >= V1_37:
        trace.call(call, begun, ended, within)
    else:
        name = "List(recursive=false) etcd3"
        trace.add(name, _list(trace, prefix, 1), begun, ended, call=call, within=within)


def _key_of_request(trace: RequestTrace, kind: Kind, info: RequestInfo) -> Attributes:
    """Return the attributes of the key of the object of a kind that a request is about."""
    prefix = resource_prefix(kind.group, kind.resource, is_custom=not _is_built_in(kind))
    namespace = f"{info.namespace}/" if info.namespace and info.resource != "namespaces" else ""
    return _key(trace, f"{prefix}{namespace}{info.name}")


def _key(trace: RequestTrace, key: str) -> Attributes:
    return {"audit-id": trace.audit_id, "key": key.removeprefix("/registry")}


def _kind(kind: Kind) -> Attributes:
    """Return the attributes that name a kind: before 1.34 without its group."""
    names = {"resource": kind.resource} if kind.release < V1_34 else {"group": kind.group, "resource": kind.resource}
    return {"type": _type(kind), **names}


def _type(kind: Kind) -> str:
    """Return the name of Go's internal type of a kind (`getTypeName`)."""
    if not _is_built_in(kind):
        return "*unstructured.Unstructured"
    return f"*{Schemas.of(kind.release).kind(kind.group, INTERNAL, kind.name).go}"


def _is_built_in(kind: Kind) -> bool:
    return Schemas.of(kind.release).has_kind(kind.group, INTERNAL, kind.name)


def _list(trace: RequestTrace, prefix: str, limit: int) -> Attributes:
    """Return the attributes of a list that etcd answers."""
    key = _key(trace, prefix.removesuffix("/"))
    return {**key, "resourceVersion": "", "resourceVersionMatch": "", "limit": limit, "continue": ""}


def _cached_events(trace: RequestTrace, kind: Kind, fetched: int, returned: int) -> Iterator[tuple[str, Attributes]]:
    """Yield the events of a list that the watch cache answers."""
    request, is_new = trace.request, kind.release >= V1_37
    yield "Ready", NONE
    is_named = request is not None and bool(request.info.name)
    if trace.is_newest and is_new and not is_named:
        yield "getCurrentRV success", NONE
    yield from ((name, NONE) for name in FRESH)
    selects = request is not None and any(request.query.get(name) for name in ("labelSelector", "fieldSelector"))
    if is_new:
        yield ("GetByKey success" if is_named else "GetLatestSnapshotOrBuildLocked success"), NONE
    yield "Listed items from cache", {"count": fetched}
    if returned and (selects or not is_new):
        yield "Resized result", NONE
    yield "Filtered items", {"count": returned}
