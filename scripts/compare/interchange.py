"""Let a kube-apiserver and understudy serve one etcd, and compare what each reads of the other's writes.

    python -m scripts.compare interchange v1.37.2
    python -m scripts.compare interchange v1.32.5 --testdata FOLDER --only /pods

The kube-apiserver is built as `python -m scripts.record` does, and both share the key of service accounts. Of every
kind, in every version that is served, one server creates an object, the other changes and deletes it; after each step
both must answer a GET with the same bytes, in JSON and in protobuf. The same is done the other way round, and what both
have stored in etcd must be equal, byte by byte, under the same key, but for uids and times. Objects whose managed
fields come from applies to both, custom resources, and tokens of service accounts follow, and what a folder of
upstream's testdata holds (`k8s.io/api/testdata/RELEASE/*.pb`), put into etcd as it is. The exit status is 1 if anything
differs.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from scripts.common.commands import UsageError
from scripts.common.comparing import Answer, Obj, Server, Tally, differences, print_difference
from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.common.etcd import installed_etcd, running_etcd, urls_of
from scripts.common.server_process import ServerProcess
from scripts.record.upstream.modules import Modules, build_etcd
from scripts.record.upstream.server import TOKEN, api_server, new_key
from scripts.torture.inputs.requests import Resource, read_corpus
from understudy.apiserver.storage.engines.etcd import messages as pb
from understudy.apiserver.storage.engines.etcd.client import EtcdClient
from understudy.machinery.serializer.protobuf_wire import encode_varint

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
REGISTRY, BEHIND = b"/registry/", b"/registry0"
TRIES = 5  # to find both servers at the same revision
PATIENCE = 30.0  # seconds in which a server learns of a definition
UID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z"')
CLUSTER_IP = "10.0.0.77"
GROUP = "interchange.example.com"
SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "color": {"type": "string", "default": "red"},
                "size": {"type": "integer"},
                "weight": {"type": "number"},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    },
                },
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}
WIDGET: Obj = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Widget",
    "metadata": {"name": "a"},
    "spec": {"size": 1, "weight": 1.0, "ports": [{"name": "http", "port": 80}], "any": {"z": [1, 2.5, None], "a": "ü"}},
}


class Etcd:
    """Reads and writes what the servers store."""

    def __init__(self, url: str) -> None:
        self._url = url

    def values(self) -> dict[str, bytes]:
        """Return everything that is stored."""
        found = self._call(pb.RANGE, pb.RangeRequest(REGISTRY, BEHIND), pb.RangeResponse)
        return {kv.key.decode(): kv.value for kv in found.kvs}

    def put(self, key: str, value: bytes | None) -> None:
        """Put a value under a key, or delete the key."""
        place = key.encode()
        operation = (
            pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(place))
            if value is None
            else pb.RequestOp(request_put=pb.PutRequest(place, value))
        )
        self._call(pb.TXN, pb.TxnRequest((), (operation,)), pb.TxnResponse)

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        async def call() -> Any:
            client = EtcdClient([self._url])
            try:
                return await client.read(method, request, answer, PATIENCE)
            finally:
                await client.close()

        return asyncio.run(call())


class Exchange:
    """Lets two servers write and read in turns.

    reads, values  the pairs of answers, and of stored values, that were compared
    kinds          those whose stored values were compared
    """

    def __init__(self, left: Server, right: Server, etcd: Etcd) -> None:
        self.left, self.right, self.etcd = left, right, etcd
        self.reads, self.values, self.tokens = Tally(), Tally(), Tally()
        self.kinds: set[str] = set()
        self.refused: Counter[str] = Counter()

    def read(self, what: str, path: str) -> Obj:
        """Compare what both answer to a GET of an object, or of a list, in JSON and in protobuf; return it.

        Controllers of the servers may write between two GETs: then both are asked again.
        """
        for _ in range(TRIES):
            pairs = [
                [self.asked(server, path, accept) for server in (self.left, self.right)] for accept in (JSON, PROTOBUF)
            ]
            if all(left == right for left, right in pairs):
                break
            time.sleep(0.3)
        for left, right in pairs:
            same = left == right
            self.reads.count([] if same else ["bytes"])
            if not same:
                lines = [*differences(readable(left.body), readable(right.body), "")] or [
                    "the same, but in other bytes"
                ]
                print_difference(f"{what}: GET {path}", [f"{left.status} and {right.status}", *lines])
        found: Obj = json.loads(pairs[0][0].body)
        return found

    def asked(self, server: Server, path: str, accept: str) -> Answer:
        """Return the answer to a GET, without its headers."""
        return server.exchange("GET", path, {"Accept": accept})._replace(headers=[])

    def stored(self, before: dict[str, bytes], obj: Obj) -> dict[str, bytes]:
        """Return the values of an object that are stored now and were not before, without uids and times."""
        uid = obj["metadata"]["uid"].encode()
        new = {key: value for key, value in self.etcd.values().items() if before.get(key) != value and uid in value}
        return {key: masked(value, obj) for key, value in new.items()}

    def both_ways(self, resource: Resource, sample: Obj) -> None:
        """Let each server create an object, which the other changes and deletes; compare what is stored."""
        if resource.path.endswith("/services"):
            sample["spec"].setdefault("clusterIP", CLUSTER_IP)  # else each server chooses one at random
        for _ in range(TRIES):
            (answers, left), (others, right) = (
                self.one_way(resource, sample, *turn) for turn in ((self.left, self.right), (self.right, self.left))
            )
            if left == right:
                break  # else managed fields of a server's own may be of the next second, and have another place
        if answers != others:
            self.reads.count(["answers"])
            print_difference(f"POST {resource.path}", [f"{answers} and {others}"])
        elif not left:
            self.refused[answers[0]] += 1
        if left and right:
            self.compare_stored(resource.path, left, right)

    def one_way(
        self, resource: Resource, sample: Obj, writer: Server, reader: Server
    ) -> tuple[list[str], list[dict[str, bytes]]]:
        """Let a server create an object, and the other one change and delete it; return how they answer, and what is
        stored after each step."""
        before = self.etcd.values()
        status, obj = writer.call("POST", f"{resource.path}?fieldManager=one", sample)
        if status != 201 or "uid" not in obj.get("metadata", ()):  # reviews are not stored
            return [f"{status} {obj.get('message', '')}"], []
        path = f"{resource.path}/{obj['metadata']['name']}"
        created = self.stored(before, self.read(f"{writer.url} created", path))
        more = {"metadata": {"labels": {"interchange": "true"}, "annotations": {"b/a": "<ü>"}}}
        status, obj = reader.call("PATCH", f"{path}?fieldManager=two", more, MERGE)
        changed = self.stored(before, self.read(f"{reader.url} changed", path))
        end(reader, path)
        self.read(f"{reader.url} deleted", path)
        return [f"{status} {obj.get('message', '')}"], [created, changed]

    def compare_stored(self, path: str, left: list[dict[str, bytes]], right: list[dict[str, bytes]]) -> None:
        """Compare what is stored of an object after it was created, and after it was changed."""
        self.kinds.add(path)
        for step, one, other in zip(("created", "changed"), left, right, strict=True):
            same = one == other and bool(one)
            self.values.count([] if same else ["bytes"])
            if not same:
                lines = [where_different(key, one, other) for key in sorted({*one, *other})]
                print_difference(f"stored for {path}, {step}", lines or ["nothing is stored"])


def readable(body: bytes) -> Any:
    """Return the JSON of a body, or a text for one in protobuf."""
    return json.loads(body) if body.startswith(b"{") else repr(body)


def where_different(key: str, one: dict[str, bytes], other: dict[str, bytes]) -> str:
    """Return a line with both values from shortly before their first difference."""
    left, right = one.get(key, b""), other.get(key, b"")
    same = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
    begin = max(same - 40, 0)
    return f"{key}: {left[begin : begin + 200]!r} and {right[begin : begin + 200]!r}"


def masked(value: bytes, obj: Obj) -> bytes:
    """Return a stored value without uids and times, which are those of the object."""
    for text in set(TIME.findall(json.dumps(obj))):
        seconds = int(datetime.fromisoformat(f"{text}+00:00").timestamp())
        value = value.replace(text.encode(), b"TIME").replace(encode_varint(seconds), b"TIME")
    return UID.sub(b"UID", value)


def end(server: Server, path: str) -> None:
    """Delete an object, whatever waits for finalizers, since no controllers run."""
    server.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    if server.call("GET", path)[0] == 200:
        name = path.rpartition("/")[2]
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            server.call("PUT", f"{path}/finalize", {"metadata": {"name": name}, "spec": {"finalizers": []}})
        server.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


# --- the parts


def exchange_kinds(exchange: Exchange, only: str) -> None:
    """Exchange objects of every kind that the left server serves."""
    for resource in read_corpus(exchange.left).resources:
        if re.search(only, resource.path):
            for sample in resource.samples:
                exchange.both_ways(resource, json.loads(sample))
                if resource.path in exchange.kinds:
                    break


def exchange_custom_resources(exchange: Exchange) -> None:
    """Let each server define a kind, and exchange objects of it, with two versions."""
    for number, (writer, reader) in enumerate(((exchange.left, exchange.right), (exchange.right, exchange.left))):
        group = f"{'ab'[number]}.{GROUP}"
        versions = [served_version(SCHEMA, "v1"), served_version(SCHEMA, "v1beta1", storage=False)]
        versions[0]["subresources"] = {"status": {}}
        crd = definition(group, "Widget", *versions, scope="Namespaced")
        writer.must("POST", DEFINITIONS, crd)
        path = f"/apis/{group}/v1/namespaces/default/widgets"
        for server in (writer, reader):
            wait_until_served(server, path)
        exchange.both_ways(Resource(path, "", (), (), ()), {**WIDGET, "apiVersion": f"{group}/v1"})
        old = path.replace("/v1/", "/v1beta1/")
        exchange.both_ways(Resource(old, "", (), (), ()), {**WIDGET, "apiVersion": f"{group}/v1beta1"})
        apply_in_turns(
            exchange,
            path,
            {**WIDGET, "apiVersion": f"{group}/v1"},
            {"spec": {"color": "green", "ports": [{"name": "https", "port": 443}]}},
        )
        end(reader, f"{DEFINITIONS}/widgets.{group}")


def wait_until_served(server: Server, path: str) -> None:
    until = time.monotonic() + PATIENCE
    while server.call("GET", path)[0] != 200:
        if time.monotonic() > until:
            raise SystemExit(f"{server.url}: {path} is not served")
        time.sleep(0.2)


def apply_in_turns(exchange: Exchange, path: str, obj: Obj, more: Obj) -> None:
    """Apply, change and take over fields, at one server, at the other, and in turns: what is stored is the same."""
    servers = exchange.left, exchange.right
    stored = [apply_within_a_second(exchange, path, obj, more, turns) for turns in itertools.product(servers, servers)]
    for other in stored[1:]:
        exchange.compare_stored(f"{path}, applied", [stored[0]] * 2, [other] * 2)


def apply_within_a_second(
    exchange: Exchange, path: str, obj: Obj, more: Obj, turns: tuple[Server, Server]
) -> dict[str, bytes]:
    """Return the stored value after applies in the same second, by which managed fields are sorted."""
    named = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": "applied"}}
    finalized = {**obj, **named, "metadata": {"name": "applied", "finalizers": ["a.b/c"]}}
    at, labels = f"{path}/applied", {"metadata": {"labels": {"by": "three"}, "finalizers": ["a.b/c"]}}
    while True:
        writers, before = itertools.cycle(turns), exchange.etcd.values()
        time.sleep(1 - time.time() % 1)
        for query, body, media in (
            ("fieldManager=one", {**obj, **named}, APPLY),
            ("fieldManager=two&force=true", {**named, **more}, APPLY),
            ("fieldManager=three", labels, MERGE),
            (
                "fieldManager=two&force=true",
                {**named, **more, "metadata": {"name": "applied", "labels": {"by": "two"}}},
                APPLY,
            ),
            ("fieldManager=one&force=true", finalized, APPLY),
        ):
            status, answer = next(writers).call("PATCH", f"{at}?{query}", body, media)
            if status not in (200, 201):
                raise SystemExit(f"{at}?{query}: {answer.get('message')}")
        read = exchange.read("applied", at)
        stored = exchange.stored(before, read)
        end(turns[0], at)
        if len({each["time"] for each in read["metadata"]["managedFields"]}) == 1:
            return stored


def exchange_applied(exchange: Exchange) -> None:
    """Exchange objects whose managed fields come from applies to both servers."""
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }
    side = {
        "spec": {
            "replicas": 3,
            "template": {
                "spec": {
                    "containers": [{"name": "side", "image": "c"}, {"name": "a", "env": [{"name": "A", "value": "B"}]}]
                }
            },
        }
    }
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"a": "1", "b": "2"},
        "binaryData": {"c": base64.b64encode(b"\0").decode()},
    }
    apply_in_turns(exchange, "/apis/apps/v1/namespaces/default/deployments", deployment, side)
    apply_in_turns(exchange, "/api/v1/namespaces/default/configmaps", config_map, {"data": {"b": "3"}})


def exchange_tokens(exchange: Exchange) -> None:
    """Let each server make a token of a service account, which the other must know as well."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    exchange.left.must("POST", accounts, {"metadata": {"name": "account"}})
    for maker in (exchange.left, exchange.right):
        token = maker.must("POST", f"{accounts}/account/token", {"spec": {"expirationSeconds": 3600}})["status"][
            "token"
        ]
        told = []
        for url in (exchange.left.url, exchange.right.url):
            with Server(url, token) as server:
                status, answer = server.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
            told.append((status, answer.get("status")))
        exchange.tokens.compare(f"who has a token of {maker.url}", *told)
        told = []
        for server in (exchange.left, exchange.right):
            body = {"spec": {"token": token}}
            status, answer = server.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
            told.append((status, answer.get("status")))
        exchange.tokens.compare(f"review of a token of {maker.url}", *told)
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        exchange.tokens.compare("issuer", claims["iss"], "https://kubernetes.default.svc")


