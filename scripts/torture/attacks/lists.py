"""Attacks of `attack` with requests about many objects, which take long however they are made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial

from scripts.torture.attacks.case import Case, Target, read_to_end, run_at_once, status_of

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 10_000
AT_ONCE = 4  # of one request
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
REQUESTS = (
    ("?labelSelector=of%3D7", "application/json", ""),
    ("?fieldSelector=metadata.name!%3Dx", "application/json", ""),
    ("", "application/json", ""),
    ("", "application/json", "gzip"),
    ("?pretty=true", "application/json", ""),
    ("", "application/yaml", ""),
    ("", "application/vnd.kubernetes.protobuf", ""),
    ("", TABLE, ""),
    ("", METADATA, ""),
    ("?watch=1&resourceVersion=0&timeoutSeconds=5", "application/json", ""),
    ("?watch=1&resourceVersion=0&timeoutSeconds=5", "application/vnd.kubernetes.protobuf", ""),
    ("?watch=1&resourceVersion=0&timeoutSeconds=5", "application/yaml", ""),
    ("?watch=1&resourceVersion=0&timeoutSeconds=5", TABLE, ""),
    ("?watch=1&resourceVersion=0&timeoutSeconds=5&labelSelector=of%3Dx", "application/json", ""),
)

UNREAD, CLIENTS = 2000, 300  # objects of half a kilobyte, and lists of them that nobody reads
LARGE, KEYS = 4, 40_000  # objects, and entries in each of them: a megabyte


def _config_map(number: int) -> bytes:
    metadata = {"name": f"o{number}", "labels": {"of": str(number % 100)}}
    return json.dumps({"metadata": metadata, "data": {"k": "v" * 200}}).encode()


def _lists(target: Target) -> str:
    """Ask for many objects in every form, some times at once, and delete them at last."""
    bodies = [_config_map(number) for number in range(OBJECTS)]
    return f"{OBJECTS} objects, {_ask(target, bodies, [MAPS])}"


def _large(target: Target) -> str:
    """Ask for few objects with very much in them, by list and one by one, in every form."""
    data = {f"k{number}": f"v{number}" for number in range(KEYS)}
    bodies = [json.dumps({"metadata": {"name": f"o{number}"}, "data": data}).encode() for number in range(LARGE)]
    return f"{LARGE} objects, {_ask(target, bodies, [MAPS, f'{MAPS}/o0'])}"


def _ask(target: Target, bodies: Sequence[bytes], paths: Sequence[str]) -> dict[int, int]:
    """Create objects, and ask for paths in every form, some times at once; return the answers."""
    target.send_all([target.request("POST", MAPS, body) for body in bodies])
    statuses: Counter[int] = Counter()

    def ask(path: str, query: str, accept: str, encoding: str) -> None:
        head = f"GET {path}{query} HTTP/1.1\r\nHost: a\r\n{target.authorization}Connection: close\r\n"
        with target.connect() as connection:
            connection.sendall(f"{head}Accept: {accept}\r\nAccept-Encoding: {encoding}\r\n\r\n".encode())
            statuses[status_of(read_to_end(connection))] += 1

    for path in paths:
        for request in REQUESTS:
            run_at_once([partial(ask, path, *request)] * AT_ONCE)
    statuses[target.send("DELETE", MAPS)[0]] += 1
    target.send("POST", "/understudy/reset")
    return dict(statuses)


def _unread(target: Target) -> str:
    """Ask for a megabyte of small objects with many clients that read nothing of it."""
    target.send_all([target.request("POST", MAPS, _config_map(number)) for number in range(UNREAD)])
    with target.connections(CLIENTS) as connections:
        for connection in connections:
            connection.sendall(target.request("GET", MAPS))
        status, answer = target.send("GET", MAPS)
    target.send("DELETE", MAPS)
    target.send("POST", "/understudy/reset")
    return f"{CLIENTS} lists, {status} with {len(answer) >> 10} KiB"


CASES = (
    Case("lists of everything", _lists, own=("--control",), seconds=600.0),
    Case("lists that are not read", _unread, own=("--control",)),
    Case("large objects in every form", _large, own=("--control",), seconds=600.0),
)
