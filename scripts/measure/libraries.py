"""Measure the libraries that understudy was built without, each beside what it has in their place.

    .venv/bin/pip install cel-python jsonpatch jsonschema ruamel.yaml
    .venv/bin/python -m scripts.measure libraries [NAME …]

docs/decisions.md has the results. All times are CPU times, the best of some rounds: another program on the machine
disturbs them little. What a library does otherwise than Go is printed case by case.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from understudy import StatusError, Version, cel
from understudy.cel.interpreter.device import device_value
from understudy.controlplane.allocator.selectors import selector_environment
from understudy.kinds.apiextensions.structural_schema.schema import StructuralSchema
from understudy.machinery.golang.yaml_reader import load_yaml
from understudy.machinery.patch import json_patch

RELEASE = Version(1, 36)
ROOT = Path(__file__).parents[2]
ANSWERS = 5_000  # requests that a server answers
CLASS = "/apis/resource.k8s.io/v1/deviceclasses/gpu.example.com"
BARE = """
import sys, uvloop
from aiohttp import web
body = sys.argv[1].encode()

async def handle(request):
    return web.Response(body=body, headers={"Content-Type": "application/json"})

async def main():
    if sys.argv[2] == "application":
        application = web.Application()
        application.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None)
    else:
        runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("at http://127.0.0.1:%d" % site._server.sockets[0].getsockname()[1], flush=True)
    await __import__("asyncio").Event().wait()

uvloop.run(main())
"""


def cpu_time(call: Callable[[], object], times: int = 1, rounds: int = 5) -> float:
    """Return the CPU seconds of a call, the best of some rounds of so many calls."""

    def one_round() -> float:
        begin = time.process_time()
        for _ in range(times):
            call()
        return (time.process_time() - begin) / times

    return min(one_round() for _ in range(rounds))


def compare(cases: Iterable[tuple[str, Callable[[], object], Callable[[], object]]]) -> None:
    """Print what understudy and a library make of each case."""
    for case, ours, theirs in cases:
        print(f"  {case}\n    understudy  {outcome(ours)}\n    library     {outcome(theirs)}")


def outcome(call: Callable[[], object]) -> str:
    """Return the result of a call, or its error, on one line."""
    try:
        return " ".join(str(call()).split())
    except StatusError as error:
        return f"{error.code} {error.message}"
    except Exception as error:  # whatever a library raises is what is looked at
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


# --- aiohttp's server


def aiohttp() -> None:
    """Print the CPU time of a GET: of understudy, and of aiohttp's server that sends the same bytes."""
    serve = [sys.executable, "-m", "understudy", "serve", "--port", "0", "--load", "gpu-cluster"]
    body = asyncio.run(exchanges(serve, 1))[1].decode()
    commands = {
        "understudy": serve,
        "aiohttp.web.Server": [sys.executable, "-c", BARE, body, "server"],
        "aiohttp.web.Application": [sys.executable, "-c", BARE, body, "application"],
    }
    rounds = [{name: asyncio.run(exchanges(each, ANSWERS))[0] for name, each in commands.items()} for _ in range(6)]
    for name in commands:  # in turns, so that what else runs on the machine disturbs all of them
        seconds = min(one[name] for one in rounds)
        print(f"  {name}: {seconds / ANSWERS * 1e6:.0f} µs of CPU for a GET of {len(body)} bytes")


