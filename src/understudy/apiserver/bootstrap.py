"""Fills a server with what every new one has."""

from __future__ import annotations

from understudy.apiserver import metadata
from understudy.apiserver.api import Api
from understudy.apiserver.keys import key_of
from understudy.apiserver.kinds.bootstrap import initial_objects
from understudy.apiserver.patch import managedfields
from understudy.apiserver.types import split_api_version
from understudy.apiserver.versions import to_internal

MANAGER = "kube-apiserver"


async def fill(api: Api, port: int) -> None:
    """Stores them as they are, as far as their kinds are served. `port`: where the server listens."""
    now = metadata.timestamp()
    served = [(group.name, version) for group in api.release.groups for version in group.versions]
    for obj in initial_objects(api.release.name, now, served, port):
        group, version = split_api_version(obj["apiVersion"])
        kind = api.release.kind(group, obj["kind"])
        if kind is None or version not in kind.versions:
            continue
        owners = managedfields.on_update(
            None,
            obj,
            struct=kind.struct(version),
            api_version=obj["apiVersion"],
            manager=MANAGER,
            subresource="",
            now=now,
            reset=(("status",), ("spec", "finalizers")),  # what strategies fill in, for namespaces
            convert=managedfields.unconverted,
        )
        made = {"uid": metadata.new_uid(), "creationTimestamp": now, "managedFields": owners}
        fields = {**obj["metadata"], **made}
        internal = {**to_internal(kind, version, obj), "metadata": fields}
        await api.registry.store.create(key_of(kind, fields.get("namespace", ""), fields["name"]), internal)