def exchange_testdata(exchange: Exchange, folder: Path) -> None:
    """Put upstream's testdata into etcd, and compare how both servers read it in every version that they serve."""
    paths: dict[tuple[str, str], list[str]] = {}
    for resource in read_corpus(exchange.left).resources:
        sample = json.loads(resource.samples[0])
        paths.setdefault((sample["apiVersion"].rpartition("/")[0], sample["kind"]), []).append(resource.path)
    for file in sorted(folder.rglob("*.pb")):
        obj = json.loads(file.with_suffix(".json").read_text())
        meta, known = obj["metadata"], paths.get((obj["apiVersion"].rpartition("/")[0], obj["kind"]), [])
        for path in known:
            resource_name = path.rpartition("/")[2]
            where = f"{meta['namespace']}/" if "/namespaces/" in path else ""
            exchange.etcd.put(f"/registry/{resource_name}/{where}{meta['name']}", file.read_bytes())
            at = path.replace("/namespaces/default/", f"/namespaces/{meta['namespace']}/")
            read = exchange.read(f"{file.parent.name}/{file.name}", f"{at}/{meta['name']}")
            if read["kind"] != "Status":  # else kube-apiserver's cache begins anew, later and later
                exchange.read(f"{file.parent.name}/{file.name}", at)
            exchange.etcd.put(f"/registry/{resource_name}/{where}{meta['name']}", None)


