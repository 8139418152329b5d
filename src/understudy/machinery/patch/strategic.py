"""Strategic merge patches: maps merge by key, lists as the `patchStrategy` and `patchMergeKey` of their field say.

Handles the directives `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/FIELD` and
`$deleteFromPrimitiveList/FIELD`; the order of lists is in `strategic_lists`. The rules are those of
k8s.io/apimachinery/pkg/util/strategicpatch and of its design note "preserve order in strategic merge patch".

Oddities that are kept: a directive in a place that the object does not have yet is dropped with its map, whatever it
says; unknown directives are unknown fields; null for a missing field is ignored. Where the real server's answer depends
on the order in which Go walks a map, this module walks in the order of the patch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from understudy.machinery.errors import StatusError, bad_request, unknown_error
from understudy.machinery.golang import fmt
from understudy.machinery.golang.json_writer import Raw, go_number
from understudy.machinery.golang.text import go_quote
from understudy.machinery.patch import patch_body as bodies
from understudy.machinery.patch.strategic_lists import (
    Identity,
    are_scalars,
    bad_argument_type,
    identity,
    merge_scalars,
    normalize_element_order,
    partition,
    validate_patch_with_order,
)
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Scalar, Shape, Struct
from understudy.machinery.typeinfo.raw_parts import change_raw
from understudy.machinery.types import NamedTuple, Obj

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM_PRIMITIVE_LIST = "$deleteFromPrimitiveList"
SET_ELEMENT_ORDER = "$setElementOrder"

_BAD_DELETION = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS = "invalid patch format of retainKeys"
_BAD_ORDER = "invalid patch format of setElementOrder list"


class Patch(NamedTuple):
    """A parsed strategic merge patch. `apply` uses up its `content`.

    Each of the `strict_errors` is an error with strict field validation and a warning by default.
    """

    content: Obj
    strict_errors: list[str]

    def printed(self) -> str:
        """Return the rest of the content, as errors of decoding the result print it."""
        return fmt.print_value(self.content)


def parse(body: bytes, validate: bool = True) -> Patch:
    """Parse a strategic merge patch. `validate` is false for fieldValidation=Ignore; then duplicate keys are ignored.
    Raises StatusError 400."""
    try:
        value, duplicates = bodies.loads(body)
    except bodies.DecodeError as error:
        raise bad_request(str(error)) from None
    if value is not None and not isinstance(value, dict):
        raise bad_request(
            f"json: cannot unmarshal {bodies.kind_of(value)} into Go value of type map[string]interface {{}}"
        )
    return Patch(value or {}, [f'duplicate field "{path}"' for path in duplicates] if validate else [])


def apply(patch: Patch, current: Obj, struct: Struct) -> Obj:
    """Return the patched object. `current` stays as it is; the patch is used up, so parse it again for another attempt.

    Opaque parts of the object lose their spelling and become plain objects, sorted by key. Raises StatusError: 400 and
    422 for directives of a wrong form, 500 (without a reason) for values that cannot be merged.
    """
    merged = _merge_map(current, patch.content, PatchMeta(struct))
    plain: Obj = change_raw(merged, struct, _plain_value)
    return plain


def _plain_value(value: Any) -> Any:
    """Return a raw value as plain JSON, sorted by key."""
    if isinstance(value, dict):
        return {key: _plain_value(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, Raw):
        return go_number(float(value)) if isinstance(value, float) else str(value)
    return value


class PatchMeta(NamedTuple):
    """The way to merge the values of a field: shape of its type, patch strategy and merge key.

    Upstream: `PatchMetaFromStruct`.
    """

    shape: Shape
    pointer: bool = False
    strategy: str = ""
    merge_key: str = ""

    def go_kind(self) -> str:
        """Return the reflect.Kind of the type, as errors name it."""
        if self.pointer:
            return "ptr"
        if isinstance(self.shape, List | Map):
            return "slice" if isinstance(self.shape, List) else "map"
        return self.shape.kind if isinstance(self.shape, Scalar) else "struct"

    def for_struct(self, key: str) -> PatchMeta:
        """Return the metadata of an object under `key` (upstream: `LookupPatchMetadataForStruct`). Raises StatusError
        500."""
        if not isinstance(self.shape, Struct | Custom):
            kind = PatchMeta(self.shape).go_kind()
            raise unknown_error(f"merging an object in json but data type is not struct, instead is: {kind}")
        return _meta_of_field(self.shape, key)

    def for_slice(self, key: str) -> PatchMeta:
        """Return the metadata of the elements of a list under `key` (upstream: `LookupPatchMetadataForSlice`). Raises
        StatusError 500."""
        field = self.for_struct(key)
        if not isinstance(field.shape, List):
            if field.pointer:
                return PatchMeta(field.shape, False, field.strategy, field.merge_key)
            raise unknown_error(f"expected slice or array type, but got: {self.go_kind()}")
        if isinstance(field.shape.element, List):
            raise unknown_error("unexpected slice of slice")
        return PatchMeta(field.shape.element, field.shape.pointer, field.strategy, field.merge_key)


@lru_cache(4096)
def _meta_of_field(shape: Struct | Custom, key: str) -> PatchMeta:
    """Return the metadata of a field of a struct. Raises StatusError 500."""
    fields = shape.fields if isinstance(shape, Struct) else {}
    field = fields.get(key) or next((f for name, f in fields.items() if name.lower() == key.lower()), None)
    if field is None:
        name = shape.type_name if isinstance(shape, Struct) else shape.name
        raise unknown_error(f"unable to find api field in struct {name} for the json field {go_quote(key)}")
    strategy = next((s for s in field.patch_strategies if s != "retainKeys"), "")
    return PatchMeta(field.type, field.pointer, strategy, field.merge_key)


def _merge_map(current: Obj, patch: Obj, meta: PatchMeta) -> Obj:
    """Merge an object of the patch into one of the document (upstream: `mergeMap`)."""
    if PATCH in patch:
        return _apply_map_directive(patch)
    out = dict(current)
    _apply_retain_keys(out, patch)
    for key in [key for key in patch if key.startswith(SET_ELEMENT_ORDER)]:
        _merge_with_element_order(out, patch, key, meta)
    for key, value in patch.items():
        deletion = key.startswith(DELETE_FROM_PRIMITIVE_LIST)
        name = _extract_key(key, DELETE_FROM_PRIMITIVE_LIST, _BAD_DELETION) if deletion else key
        if value is None:
            out.pop(name, None)
        elif name in out and fmt.base_type(out[name]) is fmt.base_type(value):
            _merge_field(out, name, value, meta, deletion)
        elif not deletion:
            _discard_null_values(value)
            _set(out, name, value)
    return out


def _merge_field(out: Obj, name: str, value: Any, meta: PatchMeta, deletion: bool) -> None:
    """Merge a value into one of the same type."""
    if isinstance(value, dict):
        field = meta.for_struct(name)
        out[name] = value if field.strategy == "replace" else _merge_map(out[name], value, field)
    elif isinstance(value, list):
        element = meta.for_slice(name)
        out[name] = _merge_list(out[name], value, element, deletion)
    else:
        out[name] = value


def _set(out: Obj, name: str, value: Any) -> None:
    """Set a field to a value of the patch, without the directives in it."""
    kept = _remove_directives(value)
    if kept is _DROPPED:
        out.pop(name, None)
    else:
        out[name] = kept


def _apply_map_directive(patch: Obj) -> Obj:
    """Return the object that `$patch` in an object of the patch leaves (upstream: `handleDirectiveInMergeMap`)."""
    directive = patch[PATCH]
    if directive == "replace":
        del patch[PATCH]
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _unknown_directive(directive: Any, patch: Obj) -> StatusError:
    return unknown_error(f"unknown patch type: {fmt.print_string(directive)} in map: {fmt.print_value(patch)}")


def _extract_key(key: str, directive: str, otherwise: str) -> str:
    """Return FIELD of `$directive/FIELD` (upstream: `extractKey`). Raises StatusError 400 with `otherwise`."""
    head, slash, name = key.partition("/")
    if head != directive or not slash:
        raise bad_request(otherwise)
    return name


def _apply_retain_keys(out: Obj, patch: Obj) -> None:
    """Drop from `out` the keys that `$retainKeys` does not name (upstream: `applyRetainKeysDirective`).

    Raises StatusError 400 if the patch sets a key that is not named.
    """
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


def _merge_with_element_order(out: Obj, patch: Obj, key: str, meta: PatchMeta) -> None:
    """Merge the list that a `$setElementOrder` names and bring it into that order; both are taken out of the patch."""
    order = patch.pop(key)
    if not isinstance(order, list):
        raise bad_argument_type([], order)
    name = _extract_key(key, SET_ELEMENT_ORDER, _BAD_ORDER)
    for lists in (out, patch):
        if name in lists and not isinstance(lists[name], list):
            raise bad_argument_type([], lists[name])
    element = meta.for_slice(name)
    current, patched = out.get(name), patch.get(name)
    validate_patch_with_order(patched or [], order, element.merge_key)
    if current is None and patched is None:
        return
    if patched is None:
        merged = current or []
    elif current is None:
        merged = _remove_directives(patched)
    else:
        merged = _merge_list(current, patched, element, False)
    named, others = partition(merged, order, element.merge_key)
    scalars = are_scalars(current or [], patched or [])
    out[name] = normalize_element_order(named, others, order, current or [], "" if scalars else element.merge_key)
    patch.pop(name, None)


def _merge_list(current: list[Any], patch: list[Any], element: PatchMeta, deletion: bool) -> list[Any]:
    """Merge a list of the patch into one of the document (upstream: `mergeSlice`). `deletion`: the patch names scalars
    to delete."""
    if element.strategy != "merge" and not deletion:
        return patch
    if not current and not patch:
        return current
    if are_scalars(current, patch):
        if deletion:
            deleted = set(map(identity, patch))
            return [item for item in current if identity(item) not in deleted]
        merged = merge_scalars(current, patch)
        named, others = partition(merged, patch, element.merge_key)
        return normalize_element_order(named, others, patch, current, "")
    if not element.merge_key:
        raise unknown_error(f"cannot merge lists without merge key for {element.go_kind()}")
    kept, patch = _apply_list_directives(current, patch, element.merge_key)
    merged, has_duplicates = _merge_list_elements(list(kept), patch, element)
    if len(patch) < 2 and len(merged) == len(kept) and not has_duplicates:
        return merged  # in its order
    named, others = partition(merged, patch, element.merge_key)
    return normalize_element_order(named, others, patch, merged[: len(kept)], element.merge_key)


def _apply_list_directives(current: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Apply the `$patch` directives in elements (upstream: `mergeSliceWithSpecialElements`). Returns what is left of
    the list and of the patch."""
    rest, replaces = [], False
    deleted: set[Identity] = set()
    for item in patch:
        if PATCH not in item:
            rest.append(item)
        elif item[PATCH] == "delete":
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
            deleted.add(identity(item[merge_key]))
        elif item[PATCH] == "replace":
            replaces = True
        elif item[PATCH] == "merge":
            raise unknown_error("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown_directive(item[PATCH], item)
    if replaces:
        return rest, []
    return [old for old in current if merge_key not in old or identity(old[merge_key]) not in deleted], rest


def _merge_list_elements(merged: list[Any], patch: list[Any], element: PatchMeta) -> tuple[list[Any], bool]:
    """Merge elements by their merge key (upstream: `mergeSliceWithoutSpecialElements`).

    Also returns whether elements have no key, or that of another one.
    """
    key = element.merge_key
    positions: dict[Identity, int] = {}
    for index, old in enumerate(merged):
        if key in old:
            positions.setdefault(identity(old[key]), index)
    for item in patch:
        if key not in item:
            raise _no_merge_key(item, key)
        position = positions.setdefault(identity(item[key]), len(merged))
        if position == len(merged):
            merged.append(item)
        else:
            merged[position] = _merge_map(merged[position], item, PatchMeta(element.shape, element.pointer))
    return merged, len(positions) < len(merged)


def _no_merge_key(item: Obj, merge_key: str) -> StatusError:
    return unknown_error(f"map: {fmt.print_value(item)} does not contain declared merge key: {merge_key}")


_DROPPED = object()


def _remove_directives(value: Any) -> Any:
    """Return `value` without the maps that hold a `$patch`, or _DROPPED if it is one (upstream: `removeDirectives`).
    Edits maps in place."""
    if isinstance(value, dict):
        if PATCH in value:
            return _DROPPED
        for key in list(value):
            _set(value, key, value[key])
        return value
    if isinstance(value, list):
        return [kept for item in value if (kept := _remove_directives(item)) is not _DROPPED]
    return value


def _discard_null_values(value: Any) -> None:
    """Remove nulls from maps, in place (upstream: `discardNullValuesFromPatch`); those in lists stay."""
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _discard_null_values(item)
    elif isinstance(value, list):
        for item in value:
            _discard_null_values(item)
