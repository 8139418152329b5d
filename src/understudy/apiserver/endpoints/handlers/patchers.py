"""Patches of an object that are read from a body, applied, and decoded again into the kind's type.

All of the object goes through JSON on the way: opaque parameters lose their spaces, and after a strategic merge patch
their keys are sorted. So a claim whose parameters were sent in another form refuses every patch (its spec would
change), as it does in the real server.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (`jsonPatcher`, `smpPatcher`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from understudy.apiserver.encoding.go_codec import GoDecoder
from understudy.apiserver.endpoints.negotiation import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from understudy.kinds.context import Context
from understudy.kinds.declarations.codec import Decoder, Sent
from understudy.machinery import errors
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.options import IGNORE, STRICT
from understudy.machinery.patch import json_patch, merge_patch, strategic, unstructured
from understudy.machinery.patch.patch_body import loads_as_written
from understudy.machinery.serializer.json import DecodeError, encode
from understudy.machinery.typeinfo.raw_parts import change_raw, holds_raw, rewrite_raw
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.validation.field import Path, invalid


class Current(NamedTuple):
    """The object that is patched, and what its patched form is decoded and checked with.

    live        the object in the version of the request
    decoder     decodes the patched object
    validation  the request's `fieldValidation`: "Strict", "Warn" or "Ignore"
    ctx         takes the warnings about unknown and duplicate fields
    """

    live: Obj
    decoder: Decoder
    validation: str
    ctx: Context


class ParsedPatch(Protocol):
    """A patch whose text was read."""

    @property
    def strict_errors(self) -> list[str]:
        """Unknown and duplicate fields, as strict field validation words them."""

    @property
    def tests(self) -> bool:
        """Whether it compares values of the object with its own."""


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

    Raises 400, 413, 422.
    """
    patch = form.parse(body, current.validation != IGNORE)
    live, struct = current.live, current.decoder.struct if isinstance(current.decoder, GoDecoder) else None
    spells = struct is not None and patch.tests and holds_raw(live, struct)
    result = live if spells else form.apply(patch, live)
    if struct is not None and (spells or holds_raw(result, struct)):
        live = change_raw(live, struct, lambda raw: loads_as_written(raw.source))
        result = form.apply(form.parse_as_written(body), live)

    def patched_text() -> str:
        live_in_order = current.decoder.in_order(live)
        patched = form.apply(form.parse_as_written(body), live_in_order)
        return encode(patched).decode("utf-8", "surrogateescape")

    try:
        sent, strict_errors = current.decoder.decode_patched(result, patched_text)
    except DecodeError as error:
        raise _invalid_patch(current, patched_text(), str(error)) from None
    _report(patch.strict_errors + strict_errors, current, patched_text)
    return sent


def _patch_strategic(body: bytes, current: Current) -> Sent:
    """Apply a strategic merge patch, field by field as the schema says (`smpPatcher`). Errors print the patch.

    The result's own kind and apiVersion are ignored. Raises 400, 422, 500.
    """
    assert isinstance(current.decoder, GoDecoder)  # custom resources have no strategic merge patches
    struct = current.decoder.struct
    patch = strategic.parse(body, current.validation != IGNORE)
    result = strategic.apply(patch, current.live, struct)
    try:
        obj, unknown = unstructured.from_unstructured(result, struct)
    except DecodeError as error:
        raise _invalid_patch(current, patch.printed(), str(error)) from None
    _report(patch.strict_errors + unknown, current, patch.printed)
    return Sent(rewrite_raw(obj, struct, encode_sorted), current.decoder.kind)


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
