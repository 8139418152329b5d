"""The requests of `compare cbor`: bodies in CBOR, well-formed and not, and answers in it.

NS stands for the namespace of the run, and GROUP for the group of its custom resources.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

NS, GROUP = "the-namespace", "the-group.example.com"
MAPS = f"/api/v1/namespaces/{NS}/configmaps"
SECRETS = f"/api/v1/namespaces/{NS}/secrets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NS}/deployments"
THINGS = f"/apis/{GROUP}/v1/namespaces/{NS}/things"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CBOR, JSON, APPLY = "application/cbor", "application/json", "application/apply-patch+cbor"
PARTIAL = f"{CBOR};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIALS = f"{CBOR};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = f"{CBOR};as=Table;g=meta.k8s.io;v=v1"


# Bodies in hexadecimal: cut off, with too much, with wrong heads and breaks, and with what no object may have.
MALFORMED = """
    a1 a0a0 ff 1c a1616100ff f97e00 f97c00 c24101 f818 5f6161ff 5f5f41ff bf6161ff 9f 7f bfff f6 80 6161 00 f5 d9d9f7
    d9d9f7d9d9f7a0 c074 5bffffffffffffffff41 9bffffffffffffffff41 1b0000000000 fa7f d9d9f6a0
"""


class Ask(NamedTuple):
    """A request. `body` is the bytes of it, or a value for `item`; `events` of a watch are waited for.

    brief  whether only the head of the answer is compared, whose body differs from build to build
    until  the status for which it is repeated, as the server needs time; 0 for any
    """

    method: str
    path: str
    body: Any = None
    media: str = CBOR
    accept: str = CBOR
    events: int = 0
    brief: bool = False
    until: int = 0


class Tag(NamedTuple):
    """A tagged value."""

    number: int
    value: Any


class Pairs(tuple[tuple[Any, Any], ...]):
    """A map that may have a key twice, and keys that are no strings."""


class Encoded(bytes):
    """An item as its bytes."""


def item(value: Any) -> bytes:
    """Return a value in CBOR: str as text string, bytes as byte string, float in eight bytes."""
    if isinstance(value, Encoded):
        return bytes(value)
    if isinstance(value, Tag):
        return head(6, value.number) + item(value.value)
    if isinstance(value, dict | Pairs):
        pairs = [*value.items()] if isinstance(value, dict) else value
        return head(5, len(pairs)) + b"".join(item(key) + item(child) for key, child in pairs)
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(item, value))
    if isinstance(value, bytes | str):
        data = value.encode() if isinstance(value, str) else value
        return head(3 if isinstance(value, str) else 2, len(data)) + data
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    return head(0, value) if value >= 0 else head(1, -1 - value)


def head(major: int, argument: int) -> bytes:
    """Return the head of an item, its argument in eight bytes unless it is small."""
    return bytes((major << 5 | argument,)) if argument < 24 else bytes((major << 5 | 27,)) + argument.to_bytes(8)


def config_map(name: str, **fields: Any) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def deployment(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Deployment of no pods."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", **container}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def thing(name: str, **fields: Any) -> dict[str, Any]:
    """Return a custom resource."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": name}, **fields}


