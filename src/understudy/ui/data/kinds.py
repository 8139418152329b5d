"""Lists the kinds that are served, with the number of their objects, now or at an earlier revision."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.apiserver.endpoints.requestinfo import group_version_path
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.turns import Turns
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import timestamp


async def document(state: ServerState, at: int = 0) -> Obj:
    """Return the kinds, with the release and the time of the server, its revision, and the oldest that can be read.

    at  the revision at which objects are counted, 0 for now

    Raises CompactedError, FutureRevisionError.
    """
    store, listed, turns = state.registry.store, list[Obj](), Turns()
    for kind in stored_kinds(state):
        prefix = prefix_of(kind)
        count = len((await store.range(prefix, revision=at)).entries) if at else store.count(prefix)
        listed.append(_entry(kind, count))
        if turns.is_over:
            await turns.next()
    return {
        "release": str(state.release.version),
        "now": timestamp(state.clock.now()),
        "oldest": max(store.compacted, 1),
        "revision": store.revision,
        "kinds": listed,
    }


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
