"""Strategic merge patches: maps merge by key, lists as the `patchStrategy` and `patchMergeKey` of their field say.

Owns the directives: `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/FIELD`,
`$deleteFromPrimitiveList/FIELD`. Merging lists is in `strategiclists`. The rules are those of
k8s.io/apimachinery/pkg/util/strategicpatch and of its design note "preserve order in strategic merge patch".

Oddities kept: a directive in a place that the object does not have yet is dropped with its map, whatever it says;
unknown directives are unknown fields; null for a missing field is nothing. Where the real server's answer hangs on the
order in which Go walks a map, this one walks in the order of the patch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.machinery.errors import StatusError, bad_request, unknown_error
from understudy.machinery.golang import fmt
from understudy.machinery.golang.json_writer import Raw, go_number
from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.patch.strategic_lists import (
    are_scalars,
    bad_argument_type,
    merge_scalars,
    normalize_element_order,
    partition,
    validate_patch_with_order,
)
from understudy.machinery.typeinfo.schema import Custom, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import Obj

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM_PRIMITIVE_LIST = "$deleteFromPrimitiveList"
SET_ELEMENT_ORDER = "$setElementOrder"

_BAD_DELETION = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"


@dataclass(frozen=True, slots=True)
class Patch:
    """`content` is used up by `apply`; `left()` is what errors of decoding the result print of it."""

    content: Obj
    strict_errors: list[str]

    def left(self) -> str:
        return fmt.print_value(self.content)


def parse(body: bytes, validate: bool = True) -> Patch:
    """Raises StatusError 400. `validate` is false for fieldValidation=Ignore: then duplicate keys are no errors."""
    try:
        value, duplicates = bodies.loads(body)
    except bodies.DecodeError as why:
        raise bad_request(str(why)) from None
    if value is not None and not isinstance(value, dict):
        raise bad_request(
            f"json: cannot unmarshal {bodies.kind_of(value)} into Go value of type map[string]interface {{}}"
        )
    return Patch(value or {}, [f'duplicate field "{path}"' for path in duplicates] if validate else [])


def apply(patch: Patch, current: Obj, struct: Struct) -> Obj:
    """The patched object; `current` stays as it is. The patch is used up: parse it again for another attempt.

    Opaque parts of the object lose their spelling: they become plain objects, sorted by key. Raises StatusError: 400
    and 422 for directives of a wrong form, 500 (without a reason) for what cannot be merged."""
    merged = _merge_map(current, patch.content, PatchMeta(struct))
    plain: Obj = _plain(merged) if struct.has_raw_extension else merged
    return plain


def _plain(value: Any) -> Any:
    """`value` without opaque values; itself where there are none."""
    if isinstance(value, Raw):
        return _parsed(value)
    if isinstance(value, dict):
        changed = {key: new for key, item in value.items() if (new := _plain(item)) is not item}
        return value | changed if changed else value
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    return value


def _parsed(value: Any) -> Any:
    """An opaque value as plain JSON."""
    if isinstance(value, dict):
        return {key: _parsed(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_parsed(item) for item in value]
    if isinstance(value, Raw):
        return go_number(float(value)) if isinstance(value, float) else str(value)
    return value


@dataclass(frozen=True, slots=True)
class PatchMeta:
    """What the type of a value says of merging it: a shape, and the field's strategy and merge key."""

    shape: Shape
    pointer: bool = False
    strategy: str = ""
    merge_key: str = ""

    def kind(self) -> str:
        """The reflect.Kind of the type."""
        if self.pointer:
            return "ptr"
        if isinstance(self.shape, List | Map):
            return "slice" if isinstance(self.shape, List) else "map"
        return self.shape.kind if isinstance(self.shape, Scalar) else "struct"

    def of_map(self, key: str) -> PatchMeta:
        """For an object under `key`."""
        if not isinstance(self.shape, Struct | Custom):
            kind = PatchMeta(self.shape).kind()
            raise unknown_error(f"merging an object in json but data type is not struct, instead is: {kind}")
        fields = self.shape.fields if isinstance(self.shape, Struct) else {}
        field = fields.get(key) or next((f for name, f in fields.items() if name.lower() == key.lower()), None)
        if field is None:
            name = self.shape.type_name if isinstance(self.shape, Struct) else self.shape.name
            raise unknown_error(f"unable to find api field in struct {name} for the json field {go_quote(key)}")
        strategy = next((s for s in field.patch_strategies if s != "retainKeys"), "")
        return PatchMeta(field.type, field.pointer, strategy, field.merge_key)

    def of_list(self, key: str) -> PatchMeta:
        """For the elements of a list under `key`."""
        field = self.of_map(key)
        if not isinstance(field.shape, List):
            if field.pointer:
                return PatchMeta(field.shape, False, field.strategy, field.merge_key)
            raise unknown_error(f"expected slice or array type, but got: {self.kind()}")
        if isinstance(field.shape.element, List):
            raise unknown_error("unexpected slice of slice")
        return PatchMeta(field.shape.element, field.shape.pointer, field.strategy, field.merge_key)


