"""A request's body as an object of the kind that its path names.

The real server reads kind and apiVersion from the body first, decodes into whatever they name, and then converts to
what the path wants; the errors of all three steps name what was sent.
"""

from __future__ import annotations

from typing import NamedTuple

from understudy.apiserver import errors
from understudy.apiserver.call import Call
from understudy.apiserver.decode import DecodeError, decode_json, sniff, yaml_to_json
from understudy.apiserver.gotext import go_quote
from understudy.apiserver.kind import Kind
from understudy.apiserver.negotiation import PROTOBUF, YAML, body_type
from understudy.apiserver.options import IGNORE, STRICT
from understudy.apiserver.protobuf import decode as decode_protobuf
from understudy.apiserver.protobuf import sniff_protobuf
from understudy.apiserver.schema import Schemas
from understudy.apiserver.types import GroupVersionKind, Obj, split_api_version
from understudy.apiserver.versions import bare, typed

TWICE = "yaml: unmarshal errors:\n  "  # what the error about duplicate keys begins with; they are warned of one by one
SHOWN = 30  # bytes of a body that errors show
SCHEME = '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'


class Sent(NamedTuple):
    """gvk: what the body says it is, as far as it does, else what was wanted."""

    obj: Obj
    gvk: GroupVersionKind


def read(call: Call, schemas: Schemas, wanted: GroupVersionKind, internal: str, validation: str) -> Sent:
    """The body as an object of the wanted kind, in whatever version it says it is.

    `internal` is the Go type of the kind's internal form, `validation` that of unknown and duplicate fields. Raises
    400 and 415."""
    media = body_type(call.headers.get("Content-Type", ""))
    body = call.body
    strict: list[str] = []
    try:
        if media == YAML:
            body, strict = yaml_to_json(body)
        api_version, name = sniff_protobuf(body) if media == PROTOBUF else sniff(body)
        if api_version.count("/") > 1:
            raise DecodeError(f"unexpected GroupVersion string: {api_version}")
    except DecodeError as why:
        text = f"the object provided is unrecognized (must be of type {wanted.kind}): {why} ({_summary(call.body)})"
        raise errors.bad_request(text) from None
    sent = GroupVersionKind(*split_api_version(api_version or wanted.api_version), name or wanted.kind)
    try:
        obj, found = _decoded(body, media, schemas, sent)
        if (sent.group, sent.kind) != (wanted.group, wanted.kind):
            raise DecodeError(f"converting ({schemas.kind(*sent).go}) to ({internal}): unknown conversion")
        strict += found
        if strict and validation == STRICT:
            raise DecodeError(f"strict decoding error: {', '.join(strict)}")
    except DecodeError as why:
        text = f'{sent.kind} in version "{sent.version}" cannot be handled as a {wanted.kind}: {why}'
        raise errors.bad_request(text) from None
    if validation != IGNORE:
        call.warnings += [line for text in strict for line in text.removeprefix(TWICE).split("\n  ")]
    return Sent(obj, sent)


def read_object(call: Call, schemas: Schemas, kind: Kind, version: str, validation: str) -> Obj:
    """The body as a typed object of the kind, in that version and no other. Raises 400 and 415."""
    wanted = kind.gvk(version)
    sent = read(call, schemas, wanted, internal_name(kind), validation)
    if sent.gvk.api_version != wanted.api_version:
        have, want = sent.gvk.api_version, wanted.api_version
        raise errors.bad_request(
            f"the API version in the data ({have}) does not match the expected API version ({want})"
        )
    return typed(kind, version, bare(sent.obj) | {"metadata": sent.obj.get("metadata") or {}})


def _decoded(body: bytes, media: str, schemas: Schemas, sent: GroupVersionKind) -> tuple[Obj, list[str]]:
    if not schemas.has_kind(*sent):
        kind, version = go_quote(sent.kind), go_quote(sent.api_version)
        raise DecodeError(f"no kind {kind} is registered for version {version} in scheme {SCHEME}")
    struct = schemas.kind(*sent)
    return (decode_protobuf(body, struct), []) if media == PROTOBUF else decode_json(body, struct)


def _summary(body: bytes) -> str:
    """The beginning of a body that could not be read: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    begin = body[:SHOWN]
    text = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    return f"{text} ..." if len(body) > SHOWN else text


def internal_name(kind: Kind) -> str:
    """The internal Go type of a kind: resource.ResourceClaim."""
    schemas = Schemas.of(kind.release)
    group = kind.stored.group
    return schemas.kind(group, "__internal", kind.name).go
