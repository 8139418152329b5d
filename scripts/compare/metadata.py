"""Compare two API servers by invalid metadata in objects of every kind.

    python -m scripts.compare metadata https://127.0.0.1:6443 http://127.0.0.1:8001 --token TOKEN --kind ConfigMap

Each change of metadata, and some pairs of changes, is created, put, patched and applied: to the collection, the object
and its subresources, as dry runs. Status, warnings and the whole body must agree, with the order of causes. The valid
objects are those of the tests. Differences are printed, then how many requests agree. The exit status is 1 if there
are differences, if nothing agreed, or if the left server left more than a few requests without an answer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.common.comparing import (
    MEDIA,
    Answer,
    Obj,
    Server,
    Tally,
    add_server_arguments,
    end_namespace,
    require_servers,
)
from scripts.compare.sequences.answers import mask

SAMPLES = Path(__file__).parents[2] / "tests/kinds/recorded/metadata.jsonl"
Request = tuple[str, str, str, Any]  # method, path, content type, body
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}
MANAGED = {"manager": "a\tb", "operation": "Odd", "apiVersion": "v1", "fieldsType": "Odd", "fieldsV1": {}}
ENTRIES: tuple[list[Obj], ...] = ([], [{}], [MANAGED])
METADATA_CHANGES: tuple[Obj, ...] = (
    {"finalizers": ["plain", "e.io/a", "kubernetes", "Other"]},
    {"finalizers": ["Not valid!", "a/b/c"]},
    {"finalizers": ["orphan", "foregroundDeletion"]},
    {"ownerReferences": [{}]},
    {"ownerReferences": [{**OWNER, "kind": "Event"}, {**OWNER, "apiVersion": "a/b/c"}]},
    {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]},
    {"labels": {"a": "not valid!"}},
    {"labels": {"not valid!": "1"}},
    {"annotations": {"not valid!": "1"}},
    {"annotations": {"a": "x" * 262145}},
    *({"name": name} for name in ("Not_Valid", "a%b", "..", "e" * 254, "e" * 64, None)),
    *({"generateName": name} for name in ("Bad_", "a%b-")),
    {"generateName": "gen-", "name": None},
    *({"namespace": name} for name in ("elsewhere", "")),
    *({"creationTimestamp": time} for time in ("2020-01-01T00:00:00Z", None)),
    *({"deletionGracePeriodSeconds": seconds} for seconds in (5, 0)),
    *({"generation": number} for number in (-1, 5)),
    *({"resourceVersion": version} for version in ("", "0", "1", "x")),
    *({"managedFields": entries} for entries in ENTRIES),
    {"uid": "made-up"},
    {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    {"selfLink": "/x"},
)


def metadata_changes(rng: random.Random, pairs: int) -> list[Obj]:
    """Return each change alone, and some pairs of changes of different fields."""
    both = [{**a, **b} for a, b in itertools.combinations(METADATA_CHANGES, 2) if not a.keys() & b.keys()]
    return [*METADATA_CHANGES, *rng.sample(both, pairs)]


class Sample:
    """A valid object of a kind, with names that no other run uses."""

    def __init__(self, line: str, run: str) -> None:
        recorded = json.loads(line.replace("e.io", f"{run}.io").replace('"default"', f'"{run}"'))
        self.collection: str = recorded["path"].replace("/default/", f"/{run}/")
        self.obj: Obj = recorded["object"]
        if self.obj["metadata"]["name"] == "x":
            self.obj["metadata"] = {"name": f"{run}-x"}
        self.name: str = self.obj["metadata"]["name"]
        self.targets = [part for part in recorded["causes"] if part not in ("create", "update")]

    @property
    def path(self) -> str:
        """Return the path of the object."""
        return f"{self.collection}/{self.name}"

    def create_requests(self, change: Obj) -> Iterator[Request]:
        """Yield the requests that create the object with changed metadata."""
        new = with_metadata(self.obj, change)
        yield "POST", self.collection, "application/json", new
        yield "PUT", self.path, "application/json", new
        yield "PATCH", f"{self.path}?fieldManager=m", MEDIA["apply"], new

    def update_requests(self, change: Obj, stored: Obj) -> Iterator[Request]:
        """Yield the requests that change the metadata of the stored object and through its subresources."""
        applied = with_metadata({**stored, "metadata": {"name": self.name}}, change)
        applied = {name: applied[name] for name in ("apiVersion", "kind", "metadata")}
        operations = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in change.items()]
        for path in (self.path, *(f"{self.path}/{target}" for target in self.targets)):
            yield "PUT", path, "application/json", with_metadata(stored, change)
            yield "PATCH", f"{path}?fieldManager=m&force=true", MEDIA["apply"], applied
            yield "PATCH", path, MEDIA["merge"], {"metadata": change}
            yield "PATCH", path, MEDIA["strategic"], {"metadata": change}
            yield "PATCH", path, MEDIA["json"], operations


def with_metadata(obj: Obj, change: Obj) -> Obj:
    """Return the object with changed metadata; a name of None removes it."""
    fields = {**obj["metadata"], **change}
    return {**obj, "metadata": {name: value for name, value in fields.items() if name != "name" or value is not None}}


def comparable(answer: Answer) -> Any:
    """Return the parts of an answer that two servers must agree on."""
    body_text = re.sub(r"\b([Gg]en[-_]|Bad_|a%b-)[a-z0-9]{5}\b", r"\1NAME", mask(answer.body.decode(errors="replace")))
    body_text = re.sub(r'"(resourceVersion|uid|time)": ?"[^"]{2,}"', r'"\1": ""', body_text)
    body = json.loads(body_text) if body_text.startswith("{") else body_text
    if isinstance(body, dict) and isinstance(body.get("spec"), dict):
        body["spec"] = {name: value for name, value in body["spec"].items() if name not in ("clusterIP", "clusterIPs")}
    return {"status": answer.status, "warnings": sorted(answer.all("warning")), "body": body}


class Comparison:
    """Compares the answers of two servers, and counts how many agree."""

    def __init__(self, servers: tuple[Server, Server]) -> None:
        self.servers = servers
        self.tally = Tally()

    def is_served(self, sample: Sample) -> bool:
        """Report whether the left server serves the object's kind. If the right one does not agree, that differs."""
        left, right = (server.call("GET", sample.collection)[0] for server in self.servers)
        if left != right:
            self.tally.differ += 1
            print(f"--- GET {sample.collection}: {left} and {right}")
        return left == right == 200

    def compare(self, sample: Sample, changes: list[Obj]) -> None:
        """Compare the creation and the update of one object with each change."""
        for change in changes:
            self.compare_answers(change, [sample.create_requests(change) for _ in self.servers])
        created = [server.call("POST", sample.collection, sample.obj) for server in self.servers]
        try:
            if [status for status, _ in created] != [201, 201]:
                self.tally.differ += 1
                print(f"--- POST {sample.collection}: a valid object is not created: {created}")
                return
            for change in changes:
                stored = (server.must("GET", sample.path) for server in self.servers)
                self.compare_answers(change, [sample.update_requests(change, obj) for obj in stored])
        finally:
            for server in self.servers:
                server.call("PATCH", sample.path, {"metadata": {"finalizers": None}}, MEDIA["merge"])
                server.call("DELETE", sample.path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def compare_answers(self, change: Obj, requests: Sequence[Iterable[Request]]) -> None:
        """Send to each server its requests, and print those whose answers differ.

        The requests are the same except for values that a server has generated in the object.
        """
        for both in zip(*map(list, requests), strict=True):
            answers = [send(server, *request) for server, request in zip(self.servers, both, strict=True)]
            if self.tally.lacks_answer(answers[0]):
                print(f"--- {' '.join(both[0][:3])}: the left server did not answer: {answers[0].body.decode()}")
                continue
            self.tally.compare(f"{' '.join(both[0][:3])} {json.dumps(change)[:200]}", *map(comparable, answers))


def send(server: Server, method: str, path: str, media: str, body: Any) -> Answer:
    """Send a request as a dry run."""
    path += ("&" if "?" in path else "?") + "dryRun=All"
    headers = {"Content-Type": media, "Accept": "application/json"}
    return server.exchange(method, path, headers, json.dumps(body).encode())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    parser.add_argument("--kind", default="", help="only this kind")
    parser.add_argument("--pairs", type=int, default=10, help="of wrong pieces, per kind")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    run, rng = f"m{os.getpid():x}", random.Random(options.seed)
    samples = [Sample(line, run) for line in SAMPLES.read_text().splitlines()]
    comparison = Comparison(servers)
    require_servers(*servers)
    for server in servers:
        server.must("POST", "/api/v1/namespaces", {"metadata": {"name": run}})
    try:
        for sample in samples:
            if options.kind in ("", sample.obj["kind"]) and comparison.is_served(sample):
                comparison.compare(sample, metadata_changes(rng, options.pairs))
    finally:
        for server, name in itertools.product(servers, (run, f"{run}-x")):
            end_namespace(server, name)
    print(f"{comparison.tally.total} requests: {comparison.tally}")
    return comparison.tally.exit_status
