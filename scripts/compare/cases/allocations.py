"""Changes allocation cases at random, for `compare allocator --mutate` and `--break`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Case = dict[str, Any]

COUNTS = (1, 1, 2, 3)
AMOUNTS = ("1Gi", "2Gi", "6Gi", "40Gi")


def mutated(case: Case, rng: random.Random) -> Case:
    """Return a case with other feature gates, and some requests, devices and slices changed."""
    case = json.loads(json.dumps(case))
    if rng.random() < 0.7:
        case["features"] = {gate: rng.random() < 0.6 for gate in case["features"]}
    requests = [request for claim in case["claims"] for request in claim["spec"]["devices"].get("requests", [])]
    for request in requests:
        for part in [*request.get("firstAvailable", []), request.get("exactly") or request]:
            if "deviceClassName" in part and rng.random() < 0.25:
                _change_request(part, rng, alone=part not in request.get("firstAvailable", []))
    _merge_requests(case, rng)
    slices = case["slices"]
    for slice_ in slices:
        spec = slice_["spec"]
        if rng.random() < 0.1:
            _change_place(spec, case["node"]["metadata"]["name"], rng)
        if rng.random() < 0.05:
            spec["pool"]["resourceSliceCount"] += rng.choice((-1, 1))
        if rng.random() < 0.05:
            spec["pool"]["name"] = rng.choice(slices)["spec"]["pool"]["name"]
        for device in spec.get("devices", []):
            if rng.random() < 0.1:
                _change_device(device.get("basic") or device, slices, rng)
    return case


def _change_request(part: Case, rng: random.Random, *, alone: bool) -> None:
    """Change what a request asks for; `alone` if it is no subrequest."""
    match rng.choice(("all", "count", "admin", "capacity", "selectors", "class")):
        case "all":
            part.pop("count", None)
            part["allocationMode"] = "All"
        case "count":
            part |= {"allocationMode": "ExactCount", "count": rng.choice(COUNTS)}
        case "admin" if alone:
            part["adminAccess"] = rng.random() < 0.7
        case "capacity":
            part["capacity"] = {"requests": {"memory": rng.choice(AMOUNTS)}}
        case "selectors":
            part.pop("selectors", None)
        case "class":
            part["deviceClassName"] = "any"


def _merge_requests(case: Case, rng: random.Random) -> None:
    """Make subrequests of the requests of a claim now and then."""
    for claim in case["claims"]:
        requests = claim["spec"]["devices"].get("requests", [])
        nested = [request for request in requests if "exactly" in request]
        if len(nested) >= 2 and rng.random() < 0.15:
            parts = [{"name": request["name"], **request["exactly"]} for request in nested]
            for part in parts:
                part.pop("adminAccess", None)
            merged = {"name": "merged", "firstAvailable": parts}
            claim["spec"]["devices"]["requests"] = [merged, *(r for r in requests if r not in nested[1:])]


def _change_place(spec: Case, node: str, rng: random.Random) -> None:
    """Put a slice on other nodes."""
    if any(spec.get(field) for field in ("perDeviceNodeSelection", "sharedCounters")):
        return
    for field in ("nodeName", "allNodes", "nodeSelector"):
        spec.pop(field, None)
    zone = {"key": "zone", "operator": "In", "values": [rng.choice("ab")]}
    places: list[Case] = [
        {"nodeName": node},
        {"nodeName": "elsewhere"},
        {"allNodes": True},
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
    ]
    spec |= rng.choice(places)


def _change_device(device: Case, slices: list[Case], rng: random.Random) -> None:
    """Let a device be shared, bind, be tainted, or consume what another one consumes."""
    others = [other.get("basic") or other for slice_ in slices for other in slice_["spec"].get("devices", [])]
    field = rng.choice(("consumesCounters", "taints", "attributes", "allowMultipleAllocations", "bindingConditions"))
    donors = [other[field] for other in others if other.get(field)]
    if donors:
        device[field] = rng.choice(donors)
    elif field in device:
        del device[field]


# --- broken cases -----------------------------------------------------------------------------------------------------

_TEXTS = (
    "",
    "x",
    "é\u2028",
    "a/b/c",
    "-",
    "node",
    "All",
    "Near",
    "1",
    "-1",
    "1Gi",
    "1e400",
    "true",
    "NoExecute",
    "x" * 70,
)
_NUMBERS = (0, -1, 1, 33, 2**31, 2**63 - 1, -(2**63), 2**63, 1.5)
_OTHERS: tuple[Any, ...] = (None, {}, [], "", 0, True, {"a": {}}, [None], [{}])


def broken(case: Case, rng: random.Random) -> Any:
    """Return a case in which something is missing, twice, of another type, or of a value that makes no sense.

    Now and then that is the case itself.
    """
    case = json.loads(json.dumps(case))
    if rng.random() < 0.02:
        return deepcopy(rng.choice(_OTHERS))
    if rng.random() < 0.5:
        case["features"] = {gate: rng.random() < 0.6 for gate in case["features"]}
    for _ in range(rng.choice((1, 1, 2, 5))):
        places = [*_places(case)]
        if places:
            _break(*rng.choice(places), places, rng)
    return case


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a value: the object or list that it is in, and its key or index there."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def _break(parent: Any, key: Any, places: list[tuple[Any, Any]], rng: random.Random) -> None:
    value = parent[key]
    match rng.choice(("delete", "other", "odd", "odd", "odd", "twice", "from elsewhere")):
        case "delete":
            del parent[key]
        case "other":
            parent[key] = deepcopy(rng.choice(_OTHERS))
        case "odd":
            parent[key] = _odd(value, rng)
        case "twice" if isinstance(parent, list):
            parent.append(value)
        case "twice":
            parent[f"{key}x"] = value
        case "from elsewhere":
            elsewhere, other = rng.choice(places)
            parent[key] = json.loads(json.dumps(elsewhere[other]))


def _odd(value: Any, rng: random.Random) -> Any:
    """Return a value of the same type that makes no sense in most places."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice(_NUMBERS)
    if isinstance(value, str):
        return rng.choice((*_TEXTS, value.upper(), value[1:]))
    if isinstance(value, list):
        return rng.sample(value, rng.randint(0, len(value)))
    return dict(rng.sample([*value.items()], rng.randint(0, len(value)))) if value else None
