"""Compare how two API servers pass requests on to an aggregated one, and what they say of it.

    python -m scripts.compare aggregation https://127.0.0.1:6443 https://127.0.0.1:8001 --token T --alice A \\
        --front-ca CA

The script plays the aggregated server itself, behind a Service of the type ExternalName. Both are started with
`--proxy-client-cert-file` and `--proxy-client-key-file`. The tokens are those of a
member of `system:masters`, and of anybody else. Compared are the condition of the APIService at each turn, and whole
answers, but for dates and what names a build; the aggregated server tells in them what it was asked. Differences are
printed, then how many exchanges agree. With `--save FILE` the exchanges of the left server are written there. The exit
status is 1 if there are differences.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.common.comparing import Answer, Obj, Server, Tally, require_servers
from scripts.compare.cases.aggregated_server import GROUP, PATH, VERSION, AggregatedServer

PATIENCE = 60.0  # seconds until a condition or an answer is there
LAG = 0.5
NAME = f"{VERSION}.{GROUP}"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
SERVICES = "/api/v1/namespaces/wardle/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/wardle/endpointslices"
ENDPOINTS = "/api/v1/namespaces/wardle/endpoints"
FLUNDERS = f"{PATH}/namespaces/default/flunders"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "echo"}
UNKEPT = ("date", "server", "connection", "transfer-encoding", "content-length")


@dataclass
class Ask:
    """A request that is compared; with `until`, it is repeated until it has that status.

    alice  whether it is not the administrator's
    """

    path: str
    method: str = "GET"
    headers: Obj = field(default_factory=dict)
    body: Any = None
    alice: bool = False
    until: int = 0


@dataclass
class Write:
    """A request that prepares others."""

    method: str
    path: str
    body: Any = None


@dataclass
class Reason:
    """Waits for the reason of the condition `Available`, which is compared."""

    reason: str


def patch(**spec: Any) -> Write:
    """Return a change of the APIService."""
    return Write("PATCH", f"{API_SERVICES}/{NAME}", {"spec": spec})


def steps(port: int, bundle: str, release: str) -> Iterator[Ask | Write | Reason]:
    """Yield the steps, with an aggregated server at a port; a release calls some things otherwise."""
    service = {"namespace": "wardle", "name": "api", "port": port}
    spec: Obj = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 1000, "versionPriority": 15}
    spec |= {"caBundle": bundle, "service": service}
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "wardle"}})
    yield Write("POST", API_SERVICES, {"metadata": {"name": NAME}, "spec": spec})
    yield Reason("ServiceNotFound")
    yield Ask(PATH, until=503)
    yield Ask(FLUNDERS, "POST", body={}, alice=True)
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": {"ports": [{"name": "x", "port": 443}]}})
    yield Reason("ServicePortError")
    yield Write("PATCH", f"{SERVICES}/api", {"spec": {"ports": [{"name": "x", "port": port}]}})
    yield Reason("EndpointsNotFound")
    ports, place = [{"name": "y", "port": 9}], {"name": "api", "labels": {"kubernetes.io/service-name": "api"}}
    addresses = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]}
    yield Write("POST", SLICES, {"metadata": place, "ports": ports} | addresses)
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": ports}]
    yield Write("POST", ENDPOINTS, {"metadata": {"name": "api"}, "subsets": subsets})
    yield Reason("MissingEndpoints")
    yield Write("DELETE", f"{SERVICES}/api")
    yield Reason("ServiceNotFound")
    external = {"type": "ExternalName", "externalName": "localhost"}
    yield Write("POST", SERVICES, {"metadata": {"name": "api"}, "spec": external})
    yield Reason("Passed")
    yield Ask(PATH, until=200)
    yield from requests()
    yield patch(caBundle="bm8=")
    if release == "1.32":
        yield Ask(PATH, until=500)
    yield patch(caBundle=None)
    if release != "1.32":
        yield Reason("FailedDiscoveryCheck")
    yield Ask(PATH, until=503)
    yield Ask(f"{FLUNDERS}/a/echo", headers=UPGRADE)
    yield patch(caBundle=None, insecureSkipTLSVerify=True)
    yield Ask(PATH, until=200)
    yield patch(service=None, insecureSkipTLSVerify=None)
    yield Ask(PATH, until=404)
    for path in (f"{API_SERVICES}/{NAME}", f"{SERVICES}/api", f"{SLICES}/api"):
        yield Write("DELETE", path)


def requests() -> Iterator[Ask]:
    """Yield requests that are passed on."""
    yield Ask(f"{FLUNDERS}?b=2&a=1&a=%20x&c")
    yield Ask(f"{PATH}/")
    yield Ask(f"{FLUNDERS}/a%2Fb%20c")
    told = {"X-Remote-User": "evil", "X-Remote-Group": "g", "X-Remote-Extra-Foo": "x", "X-Forwarded-For": "1.1.1.1"}
    yield Ask(FLUNDERS, headers=told | {"Te": "trailers", "X-Own": "1", "X-Forwarded-Host": "h"}, alice=True)
    other = {"Impersonate-User": "bob", "Impersonate-Group": "g1", "Impersonate-Uid": "u"}
    yield Ask(FLUNDERS, headers=other | {"Impersonate-Extra-A%2fb": "s"})
    yield Ask(FLUNDERS, "POST", {"Content-Type": "application/json"}, {"a": 1})
    yield Ask(FLUNDERS, "HEAD")
    yield Ask(FLUNDERS, "OPTIONS")
    yield Ask(f"{FLUNDERS}?watch=1")
    for name in ("moved", "teapot", "cut"):
        yield Ask(f"{PATH}/{name}")
    yield Ask(f"{FLUNDERS}/a/echo", headers=UPGRADE | {"X-Remote-User": "evil"})
    yield Ask(f"{FLUNDERS}/a/other", headers=UPGRADE)
    yield Ask(f"{FLUNDERS}/a/refuse", headers=UPGRADE)


class Scene:
    """Plays the steps at one server, to which another user than the administrator has the token `alice`.

    lag  seconds that the server may take to act upon a condition that it shows
    """

    def __init__(self, server: Server, alice: str, aggregated: AggregatedServer, lag: float = 0.0) -> None:
        self.server, self.alice, self.aggregated, self.lag = server, alice, aggregated, lag

    def exchanges(self, release: str) -> Iterator[Obj]:
        """Yield the things that are compared: a request with its answer, or a condition."""
        for number, step in enumerate(steps(self.aggregated.port, self.aggregated.bundle, release)):
            if isinstance(step, Write):
                self._write(step)
            elif isinstance(step, Reason):
                yield {"condition": self._masked(self._condition(step.reason))}
            else:
                asked = f"{step.method} {step.path}"
                yield {"request": asked, "answer": self._masked(self._answer(step, f"step-{number}"))}

    def _write(self, step: Write) -> None:
        media = "application/merge-patch+json" if step.method == "PATCH" else "application/json"
        status, answer = self.server.call(step.method, step.path, step.body, media)
        if status not in (200, 201, 409):  # the namespace may be there
            raise SystemExit(f"{self.server.url}: {step.method} {step.path}: {status} {answer}")

    def _condition(self, reason: str) -> Obj:
        """Return the condition once it has a reason."""
        end = time.monotonic() + PATIENCE
        while True:
            conditions = self.server.must("GET", f"{API_SERVICES}/{NAME}")["status"].get("conditions", [])
            for condition in conditions:
                if condition["reason"] == reason:
                    time.sleep(self.lag)
                    return {name: value for name, value in condition.items() if name != "lastTransitionTime"}
            if time.monotonic() > end:
                raise SystemExit(f"{self.server.url}: no {reason}: {conditions}")
            time.sleep(0.02)

    def _answer(self, ask: Ask, audit_id: str) -> Obj:
        """Return the parts of an answer that are compared."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = self._exchange(ask, audit_id)
            if answer.status == (ask.until or answer.status):
                break
            if time.monotonic() > end:
                raise SystemExit(f"{self.server.url}: {ask.path}: {answer.status}, not {ask.until}")
            time.sleep(0.02)
        headers = [(name.lower(), value) for name, value in answer.headers]
        kept = [[name, value] for name, value in headers if name not in UNKEPT and not name.startswith("x-kubernetes-")]
        return {"status": answer.status, "headers": sorted(kept), "body": in_order(answer.body.decode())}

    def _exchange(self, ask: Ask, audit_id: str) -> Answer:
        headers = {"Authorization": f"Bearer {self.alice if ask.alice else self.server.token}", "Audit-ID": audit_id}
        headers |= {"User-Agent": "compare", **ask.headers}
        body = None if ask.body is None else json.dumps(ask.body).encode()
        if "Upgrade" not in ask.headers:
            return self.server.exchange(ask.method, ask.path, headers, body)
        connection = self.server.connect()
        connection.request(ask.method, ask.path, body, headers)
        answer = connection.getresponse()
        text = b""
        if answer.status == 101:
            text = answer.fp.readline()
            connection.sock.sendall(b"hello\n")
            text += answer.fp.readline()
        elif answer.getheader("Content-Length"):
            text = answer.read()
        connection.close()
        return Answer(answer.status, answer.getheaders(), text)

    def _masked(self, value: Any) -> Any:
        return json.loads(json.dumps(value).replace(str(self.aggregated.port), "PORT"))


