"""Creates the objects that every server holds, where they are missing."""

from __future__ import annotations

from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.registry.conversion import to_internal
from understudy.apiserver.registry.generated_names import new_uid
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.server.bootstrap.initial_objects import initial_objects
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.types import split_api_version

MANAGER = "kube-apiserver"


async def fill(state: ServerState, port: int) -> None:
    """Create the initial objects that are not stored yet and whose kinds are served; the server listens at `port`."""
    now = state.timestamp()
    for obj in initial_objects(now, state.release.api_services, port):
        group, version = split_api_version(obj["apiVersion"])
        kind = state.release.kind(group, obj["kind"])
        if kind is None or version not in kind.versions:
            continue
        reset = (("status",), ("spec", "finalizers"))  # what strategies fill in, for namespaces
        owners = FieldManager(kind.struct(version), obj["apiVersion"], reset=reset).update(None, obj, MANAGER, now)
        made = {"uid": new_uid(), "creationTimestamp": now, "managedFields": owners}
        fields = {**obj["metadata"], **made}
        internal = {**to_internal(kind, version, obj), "metadata": fields}
        key = key_of(kind, fields.get("namespace", ""), fields["name"])
        if await state.registry.store.get(key) is None:
            await state.registry.store.create(key, internal)
