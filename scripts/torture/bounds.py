"""Send the requests that take a server most CPU, and measure how long /healthz waits meanwhile.

    python -m scripts.torture bounds [--emulated-version 1.32] [NAME …]             on a server of the script's own
    python -m scripts.torture bounds --server https://127.0.0.1:6443 --token TOKEN    on one that runs, to compare

Other programs may keep a server waiting, so its CPU counts: the exit status is 1 if a server of the script's own used
more than 300 ms of it before it answered /healthz.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from scripts.common.connection import Answer, Connection, DroppedError
from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.common.server_process import ServerProcess

CORE, CLAIMS = "/api/v1/namespaces/default", "/apis/resource.k8s.io/v1beta1/namespaces/default"
WAIT = 0.3  # seconds of CPU that /healthz may wait
PAUSE = 0.01  # seconds between two questions to /healthz
JSON, YAML, JSON_PATCH = "application/json", "application/yaml", "application/json-patch+json"
_CONTAINER = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
MERGE_PATCH, APPLY_PATCH = "application/merge-patch+json", "application/apply-patch+yaml"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Sent(NamedTuple):
    """A request to measure; `before` is sent first, not measured."""

    name: str
    method: str
    path: str
    body: bytes
    media: str = JSON
    before: tuple[Sent, ...] = ()

    def encoded(self, token: str) -> bytes:
        """Return the bytes of the request."""
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}Content-Type: {self.media}\r\n"
            f"Content-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body


def created(name: str, path: str, obj: Any) -> Sent:
    """Return the request that creates an object."""
    return Sent(name, "POST", path, json.dumps(obj).encode())


def config_map(name: str, **fields: Any) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"metadata": {"name": name}, **fields}


def claim(name: str, expressions: list[str]) -> dict[str, Any]:
    """Return a ResourceClaim with CEL selectors."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    request = {"name": "gpu", "deviceClassName": "gpu.example.com", "selectors": selectors}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(name: str, variables: int) -> dict[str, Any]:
    """Return a Pod with many environment variables."""
    env = [{"name": f"VARIABLE_{n}", "value": str(n)} for n in range(variables)]
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}


def deep(levels: int, begin: str = '{"metadata":{"name":"deep"},"x":', end: str = "}") -> bytes:
    """Return an object with a field that nests arrays."""
    return f"{begin}{'[' * levels}{']' * levels}{end}".encode()


