"""Lists the kinds that are served, with the number of their objects."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.apiserver.endpoints.requestinfo import group_version_path
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import timestamp


async def document(state: ServerState) -> Obj:
    """Return the kinds, with the release, the time and the revision of the server."""
    store, listed, turns = state.registry.store, list[Obj](), Turns()
    for kind in stored_kinds(state):
        listed.append(_entry(kind, store.count(prefix_of(kind))))
        if turns.is_over:
            await turns.next()
    now = timestamp(state.clock.now())
    return {"release": str(state.release.version), "now": now, "revision": store.revision, "kinds": listed}


def stored_kinds(state: ServerState) -> Iterator[Kind]:
    """Yield the kinds whose objects are stored, in the version that the server prefers, each once."""
    seen = set[tuple[str, str]]()
    for kind in state.serving.kinds:
        name = kind.group, kind.resource
        if kind.virtual or "list" not in kind.verbs or kind.stored.group != kind.group or name in seen:
            continue
        seen.add(name)
        yield kind


def path_of(kind: Kind) -> str:
    """Return the path of all objects of a kind."""
    return f"{group_version_path(kind.group, kind.versions[0])}/{kind.resource}"


def _entry(kind: Kind, count: int) -> Obj:
    return {
        "group": kind.group,
        "version": kind.versions[0],
        "resource": kind.resource,
        "kind": kind.name,
        "namespaced": kind.namespaced,
        "verbs": list(kind.verbs),
        "shortNames": list(kind.short_names),
        "isCustom": kind.custom is not None,
        "count": count,
    }
