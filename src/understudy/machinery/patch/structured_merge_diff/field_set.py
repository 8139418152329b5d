"""Sets of field paths, in the form in which managedFields has them (FieldsV1): tries of plain dictionaries.

    {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}      metadata.labels and metadata.labels.a

A key is a path element: `f:NAME` a field, `k:{"name":"x"}` the element of a list with these keys, `v:1` that of a set,
`i:0` a position. What it leads to is a node: `{}` says that the path is in the set, `"."` that it is although there are
longer paths, and a node without either that only the longer ones are. The whole set is no node: it has no `"."`, and
`{}` is the empty set.

Sets are values: no function changes its arguments, results share their parts. Order matters to nobody but the reader
of the JSON: `sorted_set` brings a set into that of the real server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson

from understudy.machinery.golang.text import go_quote, go_scalar

Set = dict[str, Any]

LEAF: Set = {}  # the node of a path without longer ones
_SELF = "."


class FieldSetError(ValueError):
    """A FieldsV1 that cannot be read."""


def is_member(node: Set) -> bool:
    return not node or _SELF in node


def union(a: Set, b: Set) -> Set:
    """The paths of either set."""
    if not a or not b:
        return a or b
    return _joined(a, b)


def _joined(a: Set, b: Set) -> Set:
    out = dict(a)
    for key, node in b.items():
        mine = out.get(key)
        out[key] = node if mine is None else _joined_nodes(mine, node)
    return out


def _joined_nodes(a: Set, b: Set) -> Set:
    if a is b:
        return a
    if not a or not b:
        node = a or b
        return node if is_member(node) else {_SELF: LEAF, **node}
    return _joined(a, b)


def intersection(a: Set, b: Set) -> Set:
    """The paths of both sets."""
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
    """The paths of `a` that are not in `b`; longer ones than those in `b` stay."""
    return _less(a, b, whole=False)


def recursive_difference(a: Set, b: Set) -> Set:
    """The paths of `a` that are not in `b` and do not lead through one that is."""
    return _less(a, b, whole=True)


def _less(a: Set, b: Set, whole: bool) -> Set:
    out = {}
    for key, node in a.items():
        other = b.get(key)
        if other is None or key == _SELF:
            out[key] = node
            continue
        gone = is_member(other)
        if gone and whole:
            continue
        rest = _less(node, other, whole)
        member = is_member(node) and not gone
        rest.pop(_SELF, None)
        if rest:
            out[key] = {_SELF: LEAF, **rest} if member else rest
        elif member:
            out[key] = LEAF
    return out


def new_set(*paths: tuple[str, ...]) -> Set:
    """The set of these paths of field names."""
    out: Set = {}
    for path in paths:
        node: Set = LEAF
        for name in reversed(path):
            node = {f"f:{name}": node}
        out = union(out, node)
    return out


def has(fields: Set, path: tuple[str, ...]) -> bool:
    """Whether a path of path elements is in the set."""
    node = fields
    for element in path:
        if element not in node:
            return False
        node = node[element]
    return bool(path) and is_member(node)


def iterate(fields: Set, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path, as path elements, in the real server's order: those that end here, then the longer ones."""
    keys = [key for key in _in_order(fields) if key != _SELF]
    for key in keys:
        if is_member(fields[key]):
            yield (*prefix, key)
    for key in keys:
        yield from iterate(fields[key], (*prefix, key))


def sorted_set(fields: Set) -> Set:
    """The same set in the order in which it is printed."""
    return {key: sorted_set(fields[key]) if fields[key] else LEAF for key in _in_order(fields)}


def _in_order(keys: Iterable[str]) -> list[str]:
    out = sorted(keys)
    if out and out[-1] >= "g":  # not only fields: elements of lists go by their values, not by their text
        out.sort(key=_rank)
    return out


_RANKS = {_SELF: -1, "f": 0, "k": 1, "v": 2, "i": 3}


@lru_cache(maxsize=4096)
def _rank(element: str) -> tuple[Any, ...]:
    kind, value = element[0], element[2:]
    if kind in ("k", "v"):
        return (_RANKS[kind], _rank_of(orjson.loads(value)))
    return (_RANKS[kind], int(value) if kind == "i" else value)


def _rank_of(value: Any) -> tuple[Any, ...]:
    """Numbers, strings, booleans, lists, maps, null; like with like by their values."""
    if value is None:
        return (5,)
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, dict):
        return (4, tuple((key, _rank_of(value[key])) for key in sorted(value)))
    if isinstance(value, list):
        return (3, tuple(map(_rank_of, value)))
    return (1, value) if isinstance(value, str) else (0, value)


def key_element(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """k:{"containerPort":80,"protocol":"TCP"}; `names` sorted."""
    return "k:" + _dumped(dict(zip(names, values, strict=True)))


def value_element(value: Any) -> str:
    """v:"x.example.com/1"."""
    return "v:" + _dumped(value)


_ESCAPED_BY_GO = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode().translate(_ESCAPED_BY_GO)


def path_text(path: tuple[str, ...]) -> str:
    """.spec.containers[name="x"].image"""
    return "".join(map(path_element_text, path))


def path_element_text(element: str) -> str:
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
    """The set that a client sent, with path elements in the spelling used here. Elements of unknown kinds are left out.
    Raises FieldSetError."""
    if not isinstance(fields, dict):
        raise FieldSetError("not an object")
    out: Set = {}
    for key, node in fields.items():
        if key == _SELF:
            out[_SELF] = LEAF
            continue
        element = _read_element(key)
        if element is None:
            continue
        child = from_json(node) if isinstance(node, dict) else LEAF
        out[element] = child if element not in out else _joined_nodes(out[element], child)
    return LEAF if out.keys() == {_SELF} else out


def _read_element(text: str) -> str | None:
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
        return f"i:{int(value)}" if kind == "i" else None
    except (ValueError, TypeError) as why:
        raise FieldSetError(str(why)) from None