def requests() -> Iterator[Sent]:
    """Yield the requests."""
    for n, (name, expression) in enumerate(
        {
            "terms": "+".join(["1"] * 3000),
            "terms in brackets": "(" * 20 + "+".join(["1"] * 3000) + ")" * 20,
            "fields": "device" + ".a" * 3000,
            "nots": "!" * 5000 + "true",
            "minuses": "-" * 5000 + "1",
            "brackets": "(" * 2000 + "1" + ")" * 2000,
            "lists": "[" * 2000 + "]" * 2000,
            "conditionals": "true ? 1 : " * 900 + "1",
            "ands": " && ".join(["true"] * 1200),
            "calls": "size(" * 1500 + "''" + ")" * 1500,
            "macros": "[1].all(a, " * 400 + "true" + ")" * 400,
            "members": "[" + ",".join(["1"] * 4000) + "].size() == 0",
            "texts": "+".join(["'a'"] * 2000) + " == ''",
            "indices": "device.attributes" + "['a']" * 1500,
        }.items()
    ):
        expressions = [f"{expression} == {number}" for number in range(32)]
        yield created(f"cel {name}", f"{CLAIMS}/resourceclaims", claim(f"cel-{n}", expressions))
    many = created("", f"{CORE}/pods", pod("many", 10_000))
    yield created("pod with 10,000 variables", f"{CORE}/pods", pod("new", 10_000))
    changed = pod("many", 10_000)
    changed["spec"]["containers"][0]["env"][77]["value"] = "other"
    update = Sent("pod update, refused", "PUT", f"{CORE}/pods/many", json.dumps(changed).encode(), before=(many,))
    yield update
    yield Sent(
        "pod patch, small", "PATCH", f"{CORE}/pods/many", b'{"metadata":{"labels":{"a":"b"}}}', MERGE_PATCH, (many,)
    )
    patch = b'{"spec":{"containers":[{"name":"c","env":[{"name":"VARIABLE_7","value":"x"}]}]}}'
    yield Sent("pod patch, small, refused", "PATCH", f"{CORE}/pods/many", patch, STRATEGIC_PATCH, (many,))
    applied = {"apiVersion": "v1", "kind": "Pod", **pod("applied", 10_000)}
    path = f"{CORE}/pods/applied?fieldManager=a"
    yield Sent("pod apply", "PATCH", path, json.dumps(applied).encode(), APPLY_PATCH)
    yield created("numbers", f"{CORE}/configmaps", config_map("numbers", x=list(range(400_000))))
    yield created("data keys", f"{CORE}/configmaps", config_map("keys", data={f"k{n}": "" for n in range(200_000)}))
    yield created("bad data keys", f"{CORE}/configmaps", config_map("keys", data={f"+{n}": "" for n in range(200_000)}))
    yield created(
        "unknown fields", f"{CORE}/configmaps", {**config_map("fields"), **{f"f{n}": 1 for n in range(200_000)}}
    )
    yield Sent(
        "repeated fields", "POST", f"{CORE}/configmaps", b'{"metadata":{"name":"r"},' + b'"a":1,' * 400_000 + b'"b":1}'
    )
    labels = {f"k{n}": "v" for n in range(100_000)}
    yield created("labels", f"{CORE}/configmaps", {"metadata": {"name": "labels", "labels": labels}})
    text = "metadata: {name: yaml}\ndata:\n" + "".join(f"  k{n}: v\n" for n in range(30_000))
    yield Sent("YAML keys", "POST", f"{CORE}/configmaps", text.encode(), YAML)
    text = "metadata: {name: yaml}\nx: [" + "a," * 1_000_000 + "]\n"
    yield Sent("YAML lists", "POST", f"{CORE}/configmaps", text.encode(), YAML)
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}
    for name, schedule in {"list": "1," * 500_000 + "1 * * * *", "digits": "1" * 1_000_000 + " * * * *"}.items():
        cron = {"metadata": {"name": "cron"}, "spec": {"schedule": schedule, "jobTemplate": template}}
        yield created(f"cron {name}", "/apis/batch/v1/namespaces/default/cronjobs", cron)
    for name, scopes in {
        "quota scopes, same": ["NotTerminating"] * 20_000,
        "quota scopes, others": [f"scope-{n}" for n in range(20_000)],
    }.items():
        quota = {"metadata": {"name": "scopes"}, "spec": {"hard": {"pods": "1"}, "scopes": scopes}}
        yield created(name, f"{CORE}/resourcequotas", quota)
    for name, value in {
        "digits": "1" * 1_000_000,
        "fraction": "0." + "1" * 1_000_000,
        "zeros": "1" + "0" * 1_000_000,
    }.items():
        quota = {"metadata": {"name": "digits"}, "spec": {"hard": {"pods": value}}}
        yield created(f"quantity {name}", f"{CORE}/resourcequotas", quota)
    yield Sent("nested", "POST", f"{CORE}/configmaps", deep(9_900))
    yield Sent("nested too deep", "POST", f"{CORE}/configmaps", deep(1_000_000))
    yield Sent("nested YAML", "POST", f"{CORE}/configmaps", deep(9_900), YAML)
    config = created("", f"{CORE}/configmaps", config_map("patched"))
    for media in (MERGE_PATCH, STRATEGIC_PATCH):
        path = f"{CORE}/configmaps/patched?fieldValidation=Ignore"
        body = b'{"x":' * 9_000 + b"1" + b"}" * 9_000
        yield Sent(f"nested {media}", "PATCH", path, body, media, (config,))
    inserted = [{"op": "add", "path": "/metadata/finalizers/0", "value": f"a.b/{n}"} for n in range(9_999)]
    body = json.dumps([{"op": "add", "path": "/metadata/finalizers", "value": []}, *inserted]).encode()
    yield Sent("JSON patch", "PATCH", f"{CORE}/configmaps/patched", body, JSON_PATCH, (config,))
    copied = [{"op": "copy", "from": "/data", "path": f"/data/k{n}"} for n in range(18)]
    body = json.dumps([{"op": "add", "path": "/data", "value": {"a": "b"}}, *copied]).encode()
    yield Sent("JSON patch, copies", "PATCH", f"{CORE}/configmaps/patched", body, JSON_PATCH, (config,))
    schema: dict[str, Any] = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(30_000)}}
    yield created("definition", DEFINITIONS, definition("bounds.example.com", "Wide", served_version(schema)))
    devices = [{"name": f"d{n}", "attributes": {}} for n in range(30_000)]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    slices = {
        "metadata": {"name": "s"},
        "spec": {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": devices},
    }
    yield created("slice devices", "/apis/resource.k8s.io/v1beta1/resourceslices", slices)
    wrong: dict[str, Any] = {"metadata": {"name": "ports"}, "spec": {"ports": [{}] * 270_000}}
    yield created("service ports", f"{CORE}/services", wrong)
    replicas = {"metadata": {"name": "scaled"}, "spec": {"replicas": 1}, **{f"f{n}": 1 for n in range(200_000)}}
    selected = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, **_CONTAINER}}
    deployment = {"metadata": {"name": "scaled"}, "spec": selected}
    scaled = created("", "/apis/apps/v1/namespaces/default/deployments", deployment)
    path = "/apis/apps/v1/namespaces/default/deployments/scaled/scale"
    yield Sent("scale, unknown fields", "PUT", path, json.dumps(replicas).encode(), before=(scaled,))
    subsets = [{"addresses": [{"ip": "10.0.0.1"}] * 60_000, "ports": [{"port": 1}]}]
    yield created("endpoints", f"{CORE}/endpoints", {"metadata": {"name": "e"}, "subsets": subsets})


