"""Bodies of requests, decoded to objects of the kind that the path names.

The real server reads kind and apiVersion of the body first, decodes the type that they name, and then converts it to
the type of the path (see `kinds.declarations.codec`); the errors of all three steps name the type that was sent.
"""

from __future__ import annotations

from understudy.apiserver.encoding.bodies import CborBody, JsonBody, ProtobufBody
from understudy.apiserver.endpoints.negotiation import CBOR, PROTOBUF, YAML, body_type
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.responsewriters.writers import shown_warnings
from understudy.kinds.declarations.codec import NO_API_VERSION, Body, Codec, Decoder, MissingKindError, Sent
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import IGNORE, STRICT
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.cbor.decode import parse_object as parse_cbor
from understudy.machinery.serializer.json import DecodeError, parse_json, read_type_meta, yaml_to_json
from understudy.machinery.serializer.protobuf import read_protobuf_type_meta
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import GroupVersionKind, Obj, split_api_version

TWICE = "yaml: unmarshal errors:\n  "  # begins the error about duplicate keys, which become one warning each
QUOTED = 30  # bytes of a body that errors quote


def read(request: Request, decoder: Decoder, validation: str) -> Sent:
    """Decode the body to an object of the kind that the decoder expects, in the version that it names.

    `validation` is the `fieldValidation` of the request: "Strict", "Warn" or "Ignore". Raises 400 and 415.
    """
    media, raw, expected = (
        body_type(request.headers.get("Content-Type", ""), request.serves_cbor),
        request.body,
        decoder.kind,
    )
    type_meta = "", ""
    try:
        body, type_meta, strict = open_body(media, raw, request.release, expected if decoder.takes_any_kind else None)
        sent = decoder.sent_kind(*type_meta, body.text)
    except DecodeError as error:
        is_defaulted = validation == IGNORE and media != CBOR
        if isinstance(error, MissingKindError) and is_defaulted:  # only then defaults are filled in before
            version = split_api_version(type_meta[0])[1] or expected.version
            raise errors.bad_request(_refusal(expected.kind, version, expected, error)) from None
        text = f"the object provided is unrecognized (must be of type {expected.kind}): {error} ({_summary(raw)})"
        raise errors.bad_request(text) from None

    try:
        obj, strict_errors = decoder.decode(body, sent)
        strict += strict_errors
    except DecodeError as error:
        raise errors.bad_request(_refusal(sent.kind, sent.version, expected, error)) from None
    if strict and validation == STRICT:
        raise errors.bad_request(_strict_refusal(decoder, sent, strict))
    if strict and validation != IGNORE:
        lines = (line for text in strict for line in text.removeprefix(TWICE).split("\n  "))
        request.warnings += shown_warnings(lines)
    return Sent(obj, sent)


def open_body(
    media: str, raw: bytes, version: Version, unstructured: GroupVersionKind | None = None
) -> tuple[Body, tuple[str, str], list[str]]:
    """Return a body of a media type, its apiVersion and kind, and the strict error about duplicate keys of YAML.

    `unstructured` is the expected kind of a custom resource. Raises DecodeError.
    """
    if media == PROTOBUF:
        return ProtobufBody(raw), read_protobuf_type_meta(raw), []
    if media == CBOR:
        item, type_meta = parse_cbor(raw, Schemas.of(version), unstructured)
        return CborBody(item), type_meta, []
    json, strict = yaml_to_json(raw) if media == YAML else (raw, [])
    parsed = parse_json(json)
    return JsonBody(raw, parsed), read_type_meta(parsed), strict


def read_object(request: Request, codec: Codec, validation: str) -> Obj:
    """Decode the body to an object in exactly the version of the codec, with kind and apiVersion. Raises 400, 415."""
    sent = read(request, codec, validation)
    check_version(sent, codec.kind)
    obj = codec.named(sent.obj)
    obj["metadata"] = obj.get("metadata") or {}
    return obj


def check_version(sent: Sent, expected: GroupVersionKind) -> None:
    """Raise 400 for a body in another API version."""
    if sent.gvk.api_version != expected.api_version:
        raise errors.bad_request(
            f"the API version in the data ({sent.gvk.api_version}) does not match the expected API version "
            f"({expected.api_version})"
        )


def _strict_refusal(decoder: Decoder, sent: GroupVersionKind, strict: list[str]) -> str:
    """Return the error for a body that could be decoded, but has strict errors (upstream: `transformDecodeError`)."""
    if decoder.takes_any_kind and not sent.api_version:
        return NO_API_VERSION
    error = DecodeError(f"strict decoding error: {', '.join(strict)}")
    return _refusal(sent.kind, sent.version, sent if decoder.takes_any_kind else decoder.kind, error)


def _refusal(kind: str, version: str, expected: GroupVersionKind, error: DecodeError) -> str:
    return f"{kind} in version {go_quote(version)} cannot be handled as a {expected.kind}: {error}"


def _summary(body: bytes) -> str:
    """Return the beginning of a body that could not be read: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    begin = body[:QUOTED]
    text = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    return f"{text} ..." if len(body) > QUOTED else text
