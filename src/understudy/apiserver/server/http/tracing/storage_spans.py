"""Spans of what requests ask of the store. Upstream: those of `k8s.io/apiserver/pkg/storage`, without those of gRPC.

What kube-apiserver would ask of its etcd and its watch cache is known from the metrics, which are counted alike. Writes
of an update are told without the time of admission.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from time import time_ns
from typing import Any

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.http.tracing.request_trace import CURRENT, NONE, Attributes, RequestTrace
from understudy.apiserver.storage.interface import Entry
from understudy.apiserver.storage.metrics import CONSISTENT_READ, CREATE, GET, UPDATE, Kind, StorageMetrics, T
from understudy.machinery.errors import group_resource_text
from understudy.machinery.releases.version import V1_34, V1_37
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas

_SPANS = {CREATE: "Create etcd3", UPDATE: "GuaranteedUpdate etcd3"}
_READ = "initial value restored"
_WRITTEN = {
    CREATE: ("Txn call succeeded",),
    UPDATE: (_READ, "Transaction prepared", "Txn call completed", "Transaction committed"),
}
_FROM_CACHE = ("Ready", "watchCache locked acquired", "watchCache fresh enough")


class TracedStorage(StorageMetrics):
    """Counts the requests of one server to its store, and tells of those that belong to a request that is traced."""

    async def timed(self, name: str, kind: Kind, request: Coroutine[Any, Any, T]) -> T:
        begun = time_ns()
        result = await super().timed(name, kind, request)
        trace = CURRENT.get()
        if trace is not None and name in _SPANS and isinstance(result, Entry):
            about = {**_key(trace, result.key), **_kind(kind)}
            trace.is_written = True
            trace.add(_SPANS[name], about, begun, time_ns(), [(event, NONE) for event in _WRITTEN[name]])
        return result

    def observe(self, name: str, kind: Kind, seconds: float) -> None:
        super().observe(name, kind, seconds)
        trace, now = CURRENT.get(), time_ns()
        if trace is None or trace.handler is None or trace.request is None:
            return
        begun = now - int(seconds * 1e9)
        trace.ask_store(begun, now)
        info = trace.request.info
        if name != GET or not info.name or info.verb not in ("get", "delete", "update", "patch"):
            return
        path = f"/{info.namespace}/{info.name}" if info.namespace and info.resource != "namespaces" else f"/{info.name}"
        key = _key(trace, f"/{info.resource}{path}")
        if info.verb in ("update", "patch"):
            if not trace.is_written:  # the update ends with what it has read
                restored = [] if kind.release >= V1_37 else [(_READ, NONE)]  # else an object that is not there is none
                trace.add(_SPANS[UPDATE], {**key, **_kind(kind)}, begun, now, restored)
        elif kind.release >= V1_37:
            trace.add(
                "Get etcd3",
                {**key, "group": kind.group, "resource": kind.resource},
                begun,
                now,
                [("Get call succeeded", NONE)],
            )
        else:
            asks = [("About to Get from underlying storage", NONE)]
            trace.add("cacher.Get", {**key, "resource-version": ""}, begun, now, asks)

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
            trace.add("cacher.GetList", about, now, now, _cached_events(trace.request, kind, fetched, returned))
        else:
            trace.add("List(recursive=true) etcd3", _list(trace, prefix, 0), now, now)

    def observe_consistent_read(self, kind: Kind, prefix: str, seconds: float) -> None:
        name = CONSISTENT_READ[kind.release]
        self.observe(name, kind, seconds)
        if name != GET:
            return
        super().observe_list(kind, prefix, 0, 0, is_cached=False)
        trace, now = CURRENT.get(), time_ns()
        if trace is not None and trace.handler is not None:
            trace.add("List(recursive=false) etcd3", _list(trace, prefix, 1), now - int(seconds * 1e9), now)


def _key(trace: RequestTrace, key: str) -> Attributes:
    return {"audit-id": trace.audit_id, "key": key.removeprefix("/registry")}


def _kind(kind: Kind) -> Attributes:
    """Return the attributes that name a kind: before 1.34 without its group."""
    names = {"resource": kind.resource} if kind.release < V1_34 else {"group": kind.group, "resource": kind.resource}
    return {"type": _type(kind), **names}


def _type(kind: Kind) -> str:
    """Return the name of Go's internal type of a kind (`getTypeName`)."""
    schemas, internal = Schemas.of(kind.release), (kind.group, INTERNAL, kind.name)
    return f"*{schemas.kind(*internal).go}" if schemas.has_kind(*internal) else "*unstructured.Unstructured"


def _list(trace: RequestTrace, prefix: str, limit: int) -> Attributes:
    """Return the attributes of a list that etcd answers."""
    key = _key(trace, prefix.removesuffix("/"))
    return {**key, "resourceVersion": "", "resourceVersionMatch": "", "limit": limit, "continue": ""}


def _cached_events(
    request: Request | None, kind: Kind, fetched: int, returned: int
) -> Iterator[tuple[str, Attributes]]:
    """Yield the events of a list that the watch cache answers."""
    yield from ((name, NONE) for name in _FROM_CACHE)
    is_new, is_named = kind.release >= V1_37, request is not None and bool(request.info.name)
    selects = request is not None and any(request.query.get(name) for name in ("labelSelector", "fieldSelector"))
    if is_new:
        yield ("GetByKey success" if is_named else "GetLatestSnapshotOrBuildLocked success"), NONE
    yield "Listed items from cache", {"count": fetched}
    if returned and (selects or not is_new):
        yield "Resized result", NONE
    yield "Filtered items", {"count": returned}
