"""Time the parts of a request in this process, without HTTP: decoding, validation, CEL, managed fields, whole verbs.

python -m scripts.measure micro [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.encoding.conversion import to_internal, typed
from understudy.apiserver.endpoints.handlers import write_request
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.options.config import ServerConfig
from understudy.apiserver.server.wiring import new_authenticator, new_flow_control, new_parts
from understudy.cel import compiler
from understudy.cel.checker.environment import device_environment
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.options import Query
from understudy.machinery.serializer.json import decode_json

GROUP, VERSION = "resource.k8s.io", "v1beta1"
CLAIMS = f"/apis/{GROUP}/{VERSION}/namespaces/default/resourceclaims"
SELECTOR = (
    'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model.startsWith("large") && '
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
)
ATTRIBUTES = {"model": {"string": "large-80"}, "index": {"int": 1}, "uuid": {"string": "GPU-1"}, "ecc": {"bool": True}}


def claim(name: str) -> dict[str, Any]:
    """Return a ResourceClaim with a selector and a constraint."""
    selector = {"cel": {"expression": SELECTOR}}
    request = {"name": "gpu", "deviceClassName": "gpu.example.com", "selectors": [selector], "count": 2}
    constraint = {"requests": ["gpu"], "matchAttribute": "gpu.example.com/numa"}
    spec = {"devices": {"requests": [request], "constraints": [constraint]}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": "bench", "tier": "one"}}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def slice_of(devices: int) -> dict[str, Any]:
    """Return a ResourceSlice with a number of devices."""
    basic = {"attributes": ATTRIBUTES, "capacity": {"memory": {"value": "80Gi"}}}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{n}", "basic": basic} for n in range(devices)],
    }
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "ResourceSlice", "metadata": {"name": "slice"}, "spec": spec}


class Timing:
    """Times functions, in rounds of at least `seconds`."""

    def __init__(self, quick: bool) -> None:
        self.rounds, self.seconds = (3, 0.05) if quick else (7, 0.2)

    def show(self, what: str, work: Callable[[], Any]) -> float:
        """Print and return the median time of a call, in microseconds."""
        timer = timeit.Timer(work)
        number = 1
        while timer.timeit(number) < self.seconds:
            number *= 4
        took = [1e6 * seconds / number for seconds in timer.repeat(self.rounds, number)]
        print(f"{what:52s} {statistics.median(took):10.1f} µs  (best {min(took):.1f})")
        return statistics.median(took)


def parts(timing: Timing, api: ServerState) -> None:
    """Time decoding, validation and CEL."""
    context = Context(api.release.version, api.gates, VERSION)
    for what, sent in {"a claim": claim("claim"), "a slice of 128 devices": slice_of(128)}.items():
        kind = kind_of(api, sent)
        struct, body = kind.struct(VERSION), json.dumps(sent).encode()
        timing.show(f"decode {what}, {len(body)} bytes", partial(decode_json, body, struct))
        obj = typed(kind, VERSION, decode_json(body, struct)[0])
        kind.behavior.defaults(obj, context)
        stored = to_internal(kind, VERSION, obj)
        assert kind.behavior.strategy.validate(stored, context) == []
        timing.show(f"validate {what}", partial(kind.behavior.strategy.validate, stored, context))
    environment = device_environment(api.release.version)
    timing.show("CEL: compile, check, estimate", partial(compiler.compile_anew, SELECTOR, environment))
    compiled = compiler.compile(SELECTOR, environment)
    timing.show("CEL: compile again, from the cache", partial(compiler.compile, SELECTOR, environment))
    device = {"driver": "gpu.example.com", "attributes": ATTRIBUTES, "capacity": {"memory": "80Gi"}}
    assert compiled.evaluate(device) is True
    timing.show("CEL: evaluate", partial(compiled.evaluate, device))


def kind_of(api: ServerState, obj: dict[str, Any]) -> Kind:
    """Return the kind of an object."""
    kind = api.release.kind(GROUP, obj["kind"])
    assert kind is not None
    return kind


async def verbs(timing: Timing, director: Director) -> None:
    """Time whole requests, from dispatch to the bytes of the answer."""

    def call(method: str, path: str, body: Any = None, media: str = "application/json", query: str = "") -> Any:
        headers = {"Accept": "application/json", "Content-Type": media}
        raw = b"" if body is None else json.dumps(body).encode()
        return director(Request(method, path, headers, raw, Query(query), director.state.release.version))

    def request(*args: Any, **kwargs: Any) -> None:
        answering = call(*args, **kwargs).__await__()
        try:
            while next(answering) is None:  # long answers let others have their turn
                pass
        except StopIteration as done:
            answer = done.value
        else:
            raise AssertionError("a store in memory never waits")
        assert answer.status in (200, 201), answer.body

    for name in ("claim", *(f"claim-{number}" for number in range(499))):
        await call("POST", CLAIMS, claim(name))  # of which the first one waits for imports
    timing.show("GET a claim", partial(request, "GET", f"{CLAIMS}/claim"))
    timing.show("LIST 500 claims", partial(request, "GET", CLAIMS))
    merge, ticks = "application/strategic-merge-patch+json", iter(range(10**9))

    def patched() -> None:
        request("PATCH", f"{CLAIMS}/claim", {"metadata": {"labels": {"tick": str(next(ticks))}}}, merge)

    created = partial(request, "POST", CLAIMS, claim("other"), query="dryRun=All")
    timing.show("PATCH a claim's label", patched)
    whole = timing.show("CREATE a claim, dry run", created)
    with patch.object(write_request.WriteRequest, "update_managed_fields", lambda *_: None):
        without = timing.show("CREATE a claim, dry run, without managed fields", created)
    print(f"{'':52s} {100 * (whole - without) / whole:9.0f} %   for managed fields")


async def prepared() -> tuple[ServerState, Director]:
    config = ServerConfig(emulated_version="1.32")
    api = new_parts(config).state
    await fill.fill(api, 0)
    authenticator = new_authenticator(config, api, LoopbackTokens())
    flow_control, _ = new_flow_control(config, api)
    return api, Director(api, authenticator, "http://127.0.0.1:0", accepted_hosts=(), flow_control=flow_control)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")


def run(options: argparse.Namespace) -> int:
    asyncio.run(time_everything(options.quick))
    return 0


async def time_everything(quick: bool) -> None:
    """Time everything, in an event loop, which long answers look for."""
    timing = Timing(quick)
    api, director = await prepared()
    parts(timing, api)
    await verbs(timing, director)
