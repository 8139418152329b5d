"""Creates the objects that every server holds, where they are missing."""

from __future__ import annotations

from contextlib import suppress

from understudy.apiserver.encoding.conversion import bare
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.server.bootstrap.initial_objects import initial_objects
from understudy.apiserver.storage.interface import KeyExistsError
from understudy.machinery.types import split_api_version
from understudy.machinery.validation.generated_names import new_uid


async def fill(state: ServerState, port: int) -> None:
    """Create the initial objects that are not stored yet; the server listens at `port`."""
    store = state.registry.store
    for obj in initial_objects(state.release, state.gates, state.timestamp(), port):
        group, _ = split_api_version(obj["apiVersion"])
        kind = state.release.kind(group, obj["kind"])
        assert kind is not None
        metadata = {**obj["metadata"], "uid": new_uid()}
        key = key_of(kind, metadata.get("namespace", ""), metadata["name"])
        if await store.get(key) is None:
            with suppress(KeyExistsError):  # another server begins as well
                await store.create(key, {**bare(obj), "metadata": metadata})
