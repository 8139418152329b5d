"""What a server has from its start."""

from __future__ import annotations

from understudy.apiserver import metadata
from understudy.apiserver.api import Api
from understudy.apiserver.kind import Context
from understudy.apiserver.registry import Write
from understudy.apiserver.types import Obj

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")


async def fill(api: Api) -> None:
    """Creates the namespaces and priority classes that every cluster has, the latter if they are served."""
    for obj in initial_objects():
        kind = api.release.kind(obj.pop("group"), obj.pop("kind"))
        if kind is None:
            continue
        ctx = Context(api.release.name, api.gates, kind.versions[0], "system:apiserver", "", metadata.timestamp())
        ctx.lookup = api.registry.lookup
        await api.registry.create(Write(kind, "", obj["metadata"]["name"], kind.rules.strategy, ctx), obj)


def initial_objects() -> list[Obj]:
    """In the internal form, `group` and `kind` beside it."""
    namespaces = [
        {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}, "spec": {}, "status": {}}
        for name in NAMESPACES
    ]
    return [{"group": "", "kind": "Namespace", **obj} for obj in namespaces]