def _merge_map(current: Obj, patch: Obj, meta: PatchMeta) -> Obj:
    if PATCH in patch:
        return _directed(patch)
    out = dict(current)
    _retain_keys(out, patch)
    for key in [key for key in patch if key.startswith(SET_ELEMENT_ORDER)]:
        _merge_ordered(out, patch, key, meta)
    for key, value in patch.items():
        deletion = key.startswith(DELETE_FROM_PRIMITIVE_LIST)
        name = _field_of(key, DELETE_FROM_PRIMITIVE_LIST, _BAD_DELETION) if deletion else key
        if value is None:
            out.pop(name, None)
        elif name in out and fmt.base_type(out[name]) is fmt.base_type(value):
            _merge_field(out, name, value, meta, deletion)
        elif not deletion:
            _discard_nulls(value)
            _set(out, name, value)
    return out


def _merge_field(out: Obj, name: str, value: Any, meta: PatchMeta, deletion: bool) -> None:
    """Merges a value into one of the same type."""
    if isinstance(value, dict):
        field = meta.of_map(name)
        out[name] = value if field.strategy == "replace" else _merge_map(out[name], value, field)
    elif isinstance(value, list):
        element = meta.of_list(name)
        out[name] = _merge_list(out[name], value, element, deletion)
    else:
        out[name] = value


def _set(out: Obj, name: str, value: Any) -> None:
    kept = _without_directives(value)
    if kept is _DROPPED:
        out.pop(name, None)
    else:
        out[name] = kept


def _directed(patch: Obj) -> Obj:
    directive = patch[PATCH]
    if directive == "replace":
        del patch[PATCH]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Obj) -> StatusError:
    return unknown_error(f"unknown patch type: {fmt.print_string(directive)} in map: {fmt.print_value(patch)}")


def _field_of(key: str, directive: str, otherwise: str) -> str:
    head, slash, name = key.partition("/")
    if head != directive or not slash:
        raise bad_request(otherwise)
    return name


def _retain_keys(out: Obj, patch: Obj) -> None:
    """Drops from `out` what `$retainKeys` does not name. All that the patch sets must be named."""
    if RETAIN_KEYS not in patch:
        return
    kept = patch.pop(RETAIN_KEYS)
    if not isinstance(kept, list):
        raise bad_request(_BAD_RETAIN_KEYS)
    for key, value in patch.items():
        if (
            value is not None
            and not key.startswith((DELETE_FROM_PRIMITIVE_LIST, SET_ELEMENT_ORDER))
            and key not in kept
        ):
            raise bad_request(_BAD_RETAIN_KEYS)
    for key in [key for key in out if key not in kept]:
        del out[key]


