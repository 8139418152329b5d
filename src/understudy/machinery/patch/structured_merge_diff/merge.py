"""Merging an applied configuration into a live object (`TypedValue.Merge` of structured-merge-diff, typed/merge.go)."""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.structured_merge_diff.typed import DeducedType, ListType, MapType, Type

_ABSENT: Any = object()


def merge(kind: Type, live: Any, applied: Any) -> Any:
    """Return `applied` merged over `live`; unchanged parts are shared. Raises InvalidValue."""
    if kind.atomic:
        return applied
    if isinstance(kind, DeducedType) and isinstance(live, dict) and isinstance(applied, dict):
        kind = kind.map
    if isinstance(kind, MapType) and (live or applied):
        return _merge_maps(kind, live or {}, applied or {})
    if isinstance(kind, ListType) and (live or applied):
        return _merge_lists(kind, live or [], applied or [])
    return applied


def _merge_maps(kind: MapType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    out = dict(live)
    for key, item in applied.items():
        before = live.get(key, _ABSENT)
        out[key] = item if before is _ABSENT else merge(kind.type_of(key), before, item)
    return out


def _merge_lists(kind: ListType, live: list[Any], applied: list[Any]) -> list[Any]:
    """Merge two associative lists.

    The applied elements come in their order; each of the others stays before the element that follows it, as far as
    that order allows.
    """
    live_elements = [kind.path_element(item) for item in live]
    applied_by_element = {kind.path_element(item): item for item in applied}
    before = {name: items[0] if len(items) == 1 else None for name, items in kind.by_path_element(live).items()}
    queue = list(applied_by_element)
    shared = [name for name in queue if name in before]
    out: list[Any] = []
    done: set[str] = set()

    def take(name: str) -> None:
        item = applied_by_element[name]
        out.append(merge(kind.element, before[name], item) if name in before else item)
        done.add(name)
        if shared and shared[0] == name:
            del shared[0]

    left = right = 0
    while left < len(live_elements) or right < len(queue):
        if left < len(live_elements):
            name = live_elements[left]
            if right < len(queue) and name == queue[right]:
                take(name)
                left += 1
                right += 1
                continue
            if name not in applied_by_element:
                out.append(live[left])
                left += 1
                continue
            if right < len(queue) and shared and shared[0] != name:
                left += 1  # an applied element as well, which comes later
                continue
            if name in done:
                left += 1
        if right < len(queue):
            take(queue[right])
            right += 1
    return out
