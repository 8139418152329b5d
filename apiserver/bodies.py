"""A request's body as an object of the kind that its path names.

The real server reads kind and apiVersion from the body first, decodes into whatever they name, and then converts to what
the path wants; the errors of all three steps name what was sent.
"""

from __future__ import annotations

from typing import NamedTuple

from understudy.apiserver import errors
from understudy.apiserver.call import Call
from understudy.apiserver.decode import DecodeError, decode_json, sniff, yaml_to_json
from understudy.apiserver.kind import Kind
from understudy.apiserver.negotiation import PROTOBUF, YAML, body_type
from understudy.apiserver.options import IGNORE, STRICT
from understudy.apiserver.protobuf import decode as decode_protobuf
from understudy.apiserver.protobuf import sniff_protobuf
from understudy.apiserver.schema import Schemas
from understudy.apiserver.types import Obj, split_api_version

TWICE = "yaml: unmarshal errors:\n  "  # what the error about duplicate keys begins with; they are warned of one by one
SHOWN = 30  # bytes of a body that errors show
SCHEME = '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'


class Sent(NamedTuple):
    """kind and apiVersion are those of the body, or of the path where the body has none."""

    obj: Obj
    api_version: str
    kind: str


def read(call: Call, schemas: Schemas, group: str, version: str, kind: str, validation: str) -> Sent:
    """The body, decoded as what it says it is. `validation`: of unknown and duplicate fields. Raises 400 and 415."""
    media = body_type(call.headers.get("Content-Type", ""))
    body, strict = call.body, []
    try:
        if media == YAML:
            body, strict = yaml_to_json(body)
        sent_version, sent_kind = sniff_protobuf(body) if media == PROTOBUF else sniff(body)
    except DecodeError as why:
        text = f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(call.body)})"
        raise errors.bad_request(text) from None
    api_version = sent_version or (f"{group}/{version}" if group else version)
    name = sent_kind or kind
    of_group, of_version = split_api_version(api_version)
    if not schemas.has_kind(of_group, of_version, name):
        why = f'no kind "{name}" is registered for version "{api_version}" in scheme {SCHEME}'
        raise _unusable(name, of_version, kind, why)
    struct = schemas.kind(of_group, of_version, name)
    try:
        obj, found = (decode_protobuf(body, struct), []) if media == PROTOBUF else decode_json(body, struct)
    except DecodeError as why:
        raise _unusable(name, of_version, kind, str(why)) from None
    strict += found
    if strict and validation != IGNORE:
        if validation == STRICT:
            raise _unusable(name, of_version, kind, f"strict decoding error: {', '.join(strict)}")
        call.warnings += [line for text in strict for line in text.removeprefix(TWICE).split("\n  ")]
    return Sent(obj, api_version, name)


def _summary(body: bytes) -> str:
    """The beginning of a body that could not be read: as text if it looks like JSON, else in hexadecimal."""
    if not body:
        return "<empty>"
    begin = body[:SHOWN]
    text = begin.decode("utf-8", "replace") if body.startswith(b"{") else begin.hex()
    return f"{text} ..." if len(body) > SHOWN else text


def _unusable(name: str, version: str, wanted: str, why: str) -> errors.StatusError:
    return errors.bad_request(f'{name} in version "{version}" cannot be handled as a {wanted}: {why}')


def check_kind(sent: Sent, kind: Kind, version: str, schemas: Schemas) -> None:
    """Refuses a body of another kind, or of another version than the path's. Raises 400."""
    group, sent_version = split_api_version(sent.api_version)
    if group != kind.group or sent.kind != kind.name:
        source = schemas.kind(group, sent_version, sent.kind).go
        why = f"converting ({source}) to ({internal_name(kind)}): unknown conversion"
        raise _unusable(sent.kind, sent_version, kind.name, why)
    expected = kind.gvk(version).api_version
    if sent.api_version != expected:
        text = f"the API version in the data ({sent.api_version}) does not match the expected API version ({expected})"
        raise errors.bad_request(text)


def internal_name(kind: Kind) -> str:
    """The internal Go type of a kind: resource.ResourceClaim."""
    schemas = Schemas.of(kind.release)
    group = kind.stored.group
    return schemas.kind(group, "__internal", kind.name).go