async def exchanges(command: list[str], count: int) -> tuple[float, bytes]:
    """Start a server and send requests, one after the other; return its CPU seconds for them, and the last body."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body, before = await exchange(reader, writer), 0.0
        for number in range(count):
            if number == count // 10:
                before = cpu_of(server.pid)
            body = await exchange(reader, writer)
        writer.close()
        return (cpu_of(server.pid) - before) / 0.9, body
    finally:
        server.kill()
        server.communicate()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Send a GET, and return the body of the answer."""
    writer.write(f"GET {CLASS} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return await reader.readexactly(size)


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- cel-python

SELECTOR = 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "a100"'
DEVICE = {"driver": "gpu.example.com", "attributes": {"model": {"string": "a100"}}, "capacity": {"memory": "80Gi"}}
AS_JSON = {"driver": "gpu.example.com", "attributes": {"gpu.example.com": {"model": "a100"}}}
NESTED = "[1, 2, 3, 4, 5, 6, 7, 8].all(a, " * 6 + "true" + ")" * 6
EXPRESSIONS = (
    "device.model",
    "device.driver == 1",
    "device.driver ==",
    'device.capacity["a"].b.compareTo(quantity("1Gi")) > 0',
    NESTED,
)


def celpy() -> None:
    """Compare cel-python's evaluation of a selector with ours, and what both find in expressions."""
    library = import_module("celpy")
    environment, theirs = selector_environment(RELEASE, frozenset()), library.Environment()
    program, device = cel.compile(SELECTOR, environment), device_value(DEVICE, lists=False)
    runner, activation = theirs.program(theirs.compile(SELECTOR)), {"device": library.json_to_cel(AS_JSON)}
    assert program.matches(device)
    assert runner.evaluate(activation)
    print(f"  understudy: {cpu_time(lambda: program.matches(device), 5000) * 1e6:.1f} µs for a device")
    print(f"  cel-python: {cpu_time(lambda: runner.evaluate(activation), 300) * 1e6:.1f} µs for a device")

    def ours_of(text: str) -> str:
        compiled = cel.compile(text, environment)
        return compiled.error or f"compiles, at a cost of {compiled.cost} at the most"

    def theirs_of(text: str) -> str:
        return f"compiles; {theirs.program(theirs.compile(text)).evaluate(activation)!r}"[:200]

    compare((text, lambda text=text: ours_of(text), lambda text=text: theirs_of(text)) for text in EXPRESSIONS)  # type: ignore[misc]


# --- ruamel.yaml

DOCUMENTS = ("a: yes", "a: 014", "a: 1e3", "a: 2001-01-01", "a: 12:30:45", "a: =", "a: !!binary aGk=", "1: x", "y: 1")
TWICE = "a: 1\na: 2"


def ruamel() -> None:
    """Compare the time to parse manifests, and what ruamel.yaml and PyYAML read otherwise than Go's YAML."""
    library, yaml = import_module("ruamel.yaml"), import_module("yaml")
    text = "\n---\n".join([(ROOT / "fixtures" / "gpu-cluster.yaml").read_text()] * 20)
    for name, read in {
        "understudy (events of libyaml)": lambda: load_yaml(text),
        "PyYAML, libyaml": lambda: list(yaml.load_all(text, Loader=yaml.CSafeLoader)),
        "PyYAML, Python": lambda: list(yaml.load_all(text, Loader=yaml.SafeLoader)),
        "ruamel.yaml, safe": lambda: list(library.YAML(typ="safe", pure=True).load_all(text)),
        "ruamel.yaml, round trip": lambda: list(library.YAML(typ="rt").load_all(text)),
    }.items():
        print(f"  {name}: {cpu_time(read, rounds=2) * 1e3:.0f} ms for {len(text) // 1000} KB")

    def ours_of(document: str) -> str:
        [read] = load_yaml(document)
        return f"{read.value} {'; '.join(read.duplicates)}"

    def theirs_of(document: str) -> object:
        return library.YAML(typ="safe", pure=True).load(document)

    documents = (*DOCUMENTS, TWICE)
    compare((text, lambda text=text: ours_of(text), lambda text=text: theirs_of(text)) for text in documents)  # type: ignore[misc]


# --- jsonschema

ITEM = {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}, "value": {"type": "integer"}}}
SPEC = {
    "gpus": {"type": "integer", "minimum": 1, "maximum": 8},
    "mode": {"type": "string", "enum": ["shared", "exclusive"]},
    "items": {"type": "array", "maxItems": 20, "items": ITEM},
    "until": {"type": "string", "format": "date-time"},
    "host": {"type": "string", "pattern": r"\A[[:alpha:]]+\z"},
}
SCHEMA = {
    "type": "object",
    "properties": {"spec": {"type": "object", "required": ["gpus"], "properties": SPEC}},
}
GOOD = {"gpus": 2, "mode": "shared", "items": [{"key": f"k{i}", "value": i} for i in range(10)]}
WRONG: dict[str, Any] = {
    "too small": {"gpus": 0},
    "no value of the enum": {"gpus": 1, "mode": "both"},
    "missing": {},
    "wrong type": {"gpus": 1, "items": [{"key": "a", "value": "b"}]},
    "a float": {"gpus": 1.0},
    "no time": {"gpus": 1, "until": "tomorrow"},
    "RE2": {"gpus": 1, "host": "a"},
}


