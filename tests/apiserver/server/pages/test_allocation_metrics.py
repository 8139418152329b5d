"""What /metrics tells of addresses and ports that services get."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from tests.http import MERGE_PATCH, exchange, send
from understudy import Server
from understudy.machinery.types import Obj

SERVICES = "/api/v1/namespaces/default/services"
CIDR = 'cidr="10.0.0.0/24"'
DYNAMIC, STATIC = (f'ip_total{{{CIDR},scope="{scope}"}}' for scope in ("dynamic", "static"))
IP_ERROR = f'ip_errors_total{{{CIDR},scope="static"}}'
DYNAMIC_PORT, STATIC_PORT = (f'port_total{{scope="{scope}"}}' for scope in ("dynamic", "static"))
PORT_ERROR = 'port_errors_total{scope="static"}'


def service(name: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def on_port(number: int) -> list[Obj]:
    return [{"port": 80, "nodePort": number}]


TWO_PROTOCOLS = [{"port": 80, "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b"}, {"port": 81, "name": "c"}]
LOCAL: Obj = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
# Requests, what they count, and how many addresses and ports are allocated then.
STORY: list[tuple[str, str, Obj | None, list[str], tuple[int, int]]] = [
    ("POST", "", service("a"), [DYNAMIC], (1, 0)),
    ("POST", "", service("b", clusterIP="10.0.0.77"), [STATIC], (2, 0)),
    ("POST", "", service("c", clusterIP="10.0.0.77"), [IP_ERROR], (2, 0)),
    ("POST", "", service("c", clusterIP="None"), [], (2, 0)),
    ("POST", "", service("d", ports=[]), [DYNAMIC], (2, 0)),
    ("POST", "", service("a"), [DYNAMIC], (2, 0)),
    ("POST", "?dryRun=All", service("d", type="NodePort"), [], (2, 0)),
    ("POST", "", service("e", type="NodePort"), [DYNAMIC, DYNAMIC_PORT], (3, 1)),
    ("POST", "", service("f", type="NodePort", ports=on_port(30500)), [DYNAMIC, STATIC_PORT], (4, 2)),
    ("POST", "", service("g", type="NodePort", ports=on_port(30500)), [DYNAMIC, PORT_ERROR], (4, 2)),
    ("POST", "", service("g", type="NodePort", ports=on_port(500)), [DYNAMIC, PORT_ERROR], (4, 2)),
    ("POST", "", service("g", type="NodePort", ports=TWO_PROTOCOLS), [DYNAMIC, *[DYNAMIC_PORT] * 2], (5, 4)),
    ("POST", "", service("h", **LOCAL), [DYNAMIC, *[DYNAMIC_PORT] * 2], (6, 6)),
    ("PATCH", "/a", {"spec": {"type": "NodePort"}}, [DYNAMIC_PORT], (6, 7)),
    ("PATCH", "/a", {"spec": {"type": "ClusterIP"}}, [], (6, 6)),
    ("PATCH", "/f", {"spec": {"ports": on_port(30501)}}, [STATIC_PORT], (6, 6)),
    ("PATCH", "/f", {"metadata": {"labels": {"a": "b"}}}, [], (6, 6)),
    ("DELETE", "/h", None, [], (5, 4)),
]


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_allocations_are_counted(release: str) -> None:
    """Allocations and errors are counted by scope as they happen, also those of requests that are refused later."""
    with Server(emulated_version=release) as server:
        own = round(gauges(server)[0])  # of the Service `kubernetes`, where there is one
        for method, path, body, expected, (addresses, ports) in STORY:
            before = counts(server)
            exchange(server, method, SERVICES + path, body, *((MERGE_PATCH,) if method == "PATCH" else ()))
            assert (path, body, counts(server) - before) == (path, body, Counter(expected))
            has_ports = any("port_total" in name for name in counts(server))
            left = (254 - own - addresses, 2768 - ports if has_ports else 0)
            assert (path, body, gauges(server)) == (path, body, (own + addresses, ports, *left))
        timed = re.findall(r"_allocation_duration_seconds_count{\S+} (\d+)", metrics(server))
        assert timed == (
            [] if release == "1.32" else [str(sum(STATIC in line[3] or DYNAMIC in line[3] for line in STORY))]
        )


def metrics(server: Server) -> str:
    return send(server, "GET", "/metrics").body.decode()


def counts(server: Server) -> Counter[str]:
    """Return the counters of allocations by shortened names."""
    found = re.findall(
        r"^kube_apiserver_(?:cluster|node)(ip|port)_allocator_allocation_(\S*total{\S+}) (\d+)$",
        metrics(server),
        re.MULTILINE,
    )
    return Counter({f"{what}_{name}": int(count) for what, name, count in found})


def gauges(server: Server) -> tuple[float, ...]:
    """Return the numbers of addresses and ports that are allocated, and of those that are left."""
    page = metrics(server)
    names = ("clusterip_allocator_WHAT_ips{" + CIDR + "}", "nodeport_allocator_WHAT_ports")
    lines = (f"kube_apiserver_{name.replace('WHAT', what)} " for what in ("allocated", "available") for name in names)
    return tuple(float(page.partition("\n" + line)[2].partition("\n")[0]) for line in lines)