def _merge_ordered(out: Obj, patch: Obj, key: str, meta: PatchMeta) -> None:
    """Merges the list that a `$setElementOrder` is about and brings it into that order; both leave the patch."""
    order = patch.pop(key)
    if not isinstance(order, list):
        raise bad_argument_type([], order)
    name = _field_of(key, SET_ELEMENT_ORDER, _BAD_ORDER)
    for lists in (out, patch):
        if name in lists and not isinstance(lists[name], list):
            raise bad_argument_type([], lists[name])
    element = meta.of_list(name)
    current, wanted = out.get(name), patch.get(name)
    validate_patch_with_order(wanted or [], order, element.merge_key)
    if current is None and wanted is None:
        return
    if wanted is None:
        merged = current or []
    elif current is None:
        merged = _without_directives(wanted)
    else:
        merged = _merge_list(current, wanted, element, False)
    named, others = partition(merged, order, element.merge_key)
    scalars = are_scalars(current or [], wanted or [])
    out[name] = normalize_element_order(named, others, order, current or [], "" if scalars else element.merge_key)
    patch.pop(name, None)


def _merge_list(current: list[Any], patch: list[Any], element: PatchMeta, deletion: bool) -> list[Any]:
    if element.strategy != "merge" and not deletion:
        return patch
    if not current and not patch:
        return current
    if are_scalars(current, patch):
        if deletion:
            return [item for item in current if not any(fmt.same_scalar(item, gone) for gone in patch)]
        merged = merge_scalars(current, patch)
        named, others = partition(merged, patch, element.merge_key)
        return normalize_element_order(named, others, patch, current, "")
    if not element.merge_key:
        raise unknown_error(f"cannot merge lists without merge key for {element.kind()}")
    kept, patch = _obey_directives(current, patch, element.merge_key)
    merged = _merge_elements(list(kept), patch, element)
    named, others = partition(merged, patch, element.merge_key)
    return normalize_element_order(named, others, patch, merged[: len(kept)], element.merge_key)


def _obey_directives(current: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """What `$patch` in elements leaves of the list, and of the patch."""
    rest, replaces = [], False
    for item in patch:
        if PATCH not in item:
            rest.append(item)
        elif item[PATCH] == "delete":
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
            current = [
                old for old in current if not (merge_key in old and fmt.same_scalar(old[merge_key], item[merge_key]))
            ]
        elif item[PATCH] == "replace":
            replaces = True
        elif item[PATCH] == "merge":
            raise unknown_error("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item[PATCH], item)
    return (rest, []) if replaces else (current, rest)


def _merge_elements(merged: list[Any], patch: list[Any], element: PatchMeta) -> list[Any]:
    key = element.merge_key
    for item in patch:
        if key not in item:
            raise _no_merge_key(item, key)
        found = next((i for i, old in enumerate(merged) if key in old and fmt.same_scalar(old[key], item[key])), None)
        if found is None:
            merged.append(item)
        else:
            merged[found] = _merge_map(merged[found], item, PatchMeta(element.shape, element.pointer))
    return merged


def _no_merge_key(item: Obj, merge_key: str) -> StatusError:
    return unknown_error(f"map: {fmt.print_value(item)} does not contain declared merge key: {merge_key}")


_DROPPED = object()


def _without_directives(value: Any) -> Any:
    """`value` without the maps that hold a `$patch`; _DROPPED if it is one. Edits maps in place."""
    if isinstance(value, dict):
        if PATCH in value:
            return _DROPPED
        for key in list(value):
            _set(value, key, value[key])
        return value
    if isinstance(value, list):
        return [kept for item in value if (kept := _without_directives(item)) is not _DROPPED]
    return value


def _discard_nulls(value: Any) -> None:
    """Takes the nulls out of maps, in place; those in lists stay."""
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _discard_nulls(item)
    elif isinstance(value, list):
        for item in value:
            _discard_nulls(item)
