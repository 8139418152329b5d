"""Patches of a live object, decoded again into the kind's shape, with the errors that this can end in.

The object goes through JSON on the way, all of it: spaces in opaque parameters are gone after a patch, and after a
strategic one their keys are in order, so that a claim whose parameters were sent otherwise refuses any patch (its spec
would change).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from understudy.admission.context import Context
from understudy.apiserver.endpoints.handlers.request_body import Sent
from understudy.apiserver.endpoints.negotiation import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from understudy.machinery import errors
from understudy.machinery.golang.json_writer import encode_sorted, rewrite_raw
from understudy.machinery.options import IGNORE, STRICT
from understudy.machinery.patch import json_patch as json
from understudy.machinery.patch import merge_patch as merge
from understudy.machinery.patch import strategic, unstructured
from understudy.machinery.serializer.json import DecodeError, decode_value, encode, type_meta_of
from understudy.machinery.typeinfo import scheme
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas, Struct
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.validation.field import Path, invalid


@dataclass(frozen=True, slots=True)
class Current:
    """What is patched: an object of a kind in one of the release's types. `validation` is that of unknown and duplicate
    fields, whose warnings the context takes."""

    live: Obj
    kind: GroupVersionKind
    schemas: Schemas
    validation: str
    ctx: Context


def json_patch(body: bytes, current: Current) -> Sent:
    return _document(json, body, current)


def merge_patch(body: bytes, current: Current) -> Sent:
    return _document(merge, body, current)


def _document(form: Any, body: bytes, current: Current) -> Sent:
    """JSON and merge patches change the object's text; errors show what they made of it.

    The text is decoded as whatever it then says it is: another version of the kind is as good. Where it does not say,
    that is the internal form, to which fields in JSON's spelling are unknown."""
    patch = form.parse(body, current.validation != IGNORE)
    kind, struct = current.kind, current.schemas.kind(*current.kind)
    result = form.apply(patch, current.live)

    def shown() -> str:
        in_order = decode_value(current.live, struct)[0]  # of Go's fields
        return encode(form.apply(form.parse_as_written(body), in_order)).decode("utf-8", "surrogateescape")

    def decode(struct: Struct) -> tuple[Obj, list[str]]:
        return decode_value(result, struct)

    try:
        sent = scheme.gvk_with_defaults(*type_meta_of(result), kind._replace(version=INTERNAL))
        obj, strict = scheme.decode_registered(current.schemas, sent, kind, decode, shown)
    except DecodeError as why:
        raise _unusable(current, shown(), str(why)) from None
    _report(patch.strict_errors + strict, current, shown)
    if sent.version == INTERNAL:
        sent, obj = kind, _from_internal(obj, struct)
    return Sent(rewrite_raw(obj, encode) if struct.has_raw_extension else obj, sent)


def _from_internal(obj: Obj, struct: Struct) -> Obj:
    """What is left of an internal object: its metadata, which stand at the top."""
    metadata = struct.fields["metadata"].type
    assert isinstance(metadata, Struct)
    return decode_value({"metadata": {name: obj[name] for name in metadata.fields if name in obj}}, struct)[0]


def strategic_patch(body: bytes, current: Current) -> Sent:
    """The object's fields are merged as their schema says; errors show the patch. What the result says of its type
    does not matter."""
    struct = current.schemas.kind(*current.kind)
    patch = strategic.parse(body, current.validation != IGNORE)
    result = strategic.apply(patch, current.live, struct)
    try:
        obj, unknown = unstructured.from_unstructured(result, struct)
    except DecodeError as why:
        raise _unusable(current, patch.printed(), str(why)) from None
    _report(patch.strict_errors + unknown, current, patch.printed)
    return Sent(rewrite_raw(obj, encode_sorted) if struct.has_raw_extension else obj, current.kind)


def _report(strict: list[str], current: Current, shown: Callable[[], str]) -> None:
    """Unknown and duplicate fields, as field validation wants them to be told of."""
    if strict and current.validation == STRICT:
        raise _unusable(current, shown(), f"strict decoding error: {', '.join(strict)}")
    if current.validation != IGNORE:
        for text in strict:
            current.ctx.warn(text)


def _unusable(current: Current, shown: str, why: str) -> errors.StatusError:
    return errors.invalid("", "", "", [invalid(Path("patch"), shown, why)], current.ctx.release)


# By media type. All raise 400, 413 and 422; strategic ones 500, too.
PATCHERS: dict[str, Callable[[bytes, Current], Sent]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
    STRATEGIC_PATCH: strategic_patch,
}
