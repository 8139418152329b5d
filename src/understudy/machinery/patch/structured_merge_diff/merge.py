"""Merging an applied configuration into a live object (`TypedValue.Merge` of structured-merge-diff, typed/merge.go)."""

from __future__ import annotations

from typing import Any

from understudy.machinery.patch.structured_merge_diff.typed import DeducedType, ListType, MapType, Type

_ABSENT: Any = object()


def merge(kind: Type, live: Any, applied: Any) -> Any:
    """`applied` over `live`. Raises InvalidValue."""
    if isinstance(kind, DeducedType) and isinstance(live, dict) and isinstance(applied, dict):
        kind = MapType(element=kind)
    if isinstance(kind, MapType) and not kind.atomic and (live or applied):
        return _merged_maps(kind, live or {}, applied or {})
    if isinstance(kind, ListType) and (live or applied):
        return _merged_lists(kind, live or [], applied or [])
    return applied


def _merged_maps(kind: MapType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    out = dict(live)
    for key, item in applied.items():
        before = live.get(key, _ABSENT)
        out[key] = item if before is _ABSENT else merge(kind.type_of(key), before, item)
    return out


def _merged_lists(kind: ListType, live: list[Any], applied: list[Any]) -> list[Any]:
    """The elements of both. Those applied come in their order; the others stay before what they stand before, as far
    as that order lets them."""
    names = [kind.name_of(item) for item in live]
    wanted = {kind.name_of(item): item for item in applied}
    before = {name: items[0] if len(items) == 1 else None for name, items in kind.by_name(live).items()}
    queue = list(wanted)
    shared = [name for name in queue if name in before]
    out: list[Any] = []
    done: set[str] = set()

    def take(name: str) -> None:
        item = wanted[name]
        out.append(merge(kind.element, before[name], item) if name in before else item)
        done.add(name)
        if shared and shared[0] == name:
            del shared[0]

    left = right = 0
    while left < len(names) or right < len(queue):
        if left < len(names):
            name = names[left]
            if right < len(queue) and name == queue[right]:
                take(name)
                left += 1
                right += 1
                continue
            if name not in wanted:
                out.append(live[left])
                left += 1
                continue
            if right < len(queue) and shared and shared[0] != name:
                left += 1  # applied too, but its turn comes later
                continue
            if name in done:
                left += 1
        if right < len(queue):
            take(queue[right])
            right += 1
    return out
