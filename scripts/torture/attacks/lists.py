"""Attacks of `attack` with requests about many objects, which take long however they are made."""

from __future__ import annotations

import json
import threading
from collections import Counter

from scripts.torture.attacks.case import Case, Target, read_to_end, status_of

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS, WRITERS = 10_000, 4
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
    ("?watch=1&resourceVersion=0&timeoutSeconds=5&labelSelector=of%3Dx", "application/json", ""),
)


def _fill(target: Target) -> None:
    """Create config maps, over some connections at once."""

    def create(first: int) -> None:
        with target.connect() as connection:
            answers = connection.makefile("rb")
            for number in range(first, OBJECTS, WRITERS):
                metadata = {"name": f"o{number}", "labels": {"of": str(number % 100)}}
                body = json.dumps({"metadata": metadata, "data": {"k": "v" * 200}})
                head = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\n{target.authorization}Content-Type: application/json\r\n"
                connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                length = 0
                while (line := answers.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                answers.read(length)

    threads = [threading.Thread(target=create, args=(first,)) for first in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _lists(target: Target) -> str:
    """Ask for everything in every form, some times at once, and delete it at last."""
    _fill(target)
    statuses: Counter[int] = Counter()

    def ask(query: str, accept: str, encoding: str) -> None:
        head = f"GET {MAPS}{query} HTTP/1.1\r\nHost: a\r\n{target.authorization}Connection: close\r\n"
        with target.connect() as connection:
            connection.sendall(f"{head}Accept: {accept}\r\nAccept-Encoding: {encoding}\r\n\r\n".encode())
            statuses[status_of(read_to_end(connection))] += 1

    for request in REQUESTS:
        threads = [threading.Thread(target=ask, args=request) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    statuses[target.send("DELETE", MAPS)[0]] += 1
    target.send("POST", "/understudy/reset")
    return f"{OBJECTS} objects, {dict(statuses)}"


CASES = (Case("lists of everything", _lists, ("--control",), 600.0),)