def lists(exchange: Exchange) -> None:
    """Compare the lists of every kind: what both servers have made for themselves, too."""
    for resource in read_corpus(exchange.left).resources:
        if not resource.path.endswith("/componentstatuses"):  # which are not stored, and in no order
            exchange.read("list", resource.path)


def flags_of(folder: Path) -> Iterator[str]:
    """Yield the flags that both servers take."""
    yield f"--service-account-key-file={folder}/accounts.pem"
    yield f"--service-account-signing-key-file={folder}/accounts.pem"


def exchange_all(args: argparse.Namespace, exchange: Exchange) -> None:
    """Exchange everything."""
    exchange_kinds(exchange, args.only)
    if not args.only:
        exchange_custom_resources(exchange)
        exchange_applied(exchange)
        exchange_tokens(exchange)
        lists(exchange)
    if args.testdata:
        exchange_testdata(exchange, args.testdata)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", help="of k8s.io/kubernetes: v1.37.2")
    parser.add_argument("--only", default="", metavar="REGEX", help="the paths of collections")
    parser.add_argument("--testdata", type=Path, metavar="FOLDER", help="objects of upstream's testdata")
    parser.add_argument("--storage-media-type", default=PROTOBUF, metavar="TYPE", help="of built-in kinds")
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false", help="of both servers")


