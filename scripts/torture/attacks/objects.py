"""Attacks of `attack` with as many objects as a large cluster has."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial

from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.torture.attacks.case import Case, Target, run_at_once

OBJECTS = 86_000
PATCHES = 36_000
PROPERTIES = 30_000
CROWD = "/api/v1/namespaces/crowd"
MAPS = f"{CROWD}/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
PATCH = "application/merge-patch+json"
_GROUP = "torture.example.com"
_CONTROLLERS = "kube-controller-manager deletes 20 objects a second"


def _fill(target: Target, owner: str = "") -> str:
    """Create a namespace with OBJECTS config maps, of an owner if a uid is given; return the answers."""
    target.send("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": "crowd"}}).encode())
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "blockOwnerDeletion": True}]
    fields = {"ownerReferences": owners} if owner else {}
    bodies = (
        json.dumps({"metadata": {"name": f"o{number}", "labels": {"of": str(number % 1000)}, **fields}}).encode()
        for number in range(OBJECTS)
    )
    return str(target.send_all([target.request("POST", MAPS, body) for body in bodies]))


def _gone(target: Target, path: str) -> str:
    """Wait until an object is gone; return how long that took."""
    began = time.monotonic()
    while target.send("GET", path)[0] != 404:
        time.sleep(0.5)
    return f"gone after {time.monotonic() - began:.1f} s"


def _compact(target: Target) -> None:
    """Let the server forget its history now, of which it keeps 64 MiB and five minutes otherwise."""
    target.send("POST", "/understudy/compact")


def _by_label(target: Target) -> str:
    """List some of the objects by their label, with eight clients at once, and delete all."""
    filled, statuses = _fill(target), Counter[int]()

    def ask(number: int) -> None:
        for label in range(number, number + 5):
            statuses[target.send("GET", f"{MAPS}?labelSelector=of%3D{label}")[0]] += 1

    began = time.monotonic()
    run_at_once([partial(ask, number) for number in range(8)])
    took = time.monotonic() - began
    status, _ = target.send("DELETE", MAPS)
    target.send("POST", "/understudy/reset")
    return f"{filled}, lists {dict(statuses)} in {took:.1f} s, deletion {status}"


def _foreground(target: Target) -> str:
    """Delete the owner of all in the foreground."""
    target.send("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": "crowd"}}).encode())
    _, owner = target.send("POST", MAPS, json.dumps({"metadata": {"name": "owner"}}).encode())
    filled = _fill(target, json.loads(owner)["metadata"]["uid"])
    status, _ = target.send("DELETE", f"{MAPS}/owner", b'{"propagationPolicy":"Foreground"}')
    gone = _gone(target, f"{MAPS}/owner")
    _compact(target)
    return f"{filled}, {status}, {gone}"


def _emptied(target: Target) -> str:
    """Delete the namespace of all."""
    filled = _fill(target)
    status, _ = target.send("DELETE", CROWD)
    gone = _gone(target, CROWD)
    _compact(target)
    return f"{filled}, {status}, {gone}"


def _watched(target: Target) -> str:
    """Leave all of them, with ten watches that have read nothing."""
    filled = _fill(target)
    for _ in range(10):
        target.connect().sendall(target.request("GET", f"{MAPS}?watch=1&resourceVersion=0"))
    time.sleep(1)
    return filled


def _patched(target: Target) -> str:
    """Change a few custom resources again and again."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    target.send("POST", DEFINITIONS, json.dumps(definition(_GROUP, "Victim", served_version(schema))).encode())
    path = f"/apis/{_GROUP}/v1/victims"
    while target.send("GET", path)[0] != 200:
        time.sleep(0.1)
    for name in "abcdefgh":
        body = {"apiVersion": f"{_GROUP}/v1", "kind": "Victim", "metadata": {"name": name}, "spec": {"pad": "x" * 500}}
        target.send("POST", path, json.dumps(body).encode())
    bodies = (json.dumps({"spec": {f"k{number % 50}": number}}).encode() for number in range(PATCHES))
    requests = [
        target.request("PATCH", f"{path}/{'abcdefgh'[number % 8]}", body, PATCH) for number, body in enumerate(bodies)
    ]
    statuses = target.send_all(requests)
    _compact(target)
    return str(statuses)


