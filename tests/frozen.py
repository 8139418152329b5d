"""A store for tests whose values cannot be edited: whoever tries fails at that very line.

Stored objects are immutable by contract only, for a real guard would cost time in every request. `freeze_stored_values`
makes every `Entry` hold frozen dicts and lists, which are read, copied and encoded like others.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NoReturn, cast

import pytest

from understudy.apiserver.storage.interface import Entry
from understudy.machinery.types import Obj


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("a stored value is edited in place")


class FrozenDict(dict[str, Any]):
    """A dict that refuses to be edited; its copies may be."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses to be edited; its copies may be."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Any]]]:
        return FrozenList, (list(self),)


def frozen(value: Any) -> Any:
    """Return a value whose dicts and lists are frozen, but those of types of their own (raw JSON, sparse structs)."""
    if type(value) is dict:
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if type(value) is list:
        return FrozenList(map(frozen, value))
    return value


def freeze_stored_values(patch: pytest.MonkeyPatch) -> None:
    """Make every entry of every store hold frozen values from now on."""
    create, read = Entry.__init__, Entry.object.fget  # type: ignore[attr-defined]

    def create_frozen(entry: Entry, key: str, value: Obj, revision: int) -> None:
        create(entry, key, frozen(value), revision)

    def read_frozen(entry: Entry) -> Obj:
        value = read(entry)
        if type(value) is dict:  # with a resourceVersion, made just now
            value = entry._object = frozen(value)
        return cast(Obj, value)

    patch.setattr(Entry, "__init__", create_frozen)
    patch.setattr(Entry, "object", property(read_frozen))
