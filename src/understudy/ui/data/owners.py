"""Finds the objects around one: its owners, and what it owns, directly or over others."""

from __future__ import annotations

from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.types import Obj
from understudy.ui.data.kinds import stored_kinds


async def around(state: ServerState, uid: str) -> list[Obj]:
    """Return the objects above and below the one with a uid, with the uids of their owners; itself as well."""
    everything = await _all(state)
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


async def _all(state: ServerState) -> dict[str, Obj]:
    """Return all objects by their uids, with those of their owners."""
    store, turns, listed = state.registry.store, Turns(), dict[str, Obj]()
    for kind in stored_kinds(state):
        for entry in store.scan(prefix_of(kind)):
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