def _properties(target: Target) -> str:
    """Serve custom resources of tens of thousands of properties, change the largest, and delete their definition."""
    statuses = Counter[int]()

    def send(method: str, path: str, obj: object = None, media: str = "application/json") -> None:
        statuses[target.send(method, path, b"" if obj is None else json.dumps(obj).encode(), media)[0]] += 1

    names = [f"p{number}" for number in range(PROPERTIES)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    new = definition(_GROUP, "Victim", served_version(schema))
    place, path = f"{DEFINITIONS}/{new['metadata']['name']}", f"/apis/{_GROUP}/v1/victims"
    send("POST", DEFINITIONS, new)
    while target.send("GET", path)[0] != 200:
        time.sleep(0.1)
    send("PATCH", place, {"metadata": {"labels": {"a": "b"}}}, PATCH)
    for number in range(4):
        victim = {"apiVersion": f"{_GROUP}/v1", "kind": "Victim", "metadata": {"name": f"v{number}"}}
        send("POST", path, victim | dict.fromkeys(names, "x"))
        send("PATCH", f"{path}/v{number}", {names[0]: "y"}, PATCH)
        send("GET", f"{path}/v{number}")
    send("DELETE", f"{path}/v0")
    send("DELETE", place)
    gone = _gone(target, place)
    _compact(target)
    return f"{dict(statuses)}, {gone}"


def _services(target: Target) -> str:
    """Store Services with thousands of ports, source ranges and addresses, while small ones come and go."""
    target.send("POST", SERVICES, b'{"metadata":{"name":"first"},"spec":{"ports":[{"port":80}]}}')
    statuses = Counter[int]()

    def send(name: str, fields: dict[str, object]) -> None:
        spec = {"ports": [{"port": 80}], **fields}
        body = json.dumps({"metadata": {"name": name}, "spec": spec}).encode()
        statuses[target.send("POST", SERVICES, body)[0]] += 1
        statuses[target.send("PUT", f"{SERVICES}/{name}", body)[0]] += 1
        statuses[target.send("DELETE", f"{SERVICES}/{name}")[0]] += 1

    ranges = [f"10.{number >> 8 & 255}.{number & 255}.0/24" for number in range(50_000)]
    large: list[dict[str, object]] = [
        {"ports": [{"name": f"p{number}", "port": number} for number in range(1, 8001)]},
        {"type": "LoadBalancer", "loadBalancerSourceRanges": ranges},
        {"externalIPs": ["10.0.0.7"] * 50_000},
        {"ipFamilies": ["IPv4"] * 50_000},
    ]
    work = [partial(send, f"large-{number}", fields) for number, fields in enumerate(large)]
    run_at_once([*work, *(partial(send, f"small-{number}", {"type": "NodePort"}) for number in range(20))])
    _compact(target)
    return str(dict(statuses))


def _dropped(target: Target) -> str:
    """Ask for all objects with fifty clients that go away at once, and then as one who reads."""
    filled = _fill(target)
    with target.connections(50) as connections:
        for connection in connections:
            connection.sendall(target.request("GET", MAPS))
    status, answer = target.send("GET", MAPS)
    return f"{filled}, {status} with {len(answer) >> 20} MiB"


_GARBAGE_COLLECTOR = ("--control", "--controllers", "garbage-collector")
_NAMESPACE = ("--control", "--controllers", "namespace")
CASES = (
    Case("86,000 objects by label", _by_label, own=("--control",), seconds=600.0),
    Case("86,000 objects, unread", _dropped, keeps=True, seconds=600.0),
    Case("86,000 objects when it stops", _watched, keeps=True, seconds=600.0),
    Case("an owner of 86,000", _foreground, own=_GARBAGE_COLLECTOR, missing=_CONTROLLERS, seconds=600.0),
    Case("a namespace of 86,000", _emptied, own=_NAMESPACE, missing=_CONTROLLERS, seconds=600.0),
    Case("large services", _services, own=("--control",)),
    Case("30,000 properties", _properties, own=("--control",)),
    Case("36,000 patches", _patched, own=("--control",), seconds=600.0),
)