def jsonschema() -> None:
    """Compare the time to validate a custom resource, and the texts of what is wrong."""
    library = import_module("jsonschema")
    ours, theirs = StructuralSchema(SCHEMA, RELEASE), library.Draft4Validator(SCHEMA)
    good = {"spec": GOOD}
    assert not ours.validate(good)
    assert theirs.is_valid(good)
    print(f"  understudy: {cpu_time(lambda: ours.validate(good), 500) * 1e6:.0f} µs for an object")
    print(f"  jsonschema: {cpu_time(lambda: list(theirs.iter_errors(good)), 200) * 1e6:.0f} µs for an object")

    def ours_of(spec: Any) -> str:
        return "; ".join(f"{error.field}: {error.body(RELEASE)}" for error in ours.validate({"spec": spec}))

    def theirs_of(spec: Any) -> str:
        return "; ".join(error.message for error in theirs.iter_errors({"spec": spec}))

    compare((name, lambda s=spec: ours_of(s), lambda s=spec: theirs_of(s)) for name, spec in WRONG.items())  # type: ignore[misc]


# --- jsonpatch

DOCUMENT = {"a": 1, "f": 1.0, "l": [1, 2, 3]}
OPERATIONS: list[dict[str, Any]] = [
    {"op": "add", "path": "/l/-1", "value": 9},
    {"op": "remove", "path": "/l/-1"},
    {"op": "replace", "path": "/x", "value": 1},
    {"op": "test", "path": "/x", "value": None},
    {"op": "test", "path": "/f", "value": 1},
    {"op": "add", "path": "/b"},
    {"op": "add", "path": "/l/01", "value": 0},
    {"op": "copy", "from": "/x", "path": "/y"},
    {"op": "move", "from": "/l/0", "path": "/b"},
    {"op": "remove", "path": "/x"},
]


def jsonpatch() -> None:
    """Compare the time to apply a patch, and what RFC 6902 and Go's library make of operations."""
    library = import_module("jsonpatch")
    large = {"spec": {"containers": [{"name": f"c{i}", "image": "i"} for i in range(20)]}}
    body = json.dumps([{"op": "replace", "path": "/spec/containers/3/image", "value": "j"}])
    ours = cpu_time(lambda: json_patch.apply(json_patch.parse(body.encode()), large), 2000)
    theirs = cpu_time(lambda: library.apply_patch(large, json.loads(body)), 2000)
    print(f"  understudy: {ours * 1e6:.0f} µs for a patch\n  jsonpatch: {theirs * 1e6:.0f} µs for a patch")

    def ours_of(operation: dict[str, Any]) -> object:
        return json_patch.apply(json_patch.parse(json.dumps([operation]).encode()), DOCUMENT)

    def theirs_of(operation: dict[str, Any]) -> object:
        return library.apply_patch(DOCUMENT, [operation])

    compare((json.dumps(each), lambda o=each: ours_of(o), lambda o=each: theirs_of(o)) for each in OPERATIONS)  # type: ignore[misc]


MEASURES = (aiohttp, celpy, ruamel, jsonschema, jsonpatch)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [measure.__name__ for measure in MEASURES]
    parser.add_argument("names", nargs="*", default=names, choices=names, metavar="NAME", help=", ".join(names))


def run(options: argparse.Namespace) -> int:
    for measure in MEASURES:
        if measure.__name__ in options.names:
            print(measure.__name__)
            measure()
    return 0
