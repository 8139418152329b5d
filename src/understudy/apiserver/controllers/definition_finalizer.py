"""Deletes the objects of a definition that is being deleted, and then lets go of it (upstream: `CRDFinalizer`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from understudy.admission.context import Context
from understudy.admission.validation.apiextensions.definitions import CLEANUP
from understudy.apiserver.client.loopback import Client
from understudy.apiserver.controllers.controller import TryAgainError
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.extensions.definition import condition_is_true
from understudy.apiserver.registry.delete import Deletion
from understudy.apiserver.registry.encoding.encoded import load
from understudy.apiserver.registry.keys import prefix_of
from understudy.machinery.errors import StatusError
from understudy.machinery.options import DeleteOptions
from understudy.machinery.types import Obj, with_condition

if TYPE_CHECKING:
    from understudy.apiserver.extensions.kinds import Defined

POLL_SECONDS = 0.05  # between two looks at objects that finalizers hold; kube-apiserver looks every five seconds


async def finalize(state: ServerState, client: Client, path: str, definition: Obj) -> None:
    """Let go of a deleted definition, whose own path is `path`, once it has no objects any more.

    Raises TryAgainError while finalizers hold objects.
    """
    if CLEANUP not in (definition["metadata"].get("finalizers") or ()):
        return
    in_progress = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    definition = await _update(state, client, path, definition, *in_progress)
    done = ("False", "NeverEstablished", "resource was never established")
    defined = state.serving.definitions.get(definition["metadata"]["name"])
    if defined is not None and condition_is_true(definition, "Established"):
        await _delete_instances(state, defined)
        done = ("False", "InstanceDeletionCompleted", "removed all instances")
    await _update(state, client, path, _without_finalizer(definition), *done)


async def _update(
    state: ServerState, client: Client, path: str, definition: Obj, status: str, reason: str, message: str
) -> Obj:
    """Store a definition with a condition Terminating, unless it has it already; return it as stored."""
    condition = {"type": "Terminating", "status": status, "reason": reason, "message": message}
    conditions = with_condition(definition["status"].get("conditions") or (), condition, state.timestamp())
    if conditions == definition["status"].get("conditions"):
        return definition
    return await client.update(
        f"{path}/status", {**definition, "status": {**definition["status"], "conditions": conditions}}
    )


def _without_finalizer(definition: Obj) -> Obj:
    """Return a definition without the finalizer that its objects are deleted for."""
    metadata = definition["metadata"]
    finalizers = [name for name in metadata["finalizers"] if name != CLEANUP]
    return {**definition, "metadata": {**metadata, "finalizers": finalizers}}


async def _delete_instances(state: ServerState, defined: Defined) -> None:
    """Delete the objects of a definition. Raises TryAgainError if some stay."""
    kind, store = defined.storage, state.registry.store
    ctx = Context(state.release.version, state.gates, kind.versions[0], now=state.timestamp())
    deletion = Deletion(state.registry, kind, ctx)
    entries = store.scan(prefix_of(kind))
    if state.serving.calls_webhooks:
        try:
            await asyncio.to_thread(load, entries, kind)
        except StatusError:
            raise TryAgainError(POLL_SECONDS) from None
    for metadata in _undeleted(entry.value["metadata"] for entry in entries):
        try:
            await deletion.run(metadata.get("namespace", ""), metadata["name"], DeleteOptions())
        except StatusError as error:
            if error.code != 404:
                raise
    if store.count(prefix_of(kind)):
        raise TryAgainError(POLL_SECONDS)


def _undeleted(objects: Iterable[Obj]) -> list[Obj]:
    """Return the metadata of the objects that are not being deleted yet."""
    return [metadata for metadata in objects if "deletionTimestamp" not in metadata]
