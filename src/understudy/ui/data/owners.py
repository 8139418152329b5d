"""Finds the objects around one: its owners, and what it owns, directly or over others."""

from __future__ import annotations

from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.types import Obj
from understudy.ui.data.kinds import stored_kinds


async def around(state: ServerState, uid: str, at: int = 0) -> list[Obj]:
    """Return the objects above and below the one with a uid, with the uids of their owners; itself as well.

    at  the revision that is looked at, 0 for now

    Raises CompactedError, FutureRevisionError.
    """
    everything = await _all(state, at)
    owned: dict[str, list[str]] = {}
    for each in everything.values():
        for owner in each["owners"]:
            owned.setdefault(owner, []).append(each["uid"])
    chosen: dict[str, Obj] = {}
    for neighbors in ({each: known["owners"] for each, known in everything.items()}, owned):
        todo, seen = [uid], set[str]()
        while todo:
            name = todo.pop()
            if name in everything and name not in seen:
                seen.add(name)
                chosen[name] = everything[name]
                todo.extend(neighbors.get(name, ()))
    return list(chosen.values())


async def _all(state: ServerState, at: int) -> dict[str, Obj]:
    """Return all objects by their uids, with those of their owners."""
    store, turns, listed = state.registry.store, Turns(), dict[str, Obj]()
    for kind in stored_kinds(state):
        for entry in (await store.range(prefix_of(kind), revision=at)).entries:
            metadata = entry.value["metadata"]
            listed[metadata["uid"]] = {
                "uid": metadata["uid"],
                "group": kind.group,
                "resource": kind.resource,
                "kind": kind.name,
                "namespace": metadata.get("namespace", ""),
                "name": metadata["name"],
                "owners": [owner["uid"] for owner in metadata.get("ownerReferences") or ()],
            }
            if turns.is_over:
                await turns.next()
    return listed
