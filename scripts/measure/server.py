"""Measure understudy beside a bare aiohttp handler that sends the same bytes, and beside any other API server.

    scripts/bench.py                                                   understudy and the bare handler
    scripts/bench.py --quick                                           fewer and shorter rounds
    scripts/bench.py --against https://127.0.0.1:6443 --token T --insecure    and a kube-apiserver

All servers are measured in the same run, in turns, by one client: an asyncio protocol that knows just enough HTTP/1.1
to write the next request as soon as an answer is complete, over CONNECTIONS keep-alive connections. Each server is a
process of its own. The bare handler is aiohttp's low-level server on uvloop, which answers with prepared bytes: no
server written with aiohttp can be faster.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop

from scripts.common.custom_resources import DEFINITIONS, definition, served_version
from scripts.measure import memory, micro
from scripts.measure.client import (
    CONNECTIONS,
    CORE,
    JSON,
    NAMESPACE,
    PROTOBUF,
    Encoding,
    Pump,
    Target,
    Watcher,
    Workload,
    create_namespace,
    patch_each,
    post_each,
    repeat,
    send,
)
from scripts.measure.fixture import print_fixture_times
from understudy.machinery.releases.version import V1_32
from understudy.machinery.serializer import protobuf
from understudy.machinery.typeinfo.go_types import Schemas

BENCH = str(Path(__file__).parents[1] / "bench.py")  # runs this command from any folder
STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
WATCHERS = 100
OBJECTS = 500
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def claim(name: str) -> dict[str, Any]:
    """Return a ResourceClaim with labels and one request."""
    requests = [{"name": "gpu", "deviceClassName": "gpu.example.com"}]
    labels = {"app": "bench", "tier": "one"}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {"devices": {"requests": requests}},
    }


_SPEC = {
    "size": {"type": "integer", "minimum": 0},
    "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
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
}
_SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": _SPEC}}}
DEFINITION = definition("bench.example.com", "Widget", served_version(_SCHEMA), scope="Namespaced")
WIDGETS = f"/apis/bench.example.com/v1/namespaces/{NAMESPACE}/widgets"


def widget(name: str) -> dict[str, Any]:
    """Return a custom resource of the definition."""
    ports = [{"name": f"port-{port}", "port": port} for port in (8080, 8443)]
    fields = {"name": name, "labels": {"app": "bench", "tier": "one"}}
    return {
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": fields,
        "spec": {"size": 1, "ports": ports},
    }


# --- the measurements: each returns operations per second for one round


async def get(target: Target, work: Workload, form: Encoding = JSON) -> float:
    """Read one claim again and again."""
    return await repeat(target, work, f"{work.claims}/claim-0", form)


async def list_(target: Target, work: Workload, form: Encoding = JSON) -> float:
    """List all claims again and again."""
    return await repeat(target, work, work.claims, form)


def config_map(name: str, form: Encoding) -> Any:
    """Return a config map, for protobuf encoded."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}}
    return body if form is JSON else protobuf.encode(body, Schemas.of(V1_32).kind("", "v1", "ConfigMap"))


async def create(target: Target, work: Workload, form: Encoding = JSON) -> float:
    """Create config maps, not claims, so that LIST returns the same claims in every round."""
    return await post_each(target, work, f"{CORE}/configmaps", lambda name: config_map(name, form), form)


async def create_claim(target: Target, work: Workload) -> float:
    """Create claims as dry runs: everything but storing."""
    return await post_each(target, work, f"{work.claims}?dryRun=All", claim)


async def patch(target: Target, work: Workload) -> float:
    """Patch the images of deployments with strategic patches."""

    def body(number: int) -> Any:
        containers = [{"name": "main", "image": f"registry.example.com/main:{number}"}]
        return {"spec": {"template": {"spec": {"containers": containers}}}}

    return await patch_each(target, work, f"{DEPLOYMENTS}/deployment-", body, STRATEGIC)


async def list_widgets(target: Target, work: Workload) -> float:
    """List all custom resources again and again."""
    return await repeat(target, work, WIDGETS)


async def patch_widget(target: Target, work: Workload) -> float:
    """Patch custom resources with merge patches."""
    return await patch_each(target, work, f"{WIDGETS}/widget-", lambda number: {"spec": {"size": number}}, MERGE)


