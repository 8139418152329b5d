"""Patches of a live object, decoded again into the kind's shape, with the errors that this can end in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.admission.field import Path, invalid
from understudy.apiserver import errors
from understudy.apiserver.decode import DecodeError, canonical, encode
from understudy.apiserver.kind import Context
from understudy.apiserver.negotiation import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from understudy.apiserver.options import IGNORE, STRICT
from understudy.apiserver.patch import json, merge, strategic
from understudy.apiserver.schema import Struct
from understudy.apiserver.types import Obj

# (live object, its shape, field validation, context) to the patched object
Patched = Callable[[Obj, Struct, str, Context], Obj]


def json_patch(body: bytes, validation: str) -> Patched:
    return _document(json, body, validation)


def merge_patch(body: bytes, validation: str) -> Patched:
    return _document(merge, body, validation)


def _document(form: Any, body: bytes, validation: str) -> Patched:
    """JSON and merge patches change the object's text; errors show what they made of it."""
    patch = form.parse(body, validation != IGNORE)

    def patched(live: Obj, struct: Struct, validation: str, ctx: Context) -> Obj:
        result = form.apply(patch, live)
        return _decoded(result, struct, list(patch.strict_errors), validation, ctx, lambda: encode(result).decode())

    return patched


def strategic_patch(body: bytes, validation: str) -> Patched:
    """The object's fields are merged as their schema says; errors show the patch."""
    strategic.parse(body, validation != IGNORE)

    def patched(live: Obj, struct: Struct, validation: str, ctx: Context) -> Obj:
        patch = strategic.parse(body, validation != IGNORE)
        result = strategic.apply(patch, live, struct)
        return _decoded(result, struct, list(patch.strict_errors), validation, ctx, patch.left)

    return patched


def _decoded(
    value: Any, struct: Struct, strict: list[str], validation: str, ctx: Context, shown: Callable[[], str]
) -> Obj:
    try:
        obj, found = canonical(value, struct)
    except DecodeError as why:
        raise _unusable(shown(), str(why)) from None
    strict += found
    if strict and validation == STRICT:
        raise _unusable(shown(), f"strict decoding error: {', '.join(strict)}")
    if validation != IGNORE:
        for text in strict:
            ctx.warn(text)
    return obj


def _unusable(shown: str, why: str) -> errors.StatusError:
    return errors.invalid("", "", "", [invalid(Path("patch"), shown, why)])


PATCHERS: dict[str, Callable[[bytes, str], Patched]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
    STRATEGIC_PATCH: strategic_patch,
}
