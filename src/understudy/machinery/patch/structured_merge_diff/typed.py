"""Types as server-side apply sees them, and comparison: which fields a change touches (upstream: `schema` and
`typed.Compare`).

A `Type` says what counts as one field: whether a value is atomic, and by which keys the elements of a list are
identified. Types of built-in kinds are made from the shapes in `typeinfo.go_types`, lazily, once per type. The rules
are those of sigs.k8s.io/structured-merge-diff, v4 and v6 (since 1.34), and of kube-openapi's schemaconv: lists without
a list type are atomic; maps are granular; null and empty values are owned as a whole.

`added_fields` returns the fields of a value that was not there before, `compare` those that differ between two values.
Every write calls both, so they descend only where values differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from understudy.machinery.golang import fmt
from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch.structured_merge_diff.field_set import LEAF, Set, key_element, value_element
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease
from understudy.machinery.typeinfo.go_types import List, Map, Scalar, Shape, Struct
from understudy.machinery.types import same_json
from understudy.machinery.util.caches import LONGEST_KEPT, cache_results

Node = Set | None  # a node of a field set; None: not in the set
_ABSENT: Any = object()
_key_element = cache_results(8192, key_element, typed=True)
_value_element = cache_results(8192, value_element, typed=True)


def _is_long(value: Any) -> bool:
    """Report whether a value is a text that a cache would keep for too long."""
    return isinstance(value, str) and len(value) > LONGEST_KEPT


class InvalidValue(Exception):  # noqa: N818  # carries a text that goes on into other errors
    """A value that does not fit its schema (upstream: `ValidationError`); the message is the real server's."""


def wrong_type(expected: str, value: Any) -> InvalidValue:
    """Return the error of a value that is no map or list, as %v prints the library's wrapper of it."""
    return InvalidValue(f"expected {expected}, got &{{{fmt.print_value(value)}}}")


class Type:
    """A type whose values are owned as a whole; granular types derive from it."""

    atomic = True

    def added_fields(self, value: Any) -> Set:
        """Return the node of a value that was not there before. Raises InvalidValue."""
        return LEAF

    def compare(self, old: Any, new: Any) -> tuple[Node, Node]:
        """Return the nodes of the changed or added fields, and of the removed ones. Raises InvalidValue."""
        return (None, None) if same_json(old, new) else (LEAF, None)


class ScalarType(Type):
    """A scalar. `kind` is string, numeric, boolean or untyped."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class MapType(Type):
    """A struct (`fields`), a map (`element`), or both (upstream: `schema.Map`)."""

    def __init__(
        self, fields: Callable[[], dict[str, Type]] | None = None, element: Type | None = None, atomic: bool = False
    ) -> None:
        self._make_fields = fields
        self.element = element
        self.atomic = atomic

    @cached_property
    def fields(self) -> dict[str, Type]:
        """Return the types of the fields by name, {} for a map."""
        return self._make_fields() if self._make_fields else {}

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Return the default values that the schema gives to fields."""
        return {}

    @cached_property
    def _elements(self) -> dict[str, tuple[str, Type]]:
        """Return the path elements and types of the fields by name: all sets of fields share these path elements."""
        return {name: (f"f:{name}", kind) for name, kind in self.fields.items()}

    def field_of(self, key: str) -> tuple[str, Type]:
        """Return the path element and the type of a field; without a schema the type is deduced from the value."""
        return self._elements.get(key) or (f"f:{key}", self.element or DEDUCED)

    def type_of(self, key: str) -> Type:
        """Return the type of a field; without a schema it is deduced from the value."""
        return self.field_of(key)[1]

    def added_fields(self, value: Any) -> Set:
        """Return the node of a new map: its entries, and the map itself. Raises InvalidValue."""
        if self.atomic or not value:
            return LEAF
        if not isinstance(value, dict):
            raise wrong_type("map", value)
        out = {".": LEAF}
        for key, item in value.items():
            name, kind = self.field_of(key)
            out[name] = LEAF if kind.atomic else kind.added_fields(item)
        return out

    def compare(self, old: Any, new: Any) -> tuple[Node, Node]:
        if self.atomic:
            return Type.compare(self, old, new)
        if not old and not new:
            return (None, None) if (old is None) is (new is None) else (LEAF, None)
        old, new = old or {}, new or {}
        if not isinstance(old, dict) or not isinstance(new, dict):
            raise wrong_type("map", old if isinstance(new, dict) else new)
        changed: Set = {}
        removed: Set = {}
        for key, item in new.items():
            before = old.get(key, _ABSENT)
            if before is item or before == item:
                continue
            name, kind = self.field_of(key)
            if before is _ABSENT:
                changed[name] = LEAF if kind.atomic else kind.added_fields(item)
            else:
                _add_nodes(changed, removed, name, kind.compare(before, item))
        for key in old.keys() - new.keys():
            name, kind = self.field_of(key)
            removed[name] = kind.added_fields(old[key])
        return changed or None, removed or None


