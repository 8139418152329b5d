"""Asks for shards, by the hash of namespaces, and tells what comes of it.

    python -m tests.apiserver.endpoints.shard_flow URL TOKEN > tests/apiserver/endpoints/recorded/shards/RELEASE.jsonl

The server has `--feature-gates ShardedListAndWatch=true,CBORServingAndStorage=true`.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import quote

from tests.http import JSON, Connection, Response, send
from tests.waiting import wait_until
from understudy.machinery.types import Obj

MIDDLE, END = "0x8000000000000000", "0x10000000000000000"
FIRST = quote(f"shardRange(object.metadata.namespace, '0x0000000000000000', '{MIDDLE}')")
SECOND = quote(f"shardRange(object.metadata.namespace, '{MIDDLE}', '{END}')")
NAMESPACES = ("oak", "ash", "alder", "fir", "pine")  # of both shards
CORE, RELEASES = "/api/v1", "/apis/example.com/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROTOBUF, CBOR, YAML = "application/vnd.kubernetes.protobuf", "application/cbor", "application/yaml"
AS_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
AS_PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
SCHEMA = {"openAPIV3Schema": {"type": "object"}}
DEFINITION: Obj = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
BAD = "shardSelector=nonsense"
Ask = Callable[..., Response]


def rows(url: str, token: str, seconds: int) -> Iterator[Obj]:
    """Yield a row for each answer of a server; watches last some seconds."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    ask = partial(send, url, headers=headers)
    _prepare(ask)
    yield from _lists(ask)
    yield from _errors(ask)
    watch = partial(_watched, url, headers, seconds)
    yield from _watches(ask, watch)
    yield from _deletions(ask)
    lines = ask("GET", "/metrics").body.decode().splitlines()
    of_shards = [line for line in lines if re.match(r"(# \w+ )?apiserver_watch_(shards|filtered)", line)]
    yield {"metrics": sorted(line for line in of_shards if "default" not in line)}


def _prepare(ask: Ask) -> None:
    for namespace in NAMESPACES:
        ask("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}})
        for name in ("one", "two"):
            metadata = {"name": name, "labels": {"shard": "yes", "name": name}}
            ask("POST", f"{CORE}/namespaces/{namespace}/configmaps", {"metadata": metadata})
        involved = {"kind": "Pod", "namespace": namespace, "name": "p"}
        event = {"metadata": {"name": "e", "labels": {"shard": "yes"}}, "involvedObject": involved}
        ask("POST", f"{CORE}/namespaces/{namespace}/events", event)
    ask("POST", DEFINITIONS, DEFINITION)
    wait_until(lambda: ask("GET", f"{RELEASES}/widgets").status == 200)
    for namespace in NAMESPACES:
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        wait_until(partial(_created, ask, f"{RELEASES}/namespaces/{namespace}/widgets", body))


def _created(ask: Ask, path: str, body: Obj) -> bool:
    return ask("POST", path, body).status == 201


def _lists(ask: Ask) -> Iterator[Obj]:
    """Yield lists in all forms, in pages, and with other selectors."""
    maps = f"{CORE}/configmaps?labelSelector=shard%3Dyes&shardSelector="
    for path in (
        f"{maps}{FIRST}",
        f"{maps}{SECOND}",
        f"{maps}{FIRST}%20%7C%7C%20{SECOND}",
        f"{maps}{FIRST}&resourceVersion=0",
        f"{maps}{FIRST}&shardSelector={SECOND}",
        f"{maps}",
        f"{maps}{FIRST}&fieldSelector=metadata.name%3Done",
        f"{maps}{FIRST}&fieldSelector=metadata.namespace%3D{NAMESPACES[0]}",
        f"{maps}{FIRST}%2C%20x",
        f"{CORE}/configmaps?labelSelector=name%3Dtwo&shardSelector={SECOND}",
        f"{CORE}/events?labelSelector=shard%3Dyes&shardSelector={FIRST}",
        f"{RELEASES}/widgets?shardSelector={SECOND}",
        f"{RELEASES}/namespaces/{NAMESPACES[0]}/widgets?shardSelector={SECOND}",
        f"{RELEASES}/namespaces/{NAMESPACES[0]}/widgets?shardSelector={FIRST}",
        f"{DEFINITIONS}?shardSelector={FIRST}",
        f"{DEFINITIONS}?shardSelector={SECOND}",
        f"{CORE}/namespaces?fieldSelector=metadata.name%3D{NAMESPACES[0]}&shardSelector={SECOND}",
        f"{CORE}/componentstatuses?{BAD}&fieldSelector=metadata.name%3Dnone",
        f"{CORE}/namespaces/{NAMESPACES[0]}/configmaps/one?{BAD}",
    ):
        yield _row(path, ask("GET", path))
    for accept in (YAML, PROTOBUF, CBOR, AS_TABLE, AS_PARTIAL, AS_PARTIAL.replace(JSON, PROTOBUF)):
        for path in (f"{CORE}/configmaps?limit=1&shardSelector={SECOND}", f"{RELEASES}/widgets?shardSelector={SECOND}"):
            answer = ask("GET", path, accept=accept)
            info = answer.body.count(b"shardInfo"), answer.body.count(b"shardRange(")
            yield {"path": path, "accept": accept, "status": answer.status, "info": info}
    yield from _pages(ask, f"{CORE}/configmaps?labelSelector=shard%3Dyes&limit=2&shardSelector={SECOND}")
    yield from _pages(ask, f"{RELEASES}/widgets?limit=2&shardSelector={SECOND}")
    yield from _pages(ask, f"{RELEASES}/widgets?limit=1&shardSelector={FIRST}")


def _pages(ask: Ask, path: str) -> Iterator[Obj]:
    """Yield the pages of a list."""
    token = ""
    while True:
        answer = ask("GET", f"{path}&continue={token}" if token else path)
        yield _row(path, answer)
        token = answer.json()["metadata"].get("continue", "")
        if not token:
            return


def _row(path: str, answer: Response) -> Obj:
    body = answer.json()
    row: Obj = {"path": path, "status": answer.status}
    if "items" not in body:
        return {**row, "message": body.get("message")}
    metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
    metadata |= {"continue": True} if "continue" in metadata else {}
    return {**row, "metadata": metadata, "items": [_name(item) for item in body["items"]]}


def _name(obj: Obj) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata'].get('name', '')}"


def _errors(ask: Ask) -> Iterator[Obj]:
    """Yield the error that comes first, of requests with several."""
    for method, path, body in (
        ("GET", f"configmaps?{BAD}&fieldSelector=nonsense%3Da", None),
        ("GET", f"configmaps?{BAD}&labelSelector=%3D", None),
        ("GET", f"configmaps?{BAD}&resourceVersion=nonsense", None),
        ("GET", f"configmaps?{BAD}&continue=nonsense", None),
        ("GET", f"configmaps?{BAD}&resourceVersionMatch=Exact", None),
        ("GET", f"configmaps?watch=true&{BAD}", None),
        ("GET", f"configmaps?watch=true&{BAD}&fieldSelector=nonsense%3Da", None),
        ("GET", f"configmaps?watch=true&{BAD}&resourceVersion=nonsense", None),
        ("GET", f"events?watch=true&{BAD}", None),
        ("DELETE", f"configmaps?{BAD}", None),
        ("DELETE", f"configmaps?{BAD}", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["x"]}),
        ("DELETE", f"configmaps?{BAD}&fieldSelector=nonsense%3Da", b"nonsense"),
    ):
        answer = ask(method, f"{CORE}/namespaces/{NAMESPACES[0]}/{path}", body)
        yield {"method": method, **_row(path, answer)}
    answer = ask("GET", f"{RELEASES}/widgets?{BAD}")
    yield _row("widgets", answer)