def run(args: argparse.Namespace) -> int:
    if args.testdata and not args.testdata.is_dir():
        raise UsageError(f"there is no folder {args.testdata}")
    modules, program = Modules(args.version), installed_etcd() or build_etcd()
    kube_apiserver = modules.build(("kube-apiserver",)) / "kube-apiserver"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = urls_of(stack.enter_context(running_etcd(program, folder)))
        (folder / "accounts.pem").write_bytes(new_key())
        (folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
        shared = [*flags_of(folder), f"--etcd-servers={url}", f"--feature-gates={args.feature_gates}"]
        shared.append(f"--storage-media-type={args.storage_media_type}")
        real = stack.enter_context(api_server(kube_apiserver, None, *shared, "--runtime-config=api/all=true"))
        own = (f"--emulated-version={modules.release}", f"--token-auth-file={folder}/tokens")
        ours = stack.enter_context(ServerProcess(*shared, *own, "--runtime-config=api/all=true"))
        exchange = Exchange(Server(real.url, TOKEN), Server(ours.url, TOKEN), Etcd(url))
        exchange_all(args, exchange)
    print(f"{len(exchange.kinds)} kinds; reads: {exchange.reads}; stored: {exchange.values}; tokens: {exchange.tokens}")
    print(f"not created by either: {dict(exchange.refused)}")
    tallies = (exchange.reads, exchange.values, *([] if args.only else [exchange.tokens]))
    return max(tally.exit_status for tally in tallies)