async def create_widget(target: Target, work: Workload) -> float:
    """Create custom resources."""
    return await post_each(target, work, WIDGETS, widget)


async def fan_out(target: Target, work: Workload, form: Encoding = JSON) -> float:
    """Return the events delivered per second, over all watchers, while one connection writes."""
    event_numbers = itertools.count(1)
    expected, complete = float("inf"), asyncio.get_running_loop().create_future()

    def arrived() -> None:
        if next(event_numbers) == expected and not complete.done():
            complete.set_result(None)

    version = json.loads(await target.exchange("GET", f"{CORE}/configmaps?limit=1"))["metadata"]["resourceVersion"]
    request = target.request("GET", f"{work.watch}&resourceVersion={version}", accept=form.media)
    watchers = [await target.connect(lambda: Watcher(request, form.mark, arrived)) for _ in range(WATCHERS)]
    await asyncio.gather(*(watcher.opened for watcher in watchers))
    writes = max(int(100 * work.seconds), 10)
    expected = WATCHERS * writes
    bodies = [
        {"kind": "ConfigMap", "metadata": {"name": f"made-{next(work.names)}"}, "data": {"key": "value"}}
        for _ in range(writes)
    ]
    start = time.perf_counter()
    pump = await target.connect(lambda: Pump(target.request("POST", f"{CORE}/configmaps", body) for body in bodies))
    await asyncio.wait_for(asyncio.gather(complete, pump.done), 60)
    took = time.perf_counter() - start
    pump.transport.close()
    for watcher in watchers:
        watcher.transport.close()
    return expected / took


def in_protobuf(measurement: Callable[..., Any]) -> Callable[[Target, Workload], Any]:
    """Return the measurement with requests and answers in protobuf."""
    return lambda target, work: measurement(target, work, PROTOBUF)


MEASUREMENTS: dict[str, Callable[[Target, Workload], Any]] = {
    "GET a claim": get,
    f"LIST {OBJECTS} claims": list_,
    "CREATE a configmap": create,
    "CREATE a claim, dry run": create_claim,
    "PATCH a deployment, strategic": patch,
    f"watch events to {WATCHERS} watchers": fan_out,
}
# These are measured without the bare handler. Widgets are listed before more of them are made.
FURTHER_MEASUREMENTS: dict[str, Callable[[Target, Workload], Any]] = {
    f"LIST {OBJECTS} custom resources": list_widgets,
    "PATCH a custom resource, merge": patch_widget,
    "CREATE a custom resource": create_widget,
    "GET a claim, protobuf": in_protobuf(get),
    f"LIST {OBJECTS} claims, protobuf": in_protobuf(list_),
    "CREATE a configmap, protobuf": in_protobuf(create),
    f"watch events to {WATCHERS} watchers, protobuf": in_protobuf(fan_out),
}


# --- the servers


async def create_objects(target: Target, work: Workload) -> None:
    """Create the namespace and the objects that are measured."""
    await create_namespace(target)
    await send(target, (target.request("POST", work.claims, claim(f"claim-{n}")) for n in range(OBJECTS)))
    await create_widgets(target)
    await create_deployments(target, work)


async def create_deployments(target: Target, work: Workload) -> None:
    """Create a deployment for each connection."""
    for number in range(work.connections):
        labels = {"app": "bench"}
        ports = [{"containerPort": port, "name": f"port-{port}"} for port in (8080, 8443)]
        env = [{"name": f"VARIABLE_{n}", "value": str(n)} for n in range(8)]
        container = {"name": "main", "image": "registry.example.com/main:0", "ports": ports, "env": env}
        side = {"name": "side", "image": "registry.example.com/side:0"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container, side]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        body = {"kind": "Deployment", "metadata": {"name": f"deployment-{number}"}, "spec": spec}
        await target.exchange("POST", DEPLOYMENTS, body)


async def create_widgets(target: Target) -> None:
    """Create the definition of the custom resources, and them as soon as it is in force."""
    await target.exchange("POST", DEFINITIONS, DEFINITION)
    for _ in range(100):
        pump = await target.connect(lambda: Pump([target.request("GET", WIDGETS)]))
        await pump.done
        pump.transport.close()
        if not pump.failed:
            break
        await asyncio.sleep(0.2)
    await send(target, (target.request("POST", WIDGETS, widget(f"widget-{n}")) for n in range(OBJECTS)))


