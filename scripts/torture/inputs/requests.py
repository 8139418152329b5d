"""Random requests for an API server: valid objects of every kind that it serves, broken in one place or in a few.

Bodies are JSON, YAML and protobuf; patches are of every type; paths, query parameters and headers are broken as well. A
request is known by its seed and its number: `RequestGenerator(corpus, seed).request(number)` returns the same one
every time for servers of one release.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml

from scripts.common.comparing import MEDIA, Obj, Server

RECORDED = Path(__file__).parents[3] / "tests/kinds/recorded"
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
AGGREGATED = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"
NAMES = 8  # objects of a kind; few names make requests meet the same objects


# --- what the server serves


@dataclass(frozen=True)
class Resource:
    """A resource that is served: the path of its collection, its subresources, and one valid object or more."""

    path: str
    definition: str  # in the OpenAPI document; empty if it is unknown
    subresources: tuple[str, ...]
    samples: tuple[bytes, ...]  # as JSON
    encoded: tuple[bytes, ...]  # the same in protobuf, if the kind has that form


@dataclass(frozen=True)
class Corpus:
    """Material for requests: resources, the schemas of their fields, and the paths of pages."""

    resources: tuple[Resource, ...]
    definitions: dict[str, Obj]
    pages: tuple[str, ...]


def read_corpus(server: Server) -> Corpus:
    """Return the corpus of a server's release. The valid objects are those of the tests."""
    definitions = orjson.loads(server.exchange("GET", "/openapi/v2").body)["definitions"]
    kinds = {
        (known["group"], known["version"], known["kind"]): name
        for name, schema in definitions.items()
        for known in schema.get("x-kubernetes-group-version-kind", ())
    }
    samples = _samples()
    resources = []
    for root in ("/api", "/apis"):
        groups = orjson.loads(server.exchange("GET", root, {"Accept": AGGREGATED}).body)["items"]
        for group in groups:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                prefix = f"{root}/{name}/{version['version']}".replace("//", "/")
                for resource in version["resources"]:
                    kind = resource["responseKind"]["kind"]
                    where = "namespaces/default/" if resource["scope"] == "Namespaced" else ""
                    path = f"{prefix}/{where}{resource['resource']}"
                    definition = kinds.get((name, version["version"], kind), "")
                    objects = samples.get(path) or _bare(definition, name, version["version"], kind)
                    subresources = tuple(sub["subresource"] for sub in resource.get("subresources", ()))
                    encoded = _encoded(server, path, objects)
                    resources.append(Resource(path, definition, subresources, objects, encoded))
    pages = orjson.loads(server.exchange("GET", "/", {"Accept": JSON}).body)["paths"]
    return Corpus(tuple(resources), definitions, (*pages, "/", "/understudy/nothing", "/favicon.ico", "/index.html"))


def _samples() -> dict[str, tuple[bytes, ...]]:
    """Return valid objects as JSON, by the path of their collection.

    Without webhooks for Pods: nobody answers those, so that every later write of a Pod would fail.
    """
    samples: dict[str, tuple[bytes, ...]] = {}
    for file in (RECORDED / "metadata.jsonl", *sorted(RECORDED.glob("created*.jsonl"))):
        for line in file.read_bytes().splitlines():
            recorded = orjson.loads(line)
            webhooks = recorded["object"].get("webhooks") or ()
            rules = [rule for webhook in webhooks for rule in webhook.get("rules") or ()]
            if recorded.get("status", 201) == 201 and not any("pods" in rule["resources"] for rule in rules):
                body = orjson.dumps(recorded["object"])
                samples[recorded["path"]] = (*samples.get(recorded["path"], ()), body)
    return samples


def _bare(definition: str, group: str, version: str, kind: str) -> tuple[bytes, ...]:
    """Return an object of a kind without a sample; random fields of its schema make something of it."""
    api_version = f"{group}/{version}" if group else version
    obj: Obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    return (orjson.dumps(obj | ({"spec": {}} if definition else {})),)


