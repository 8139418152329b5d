"""A request's body as an object of the kind that its path names.

The real server reads kind and apiVersion from the body first, decodes into whatever they name, and then converts to
what the path wants (`schemes`); the errors of all three steps name what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from understudy.apiserver.endpoints.negotiation import PROTOBUF, YAML, body_type
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.registry.encoded import bare, typed
from understudy.apiserver.registry.kind import Kind
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import IGNORE, STRICT
from understudy.machinery.serializer.json import DecodeError, decode_parsed, parse_json, read_type_meta, yaml_to_json
from understudy.machinery.serializer.protobuf import decode as decode_protobuf
from understudy.machinery.serializer.protobuf import read_protobuf_type_meta
from understudy.machinery.typeinfo.go_types import Schemas, Struct
from understudy.machinery.typeinfo.scheme import decode_registered, gvk_with_defaults
from understudy.machinery.types import GroupVersionKind, Obj

TWICE = "yaml: unmarshal errors:\n  "  # what the error about duplicate keys begins with; they are warned of one by one
SHOWN = 30  # bytes of a body that errors show


class Sent(NamedTuple):
    """gvk: what the body says it is, as far as it does, else what was wanted."""

    obj: Obj
    gvk: GroupVersionKind


def read(request: Request, schemas: Schemas, wanted: GroupVersionKind, validation: str) -> Sent:
    """The body as an object of the wanted kind, in whatever version it says it is.

    `validation` is that of unknown and duplicate fields. Raises 400 and 415."""
    media = body_type(request.headers.get("Content-Type", ""))
    strict: list[str] = []
    decode: Callable[[Struct], tuple[Obj, list[str]]]
    try:
        if media == PROTOBUF:
            type_meta, decode = read_protobuf_type_meta(request.body), partial(_from_protobuf, request.body)
        else:
            body, strict = yaml_to_json(request.body) if media == YAML else (request.body, [])
            parsed = parse_json(body)
            type_meta, decode = read_type_meta(parsed), partial(decode_parsed, parsed)
        sent = gvk_with_defaults(*type_meta, wanted)
    except DecodeError as why:
        text = f"the object provided is unrecognized (must be of type {wanted.kind}): {why} ({_summary(request.body)})"
        raise errors.bad_request(text) from None

    try:
        obj, found = decode_registered(schemas, sent, wanted, decode, lambda: request.body.decode("utf-8", "replace"))
        strict += found
        if strict and validation == STRICT:
            raise DecodeError(f"strict decoding error: {', '.join(strict)}")
    except DecodeError as why:
        text = f"{sent.kind} in version {go_quote(sent.version)} cannot be handled as a {wanted.kind}: {why}"
        raise errors.bad_request(text) from None
    if validation != IGNORE:
        request.warnings += [line for text in strict for line in text.removeprefix(TWICE).split("\n  ")]
    return Sent(obj, sent)


def _from_protobuf(body: bytes, struct: Struct) -> tuple[Obj, list[str]]:
    """Return the object of a protobuf body, which knows no strict errors."""
    return decode_protobuf(body, struct), []


def read_object(request: Request, schemas: Schemas, kind: Kind, version: str, validation: str) -> Obj:
    """The body as a typed object of the kind, in that version and no other. Raises 400 and 415."""
    wanted = kind.gvk(version)
    sent = read(request, schemas, wanted, validation)
    if sent.gvk.api_version != wanted.api_version:
        have, want = sent.gvk.api_version, wanted.api_version
        raise errors.bad_request(
            f"the API version in the data ({have}) does not match the expected API version ({want})"
        )
    obj = typed(kind, version, bare(sent.obj))
    obj["metadata"] = obj.get("metadata") or {}
    return obj


def _summary(body: bytes) -> str:
    """The beginning of a body that could not be read: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    begin = body[:SHOWN]
    text = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    return f"{text} ..." if len(body) > SHOWN else text