def in_order(body: str) -> Any:
    """Return a body as JSON if it is, with the headers that the aggregated server tells in the order of their names."""
    first, _, rest = body.partition("\n")
    if not first.startswith("{") or first.startswith('{"type"'):
        return body
    told = json.loads(first)
    if "headers" in told:
        told["headers"] = sorted(told["headers"], key=lambda header: header[0])
    return [told, rest] if rest else told


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("left", help="URL of a real server")
    parser.add_argument("right", help="URL of the server to compare")
    parser.add_argument("--token", default="", help="bearer token of a member of system:masters, for both")
    parser.add_argument("--alice", default="", help="bearer token of another user")
    parser.add_argument("--front-ca", required=True, metavar="FILE", help="authorities of --proxy-client-cert-file")
    parser.add_argument("--release", default="1.37", help="the release of both (default: %(default)s)")
    parser.add_argument("--save", metavar="FILE", help="write the exchanges of the left server there")


def run(options: argparse.Namespace) -> int:
    servers, tally = (Server(options.left, options.token), Server(options.right, options.token)), Tally()
    require_servers(*servers)
    with AggregatedServer(options.front_ca) as aggregated:
        scenes = [Scene(server, options.alice, aggregated, LAG) for server in servers]
        left, right = (list(scene.exchanges(options.release)) for scene in scenes)
    for one, other in zip(left, right, strict=True):
        tally.compare(one.get("request", "condition"), one, other)
    if options.save:
        Path(options.save).write_text("".join(f"{json.dumps(exchange)}\n" for exchange in left))
    print(f"{tally.total} exchanges: {tally}")
    return tally.exit_status