def definition() -> dict[str, Any]:
    """Return the definition of the custom resources."""
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x"},
            "n": {"type": "integer", "minimum": 0},
            "x": {"type": "number", "maximum": 10.0, "enum": [1, 1.5, 2.0]},
            "list": {"type": "array", "items": {"type": "string"}},
            "any": open_object,
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "closed": {"type": "object", "additionalProperties": True},
        },
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": open_object}}
    parts = {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": parts}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def objects() -> Iterator[Ask]:
    """Create, read, change and delete objects of built-in kinds."""
    yield Ask("POST", MAPS, Tag(55799, config_map("a", data={"k": "v", "b": b"bytes"})))
    yield Ask("POST", MAPS, config_map("a"))
    yield Ask("POST", MAPS, {"metadata": {"name": "b"}, "data": {"k": "v"}}, accept=JSON)
    yield Ask("POST", MAPS, b'{"metadata":{"name":"c"}}', media=JSON)
    yield Ask("GET", f"{MAPS}/a")
    yield Ask("GET", f"{MAPS}/a", accept=PARTIAL)
    yield Ask("GET", f"{MAPS}/a", accept=PARTIALS)
    yield Ask("GET", f"{MAPS}/a", accept=TABLE)
    yield Ask("GET", f"{MAPS}/none")
    yield Ask("GET", MAPS)
    yield Ask("GET", f"{MAPS}?limit=1", accept=PARTIALS)
    yield Ask("GET", f"{MAPS}?labelSelector=no")
    yield Ask("GET", f"{MAPS}?labelSelector=no", accept=PARTIALS)
    yield Ask("GET", MAPS, accept=TABLE)
    yield Ask("GET", f"{MAPS}?pretty=1")
    yield Ask("PUT", f"{MAPS}/a", config_map("a", data={"k": "w"}, immutable=True))
    yield Ask("PUT", f"{MAPS}/a", config_map("a", data={"k": "x"}))
    yield Ask("PUT", f"{MAPS}/a", config_map("b"))
    yield Ask("PUT", f"{MAPS}/a", {**config_map("a"), "apiVersion": "v2"})
    yield Ask("PUT", f"{MAPS}/a", {**config_map("a"), "kind": "Pod"})
    yield Ask("PUT", f"{MAPS}/a", {**config_map("a"), "kind": "Nope"})
    yield Ask("PATCH", f"{MAPS}/a", b'{"metadata":{"labels":{"a":"b"}}}', media="application/merge-patch+json")
    yield Ask("POST", REVIEWS, {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})
    yield Ask("DELETE", f"{MAPS}/c", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
    yield Ask("DELETE", f"{MAPS}/c", {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": "All"})
    yield Ask("DELETE", f"{MAPS}/c", {"propagationPolicy": "Nope"})
    yield Ask("DELETE", f"{MAPS}/c", b"\xa1")
    yield Ask("DELETE", f"{MAPS}/c", {"preconditions": {"uid": "other"}})
    yield Ask("DELETE", f"{MAPS}/c", {})
    yield Ask("DELETE", f"{MAPS}?fieldSelector=metadata.name%3Db", {})


def values() -> Iterator[Ask]:
    """Send values of all types, and wrong ones."""

    def sent(name: str, **fields: Any) -> Ask:
        return Ask("POST", MAPS, config_map(f"v-{name}", **fields))

    yield sent("later", binaryData={"a": Tag(22, b"abc"), "b": b"YWJj", "c": Tag(21, b"\xff\xfe")})
    yield sent("text", data={"a": Tag(22, b"\xff\xfe"), "b": Tag(21, b"\xff\xfe"), "c": Tag(23, b"\xff\xfe")})
    yield sent("outer", data=Tag(23, {"a": b"abc", "b": Tag(22, b"abc"), "c": "abc"}))
    yield sent("no-base64", binaryData={"a": b"Y", "b": "YWJj"})
    yield sent("text-bytes", binaryData={"b": "YWJj"})
    yield sent("array", binaryData={"a": [1, 2, 255]})
    yield sent("array-wrong", binaryData={"a": [1, 256, "x"]})
    yield sent("null", data={"a": None}, binaryData=None, immutable=None)
    yield sent("number", data={"a": 1})
    yield sent("numbers", data={"a": -1}, immutable="x")
    yield sent("list", data=["a"])
    yield sent("utf8", data={"a": Encoded(b"\x62\xff\xfe")})
    yield sent("no-utf8", data={"a": b"\xff\xfe"})
    yield sent("utf8-key", data={Encoded(b"\x62\xff\xfe"): "a"})
    yield sent("int-key", data=Pairs(((1, "a"),)))
    yield sent("chunks", data={"a": Encoded(b"\x7f\x61a\x61b\xff"), "b": Encoded(b"\x5f\x41a\xff")})
    yield sent("open", data=Encoded(b"\xbf\x61a\x61b\xff"))
    yield sent("undefined", data={"a": Encoded(b"\xf7")})
    yield sent("undefined-pointer", immutable=Encoded(b"\xf7"))
    yield sent("simple", immutable=Encoded(b"\xe3"))
    yield sent("float", immutable=1.5)
    yield sent("tags", data={"a": Tag(100, Tag(55799, "b"))})
    yield sent("tag-0", data={"a": Tag(0, "no time")})
    yield sent("tag-0-bytes", data={"a": Tag(0, b"no time")})
    yield sent("tag-1", data={"a": Tag(1, "no time")})
    yield sent("tag-1-number", data={"a": Tag(1, 0)})
    for name, metadata in {
        "list": [],
        "text": "x",
        "bytes": b"x",
        "map": {"name": {}},
        "time": {"creationTimestamp": "yesterday"},
        "time-number": {"creationTimestamp": 1},
        "generation": {"generation": "x"},
        "large": {"generation": 2**63},
        "small": {"generation": -(2**63) - 1},
        "fraction": {"generation": 1.0},
        "owners": {"ownerReferences": [{"controller": 1}, {"controller": "x"}]},
        "later": {"labels": {"a": 1}, "name": 2},
    }.items():
        yield Ask("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": name}})
    yield Ask(
        "POST", SECRETS, {"metadata": {"name": "s"}, "data": {"a": Tag(22, b"\x00\x01")}, "stringData": {"b": "c"}}
    )
    yield Ask("GET", f"{SECRETS}/s", accept=JSON)
    budget = {"maxUnavailable": "25%", "maxSurge": 1}
    cpu = {"resources": {"limits": {"cpu": " 0.5 ", "memory": b"1Gi"}}}
    yield Ask("POST", DEPLOYMENTS, deployment("d", cpu, strategy={"rollingUpdate": budget}))
    yield Ask("POST", DEPLOYMENTS, deployment("e", {"resources": {"limits": {"cpu": 1}}}))
    yield Ask("POST", DEPLOYMENTS, deployment("e", {"resources": {"limits": {"cpu": "x"}}}))
    surges: tuple[Any, ...] = (1.5, 2**40, None, [], True)
    for surge in surges:
        yield Ask("POST", DEPLOYMENTS, deployment("f", {}, strategy={"rollingUpdate": {"maxSurge": surge}}))
    yield Ask("POST", DEPLOYMENTS, deployment("g", {}, replicas=2**31))
    yield Ask("POST", DEPLOYMENTS, deployment("g", {}, replicas=1.0))
    revisions = f"/apis/apps/v1/namespaces/{NS}/controllerrevisions"
    for name, data in {"a": {"z": 1, "a": [1.5, b"x", Tag(22, b"x")]}, "b": {"a": 2**63}, "c": None, "d": "x"}.items():
        yield Ask("POST", revisions, {"metadata": {"name": name}, "revision": 1, "data": data})
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases"
    yield Ask("POST", leases, {"metadata": {"name": "l"}, "spec": {"renewTime": "2024-01-02T03:04:05.678901Z"}})
    yield Ask("POST", leases, {"metadata": {"name": "m"}, "spec": {"renewTime": "2024-01-02T03:04:05Z"}})


def bodies() -> Iterator[Ask]:
    """Send bodies that are malformed, too large, or that have what nobody knows."""
    for text in MALFORMED.split():
        yield Ask("POST", MAPS, bytes.fromhex(text))
    yield Ask("POST", MAPS, b"")
    for levels in (63, 64, 65):
        yield Ask("POST", MAPS, config_map("deep", unknown=Encoded(b"\x81" * (levels - 1) + b"\x80")))
    yield Ask("POST", MAPS, config_map("long", unknown=[0] * 1025), accept=JSON)
    yield Ask("POST", MAPS, config_map("wide", unknown={str(key): 0 for key in range(1025)}), accept=JSON)
    twice = Pairs((("a", "1"), ("b", "2"), (b"a", "3")))
    for body in (
        Pairs((("metadata", {"name": "twice"}), ("data", {}), ("data", {}))),
        Pairs((("metadata", {"name": "twice"}), ("x", {}), ("x", {}))),
        config_map("twice", data=twice),
        {**config_map("twice"), "metadata": twice},
        {**config_map("twice"), "metadata": Pairs((("name", 1), ("name", 2)))},
        {**config_map("twice"), "unknown": twice},
        Pairs((("kind", "ConfigMap"), ("kind", "ConfigMap"), ("metadata", {"name": "twice"}))),
        Pairs(((1, 2), ("metadata", {"name": "keys"}))),
        Pairs(((True, 2), ("metadata", {"name": "keys"}))),
        Pairs(((Tag(1, 2), 2), ("metadata", {"name": "keys"}))),
        {"kind": 1, "metadata": {"name": "kind"}},
        {"apiVersion": [], "metadata": {"name": "kind"}},
    ):
        yield Ask("POST", MAPS, body)
    yield from odd_bodies()
    unknown = {**config_map("unknown"), "x": 1, "metadata": {"name": "unknown", "y": 1}}
    inner = {**config_map("unknown"), "metadata": {"name": "unknown", "y": 1, "labels": {"a": 1}}}
    for validation in ("Strict", "Warn", "Ignore"):
        path = f"{MAPS}?dryRun=All&fieldValidation={validation}"
        yield Ask("POST", path, unknown)
        yield Ask("POST", path, {**config_map("unknown"), "metadata": {"name": "unknown", "Labels": {}}})
        yield Ask("POST", path, inner)
        yield Ask("POST", path, config_map("unknown", data=twice))
        nested = {"livenessProbe": {"x": 1}, "ports": [{"containerPort": 1, "y": 2}], "z": 3}
        yield Ask("POST", f"{DEPLOYMENTS}?dryRun=All&fieldValidation={validation}", deployment("unknown", nested))


def odd_bodies() -> Iterator[Ask]:
    """Send bodies in which one rule meets another."""
    fields = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    for body in (
        -(2**64),
        Encoded(b"\x62\xff\xfe"),
        config_map("odd", data=Pairs((("a", "x"), ("b", None), (None, "y")))),
        config_map("odd", data=Pairs(((None, "x"), ("b", None)))),
        config_map("odd", data=Pairs((("a", 1), ("b", "2"), ("b", "3")))),
        config_map("odd", immutable=-(2**64)),
        {"metadata": {"name": "odd", "generation": Encoded(b"\x62\xff\xfe")}},
        {"metadata": {"name": "odd", "managedFields": [{**fields, "fieldsV1": {"f:a": Tag(1, "x")}}]}},
        {"metadata": {"name": "odd", "managedFields": [{**fields, "fieldsV1": Tag(6, [])}]}},
        {"metadata": {"name": "odd", "managedFields": [{**fields, "fieldsV1": Tag(5, [])}]}},
        {"metadata": Pairs(((Tag(5, "name"), 1), (Tag(6, "name"), 2)))},
        {"metadata": Pairs(((1.5, 1), (2.5, 2)))},
        {"metadata": Pairs((([], 1), ([], 2)))},
    ):
        yield Ask("POST", MAPS, body)
    for items in ({"x": 1}, [{"type": "string", "x": 1}], "x", None, True, {"type": 1}):
        yield Ask("POST", f"{CRDS}?dryRun=All&fieldValidation=Ignore", schema_with("a", items=items))
    values: tuple[Any, ...] = ({"x": 1}, [], "x", None, False, {"type": "string"})
    for others in values:
        yield Ask("POST", f"{CRDS}?dryRun=All", schema_with("a", additionalProperties=others))
    yield Ask("POST", f"{CRDS}?dryRun=All", schema_with("a", default=1.0))


def schema_with(name: str, **fields: Any) -> dict[str, Any]:
    """Return a definition with one more property, whose name comes first."""
    body = definition()
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties[name] = {"type": "array" if "items" in fields else "object", **fields}
    return body


def negotiation() -> Iterator[Ask]:
    """Ask for media types, and send some."""
    for accept in (
        "application/foo",
        "application/cbor-seq",
        "application/cbor-seq, application/cbor",
        "application/foo, application/cbor;q=0.5, application/json;q=0.4",
        "application/*",
        "*/*",
        "application/cbor;pretty=1",
        "application/cbor;stream=watch",
        "application/cbor;as=Nope;g=meta.k8s.io;v=v1",
        f"{TABLE}, {PARTIAL}, application/json",
    ):
        yield Ask("GET", f"{MAPS}/a", accept=accept)
        yield Ask("GET", f"{MAPS}/none", accept=accept)
        yield Ask("GET", f"{MAPS}?fieldSelector=metadata.name%3Da", accept=accept)
    for media in (
        "application/foo", "application/cbor-seq", "application/cbor; a=b", "application/cbor; a", "Application/CBOR",
    ):  # fmt: skip
        yield Ask("POST", f"{MAPS}?dryRun=All", config_map("media"), media=media)
    for media in ("application/cbor", "application/merge-patch+cbor", "application/json-patch+cbor", f"{APPLY}; a=b"):
        yield Ask("PATCH", f"{MAPS}/a?fieldManager=m&dryRun=All", config_map("a"), media=media)
        yield Ask("PATCH", f"{THINGS}/one?fieldManager=m&dryRun=All", thing("one"), media=media)
    yield Ask("GET", f"{THINGS}/one", accept="application/foo")
    yield Ask("GET", f"{THINGS}/one", accept="application/vnd.kubernetes.protobuf", brief=True)
    yield Ask("POST", THINGS, thing("two"), media="application/foo")
    for path in ("/api", "/apis", "/apis/apps", "/apis/apps/v1", f"/apis/{GROUP}/v1", "/version"):
        yield Ask("GET", path, brief=True)
        yield Ask("GET", path, accept="application/foo")
    for path in ("/apis/apps/v9/x", "/api/v1/nope", "/apis/nope/v1/x"):
        yield Ask("GET", path)
    aggregated = f"{CBOR};as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2"
    for path in ("/api", "/apis"):
        yield Ask("GET", path, accept=aggregated, brief=True)
        yield Ask("GET", path, accept=f"{aggregated}, application/json", brief=True)
    for path, kind in (("/statusz", "Statusz"), ("/flagz", "Flagz")):
        yield Ask("GET", path, accept=f"{CBOR};as={kind};g=config.k8s.io;v=v1beta1", brief=True)
        yield Ask("GET", path, accept=f"{CBOR};as={kind};g=config.k8s.io;v=v1alpha1", brief=True)
        yield Ask("GET", path)
        yield Ask("GET", path, accept=JSON)


def custom() -> Iterator[Ask]:
    """Write and read custom resources."""
    yield Ask("POST", CRDS, definition(), brief=True)
    yield Ask("GET", THINGS, until=200)
    yield Ask("POST", THINGS, thing("one", spec={"n": 3, "x": 1.5, "any": {"f": 0.1, "big": 2**62, "b": b"x"}}))
    yield Ask("GET", f"{THINGS}/one", accept=JSON)
    yield Ask("GET", f"{THINGS}/one")
    yield Ask("GET", f"{THINGS}/one", accept=PARTIAL)
    yield Ask("GET", f"{THINGS}/one/scale")
    yield Ask("GET", THINGS)
    yield Ask("GET", THINGS, accept=PARTIALS)
    yield Ask("GET", THINGS, accept=TABLE)
    yield Ask("GET", f"{THINGS}/none")
    yield Ask("POST", THINGS, b'{"metadata":{"name":"x"}}', media=JSON)
    tagged = {"a": Tag(0, "2024-01-02T03:04:05.600Z"), "b": Tag(1, 1.5), "c": Tag(1, -1), "d": Tag(22, b"\xff")}
    yield Ask("POST", THINGS, thing("tags", spec={"any": tagged}))
    for wrong in (Tag(0, "x"), Tag(0, 1), Tag(1, "x"), 2**63, -(2**63) - 1, Encoded(b"\xf7"), Pairs(((1, 2),))):
        yield Ask("POST", THINGS, thing("wrong", spec={"any": {"a": wrong}}))
    for validation in ("Strict", "Warn", "Ignore"):
        path = f"{THINGS}?dryRun=All&fieldValidation={validation}"
        yield Ask("POST", path, thing("two", spec={"y": 1, "list": ["a", b"b"], "labels": {"a": "b"}}))
        yield Ask("POST", path, thing("two", spec=Pairs((("a", "1"), ("a", "2")))))
        yield Ask("POST", path, {"metadata": {"name": "two"}, "spec": {"n": 1, "x": 1.5, "z": "q", "t": Tag(5, None)}})
        yield Ask("POST", path, {"kind": "Thing", "metadata": {"name": "two"}, "b": b"\xff\xfe", "c": "it's \u00e9\n"})
    yield Ask("POST", THINGS, thing("two", spec={"n": "x"}))
    yield Ask("POST", THINGS, thing("two", spec={"n": 1.0, "x": 11}))
    yield Ask("POST", THINGS, thing("two", spec={"list": None, "n": 1.5}))
    no_kinds: tuple[Any, ...] = (1, [], None, "")
    for other in no_kinds:
        named = {"kind": other, "metadata": {"name": "two"}, "spec": {"a": "b"}}
        yield Ask("POST", THINGS, {**thing("two"), "apiVersion": other})
        yield Ask("POST", THINGS, {**named, "apiVersion": f"{GROUP}/v1"})
    yield Ask("POST", THINGS, {"kind": 1, "spec": 2**63})
    yield Ask("POST", THINGS, {"kind": "Thing", "spec": 2**63})
    for body in ("", "80", "f6", "a0", "a1", "ff"):
        yield Ask("POST", THINGS, bytes.fromhex(body))
    yield Ask("PUT", f"{THINGS}/one", thing("one", spec={"n": 4, "x": 1}))


def applied() -> Iterator[Ask]:
    """Apply objects in CBOR."""

    def sent(path: str, body: Any, more: str = "") -> Ask:
        return Ask("PATCH", f"{path}?fieldManager=m{more}", body, media=APPLY)

    yield sent(f"{MAPS}/applied", config_map("applied", data={"a": "b", "c": b"d"}))
    yield sent(f"{MAPS}/applied", Tag(55799, config_map("applied", data={"a": "b"})))
    yield sent(f"{MAPS}/applied", config_map("applied", binaryData={"x": Tag(22, b"\x00"), "y": b"AAAA"}))
    yield Ask("PATCH", f"{MAPS}/applied?fieldManager=n", config_map("applied", binaryData={"x": b"AAAA"}), media=APPLY)
    yield Ask("PATCH", f"{MAPS}/applied", config_map("applied"), media=APPLY)
    yield sent(f"{MAPS}/other", config_map("applied"))
    yield sent(f"{MAPS}/applied", {"metadata": {"name": "applied"}})
    for body in ("", "a1", "80", "f6", "a0", "ff", "6161", "a1616100ff"):
        yield sent(f"{MAPS}/applied", bytes.fromhex(body))
        yield sent(f"{THINGS}/applied", bytes.fromhex(body))
    twice = Pairs((("a", "1"), ("a", "2")))
    for validation in ("Strict", "Warn", "Ignore"):
        more = f"&dryRun=All&fieldValidation={validation}"
        yield sent(f"{MAPS}/applied", config_map("applied", data=twice), more)
        yield sent(f"{MAPS}/applied", config_map("applied", x=1), more)
        yield sent(f"{THINGS}/applied", thing("applied", spec={"y": 1}), more)
    yield sent(f"{MAPS}/applied", config_map("applied", data={"a": 1}))
    yield sent(f"{MAPS}/applied", config_map("applied", data={"a": 2**63}))
    yield sent(f"{DEPLOYMENTS}/applied", deployment("applied", {"ports": [{"containerPort": 80}]}))
    yield sent(f"{DEPLOYMENTS}/applied", deployment("applied", {}, replicas=1.0))
    yield sent(
        f"{DEPLOYMENTS}/applied/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}}
    )
    yield sent(f"{THINGS}/applied", thing("applied", spec={"n": 1, "x": 1.5, "any": {"f": 1e300}}))
    yield Ask("GET", f"{THINGS}/applied")
    yield sent(f"{THINGS}/applied/status", thing("applied", status={"n": 1}))
    yield Ask(
        "PATCH", f"{MAPS}/applied?fieldManager=y", b"apiVersion: v1\nkind: ConfigMap", "application/apply-patch+yaml"
    )


def watches() -> Iterator[Ask]:
    """Watch objects."""
    named = f"{MAPS}?watch=1&fieldSelector=metadata.name%3D"
    yield Ask("GET", f"{named}a", events=1)
    yield Ask("GET", f"{named}a", accept=PARTIAL, events=1)
    yield Ask("GET", f"{named}a", accept=PARTIALS)
    yield Ask("GET", f"{named}a", accept=TABLE)
    yield Ask("GET", f"{named}a", accept="application/cbor-seq")
    yield Ask("GET", f"{named}a", accept="application/cbor-seq, application/cbor;q=0.9", events=1)
    yield Ask("GET", f"{named}a", accept="application/yaml")
    yield Ask("GET", f"{named}a&resourceVersion=999999999", brief=True, accept="application/yaml")
    yield Ask("GET", f"{MAPS}?watch=1&resourceVersion=x")
    marked = "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    yield Ask("GET", f"{named}a{marked}", events=2)
    yield Ask("GET", f"{named}none{marked}", accept=PARTIAL, events=1)
    yield Ask("GET", f"{THINGS}?watch=1&fieldSelector=metadata.name%3Done", events=1)
    yield Ask("GET", f"{THINGS}?watch=1&fieldSelector=metadata.name%3Done{marked}", accept=PARTIAL, events=2)
    yield Ask("GET", f"{SECRETS}?watch=1", events=1)


FLOWS = (objects, values, bodies, custom, negotiation, applied, watches)
