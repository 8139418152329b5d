"""Send requests that are traced, and tell of their spans.

    python -m tests.apiserver.server.traces 4317 URL TOKEN > RELEASE.jsonl

The server exports to the collector of this script at that port, with `samplingRatePerMillion: 1000000`. What differs
each time (times, ids, ports, sizes of answers) is left out, and what understudy does not tell of: calls of gRPC, and
how objects are encoded for etcd.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from tests.collector import Collector, Span, collector
from tests.http import send

MAPS, HOME = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default"
ONE: dict[str, Any] = {"metadata": {"name": "one"}, "data": {"a": "b"}}
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
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
)
FIRST = 0xABC001  # the number of the first trace
OTHERS = ("audit-id", "net.host.port", "net.sock.peer.port", "server.port", "network.peer.port", "writer")
SIZES = ("http.response_content_length", "http.response.body.size", "size")
FROM_STORAGE = (
    "About to Encode",
    "Encode succeeded",
    "Decode succeeded",
    "decode succeeded",
    "TransformToStorage succeeded",
    "TransformFromStorage succeeded",
    "getCurrentRV success",
)


def ask_all(url: str, token: str, collected: Collector) -> Iterator[dict[str, Any]]:
    """Yield requests, and their spans in lines, those within others indented."""
    statuses = []
    for number, (method, path, body, media, accept) in enumerate(REQUESTS, FIRST):
        headers = {"User-Agent": "tests", "Traceparent": f"00-{number:032x}-{number:016x}-01"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        statuses.append(send(url, method, path, body, media, accept=accept, headers=headers).status)
    for number, ((method, path, *_), status) in enumerate(zip(REQUESTS, statuses, strict=True), FIRST):
        spans = collected.of_client(f"{number:032x}")
        yield {"method": method, "path": path, "status": status, "spans": [*lines(spans)]}


def lines(spans: list[Span]) -> Iterator[str]:
    """Yield a line for each span of a trace and for each of its events."""
    spans = [span for span in spans if not span.name.startswith("etcdserverpb.")]
    known = {span.id: span for span in spans}
    for span in spans:
        depth, above = 0, span
        while above.parent in known:
            above, depth = known[above.parent], depth + 1
        indent = "  " * depth
        place = "" if depth else f" {'in' if span.parent else 'beside'} the client's"
        yield f"{indent}{span.kind} {span.name} ({span.scope}){place} {shown(span.attributes)}"
        for name, attributes in span.events:
            if name not in FROM_STORAGE:
                yield f"{indent}  * {name} {shown(attributes)}"


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