async def delete_objects(target: Target, work: Workload) -> None:
    """Delete the namespace and the objects that were measured."""
    for path in (work.claims, f"{CORE}/configmaps", DEPLOYMENTS):
        await target.exchange("DELETE", path)
    await target.exchange("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    await target.exchange("DELETE", f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")


async def collect_answers(target: Target, work: Workload) -> dict[str, str]:
    """Return the bytes that understudy sends, by "METHOD /path"; the bare handler will send the same."""
    made = {"kind": "ConfigMap", "metadata": {"name": "sample"}, "data": {"key": "value"}}
    answers = {
        f"GET {work.claims}/claim-0": await target.exchange("GET", f"{work.claims}/claim-0"),
        f"GET {work.claims}": await target.exchange("GET", work.claims),
        f"POST {CORE}/configmaps": await target.exchange("POST", f"{CORE}/configmaps", made),
        f"POST {work.claims}": await target.exchange("POST", f"{work.claims}?dryRun=All", claim("sample")),
        f"GET {CORE}/configmaps": await target.exchange("GET", f"{CORE}/configmaps?limit=1"),
    }
    for number in range(CONNECTIONS):
        path = f"{DEPLOYMENTS}/deployment-{number}"
        answers[f"PATCH {path}"] = await target.exchange("GET", path)
    return {what: body.decode() for what, body in answers.items()}


def run_bare_handler(path: Path) -> None:
    """Run the bare handler with the answers in the file `path`, and print its address."""
    from aiohttp import web

    async def main() -> None:
        answers = {what: body.encode() for what, body in json.loads(path.read_text()).items()}
        created = next(what for what in answers if what.startswith("POST ") and what.endswith("/configmaps"))
        event = b'{"type":"ADDED","object":' + answers[created].rstrip() + b"}\n"
        watching: dict[web.StreamResponse, web.BaseRequest] = {}

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            what = f"{request.method} {request.path}"
            if request.method != "GET":
                await request.read()
            elif "watch" in request.query:
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                await response.prepare(request)
                watching[response] = request
                await asyncio.Event().wait()
            if watching and what == created:
                for response, watched in list(watching.items()):
                    if watched.transport is None or watched.transport.is_closing():
                        del watching[response]
                    else:
                        await response.write(event)
            status = 201 if request.method == "POST" else 200
            return web.Response(status=status, body=answers[what], headers={"Content-Type": "application/json"})

        runner = web.ServerRunner(web.Server(handler))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        print(f"bare: http://127.0.0.1:{port}", flush=True)
        await asyncio.Event().wait()

    uvloop.run(main())


@contextmanager
def running_server(*argv: str) -> Iterator[str]:
    """Run a server; yield its address, from the first line that contains one."""
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert running.stdout
    try:
        for line in running.stdout:
            if "http" in line:
                yield "http" + line.split("http", 1)[1].split()[0].rstrip(".")
                break
        else:
            raise SystemExit(f"did not start: {' '.join(argv)}")
    finally:
        running.terminate()
        running.wait()
        running.stdout.close()


def understudy(*more: str) -> list[str]:
    """Return the command line of the server."""
    return [
        sys.executable,
        "-c",
        "from understudy.cli.main import main; main()",
        "serve",
        "--port",
        "0",
        *more,
    ]


def startup_seconds(argv: list[str]) -> float:
    """Return the seconds until a server has printed its address."""
    start = time.perf_counter()
    with running_server(*argv):
        return time.perf_counter() - start


def print_startup_times(rounds: int) -> None:
    """Print the median and the best time that the server, the fixture and aiohttp alone need to start."""
    fixture = "from understudy import Server\nwith Server() as server: print(server.url)"
    aiohttp_alone = "import aiohttp.web, uvloop; print('http://nothing')"
    for name, argv in {
        "understudy serve": understudy(),
        "understudy.Server() in a new interpreter": [sys.executable, "-c", fixture],
        "a new interpreter that imports aiohttp and uvloop": [sys.executable, "-c", aiohttp_alone],
    }.items():
        took = [startup_seconds(argv) * 1000 for _ in range(rounds)]
        print(f"{name:52s} {statistics.median(took):8.0f} ms  (best {min(took):.0f})")


