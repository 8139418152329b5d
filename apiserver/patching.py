"""Patches of a live object, decoded again into the kind's shape, with the errors that this can end in.

The object goes through JSON on the way, all of it: spaces in opaque parameters are gone after a patch, and after a
strategic one their keys are in order, so that a claim whose parameters were sent otherwise refuses any patch (its spec
would change).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.admission.field import Path, invalid
from understudy.apiserver import errors
from understudy.apiserver.bodies import SCHEME
from understudy.apiserver.decode import DecodeError, canonical, encode
from understudy.apiserver.kind import Context
from understudy.apiserver.negotiation import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from understudy.apiserver.options import IGNORE, STRICT
from understudy.apiserver.patch import json, merge, strategic, unstructured
from understudy.apiserver.rawjson import respelt, sorted_bytes
from understudy.apiserver.schema import Struct
from understudy.apiserver.types import Obj, split_api_version

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

        def shown() -> str:
            return encode(result).decode()

        _check_type(result, live, struct, shown)
        obj: Obj = respelt(_decoded(result, struct, list(patch.strict_errors), validation, ctx, shown), encode)
        return obj

    return patched


def strategic_patch(body: bytes, validation: str) -> Patched:
    """The object's fields are merged as their schema says; errors show the patch."""
    strategic.parse(body, validation != IGNORE)

    def patched(live: Obj, struct: Struct, validation: str, ctx: Context) -> Obj:
        patch = strategic.parse(body, validation != IGNORE)
        result = strategic.apply(patch, live, struct)
        try:
            unstructured.check(result, struct)
        except DecodeError as why:
            raise _unusable(patch.left(), str(why)) from None
        decoded = _decoded(result, struct, list(patch.strict_errors), validation, ctx, patch.left)
        obj: Obj = respelt(decoded, sorted_bytes)
        return obj

    return patched


def _check_type(result: Any, live: Obj, struct: Struct, shown: Callable[[], str]) -> None:
    """A patch cannot make an object another kind; one that takes its kind away changes nothing."""
    sent = result if isinstance(result, dict) else {}
    kind = sent.get("kind") or live["kind"]
    api_version = sent.get("apiVersion") or live["apiVersion"]
    if (kind, api_version) == (live["kind"], live["apiVersion"]):
        return
    if str(api_version).count("/") > 1:
        raise _unusable(shown(), f"unexpected GroupVersion string: {api_version}")
    group, version = split_api_version(str(api_version))
    if struct.schemas.has_kind(group, version, str(kind)):
        source = struct.schemas.kind(group, version, str(kind)).go
        raise _unusable(shown(), f"unable to convert {source} to {struct.go}: the patch makes it another kind")
    raise _unusable(shown(), f'no kind "{kind}" is registered for version "{api_version}" in scheme {SCHEME}')


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
