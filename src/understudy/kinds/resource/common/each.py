"""Checks of lists and maps: each item, how many there may be, which must differ."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.validation.field import Errors, Path, duplicate

Check = Callable[[Any, Path], Errors]

_ELLIPSIS = b"..."


def validate_list(
    items: Sequence[Any] | None, most: int | None, check: Check, path: Path, rules: ReleaseRules
) -> Errors:
    """Check every item, and that there are not more than `most` (upstream: `validateSlice`). None is no limit."""
    if not items:
        return []
    too_many = [rules.too_many(path, len(items), most)] if most is not None and len(items) > most else []
    if too_many and rules.stops_at_limit:
        return too_many
    return [error for i, item in enumerate(items) for error in check(item, path.index(i))] + too_many


def validate_set(
    items: Sequence[Any] | None,
    most: int | None,
    check: Check,
    key: Callable[[Any], Hashable],
    path: Path,
    rules: ReleaseRules,
    name: str = "",
) -> Errors:
    """Check a list as `validate_list` does, and that its items have different keys (upstream: `validateSet`).

    name  the field that holds an item's key, at which some releases report a duplicate
    """
    if not items:
        return []
    errors = validate_list(items, most, check, path, rules)
    if rules.stops_at_limit and most is not None and len(items) > most:
        return errors
    return errors + duplicates(map(key, items), path, name if rules.names_duplicates else "")


def duplicates(keys: Iterable[Hashable], path: Path, name: str = "") -> Errors:
    """Return an error for each key that was there before; `name` is the field that holds an item's key."""
    errors: Errors = []
    seen: set[Hashable] = set()
    for i, key in enumerate(keys):
        if key in seen:
            here = path.index(i)
            errors.append(duplicate(here.child(name) if name else here, key))
        seen.add(key)
    return errors


def validate_map(
    values: Mapping[str, Any] | None,
    length: int,
    check_key: Check,
    check: Check,
    path: Path,
    rules: ReleaseRules,
    most: int | None = None,
) -> Errors:
    """Check keys and values of a map (upstream: `validateMap`); one with more than `most` entries is not looked into.

    Paths shorten keys to `length` bytes.
    """
    values = values or {}
    if most is not None and len(values) > most:
        return [rules.too_many(path, len(values), most)]
    errors: Errors = []
    for key, value in values.items():
        here = path.key(shortened(key, length) if rules.shortens_keys else key)
        errors += check_key(key, here if rules.keys_in_paths else path)
        errors += check(value, here)
    return errors


def shortened(text: str, length: int) -> str:
    """Cut a text to at most `length` bytes by leaving out its middle (upstream: `truncateIfTooLong`)."""
    data = text.encode(errors="surrogatepass")
    if len(data) <= length:
        return text
    left = length - len(_ELLIPSIS)
    data = data[: (left + 1) // 2] + _ELLIPSIS + data[len(data) - left // 2 :]
    # A character that was cut in two becomes U+FFFD for each of its bytes, as in Go's JSON.
    parts = data.decode(errors="surrogateescape")
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in parts)