# --- the tables


def row(cells: list[str], widths: list[int]) -> str:
    """Return a line of a table, with the first cell to the left and the others to the right."""
    return "  ".join(
        cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
    )


def print_table(results: dict[str, dict[str, list[float]]], names: list[str]) -> None:
    """Print medians per second (with the worst and the best round), and understudy's ratio to each other server."""
    others = [name for name in names if name != "understudy"]
    rows = [["per second", *names, *(f"/ {name}" for name in others)]]
    for what, rates in results.items():
        medians = {name: statistics.median(rates[name]) for name in names}
        cells = [f"{medians[name]:,.0f} ({min(rates[name]):,.0f} to {max(rates[name]):,.0f})" for name in names]
        rows.append([what, *cells, *(f"{medians['understudy'] / medians[name]:.2f}" for name in others)])
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(rows[0]))]
    print(*(row(cells, widths) for cells in rows), sep="\n")


async def measure(
    targets: list[Target], measurement: dict[str, Any], work: Workload, rounds: int, only: str
) -> dict[str, dict[str, list[float]]]:
    """Return the rates of each round, by measurement and server; the servers take turns."""
    results: dict[str, dict[str, list[float]]] = {}
    for what, run in measurement.items():
        if only not in what:
            continue
        rates: dict[str, list[float]] = {target.name: [] for target in targets}
        for _ in range(rounds):
            for target in targets:
                rates[target.name].append(await run(target, work))
        results[what] = rates
    return results


async def start_servers(args: argparse.Namespace, work: Workload, stack: ExitStack) -> list[Target]:
    """Start understudy and the bare handler, prepare the other server if there is one, and return all of them."""
    ours = Target("understudy", stack.enter_context(running_server(*understudy())))
    await create_objects(ours, work)
    answers = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "answers.json"
    answers.write_text(json.dumps(await collect_answers(ours, work)))
    bare = stack.enter_context(running_server(sys.executable, BENCH, "--bare", str(answers)))
    targets = [Target("bare", bare), ours]
    if args.against:
        head = f"Authorization: Bearer {args.token}\r\n" if args.token else ""
        tls = None
        if args.against.startswith("https:"):
            tls = ssl._create_unverified_context() if args.insecure else ssl.create_default_context(cafile=args.ca)
        targets.append(Target("other", args.against, head, tls))
        await create_objects(targets[-1], work)
    return targets


async def measure_all(args: argparse.Namespace) -> None:
    """Start the servers, and print the tables of all measurements."""
    work = Workload(0.3 if args.quick else 1.0, args.api)
    rounds = 3 if args.quick else 7
    with ExitStack() as stack:
        targets = await start_servers(args, work, stack)
        print(
            f"{rounds} rounds of {work.seconds} s, in turns, over {CONNECTIONS} connections; median (worst to best)\n"
        )
        print_table(await measure(targets, MEASUREMENTS, work, rounds, args.only), [target.name for target in targets])
        api_servers = targets[1:]
        print()
        print_table(
            await measure(api_servers, FURTHER_MEASUREMENTS, work, rounds, args.only),
            [target.name for target in api_servers],
        )
        if args.against:
            await delete_objects(targets[-1], work)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure what has this in its name")
    parser.add_argument("--api", default="v1beta1", help="the version of resource.k8s.io that is used")
    parser.add_argument("--against", metavar="URL", help="another API server, measured in the same run")
    parser.add_argument("--token", help="its bearer token")
    parser.add_argument("--ca", metavar="FILE", help="its certificate authority")
    parser.add_argument("--insecure", action="store_true", help="do not verify its certificate")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.bare:
        run_bare_handler(args.bare)
        return 0
    uvloop.run(measure_all(args))
    if not args.only:
        print("\nstart-up")
        print_startup_times(3 if args.quick else 9)
        print("\nin the fixture")
        print_fixture_times(3 if args.quick else 9)
        print("\nin one process")
        micro.run(args)
        print("\nresident memory")
        memory.run(args)
    return 0
