"""Compare what two API servers ask the kubelet of a node, and what they answer for it.

    python -m scripts.compare kubelets https://127.0.0.1:6443 https://127.0.0.1:8001 --token T

The script plays the kubelet itself, which tells what it was asked. Compared are whole answers to requests for logs,
commands and ports, but for dates and what names a build; upgraded connections are relayed, a line in each direction.
Differences are printed, then how many exchanges agree. With `--save FILE` the exchanges of the left server are written
there. The exit status is 1 if there are differences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from scripts.common.comparing import Server, add_saving_arguments, require_servers
from scripts.compare.aggregation import Scene, judge
from scripts.compare.cases.aggregated_server import AggregatedServer
from scripts.compare.cases.aggregation_requests import UPGRADE
from scripts.compare.cases.aggregation_steps import Ask, Write

NAMESPACE = "/api/v1/namespaces/kubelets"
PODS = f"{NAMESPACE}/pods"
STATUSES = [f"status-{code}" for code in (400, 404, 500, 503)]
CONTAINERS = ("echo", "other", "refuse", "moved", "teapot", "cut", *STATUSES)
STORIES = ("requests", "websockets")
LOCAL = {"type": "InternalIP", "address": "127.0.0.1"}
COMMAND, PORTS = "v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"  # subprotocols of WebSockets
CLOSED = 1  # a port on which nothing listens


def steps(port: int, story: str = "requests") -> Iterator[Ask | Write]:
    """Yield the steps of a story, with a kubelet at a port."""
    is_new = story == "websockets"
    yield Write("POST", "/api/v1/namespaces", {"metadata": {"name": "kubelets"}})
    yield Write("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    for node, addresses, at in (
        ("n", [LOCAL], port),
        ("closed", [LOCAL], CLOSED),
        ("odd", [{**LOCAL, "type": "Odd"}], 0),
    ):
        yield Write("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": at}}}
        yield Write("PATCH", f"/api/v1/nodes/{node}/status", {"status": status})
        names = [*CONTAINERS, "tell", "yaml"] if is_new else CONTAINERS
        containers = [{"name": name, "image": "i"} for name in names]
        spec = {"nodeName": node, "containers": containers, "automountServiceAccountToken": False}
        yield Write("POST", PODS, {"metadata": {"name": f"on-{node}"}, "spec": spec})
        if node == "n" and is_new:
            yield Write("POST", PODS, {"metadata": {"name": "echo"}, "spec": spec})
    if is_new:
        yield from websockets()
        yield Write("DELETE", f"{PODS}/echo?gracePeriodSeconds=0")
    else:
        yield from logs()
        yield from connections()
    for node in ("n", "closed", "odd"):
        yield Write("DELETE", f"{PODS}/on-{node}?gracePeriodSeconds=0")
        yield Write("DELETE", f"/api/v1/nodes/{node}")


def logs() -> Iterator[Ask]:
    """Yield requests for logs."""
    for name in CONTAINERS:
        yield Ask(f"{PODS}/on-n/log?container={name}")
    everything = "follow=true&previous=1&timestamps=yes&sinceSeconds=5&tailLines=3&limitBytes=10"
    yield Ask(f"{PODS}/on-n/log?container=other&{everything}")
    yield Ask(
        f"{PODS}/on-n/log?container=other&sinceTime=2024-01-01T00:00:00Z&follow=false&insecureSkipTLSVerifyBackend=1"
    )
    yield Ask(f"{PODS}/on-n/log?container=none")
    yield Ask(f"{PODS}/on-n/log")
    yield Ask(f"{PODS}/on-closed/log?container=other")
    yield Ask(f"{PODS}/on-odd/log?container=other")


def connections() -> Iterator[Ask]:
    """Yield requests for commands and ports."""
    command = "command=sh&command=-c&command=a%20b&stdin=true&stdout=1&stderr=false&tty=true"
    yield Ask(f"{PODS}/on-n/exec?container=echo&{command}")
    yield Ask(f"{PODS}/on-n/exec?container=echo&{command}", headers=UPGRADE)
    yield Ask(f"{PODS}/on-n/exec?container=echo&{command}", "POST", headers=UPGRADE | {"X-Forwarded-For": "1.1.1.1"})
    yield Ask(f"{PODS}/on-n/attach?container=echo&stdin=true&stdout=true", headers=UPGRADE | {"X-Own": "1"})
    for name in ("other", "refuse", "cut", "teapot", "status-500", "none"):
        yield Ask(f"{PODS}/on-n/exec?container={name}&command=ls&stdout=true", headers=UPGRADE)
    yield Ask(f"{PODS}/on-n/portforward?ports=80&ports=443", headers=UPGRADE)
    yield Ask(f"{PODS}/on-n/portforward")
    yield Ask(f"{PODS}/on-closed/exec?container=echo&command=ls&stdout=true", headers=UPGRADE)
    yield Ask(f"{PODS}/on-odd/portforward", headers=UPGRADE)


def websockets() -> Iterator[Ask]:
    """Yield requests for commands and ports through WebSockets, which the server adapts to kubelets."""
    every = "stdin=true&stdout=true&stderr=true"
    for name in ("tell", "yaml", "other", "refuse", "moved", "cut", "status-500", "none"):
        yield Ask(f"{PODS}/on-n/exec?container={name}&command=ls&{every}", headers=websocket(COMMAND))
    yield Ask(f"{PODS}/on-n/attach?container=other&stderr=true&tty=true", headers=websocket(COMMAND))
    yield Ask(f"{PODS}/on-closed/exec?container=other&command=ls&stdin=true", headers=websocket(COMMAND))
    yield Ask(f"{PODS}/on-odd/exec?container=other&command=ls&stdin=true", headers=websocket(COMMAND))
    yield Ask(f"{PODS}/on-n/exec?container=other&command=ls&{every}", "POST", headers=websocket(COMMAND))
    for protocols in (f"v4.channel.k8s.io, {COMMAND}", "v6.channel.k8s.io"):
        yield Ask(f"{PODS}/on-n/exec?container=other&command=ls&{every}", headers=websocket(protocols))
    for change in ({"Sec-WebSocket-Key": ""}, {"Sec-WebSocket-Version": "12"}, {"Connection": "close"}):
        yield Ask(f"{PODS}/on-n/exec?container=other&command=ls&{every}", headers=websocket(COMMAND) | change)
    for pod in ("on-n", "on-closed"):
        yield Ask(f"{PODS}/{pod}/portforward?ports=80", headers=websocket(PORTS))
    yield Ask(f"{PODS}/on-n/portforward", headers=websocket("SPDY/3.1+other"))
    for protocols in (PORTS, f"other, {PORTS}, SPDY/3.1+another.k8s.io"):
        yield Ask(f"{PODS}/echo/portforward", headers=websocket(protocols))


def websocket(protocols: str) -> dict[str, str]:
    """Return the headers of a request for a WebSocket."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": protocols}
    return headers | {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_saving_arguments(parser)
    parser.add_argument("--story", choices=STORIES, default="requests", help="what happens (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    servers = Server(options.left, options.token), Server(options.right, options.token)
    require_servers(*servers)
    with AggregatedServer(answers="/") as kubelet:
        scenes = [Scene(server, options.token, kubelet) for server in servers]
        left, right = (list(scene.exchanges(steps(kubelet.port, options.story))) for scene in scenes)
    return judge(left, right, options.save)
