"""Field selectors of custom resources: `selectableFields` (upstream: `customResourceStrategy.selectableFields`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from understudy.apiserver.extensions.fields.jsonpath import parse
from understudy.machinery.golang.fmt import print_value
from understudy.machinery.types import Obj


def selectable(fields: Sequence[Obj]) -> Mapping[str, Callable[[Obj], str]]:
    """Return the functions that read the selectable fields of an object, by label: the path without its first dot."""
    return {field["jsonPath"].removeprefix("."): _reader(field["jsonPath"]) for field in fields}


def _reader(path: str) -> Callable[[Obj], str]:
    find = parse(path)

    def read(obj: Obj) -> str:
        values = find(obj)
        return "" if not values or values[0] is None else print_value(values[0])

    return read
