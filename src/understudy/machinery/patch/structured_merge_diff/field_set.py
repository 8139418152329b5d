"""Sets of field paths (upstream: `fieldpath.Set`), in the form that managedFields has (FieldsV1): tries of plain
dictionaries.

    {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}      metadata.labels and metadata.labels.a

A key is a path element: `f:NAME` a field, `k:{"name":"x"}` the element of a list with these keys, `v:1` the element of
a set with this value, `i:0` a position. Its value is a node: `{}` means that the path is a member of the set, `"."`
that it is a member although there are longer paths, and a node without either that only the longer paths are members.
The whole set is not a node: it has no `"."`, and `{}` is the empty set.

Sets are values: no function changes its arguments, and results share their parts. The order of keys only matters to
readers of the JSON: `sorted_set` brings a set into the real server's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.golang.text import go_quote, go_scalar, parse_int
from understudy.machinery.util.caches import cache_short_texts

Set = dict[str, Any]

LEAF: Set = {}  # the node of a path without longer ones
_SELF = "."


class FieldSetError(ValueError):
    """A FieldsV1 that cannot be decoded."""


def is_member(node: Set) -> bool:
    """Report whether the path that leads to a node is in the set."""
    return not node or _SELF in node


def union(a: Set, b: Set) -> Set:
    """Return the paths of either set."""
    if not a or not b:
        return a or b
    return _union(a, b)


def _union(a: Set, b: Set) -> Set:
    out = dict(a)
    for key, node in b.items():
        own = out.get(key)
        out[key] = node if own is None else _union_nodes(own, node)
    return out


def _union_nodes(a: Set, b: Set) -> Set:
    if a is b:
        return a
    if not a or not b:
        node = a or b
        return node if is_member(node) else {_SELF: LEAF, **node}
    return _union(a, b)


def intersection(a: Set, b: Set) -> Set:
    """Return the paths of both sets."""
    out = {}
    for key, node in a.items():
        other = b.get(key)
        if other is not None and key != _SELF:
            both = intersection(node, other)
            if is_member(node) and is_member(other):
                out[key] = {_SELF: LEAF, **both} if both else LEAF
            elif both:
                out[key] = both
    return out


def difference(a: Set, b: Set) -> Set:
    """Return the paths of `a` that are not in `b`; paths below those of `b` stay."""
    return _difference(a, b, whole=False)


def recursive_difference(a: Set, b: Set) -> Set:
    """Return the paths of `a` that are neither in `b` nor below one that is."""
    return _difference(a, b, whole=True)


def _difference(a: Set, b: Set, whole: bool) -> Set:
    """Return the difference of two sets. `whole`: paths below those of `b` are removed as well."""
    out = {}
    for key, node in a.items():
        other = b.get(key)
        if other is None or key == _SELF:
            out[key] = node
            continue
        in_b = not other or _SELF in other
        if not node:
            if not in_b:
                out[key] = node
            continue
        if in_b and whole:
            continue
        rest = _difference(node, other, whole)
        member = _SELF in node and not in_b
        rest.pop(_SELF, None)
        if rest:
            out[key] = {_SELF: LEAF, **rest} if member else rest
        elif member:
            out[key] = LEAF
    return out


def contains(a: Set, b: Set) -> bool:
    """Report whether all paths of `b` are in `a`."""
    for key, node in b.items():
        if key == _SELF:
            continue
        own = a.get(key)
        if own is None or (is_member(node) and not is_member(own)) or (node and not contains(own, node)):
            return False
    return True


def new_set(*paths: tuple[str, ...]) -> Set:
    """Return the set of paths of field names."""
    out: Set = {}
    for path in paths:
        node: Set = LEAF
        for name in reversed(path):
            node = {f"f:{name}": node}
        out = union(out, node)
    return out


def has(fields: Set, path: tuple[str, ...]) -> bool:
    """Report whether a path of path elements is in the set."""
    node = fields
    for element in path:
        if element not in node:
            return False
        node = node[element]
    return bool(path) and is_member(node)


def iterate(fields: Set, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every path, as path elements, in the real server's order: members of this level first, then longer
    paths."""
    keys = [key for key in _sorted_elements(fields) if key != _SELF]
    for key in keys:
        if is_member(fields[key]):
            yield (*prefix, key)
    for key in keys:
        yield from iterate(fields[key], (*prefix, key))