def _encoded(server: Server, path: str, samples: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the first sample in protobuf, as the server answers to its creation; nothing if it refuses that."""
    headers = {"Content-Type": JSON, "Accept": PROTOBUF}
    answer = server.exchange("POST", f"{path}?dryRun=All", headers, samples[0])
    return (answer.body,) if answer.status == 201 and answer.body.startswith(b"k8s\0") else ()


# --- odd values

SELECTORS = ("a=1", "a in (1,2)", "a notin (", "!a", "a==", "a=1,", "metadata.name=o1", "spec.nodeName!=x", "=", "a\0b")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**64, -(2**63) - 1, 1.5, 1e308, -0.0,
    "", " ", "a", "A_b", "x" * 300, "é", "\0", "\ud800", "\udc00x", "😀", "a\nb", "a\tb", "\x7f", "\ufeff", "<&>", "%s",
    [], {}, [None], [[]], {"": None}, {"a": {"b": []}}, [{}], [1, "a"], {"a": None},
    "1e999999999", "0x1F", "-0", "100Gi", "1.5Ki", "-5m", "1n", "10%", "1e3", ".5", "5.", "9" * 30, "Infinity", "NaN",
    "2020-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "0000-00-00T00:00:00Z", "2020-01-01T00:00:00+99:99",
    "1h", "-1h", "* * * * *", "@every 1h", "TZ=UTC * * * * *", "60 * * * *", "*/0 * * * *",
    "10.0.0.1", "::1", "::ffff:1.2.3.4", "1.2.3.4/33", "fe80::1%eth0", "010.0.0.1", "a.b/c", "a/b/c", "../..", "/",
    "$(VAR)", "{{x}}", "http://[::1", "https://u:p@h:99999/", "system:masters", "*", "AA==", "not base64!",
    "-----BEGIN", "device.driver == 'a'", "object.metadata.name == 'a'", "self.x.all(y, y > 0)", "noSuch(", "(", "[a-",
    "(a+)+$", "[1,2].map(x, x).size() > 0", "'\\ud800'", "b'\\xff'", "1/0 == 0", "duration('1h') > duration('x')",
)  # fmt: skip
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\0", b"\xff", b"\xef\xbb\xbf", b"null", b"1e999", b"-", b"'",
    b"\\ud800", b"&a ", b"*a ", b"<<: ", b"!!binary ", b"!!str ", b"? ", b"- ", b"---\n", b"...\n", b"#", b"\t", b"\n",
    b"\r\n", b"|-\n", b"%YAML 1.2\n", b"0x1", b"0o7", b"1_000", b"yes", b"~", b".inf", b"!t ", b"@", b"`",
    b'"a":1,"a":2,',
)  # fmt: skip
# Values that `json` cannot write, or only slowly: texts in their place are replaced in the encoded body.
LARGE: dict[str, Callable[[random.Random], bytes]] = {
    "@lists@": lambda rng: b"[" * (depth := rng.choice((20, 300, 1500, 12_000))) + b"]" * depth,
    "@objects@": lambda rng: b'{"a":' * (depth := rng.choice((20, 300, 1500, 12_000))) + b"1" + b"}" * depth,
    "@digits@": lambda rng: b"1" * rng.choice((20, 400, 5000)),
    "@text@": lambda rng: b'"' + rng.choice((b"a", b"1", b"(", b".", b"\xff", b"\xc3\xa9")) * 6000 + b'"',
    "@numbers@": lambda rng: b"[" + b"1," * rng.choice((100, 5000)) + b"1]",
    "@schedule@": lambda rng: b'"' + b"1" * 5000 + b' * * * *"',
}
ACCEPT = (
    JSON, YAML, PROTOBUF, "*/*", "", "text/plain", "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=Odd;v=v9;g=x", AGGREGATED,
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;q=x", ";;,,",
    "application/vnd.kubernetes.protobuf;type=watch", "application/json;stream=watch", "application/cbor", "a" * 3000,
)  # fmt: skip
HEADERS = (
    ("Accept-Encoding", ("gzip", "deflate", "gzip;q=0", "br, gzip")),
    ("Content-Encoding", ("gzip", "br", "identity", "x")),
    ("If-None-Match", ('"x"', "*", "W/")),
    ("If-Modified-Since", ("Mon, 01 Jan 2024 00:00:00 GMT", "x")),
    ("Range", ("bytes=0-1", "bytes=-1", "x")),
    ("User-Agent", ("", "kubectl/v1.32.0 (linux/amd64)", "a/b", "\xff", "x" * 5000)),
    ("Impersonate-User", ("", "jane", "system:serviceaccount:default:default", "system:anonymous", "\xff")),
    ("Impersonate-Group", ("system:masters", "", "a b")),
    ("Impersonate-Uid", ("1", "")),
    ("Impersonate-Extra-a%2fb", ("x", "")),
    ("Authorization", ("Bearer x", "Basic eDp5", "Bearer", "Bearer  x", "\xff", "bearer a.b.c")),
    ("X-Remote-User", ("admin",)),
    ("X-Http-Method-Override", ("DELETE",)),
    ("X-Forwarded-For", ("1.2.3.4", "x")),
    ("Origin", ("http://127.0.0.1", "null")),
    ("Cookie", ("a=b", ";")),
    ("Warning", ("299 - x",)),
    ("Audit-ID", ("x", "\xff")),
    ("Kubectl-Command", ("kubectl apply",)),
    ("Traceparent", ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x")),
)  # fmt: skip
MEDIA_TYPES = (
    *MEDIA.values(), JSON, YAML, PROTOBUF, "", "text/plain", "application/cbor", "application/json; charset=x", ";",
    "application/apply-patch+cbor", "application/json;as=Table", "x/y/z", "multipart/form-data",
)  # fmt: skip
CONTINUE = tuple(
    base64.urlsafe_b64encode(token).decode()
    for token in (
        b'{"v":"meta.k8s.io/v1","rv":1,"start":"\\u0000"}',
        b'{"v":"meta.k8s.io/v1","rv":9999,"start":"\xff"}',
    )
)
OPTIONS = (
    ("dryRun", ("All", "", "Some", "All,All")),
    ("fieldManager", ("m", "x" * 129, "", "%ff", "%00", "%F0%9F%98%80", "a%0Ab")),
    ("fieldValidation", ("Ignore", "Warn", "Strict", "", "x")),
    ("force", ("true", "false", "x", "")),
    ("limit", ("1", "0", "-1", "x", "9223372036854775808", "")),
    ("continue", ("x", "%ff", "e30", *CONTINUE)),
    ("resourceVersion", ("0", "1", "100", "-1", "x", "99999999999999999999", "", "1" * 5000)),
    ("resourceVersionMatch", ("Exact", "NotOlderThan", "x")),
    ("labelSelector", tuple(SELECTORS)),
    ("fieldSelector", tuple(SELECTORS)),
    ("gracePeriodSeconds", ("0", "-1", "x", "1", "99999999999999999999")),
    ("propagationPolicy", ("Orphan", "Foreground", "Background", "x", "")),
    ("orphanDependents", ("true", "x")),
    ("preconditions", ("x",)),
    ("timeoutSeconds", ("1", "0", "-1", "x", "99999999999999999999")),
    ("timeout", ("1s", "0s", "-1s", "x", "34s", "99999999h")),
    ("pretty", ("true", "1", "")),
    ("sendInitialEvents", ("true", "false", "x")),
    ("allowWatchBookmarks", ("true", "x")),
    ("watch", ("true", "0", "x", "")),
    ("includeObject", ("None", "Metadata", "Object", "x")),
    ("as", ("Table",)),
    ("%ff", ("%ff", "%zz", "%")),
    ("a" * 300, ("b" * 3000,)),
)  # fmt: skip
SEGMENTS = (
    "", ".", "..", "%2F", "%00", "%ff", "%zz", "status", "scale", "x", "é", "%C3%A9", "a b", "%20", "*", "~", "x" * 300,
    "namespaces", "default", "watch", "proxy", "log", "exec", "finalize", "binding", "eviction", "token", "resize",
)  # fmt: skip
# Requests that break the rules of HTTP. Each is answered, with an error or as if it were right.
BROKEN = (
    b"GET /version HTTP/1.1\r\n\r\n",
    b"GET /version\r\n\r\n",
    b"GET /version HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET version HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nBad Header\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nA: \x01\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    b"GET /version HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 300 + b"\r\n",
    b"FOO /version HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
)


_UNPRINTABLE = re.compile(r"[^!-~]")


# --- a request


@dataclass
class Sent:
    """A request as it is sent. `raw` is one that breaks the rules of HTTP, as it is."""

    method: str = "GET"
    target: str = "/"
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes | None = None
    chunked: bool = False
    raw: bytes = b""

    @property
    def is_watch(self) -> bool:
        """Report whether the answer may be a stream that does not end."""
        return "watch" in self.target or "follow" in self.target

    def encoded(self, *more: tuple[str, str]) -> bytes:
        """Return the bytes of the request, with other headers in place of its own."""
        if self.raw:
            return self.raw
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: 127.0.0.1"]
        own = [(name, value) for name, value in self.headers if name not in dict(more)]
        lines += [f"{name}: {value}" for name, value in (*own, *more)]
        body = self.body or b""
        if self.body is not None and self.chunked:
            lines.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        elif self.body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + body

    def __str__(self) -> str:
        if self.raw:
            return repr(self.raw[:300])
        return f"{self.method} {self.target[:300]} {self.headers} {(self.body or b'')[:600]!r}"


class RequestGenerator:
    """Makes the requests of one seed."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self._corpus = corpus
        self._seed = seed

    def request(self, number: int) -> Sent:
        """Return the request of a number."""
        return _Draft(self._corpus, random.Random(f"{self._seed}/{number}")).request()


class _Draft:
    """One request in the making."""

    def __init__(self, corpus: Corpus, rng: random.Random) -> None:
        self.corpus, self.rng = corpus, rng
        self.resource = rng.choice(corpus.resources)
        self.sent = Sent()

    def request(self) -> Sent:
        """Return the whole request."""
        shapes: tuple[tuple[Callable[[], None], int], ...] = (
            (self._create, 30), (self._put, 12), (self._patch, 34), (self._protobuf, 5), (self._read, 10),
            (self._delete, 6), (self._page, 5), (self._break_http, 1),
        )  # fmt: skip
        self.rng.choices(*zip(*shapes, strict=True))[0]()
        if not self.sent.raw:
            self._options()
            self._headers()
            self.sent.chunked = self._chance(0.03)
        return self.sent

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # --- verbs

    def _create(self) -> None:
        self.sent.method, self.sent.target = "POST", self._collection()
        self._set_body(self._object(), JSON)

    def _put(self) -> None:
        obj = self._object()
        self.sent.method, self.sent.target = "PUT", self._item(obj)
        self._set_body(obj, JSON)

    def _read(self) -> None:
        self.sent.method = self.rng.choice(("GET", "GET", "GET", "HEAD", "OPTIONS", "TRACE", "FOO"))
        self.sent.target = self.rng.choice((self._collection, self._item))()
        if self._chance(0.1):
            self.sent.target += "?watch=1&timeoutSeconds=1"

    def _delete(self) -> None:
        self.sent.method, self.sent.target = "DELETE", self._item()
        if self._chance(0.1):
            self.sent.target = self._collection()
        if self._chance(0.4):
            options = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "x"},
            }
            self._set_body(self._mutated(options), JSON)

    def _page(self) -> None:
        self.sent.method = self.rng.choice(("GET", "GET", "GET", "HEAD", "POST", "DELETE"))
        self.sent.target = self._mutated_path(self.rng.choice(self.corpus.pages))
        if self.sent.target.startswith("/openapi/v2") and self._chance(0.9):
            self.sent.target = "/version"  # a document of a megabyte takes the time of a hundred requests

    def _patch(self) -> None:
        form = self.rng.choice(tuple(MEDIA))
        obj = self._object()
        self.sent.method, self.sent.target = "PATCH", self._item(obj)
        if form == "apply":
            self.sent.target += (
                f"?fieldManager=m{self.rng.randrange(3)}&force={self.rng.choice(('true', 'true', 'false'))}"
            )
        elif form == "json":
            obj = [self._operation(obj) for _ in range(self.rng.choice((1, 1, 2, 5)))]
        else:
            parts = (
                self.rng.sample(sorted(obj), min(len(obj), self.rng.choice((1, 1, 2)))) if isinstance(obj, dict) else []
            )
            obj = {name: obj[name] for name in parts} or obj
            if form == "strategic" and self._chance(0.3):
                self._add_directive(obj)
        self._set_body(obj, MEDIA[form])

    def _operation(self, obj: Any) -> Any:
        """Return an operation of a JSON patch that points into the object."""
        verb = self.rng.choice(("add", "add", "replace", "remove", "test", "copy", "move", "odd", None))
        operation: Obj = {"op": verb, "path": self._pointer(obj), "value": self._odd(), "from": self._pointer(obj)}
        if self._chance(0.1):
            operation.pop(self.rng.choice(tuple(operation)))
        return operation if self._chance(0.97) else self._odd()

    def _pointer(self, obj: Any) -> str:
        pointer = ""
        while isinstance(obj, dict | list) and obj and self._chance(0.8):
            key = self.rng.choice(tuple(obj)) if isinstance(obj, dict) else self.rng.randrange(len(obj))
            obj, pointer = obj[key], f"{pointer}/{key}".replace("~", "~0")
        return pointer + self.rng.choice(
            ("", "", "", "/-", "/x", "/0", "/-1", "/99999999999", "/~1", "/~2", "/01", "/")
        )

    def _add_directive(self, patch: Any) -> None:
        """Put a directive of strategic merge patches at a random place."""
        parent, _ = self._place(patch)
        if isinstance(parent, dict):
            name = self.rng.choice(tuple(parent) or ("x",))
            directive, value = self.rng.choice((
                ("$patch", self.rng.choice(("replace", "delete", "merge", "odd", 1))),
                ("$retainKeys", self.rng.choice(([name], [], "x", [1]))),
                (f"$setElementOrder/{name}", self.rng.choice(([{"name": "c"}], [], ["a"], "x", [{}], None))),
                (f"$deleteFromPrimitiveList/{name}", self.rng.choice((["a"], [], "x", [{}], None))),
            ))  # fmt: skip
            parent[directive] = value
        elif isinstance(parent, list):
            parent.insert(0, {"$patch": self.rng.choice(("replace", "delete", "merge", "odd"))})

    def _protobuf(self) -> None:
        """Send a valid object in protobuf with some bytes changed."""
        if not self.resource.encoded:
            self._create()
            return
        self.sent.method = self.rng.choice(("POST", "POST", "PUT"))
        self.sent.target = self._collection() if self.sent.method == "POST" else self._item()
        body = self.resource.encoded[0]
        for _ in range(self.rng.choice((0, 1, 1, 2, 8))):
            body = self._mutated_bytes(body)
        self.sent.body = body
        self.sent.headers.append(("Content-Type", PROTOBUF))

    def _break_http(self) -> None:
        self.sent.raw = self.rng.choice(BROKEN)

    # --- paths, queries and headers

    def _collection(self) -> str:
        return self._mutated_path(self.resource.path)

    def _item(self, obj: Any = None) -> str:
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not name.isascii() or not name.isprintable() or " " in name:
            name = f"o{self.rng.randrange(NAMES)}"
        path = f"{self.resource.path}/{name.replace('%', '%25').replace('?', '%3F').replace('#', '%23')}"
        if self.resource.subresources and self._chance(0.25):
            path += "/" + self.rng.choice(self.resource.subresources)
        return self._mutated_path(path)

    def _mutated_path(self, path: str) -> str:
        if not self._chance(0.04):
            return path
        segments = path.split("/")
        at = self.rng.randrange(1, len(segments)) if len(segments) > 1 else 0
        verb = self.rng.choice(("insert", "replace", "remove", "append"))
        segment = self.rng.choice(SEGMENTS).replace(" ", "%20")
        if verb == "insert":
            segments.insert(at, segment)
        elif verb == "replace":
            segments[at] = segment
        elif verb == "remove":
            del segments[at]
        else:
            segments.append(segment)
        return "/" + "/".join(segments).lstrip("/")

    def _options(self) -> None:
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2))):
            name, values = self.rng.choice(OPTIONS)
            value = self.rng.choice(values).replace(" ", "%20").replace("\0", "%00")
            self.sent.target += f"{'&' if '?' in self.sent.target else '?'}{name}={value}"
        self.sent.target = _UNPRINTABLE.sub(lambda match: f"%{ord(match.group()) & 255:02x}", self.sent.target)

    def _headers(self) -> None:
        if self._chance(0.2):
            self.sent.headers.append(("Accept", self.rng.choice(ACCEPT)))
        if self._chance(0.08):
            name, values = self.rng.choice(HEADERS)
            self.sent.headers.append((name, self.rng.choice(values)))

    # --- bodies

    def _set_body(self, obj: Any, media: str) -> None:
        """Write the object in a form that its media type allows, now and then broken."""
        is_yaml = media == MEDIA["apply"] or (media == JSON and self._chance(0.1))
        media = YAML if is_yaml and media == JSON else media
        if is_yaml and self._chance(0.1):
            try:
                text = yaml.dump(obj, Dumper=yaml.CSafeDumper, allow_unicode=True).encode()
            except UnicodeEncodeError:  # half a surrogate, which only JSON can write
                text = json.dumps(obj).encode()
        else:
            text = json.dumps(obj).encode()
        for word, make in LARGE.items():
            if word.encode() in text:
                text = text.replace(b'"%b"' % word.encode(), make(self.rng))
        if self._chance(0.08):
            text = self._mutated_bytes(text)
        if self._chance(0.02):
            media = self.rng.choice(MEDIA_TYPES)
        self.sent.body = text
        if media:
            self.sent.headers.append(("Content-Type", media))

    def _mutated_bytes(self, text: bytes) -> bytes:
        """Return the bytes with one change."""
        at = self.rng.randrange(len(text) + 1)
        end = min(len(text), at + self.rng.choice((1, 1, 2, 5, 50)))
        verb = self.rng.choice(("flip", "cut", "token", "remove", "double", "random"))
        if verb == "flip" and at < len(text):
            return text[:at] + bytes([text[at] ^ (1 << self.rng.randrange(8))]) + text[at + 1 :]
        if verb == "cut":
            return text[:at]
        if verb == "token":
            return text[:at] + self.rng.choice(TOKENS) + text[at:]
        if verb == "remove":
            return text[:at] + text[end:]
        if verb == "double":
            return text[:end] + text[at:]
        return text[:at] + self.rng.randbytes(self.rng.choice((1, 2, 8))) + text[at:]

    def _object(self) -> Any:
        """Return a valid object under one of few names, or with some changes."""
        obj = orjson.loads(self.rng.choice(self.resource.samples))
        if self._chance(0.75):
            obj.setdefault("metadata", {})["name"] = f"o{self.rng.randrange(NAMES)}"
        return self._mutated(obj) if self._chance(0.7) else obj

    def _mutated(self, obj: Any) -> Any:
        """Return the object with one or more changes at random places; it is edited."""
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, 4))):
            parent, key = self._place(obj)
            if parent is None:
                return self._odd()
            verb = self.rng.choice(("odd", "odd", "remove", "add", "field", "field", "move", "double"))
            if verb == "odd":
                parent[key] = self._odd()
            elif verb == "remove":
                del parent[key]
            elif verb == "field" and isinstance(obj, dict):
                self._add_field(obj)
            elif verb == "move":
                other, place = self._place(obj)
                if other is not None:
                    other[place] = json.loads(json.dumps(parent[key]))
            elif isinstance(parent, list):
                parent.append(parent[key] if verb == "double" else self._odd())
            else:
                parent[self.rng.choice(("nonsense", "", "a.b/c", "é", "name", "$patch", "\ud800"))] = self._odd()
        return obj

    def _place(self, obj: Any) -> tuple[Any, Any]:
        """Return a random container in the object, and a key of it; (None, None) if the object has none."""
        place: tuple[Any, Any] = (None, None)
        while isinstance(obj, dict | list) and obj:
            key = self.rng.choice(tuple(obj)) if isinstance(obj, dict) else self.rng.randrange(len(obj))
            place = (obj, key)
            if self._chance(0.25):
                break
            obj = obj[key]
        return place

    def _odd(self) -> Any:
        value = self.rng.choice(tuple(LARGE)) if self._chance(0.02) else self.rng.choice(VALUES)
        return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value

    def _add_field(self, obj: Obj) -> None:
        """Set a random field of the kind's schema, in the object or deep inside, to a value of its type or not."""
        schema = self.corpus.definitions.get(self.resource.definition, {})
        while True:
            schema = self._resolved(schema)
            properties = schema.get("properties")
            if not properties:
                return
            name = self.rng.choice(tuple(properties))
            inner = self._resolved(properties[name])
            below = obj.get(name)
            if isinstance(below, list) and below and isinstance(below[0], dict) and self._chance(0.8):
                obj, schema = below[self.rng.randrange(len(below))], inner.get("items", {})
                if isinstance(obj, dict):
                    continue
                return
            if isinstance(below, dict) and inner.get("properties") and self._chance(0.8):
                obj, schema = below, inner
                continue
            obj[name] = self._value(inner, 3) if self._chance(0.8) else self._odd()
            return

    def _resolved(self, schema: Obj) -> Obj:
        if "$ref" in schema:
            return self.corpus.definitions.get(schema["$ref"].rpartition("/")[2], {})
        return schema

    def _value(self, schema: Obj, depth: int) -> Any:
        """Return a value of a schema's type."""
        schema = self._resolved(schema)
        kind = schema.get("type", "object")
        if self._chance(0.05) or depth < 0:
            return self._odd()
        if kind == "array":
            return [self._value(schema.get("items", {}), depth - 1) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        if kind == "object":
            properties = schema.get("properties", {})
            if not properties:
                return {"a": self._value(schema.get("additionalProperties", {"type": "string"}), depth - 1)}
            names = self.rng.sample(tuple(properties), min(len(properties), self.rng.choice((0, 1, 2, 3))))
            return {
                name: self._value(properties[name], depth - 1)
                for name in dict.fromkeys([*names, *schema.get("required", ())])
            }
        if kind == "integer":
            return self.rng.choice((0, 1, 2, 80, -1, 65536, 2**31))
        if kind == "boolean":
            return self._chance(0.5)
        if kind == "number":
            return self.rng.choice((0, 1.5, -1))
        return self.rng.choice(
            ("a", "o1", "1", "", "Always", "None", "a.example.com", "2020-01-01T00:00:00Z", "100m", "AA==")
        )