class ListType(Type):
    """An associative list, whose elements are identified by `keys`, or by their values if there are none (a set).

    needs_all_keys  whether an element must have every key that has no default; else it must have one key, and an
                    element that leaves out others is another element than one that has them
    """

    atomic = False

    def __init__(self, element: Callable[[], Type], keys: tuple[str, ...], needs_all_keys: bool = False) -> None:
        self._make_element = element
        self.keys = keys
        self.needs_all_keys = needs_all_keys
        self.sorted_keys = tuple(sorted(keys))

    @cached_property
    def element(self) -> Type:
        """Return the type of the elements."""
        return self._make_element()

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Return the default values of keys that have one: an element may leave these keys out."""
        element = self.element
        return {k: element.defaults[k] for k in self.keys if isinstance(element, MapType) and k in element.defaults}

    def path_element(self, item: Any) -> str:
        """Return the path element of an element (upstream: `listItemToPathElement`). Raises InvalidValue."""
        if not self.keys:
            element = _set_element(item)
            return value_element(element) if _is_long(element) else _value_element(element)
        if not isinstance(item, dict):
            what = "a null element" if item is None else "non-map elements"
            raise InvalidValue(f"associative list with keys may not have {what}")
        try:
            values = tuple([item[key] for key in self.sorted_keys])
            return (key_element if any(map(_is_long, values)) else _key_element)(self.sorted_keys, values)
        except (KeyError, TypeError):
            return key_element(*self._keys_of(item))

    def _keys_of(self, item: dict[str, Any]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Return the keys that an element has, by itself or by default, and their values. Raises InvalidValue."""
        values = {**self.defaults, **item}
        keys = tuple(key for key in self.sorted_keys if key in values)
        missing = next((key for key in self.keys if key not in values), None)
        if missing is not None and self.needs_all_keys:
            raise InvalidValue(
                f"associative list with keys has an element that omits key field {go_quote(missing)} "
                "(and doesn't have default value)"
            )
        if not keys:
            raise InvalidValue(
                f"associative list with keys has an element that omits all key fields {_quoted(self.keys)} "
                "(and doesn't have default values for any key fields)"
            )
        return keys, tuple(values[key] for key in keys)

    def by_path_element(self, items: list[Any] | None) -> dict[str, list[Any]]:
        """Return the elements by path element, more than one where it is not unique. Raises InvalidValue."""
        out: dict[str, list[Any]] = {}
        if items and not isinstance(items, list):
            raise wrong_type("list", items)
        for index, item in enumerate(items or ()):
            try:
                out.setdefault(self.path_element(item), []).append(item)
            except InvalidValue as error:
                raise InvalidValue(f"element {index}: {error}") from None
        return out

    def added_fields(self, value: Any) -> Set:
        """Return the node of a new list: its elements, and the list itself. Raises InvalidValue."""
        if not value:
            return LEAF
        out = {".": LEAF}
        for name, items in self.by_path_element(value).items():
            out[name] = self.element.added_fields(items[0]) if len(items) == 1 else LEAF
        return out

    def compare(self, old: Any, new: Any) -> tuple[Node, Node]:
        """Compare two lists element by element, matched by path element. Raises InvalidValue."""
        if not old and not new:
            return (None, None) if (old is None) is (new is None) else (LEAF, None)
        before, after = self.by_path_element(old), self.by_path_element(new)
        changed: Set = {}
        removed: Set = {}
        for name, items in after.items():
            _add_nodes(changed, removed, name, self._compare_elements(before.get(name, []), items))
        for name, items in before.items():
            if name not in after:
                removed[name] = self.element.added_fields(items[0]) if len(items) == 1 else LEAF
        return changed or None, removed or None

    def _compare_elements(self, old: list[Any], new: list[Any]) -> tuple[Node, Node]:
        """Compare the elements with one path element. Duplicates are owned together, as a whole."""
        if len(new) > 1:
            if len(old) > 1:
                return (None, None) if same_json(old, new) else (LEAF, None)
            return LEAF, self.element.added_fields(old[0]) if old else None
        if len(old) > 1:
            return self.element.added_fields(new[0]), LEAF
        if not old:
            return self.element.added_fields(new[0]), None
        return (None, None) if old[0] == new[0] else self.element.compare(old[0], new[0])


class DeducedType(Type):
    """A type without a name, which each value decides on itself: maps are of the type `map`, by default of granular
    maps of such values; lists and scalars are owned as a whole."""

    atomic = False

    def __init__(self, map_type: MapType | None = None) -> None:
        self.map = map_type or MapType(element=self)

    def added_fields(self, value: Any) -> Set:
        """Return the node of a value that was not there before, by the type that the value itself has."""
        return self.map.added_fields(value) if isinstance(value, dict) else LEAF

    def compare(self, old: Any, new: Any) -> tuple[Node, Node]:
        """Compare two values, maps entry by entry, others as a whole."""
        if isinstance(old, dict | None) and isinstance(new, dict | None):
            return self.map.compare(old, new)
        if isinstance(new, dict) and new:
            return self.map.added_fields(new), None
        if isinstance(old, dict) and old:
            _, removed = self.map.compare(old, {})
            return LEAF, removed
        return Type.compare(self, old, new)


DEDUCED = DeducedType()
UNTYPED = Type()


