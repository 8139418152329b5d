"""Bodies of requests, decoded to objects of the kind that the path names.

The real server reads kind and apiVersion of the body first, decodes the type that they name, and then converts it to
the type of the path (see `typeinfo.scheme`); the errors of all three steps name the type that was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from understudy.apiserver.endpoints.negotiation import PROTOBUF, YAML, body_type
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.registry.conversion import bare, typed
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

TWICE = "yaml: unmarshal errors:\n  "  # begins the error about duplicate keys, which become one warning each
QUOTED = 30  # bytes of a body that errors quote


class Sent(NamedTuple):
    """A decoded body. `gvk` is what it names as its type; parts that it leaves out are those of the path."""

    obj: Obj
    gvk: GroupVersionKind


def read(request: Request, schemas: Schemas, expected: GroupVersionKind, validation: str) -> Sent:
    """Decode the body to an object of the expected kind, in the version that it names.

    `validation` is the `fieldValidation` of the request: "Strict", "Warn" or "Ignore". Raises 400 and 415.
    """
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
        sent = gvk_with_defaults(*type_meta, expected)
    except DecodeError as error:
        text = (
            f"the object provided is unrecognized (must be of type {expected.kind}): {error} ({_summary(request.body)})"
        )
        raise errors.bad_request(text) from None

    try:
        obj, strict_errors = decode_registered(
            schemas, sent, expected, decode, lambda: request.body.decode("utf-8", "replace")
        )
        strict += strict_errors
        if strict and validation == STRICT:
            raise DecodeError(f"strict decoding error: {', '.join(strict)}")
    except DecodeError as error:
        text = f"{sent.kind} in version {go_quote(sent.version)} cannot be handled as a {expected.kind}: {error}"
        raise errors.bad_request(text) from None
    if validation != IGNORE:
        request.warnings += [line for text in strict for line in text.removeprefix(TWICE).split("\n  ")]
    return Sent(obj, sent)


def _from_protobuf(body: bytes, struct: Struct) -> tuple[Obj, list[str]]:
    """Return the object of a protobuf body, which knows no strict errors."""
    return decode_protobuf(body, struct), []


def read_object(request: Request, schemas: Schemas, kind: Kind, version: str, validation: str) -> Obj:
    """Decode the body to an object of the kind in exactly that version, with kind and apiVersion. Raises 400, 415."""
    expected = kind.gvk(version)
    sent = read(request, schemas, expected, validation)
    if sent.gvk.api_version != expected.api_version:
        raise errors.bad_request(
            f"the API version in the data ({sent.gvk.api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )
    obj = typed(kind, version, bare(sent.obj))
    obj["metadata"] = obj.get("metadata") or {}
    return obj


def _summary(body: bytes) -> str:
    """Return the beginning of a body that could not be read: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    begin = body[:QUOTED]
    text = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    return f"{text} ..." if len(body) > QUOTED else text
