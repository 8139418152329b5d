"""Send requests that are traced, and tell of their spans.

    python -m tests.apiserver.server.traces 4317 URL TOKEN > RELEASE.jsonl

The server exports to the collector of this script at that port, with `samplingRatePerMillion: 1000000`. What differs
each time (times, ids, ports, sizes of answers) is left out, and what understudy does not tell of: addresses and
messages of calls of etcd, sizes of watches, and what watches ask of etcd outside of their request, before 1.36.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.collector import Collector, Span, collector
from tests.http import Connection, send

MAPS, HOME = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default"
NODES, DEFINITIONS = "/api/v1/nodes", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ONE: dict[str, Any] = {"metadata": {"name": "one"}, "data": {"a": "b"}}
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
LISTED = "watch=1&sendInitialEvents=1&allowWatchBookmarks=1&resourceVersionMatch=NotOlderThan"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WATCH = "WATCH"  # a GET of which the first event is read
# Method, path, body, media type of the body, what is accepted.
REQUESTS: tuple[tuple[str, str, Any, str | None, str | None], ...] = (
    ("GET", "/version", None, None, None),
    ("GET", HOME, None, None, None),
    ("GET", f"{MAPS}?limit=5", None, None, None),
    ("POST", MAPS, ONE, None, None),
    ("PUT", f"{MAPS}/one", {**ONE, "data": {"a": "c"}}, None, None),
    ("PATCH", f"{MAPS}/one", {"data": {"x": "y"}}, MERGE, None),
    ("GET", f"{MAPS}/one", None, None, None),
    ("GET", MAPS, None, None, None),
    ("GET", f"{MAPS}?resourceVersion=0", None, None, None),
    ("GET", f"{MAPS}/none", None, None, None),
    ("GET", f"{MAPS}/one?resourceVersion=0", None, None, None),
    (WATCH, f"{MAPS}?watch=1", None, None, None),
    (WATCH, f"{MAPS}?{LISTED}&fieldSelector=metadata.name%3Dx", None, None, None),
    (WATCH, f"{HOME}/events?{LISTED}", None, None, None),
    ("PATCH", f"{MAPS}/ap", b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ap"}}', APPLY, None),
    ("PUT", f"{MAPS}/none", {"metadata": {"name": "none"}}, None, None),
    ("POST", MAPS, b"nojson", None, None),
    ("GET", HOME, None, None, "application/vnd.kubernetes.protobuf"),
    ("GET", MAPS, None, None, TABLE),
    ("GET", f"{MAPS}?fieldSelector=metadata.name%3Dx", None, None, None),
    ("DELETE", f"{MAPS}/one", None, None, None),
    ("DELETE", MAPS, None, None, None),
    ("GET", "/api/v1/nosuch", None, None, None),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}, None, None),
    ("GET", "/readyz", None, None, None),
    ("GET", f"{NODES}/none", None, None, None),
    ("GET", f"{NODES}/none?resourceVersion=0", None, None, None),
    ("PUT", f"{NODES}/none", {"metadata": {"name": "none"}}, None, None),
    ("GET", f"{DEFINITIONS}/none", None, None, None),
)
FIRST = 0xABC001  # the number of the first trace
OTHERS = ("audit-id", "net.host.port", "net.sock.peer.port", "server.port", "network.peer.port", "writer")
SIZES = ("http.response_content_length", "http.response.body.size", "size")
FILTERS = "k8s.op/apiserver/pkg/endpoints/filterlatency"
ETCD = "etcdserverpb."  # how the names of calls of etcd begin
ENDLESS = "etcdserverpb.Watch/Watch"
OF_ETCD = ("server.address", "net.sock.peer.addr")
MESSAGE = "message"  # an event of these


def ask_all(url: str, token: str, collected: Collector) -> Iterator[dict[str, Any]]:
    """Yield requests, and their spans in lines, those within others indented."""
    statuses = []
    for number, (method, path, body, media, accept) in enumerate(REQUESTS, FIRST):
        headers = {"User-Agent": "tests", "Traceparent": f"00-{number:032x}-{number:016x}-01"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if method == WATCH:
            statuses.append(watched(url, path, headers))
        else:
            statuses.append(send(url, method, path, body, media, accept=accept, headers=headers).status)
    for number, ((method, path, *_), status) in enumerate(zip(REQUESTS, statuses, strict=True), FIRST):
        spans = collected.of_client(f"{number:032x}")
        if method == WATCH:
            spans = of_watch(spans)
        yield {"method": method, "path": path, "status": status, "spans": [*lines(spans)]}


def of_watch(spans: list[Span]) -> list[Span]:
    """Return the spans of a watch within its request, calls of etcd last: they are made beside the rest.

    Its size, and the call that lasts as long as a watch, are left out.
    """
    known, kept = {span.id: span for span in spans}, []
    for span in spans:
        outer = span
        while outer.parent in known:
            outer = known[outer.parent]
        if span.name == ENDLESS or not (outer.kind == "server" or outer.scope == FILTERS):
            continue
        for name in SIZES:
            span.attributes.pop(name, None)
        kept.append(span)
    return sorted(kept, key=lambda span: span.name.startswith(ETCD))


def watched(url: str, path: str, headers: dict[str, str]) -> int:
    """Read the first event of a watch; return the status."""
    connection = Connection(url)
    response = connection.open("GET", path, headers=headers)
    response.readline()
    response.close()
    connection.close()
    return response.status


def lines(spans: list[Span]) -> Iterator[str]:
    """Yield a line for each span of a trace and for each of its events, those within a span behind it."""
    known, within = {span.id for span in spans}, defaultdict[str, list[Span]](list)
    for span in spans:
        within[span.parent if span.parent in known else ""].append(span)
    yield from _lines(within, "", 0)


def _lines(within: dict[str, list[Span]], outer: str, depth: int) -> Iterator[str]:
    for span in within[outer]:
        indent, place = "  " * depth, "" if depth else f" {'in' if span.parent else 'beside'} the client's"
        about, is_of_etcd = span.attributes, span.name.startswith(ETCD)
        if is_of_etcd:
            about = {name: value for name, value in about.items() if name not in OF_ETCD}
        yield f"{indent}{span.kind} {span.name} ({span.scope}){place} {shown(about)}"
        for name, attributes in span.events:
            if not is_of_etcd or name != MESSAGE:
                yield f"{indent}  * {name} {shown(attributes)}"
        yield from _lines(within, span.id, depth + 1)


def shown(attributes: dict[str, Any]) -> str:
    """Return attributes as text, without those that differ each time."""
    kept = {name: "…" if name in SIZES else value for name, value in attributes.items() if name not in OTHERS}
    return json.dumps(dict(sorted(kept.items())), ensure_ascii=False)


def main(port: str, url: str, token: str) -> None:
    """Print requests and their spans."""
    with collector(int(port)) as collected:
        for each in ask_all(url, token, collected):
            print(json.dumps(each, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
