"""Component statuses: how the parts of a control plane are, by their health checks. Deprecated, and nothing is stored.

There are no other parts here. What is said of them is what the real server says when it cannot reach them.
"""

from __future__ import annotations

from understudy.apiserver.endpoints.negotiation import LIST
from understudy.apiserver.endpoints.request import Call, Reply
from understudy.apiserver.endpoints.responsewriters.writers import list_reply, object_reply, wanted
from understudy.apiserver.endpoints.scope import Api, Target, selector_of
from understudy.apiserver.registry.list import Page
from understudy.apiserver.storage.interface import Entry
from understudy.machinery import errors
from understudy.machinery.options import list_options
from understudy.machinery.releases import features
from understudy.machinery.types import Obj

PORTS = {"controller-manager": 10257, "scheduler": 10259}  # of the parts' health checks


def _component(name: str) -> Entry:
    condition: Obj = {"type": "Healthy", "status": "True", "message": "ok"}
    if name in PORTS:
        host = f"127.0.0.1:{PORTS[name]}"
        why = f'Get "https://{host}/healthz": dial tcp {host}: connect: connection refused'
        condition = {"type": "Healthy", "status": "False", "message": why}
    return Entry(name, {"metadata": {"name": name, "creationTimestamp": None}, "conditions": [condition]}, 0)


COMPONENTS = {name: _component(name) for name in (*PORTS, "etcd-0")}


async def get(api: Api, call: Call, target: Target) -> Reply:
    """Raises 500 for a part that there is not."""
    if target.name not in COMPONENTS:
        raise errors.unknown_error(f"Component not found: {target.name}")
    return object_reply(call, target, COMPONENTS[target.name])


async def list_(api: Api, call: Call, target: Target) -> Reply:
    wanted(call, LIST)
    selector = selector_of(
        target, list_options(call.query, call.release, watch=False, watch_list=api.gates[features.WATCH_LIST])
    )
    return list_reply(call, target, Page([c for c in COMPONENTS.values() if selector.matches(c.object)], 0, "", None))


async def watch(api: Api, call: Call, target: Target) -> Reply:
    """Raises 405."""
    raise errors.watch_not_supported(target.kind.resource)
