"""Endpoints: defaults, strategy, table cells."""

from __future__ import annotations

from understudy.kinds.common.compose import all_of, as_on_create
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, row, shortened
from understudy.kinds.context import Context
from understudy.kinds.core.endpoints import validation
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


def _endpoints_cell(obj: Obj) -> str:
    """Return the first addresses with ports (upstream: `formatEndpoints`)."""
    subsets = obj.get("subsets") or []
    if not subsets:
        return NONE
    addresses: list[str] = []
    total = 0
    for subset in subsets:
        ips = [a["ip"] for a in subset.get("addresses") or []]
        for port in subset.get("ports") or [None]:
            total += len(ips)
            addresses += ips if port is None else [_host_port(ip, port["port"]) for ip in ips]
    return shortened(addresses, 3, total) if total > 3 else ",".join(addresses)


def _host_port(ip: str, port: int) -> str:
    """Return `10.0.0.1:80`, or `[::1]:80` (Go: `net.JoinHostPort`)."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _default_endpoints(obj: Obj, ctx: Context) -> None:
    """Set the protocol of ports to TCP, in place."""
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or []:
            port.setdefault("protocol", "TCP")


ENDPOINTS = Behavior(
    defaults=_default_endpoints,
    strategy=Strategy(
        create_on_update=True,
        validate=validation.validate,
        validate_update=all_of(CORE.updated, as_on_create(CORE.created), validation.changed),
        warn_create=validation.warn,
        warn_update=lambda obj, old, ctx: validation.warn(obj, ctx),
    ),
    table_row=row(_endpoints_cell),
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of the kind by (group, kind)."""
    return {("", "Endpoints"): ENDPOINTS}