class StructType(MapType):
    """A struct of a release. `defaults` are the default values that its schema gives to fields."""

    def __init__(self, struct: Struct, atomic: bool) -> None:
        super().__init__(atomic=atomic)
        self.struct = struct

    @cached_property
    def fields(self) -> dict[str, Type]:
        return {name: _type_of_shape(field.type, field.openapi) for name, field in self.struct.fields.items()}

    @cached_property
    def defaults(self) -> dict[str, Any]:
        return {
            name: field.openapi["default"] for name, field in self.struct.fields.items() if "default" in field.openapi
        }


@cache
def type_of(struct: Struct, atomic: bool | None = None) -> MapType:
    """Return the type of a struct. `atomic` is the map type that the field with the struct declares, None if it
    declares none."""
    if atomic is None:
        atomic = struct.openapi.get("x-kubernetes-map-type") == "atomic"
    if not struct.fields:  # a schema without properties is that of a map, of any values
        return MapType(element=DEDUCED, atomic=atomic)
    return StructType(struct, atomic)


@cache
def may_lack_keys(kind: Type) -> bool:
    """Report whether a decoded value of a type can have elements that do not have the keys that their list asks for.

    Go writes a key always, unless it leaves it out when it is empty.
    """
    return _may_lack_keys(kind, set())


def _may_lack_keys(kind: Type, seen: set[Type]) -> bool:
    if kind.atomic or kind in seen:
        return False
    seen.add(kind)
    if isinstance(kind, MapType):
        parts = [*kind.fields.values(), *([kind.element] if kind.element else ())]
        return any(_may_lack_keys(part, seen) for part in parts)
    if not isinstance(kind, ListType):
        return False
    element = kind.element
    if kind.keys and isinstance(element, StructType):
        left_out = [key not in kind.defaults and element.struct.fields[key].omitempty for key in kind.keys]
        if any(left_out) if kind.needs_all_keys else all(left_out):
            return True
    return _may_lack_keys(element, seen)


_SCALARS = {"string": "string", "bytes": "string", "bool": "boolean", "interface": "untyped"}


def _type_of_shape(shape: Shape, schema: dict[str, Any]) -> Type:
    """Return the type of a shape, with the schema of the property or the items that have it."""
    map_type = schema.get("x-kubernetes-map-type")
    if isinstance(shape, Struct):
        return type_of(shape, None if map_type is None else map_type == "atomic")
    if isinstance(shape, List):
        return _list_type(shape, schema)
    if isinstance(shape, Map):
        return MapType(
            element=_type_of_shape(shape.value, schema.get("additionalProperties", {})), atomic=map_type == "atomic"
        )
    if isinstance(shape, Scalar):
        return ScalarType(_SCALARS.get(shape.kind, "numeric"))
    return _CUSTOM.get(shape.name, DEDUCED)


_CUSTOM: dict[str, Type] = {
    "Time": ScalarType("untyped"),
    "MicroTime": ScalarType("untyped"),
    "Quantity": ScalarType("untyped"),
    "RawExtension": UNTYPED,
}


# Whether an element of a list map must have all keys that have no default.
NEEDS_ALL_KEYS = ByRelease({V1_34: False, V1_31: True})


def _list_type(shape: List, schema: dict[str, Any]) -> Type:
    kind = schema.get("x-kubernetes-list-type")
    keys: tuple[str, ...] = ()
    if kind == "map":
        keys = tuple(schema["x-kubernetes-list-map-keys"])
    elif kind is None and schema.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        key = schema.get("x-kubernetes-patch-merge-key")
        keys = (key,) if key else ()
    elif kind != "set":
        return AtomicList(lambda: _type_of_shape(shape.element, schema.get("items", {})))
    needs_all_keys = isinstance(shape.element, Struct) and NEEDS_ALL_KEYS[shape.element.schemas.version]
    return ListType(lambda: _type_of_shape(shape.element, schema.get("items", {})), keys, needs_all_keys)


class AtomicList(Type):
    """A list that is owned as a whole; the type of its elements is used for validation only."""

    def __init__(self, element: Callable[[], Type]) -> None:
        self._make_element = element

    @cached_property
    def element(self) -> Type:
        """Return the type of the elements."""
        return self._make_element()


def _quoted(names: tuple[str, ...]) -> str:
    return f"[{' '.join(map(go_quote, names))}]"


def _set_element(item: Any) -> Any:
    if isinstance(item, dict):
        raise InvalidValue("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise InvalidValue("not supported: associative list with lists as elements")
    if item is None:
        raise InvalidValue("associative list without keys has an element that's an explicit null")
    return item


def _add_nodes(changed: Set, removed: Set, name: str, nodes: tuple[Node, Node]) -> None:
    changed_node, removed_node = nodes
    if changed_node is not None:
        changed[name] = changed_node
    if removed_node is not None:
        removed[name] = removed_node


def compare(kind: Type, old: Any, new: Any) -> tuple[Set, Set]:
    """Return the set of fields that are changed or added in a whole object, and the set of removed ones. Raises
    InvalidValue."""
    changed, removed = kind.compare(old, new)
    return changed or {}, removed or {}