def _watched(url: str, headers: dict[str, str], seconds: int, path: str, do: Callable[[], None]) -> list[list[str]]:
    """Return type and object of the events of a watch, while something is done once it has begun."""
    connection = Connection(url)
    response = connection.open("GET", f"{path}&watch=true&timeoutSeconds={seconds}", headers=headers)
    acting = threading.Timer(seconds / 6, do)
    acting.start()
    events = [json.loads(line) for line in response]
    acting.join()
    connection.close()
    return [[event["type"], _name(event["object"])] for event in events if not _is_foreign(event)]


def _is_foreign(event: Obj) -> bool:
    """Report whether an event is about what the flow has not made, such as the config maps of authorities."""
    namespace = event["object"]["metadata"].get("namespace", "")
    return (bool(namespace) and namespace not in NAMESPACES) or event["object"]["metadata"].get("name") == CA


CA = "kube-root-ca.crt"


def _watches(ask: Ask, watch: Callable[..., list[list[str]]]) -> Iterator[Obj]:
    """Yield the events of watches while objects of all namespaces change."""

    def change(collection: str, body: Obj) -> None:
        for namespace in NAMESPACES:
            path = f"{collection.format(namespace)}"
            ask("POST", path, {**body, "metadata": {"name": "new"}})
            labels = {"metadata": {"labels": {"shard": "yes"}}}
            ask("PATCH", f"{path}/new", labels, "application/merge-patch+json")
            ask("DELETE", f"{path}/new")

    maps = partial(change, f"{CORE}/namespaces/{{}}/configmaps", {})
    widgets = {"apiVersion": "example.com/v1", "kind": "Widget"}
    of_widgets = partial(change, f"{RELEASES}/namespaces/{{}}/widgets", widgets)
    events = partial(change, f"{CORE}/namespaces/{{}}/events", {"involvedObject": {"kind": "Pod"}})
    newest = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    for path, do in (
        (f"{CORE}/configmaps?labelSelector=shard%3Dyes&shardSelector={FIRST}", maps),
        (f"{CORE}/configmaps?{newest}&shardSelector={SECOND}", maps),
        (f"{RELEASES}/widgets?shardSelector={FIRST}", of_widgets),
        (f"{RELEASES}/widgets?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
         f"&shardSelector={SECOND}", lambda: None),
        (f"{CORE}/events?{newest}&fieldSelector=involvedObject.kind%3DPod&shardSelector={FIRST}", events),
        (f"{CORE}/events?{newest}&shardSelector={SECOND}", events),
    ):  # fmt: skip
        yield {"watch": path, "events": watch(path, do)}


def _deletions(ask: Ask) -> Iterator[Obj]:
    """Yield deletions of shards."""
    path = f"{RELEASES}/namespaces/{NAMESPACES[0]}/widgets?shardSelector="
    for shard in (FIRST, SECOND):
        yield _row(f"{path}{shard}", ask("DELETE", f"{path}{shard}"))
    yield _row(f"{RELEASES}/widgets", ask("GET", f"{RELEASES}/widgets"))


def main() -> None:
    """Record a server."""
    started = time.monotonic()
    url, token = sys.argv[1:]
    for row in rows(url, token, 3):
        print(json.dumps(row), flush=True)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
