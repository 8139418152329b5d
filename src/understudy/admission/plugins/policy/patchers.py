"""The mutations of policies: an apply configuration that is merged into the object, or a JSON patch.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch.
"""

from __future__ import annotations

from calendar import month_name
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from understudy.admission.objects import ObjectInterfaces, VersionedAttributes
from understudy.cel.errors import EvaluationError
from understudy.cel.interpreter.field_access import Message
from understudy.cel.interpreter.unstructured import to_json
from understudy.cel.values import Duration, Timestamp, Value
from understudy.machinery.errors import internal_error
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.times import duration_text, fraction_text
from understudy.machinery.patch import json_patch
from understudy.machinery.patch.structured_merge_diff.merge import merge
from understudy.machinery.patch.structured_merge_diff.typed import (
    AtomicList,
    DeducedType,
    InvalidValue,
    ListType,
    MapType,
    ScalarType,
    Type,
)
from understudy.machinery.patch.structured_merge_diff.typed_validation import GoValue, validate
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.serializer.json_fast import as_sent
from understudy.machinery.types import Obj


class PatchError(Exception):
    """A mutation that cannot be applied; the text is the real server's."""


def apply_configuration(
    value: Value, versioned: VersionedAttributes, objects: ObjectInterfaces, version: Version
) -> Obj:
    """Return the object of a request with an apply configuration merged into it. Raises PatchError.

    Before 1.35 the object has to fit its schema, too: it may not have two list elements with the same keys.
    """
    _check_type_names(value)
    assert versioned.object is not None
    live = as_sent(versioned.object)
    try:
        patch = {**_native(value), "kind": live["kind"], "apiVersion": live["apiVersion"]}
    except EvaluationError:
        raise PatchError("invalid return type: *dynamic.ObjectVal") from None
    try:
        kind = objects.merge_type(versioned.kind)
        validate(kind, patch)
    except InvalidValue as error:
        raise PatchError(f"error applying patch: failed to convert patch object to typed object: {error}") from None
    if atomics := list(_atomics(kind, patch, "")):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise PatchError(f"error applying patch: invalid ApplyConfiguration: {text}")
    if version < V1_35:
        try:
            validate(kind, live)
        except InvalidValue as error:
            text = f"failed to convert original object to typed object: {error}"
            raise PatchError(f"error applying patch: {text}") from None
    try:
        merged = merge(kind, live, patch)
    except InvalidValue as error:
        raise PatchError(f"error applying patch: failed to merge patch: {error}") from None
    return objects.decode(merged, versioned.kind)


_NULL = GoValue("NULL_VALUE", "0", "structpb.NullValue")


def _native(value: Value) -> Any:
    """Return the value of an apply configuration as Go has it. Raises EvaluationError for keys that are no strings.

    Nulls, bytes, timestamps and durations fit no schema (`ObjectVal.ConvertToNative`).
    """
    if value is None:
        return _NULL
    if isinstance(value, bytes):
        items = ", ".join(map(hex, value))
        return GoValue(f"[{' '.join(map(str, value))}]", f"[]uint8{{{items}}}", "[]uint8")
    if isinstance(value, Duration):
        return GoValue(duration_text(value.nanos), str(value.nanos), "time.Duration")
    if isinstance(value, Timestamp):
        return _go_time(value)
    if isinstance(value, Message):
        return {name: _native(item) for name, item in value.values.items()}
    if isinstance(value, list):
        return [_native(item) for item in value]
    if isinstance(value, dict):
        return {key: _native(value[key]) for key in to_json(dict.fromkeys(value))}
    return to_json(value)


def _go_time(value: Timestamp) -> GoValue:
    """Return a timestamp as a Go time in its zone."""
    seconds, nanos = divmod(value.nanos, 10**9)
    at = datetime(1970, 1, 1) + timedelta(seconds=seconds, minutes=value.zone)
    hours, minutes = divmod(abs(value.zone), 60)
    offset = f"{'-' if value.zone < 0 else '+'}{hours:02d}{minutes:02d}"
    location = 'time.Location("")' if value.zone else "time.UTC"
    fields = (at.year, f"time.{month_name[at.month]}", at.day, at.hour, at.minute, at.second, nanos, location)
    printed = f"{at:%Y-%m-%d %H:%M:%S}{fraction_text(nanos)} {offset} {offset if value.zone else 'UTC'}"
    return GoValue(printed, f"time.Date({', '.join(map(str, fields))})", "time.Time")


def _atomics(kind: Type, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of the lists and maps in a value that are replaced as a whole (`findAtomics`)."""
    if not isinstance(value, dict | list) or isinstance(kind, ScalarType):
        return
    if kind.atomic or (isinstance(kind, DeducedType) and isinstance(value, list)):
        yield path
    if isinstance(kind, MapType) and isinstance(value, dict):
        for key, item in value.items():
            if key in kind.fields:
                yield from _atomics(kind.fields[key], item, f"{path}.{key}")
    elif isinstance(kind, ListType | AtomicList) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _atomics(kind.element, item, f"{path}[{i}]")


def apply_json_patch(value: Value, versioned: VersionedAttributes, objects: ObjectInterfaces, version: Version) -> Obj:
    """Return the object of a request with a JSON patch applied; unchanged if a test of the patch fails.

    The object may be of another kind then. Raises PatchError, and 500 for a result that is no object of the kind that
    it names.
    """
    assert versioned.object is not None
    operations = [_operation(message) for message in value]
    tests = any(operation["op"] == "test" for operation in operations)
    try:
        patched = json_patch.apply(json_patch.Patch(operations, [], tests), as_sent(versioned.object))
    except json_patch.TestFailedError:
        return versioned.object
    except json_patch.DoesNotApplyError as error:
        raise PatchError(f"JSON Patch: {error.why}") from None
    try:
        return objects.decode(patched, versioned.kind)
    except DecodeError as error:
        raise internal_error(str(error)) from None


def _operation(message: Message) -> Obj:
    """Return a `JSONPatch{…}` as an operation of a JSON patch."""
    fields = {"op": "", "path": "", **message.values}
    operation: Obj = {"op": fields["op"], "path": fields["path"]}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        _check_type_names(fields["value"])
        try:
            operation["value"] = _with_doubles(to_json(fields["value"]))
        except EvaluationError as error:
            text = f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
            raise PatchError(text) from None
    return operation


def _with_doubles(value: Any) -> Any:
    """Return a JSON value in which integers that no double can hold are texts (`structpb.Value`)."""
    if isinstance(value, dict):
        return {key: _with_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    too_large = isinstance(value, int) and abs(value) > _LARGEST_INTEGER
    return str(value) if too_large else value


_LARGEST_INTEGER = 2**53 - 1


def _check_type_names(value: Value) -> None:
    """Raise PatchError unless the types of objects are called by the paths of their fields.

    Such as `Object.spec` in the field `spec` (`CheckTypeNamesMatchFieldPathNames`).
    """
    if isinstance(value, Message):
        if errors := list(_wrong_type_names(value, value.name)):
            raise PatchError("type mismatch: " + "\n".join(errors))


def _wrong_type_names(value: Value, path: str) -> Iterator[str]:
    if isinstance(value, Message):
        if value.name != path:
            expected = f"expected {go_quote(path)}, which matches field name path from root Object type"
            yield f"unexpected type name {go_quote(value.name)}, {expected}"
        for name, item in value.values.items():
            yield from _wrong_type_names(item, f"{path}.{name}")
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _wrong_type_names(item, path)
