"""Patches of an object that are read from a body, applied, and decoded again into the kind's type.

All of the object goes through JSON on the way: opaque parameters lose their spaces, and after a strategic merge patch
their keys are sorted. So a claim whose parameters were sent in another form refuses every patch (its spec would
change), as it does in the real server.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (`jsonPatcher`, `smpPatcher`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from understudy.admission.context import Context
from understudy.apiserver.endpoints.handlers.request_body import Sent
from understudy.apiserver.endpoints.negotiation import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from understudy.machinery import errors
from understudy.machinery.golang.json_writer import encode_sorted, rewrite_raw
from understudy.machinery.options import IGNORE, STRICT
from understudy.machinery.patch import json_patch, merge_patch, strategic, unstructured
from understudy.machinery.serializer.json import DecodeError, decode_value, encode, type_meta_of
from understudy.machinery.typeinfo import scheme
from understudy.machinery.typeinfo.go_types import INTERNAL, Schemas, Struct
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.validation.field import Path, invalid


@dataclass(frozen=True, slots=True)
class Current:
    """The object that is patched, and what its patched form is decoded and checked with.

    live        the object in the version of `kind`
    validation  the request's `fieldValidation`: "Strict", "Warn" or "Ignore"
    ctx         takes the warnings about unknown and duplicate fields
    """

    live: Obj
    kind: GroupVersionKind
    schemas: Schemas
    validation: str
    ctx: Context


class ParsedPatch(Protocol):
    """A patch whose text was read."""

    @property
    def strict_errors(self) -> list[str]:
        """Unknown and duplicate fields, as strict field validation words them."""


P = TypeVar("P", bound=ParsedPatch)


class DocumentPatch(Protocol[P]):
    """A form of patches that change a JSON document: the functions of the modules `json_patch` and `merge_patch`."""

    def parse(self, body: bytes, validate: bool = True) -> P:
        """Parse a body; `validate` is false for fieldValidation=Ignore. Raises 400, 413."""

    def parse_as_written(self, body: bytes) -> P:
        """Parse a valid body again and keep the spelling of its strings, for the texts of errors."""

    def apply(self, patch: P, current: Obj) -> Any:
        """Return the patched document, which may share parts with `current`. Raises 422."""


def _patch_document(form: DocumentPatch[P], body: bytes, current: Current) -> Sent:
    """Apply a JSON or merge patch to the object's JSON (`jsonPatcher`). Errors print the patched document.

    The result is decoded as the type that it names, which may be another version of the kind. If it names none, that is
    the internal version, which does not know fields in JSON's spelling. Raises 400, 413, 422.
    """
    patch = form.parse(body, current.validation != IGNORE)
    kind, struct = current.kind, current.schemas.kind(*current.kind)
    result = form.apply(patch, current.live)

    def patched_text() -> str:
        live_in_order = decode_value(current.live, struct)[0]  # of Go's fields
        patched = form.apply(form.parse_as_written(body), live_in_order)
        return encode(patched).decode("utf-8", "surrogateescape")

    def decode(struct: Struct) -> tuple[Obj, list[str]]:
        return decode_value(result, struct)

    try:
        gvk = scheme.gvk_with_defaults(*type_meta_of(result), kind._replace(version=INTERNAL))
        obj, strict_errors = scheme.decode_registered(current.schemas, gvk, kind, decode, patched_text)
    except DecodeError as error:
        raise _invalid_patch(current, patched_text(), str(error)) from None
    _report(patch.strict_errors + strict_errors, current, patched_text)
    if gvk.version == INTERNAL:
        gvk, obj = kind, _from_internal_version(obj, struct)
    return Sent(rewrite_raw(obj, encode) if struct.has_raw_extension else obj, gvk)


def _from_internal_version(obj: Obj, struct: Struct) -> Obj:
    """Return an object decoded as the internal version: only its metadata remain, whose fields it has at the top."""
    metadata = struct.fields["metadata"].type
    assert isinstance(metadata, Struct)
    return decode_value({"metadata": {name: obj[name] for name in metadata.fields if name in obj}}, struct)[0]


def _patch_strategic(body: bytes, current: Current) -> Sent:
    """Apply a strategic merge patch, field by field as the schema says (`smpPatcher`). Errors print the patch.

    The result's own kind and apiVersion are ignored. Raises 400, 422, 500.
    """
    struct = current.schemas.kind(*current.kind)
    patch = strategic.parse(body, current.validation != IGNORE)
    result = strategic.apply(patch, current.live, struct)
    try:
        obj, unknown = unstructured.from_unstructured(result, struct)
    except DecodeError as error:
        raise _invalid_patch(current, patch.printed(), str(error)) from None
    _report(patch.strict_errors + unknown, current, patch.printed)
    return Sent(rewrite_raw(obj, encode_sorted) if struct.has_raw_extension else obj, current.kind)


def _report(strict_errors: list[str], current: Current, patch_text: Callable[[], str]) -> None:
    """Refuse unknown and duplicate fields (422), warn of them or ignore them, as the field validation asks."""
    if strict_errors and current.validation == STRICT:
        raise _invalid_patch(current, patch_text(), f"strict decoding error: {', '.join(strict_errors)}")
    if current.validation != IGNORE:
        for text in strict_errors:
            current.ctx.warn(text)


def _invalid_patch(current: Current, patch_text: str, message: str) -> errors.StatusError:
    """Return the 422 for a patch whose result cannot be decoded."""
    return errors.invalid("", "", "", [invalid(Path("patch"), patch_text, message)], current.ctx.release)


# Apply the patch of a body, by media type.
PATCHERS: dict[str, Callable[[bytes, Current], Sent]] = {
    JSON_PATCH: partial(_patch_document, json_patch),
    MERGE_PATCH: partial(_patch_document, merge_patch),
    STRATEGIC_PATCH: _patch_strategic,
}