@dataclass
class Waits:
    """The longest time that /healthz took to answer, and the most CPU that the server used meanwhile, in seconds."""

    wall: float = 0.0
    cpu: float = 0.0


async def _ask_health(url: str, token: str, process: ServerProcess | None, waits: Waits) -> None:
    """Ask /healthz again and again, and keep the longest waits."""
    request = Sent("", "GET", "/healthz", b"").encoded(token)
    with closing(Connection(url)) as connection:
        while True:
            began, cpu = time.monotonic(), process.cpu_seconds() if process else 0.0
            try:
                await connection.send(request)
            finally:
                waits.wall = max(waits.wall, time.monotonic() - began)
                waits.cpu = max(waits.cpu, (process.cpu_seconds() if process else 0.0) - cpu)
            await asyncio.sleep(PAUSE)


async def measure(url: str, token: str, sent: Sent, process: ServerProcess | None) -> Waits:
    """Send a request, print what it took, and return how long /healthz had to wait."""
    with closing(Connection(url)) as connection:
        for before in sent.before:
            await connection.send(before.encoded(token))
        waits = Waits()
        beside = asyncio.create_task(_ask_health(url, token, process, waits))
        await asyncio.sleep(0.1)
        cpu, began = process.cpu_seconds() if process else 0.0, time.monotonic()
        try:
            answer = await connection.send(sent.encoded(token))
        except DroppedError as why:
            answer = Answer(0, repr(why).encode())
        took = time.monotonic() - began
        await asyncio.sleep(0.1)
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        used = (process.cpu_seconds() if process else 0.0) - cpu
    health = f"/healthz {1000 * waits.cpu:4.0f} ms of CPU {1000 * waits.wall:5.0f} ms"
    text = f"{answer.status} {used:6.2f} s of CPU {took:6.2f} s  {health}  {_message(answer.body)}"
    print(f"{sent.name:48s} {text}", flush=True)
    return waits


def _message(body: bytes) -> str:
    """Return the beginning and the end of the message of a Status, "" for another object."""
    try:
        text = str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        text = body.decode(errors="replace")
    text = " ".join(text.split())
    return text if len(text) < 300 else f"{text[:200]} … {text[-100:]}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="measure requests whose names begin so (default: all)")
    parser.add_argument("--emulated-version", default="1.32", help="release of the script's own server")
    parser.add_argument("--server", default="", metavar="URL", help="a server that runs already")
    parser.add_argument("--token", default="", help="bearer token for it")


def run(options: argparse.Namespace) -> int:
    chosen = [sent for sent in requests() if sent.name.startswith(tuple(options.names) or "")]
    if options.server:
        for sent in chosen:
            asyncio.run(measure(options.server, options.token, sent, None))
        return 0
    with ServerProcess("--emulated-version", options.emulated_version) as process:
        slow = [sent.name for sent in chosen if asyncio.run(measure(process.url, "", sent, process)).cpu > WAIT]
    print(
        f"/healthz waited too long for: {', '.join(slow)}"
        if slow
        else "/healthz never waited longer than 300 ms of CPU"
    )
    return 1 if slow else 0