def sorted_set(fields: Set) -> Set:
    """Return the same set in the order in which it is printed."""
    elements = _sorted_elements(fields) if len(fields) > 1 else fields
    return {key: sorted_set(node) if (node := fields[key]) else LEAF for key in elements}


def _sorted_elements(keys: Iterable[str]) -> list[str]:
    out = sorted(keys)
    if out and out[-1] >= "g":  # list elements are sorted by their values, not by their text
        out.sort(key=_element_order)
    return out


_ELEMENT_ORDER = {_SELF: -1, "f": 0, "k": 1, "v": 2, "i": 3}


@cache_short_texts(4096)
def _element_order(element: str) -> tuple[Any, ...]:
    kind, value = element[0], element[2:]
    if kind in ("k", "v"):
        return (_ELEMENT_ORDER[kind], _value_order(orjson.loads(value)))
    return (_ELEMENT_ORDER[kind], int(value) if kind == "i" else value)


def _value_order(value: Any) -> tuple[Any, ...]:
    """Return a sort key: numbers, strings, booleans, lists, maps, null; each kind by value."""
    if value is None:
        return (5,)
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, dict):
        return (4, tuple((key, _value_order(value[key])) for key in sorted(value)))
    if isinstance(value, list):
        return (3, tuple(map(_value_order, value)))
    return (1, value) if isinstance(value, str) else (0, value)


def key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """Return the path element `k:{"containerPort":80,"protocol":"TCP"}`; `names` are sorted."""
    return "k:" + _value_json(dict(zip(names, values, strict=True)))


def value_element(value: Any) -> str:
    """Return the path element `v:"x.example.com/1"`."""
    return "v:" + _value_json(value)


def _value_json(value: Any) -> str:
    return encode_sorted(value).decode()


def path_text(path: tuple[str, ...]) -> str:
    """Return a path as errors print it: `.spec.containers[name="x"].image` (upstream: `Path.String`)."""
    return "".join(map(path_element_text, path))


def path_element_text(element: str) -> str:
    """Return a path element as errors print it: `.spec`, `[name="x"]`, `[=1]` or `[0]` (upstream:
    `PathElement.String`)."""
    kind, value = element[0], element[2:]
    if kind == "f":
        return f".{value}"
    if kind == "i":
        return f"[{value}]"
    if kind == "v":
        return f"[={_value_text(orjson.loads(value))}]"
    return f"[{','.join(f'{key}={_value_text(item)}' for key, item in sorted(orjson.loads(value).items()))}]"


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "".join(f"{key}={_value_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_value_text, value))}]"
    if isinstance(value, str):
        return go_quote(value)
    return go_scalar(value)


def from_json(fields: Any) -> Set:
    """Return the set that a client sent, with path elements in canonical spelling (upstream: `Set.FromJSON`).

    Elements of unknown kinds are left out. Raises FieldSetError.
    """
    if not isinstance(fields, dict):
        raise FieldSetError("not an object")
    out: Set = {}
    for key, node in fields.items():
        if key == _SELF:
            out[_SELF] = LEAF
            continue
        element = _path_element_from_text(key)
        if element is None:
            continue
        child = from_json(node) if isinstance(node, dict) else LEAF
        out[element] = child if element not in out else _union_nodes(out[element], child)
    return LEAF if out.keys() == {_SELF} else out


def _path_element_from_text(text: str) -> str | None:
    """Return a path element in canonical spelling, None if its kind is unknown. Raises FieldSetError."""
    if len(text) < 2:
        raise FieldSetError("key must be 2 characters long:")
    if text[1] != ":":
        raise FieldSetError(f"missing colon: {text}")
    kind, value = text[0], text[2:]
    try:
        if kind == "f":
            return text
        if kind == "v":
            return value_element(orjson.loads(value))
        if kind == "k":
            keys = orjson.loads(value)
            return key_element(tuple(sorted(keys)), tuple(keys[name] for name in sorted(keys)))
        return f"i:{parse_int(value)}" if kind == "i" else None
    except (ValueError, TypeError) as error:
        raise FieldSetError(str(error)) from None
