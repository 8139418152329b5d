"""Continue tokens: the key and the revision at which a paged list goes on (upstream: `storage.continueToken`).

A token is {"v": "meta.k8s.io/v1", "rv": revision, "start": key} in URL-safe base64; a revision of -1 asks for
an inconsistent continuation, at the newest revision.
"""

from __future__ import annotations

import base64
from string import ascii_letters, digits
from typing import Any

import orjson

from understudy.machinery import errors
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import RawNumber
from understudy.machinery.patch import patch_body
from understudy.machinery.types import NamedTuple, Obj

VERSION = "meta.k8s.io/v1"
INCONSISTENT = -1
ALPHABET = frozenset(f"{ascii_letters}{digits}-_\r\n")


class Continue(NamedTuple):
    """The place at which a list goes on."""

    start: str  # relative to the prefix of the list
    revision: int


def encode(start: str, revision: int) -> str:
    """Return the token of a place (`EncodeContinue`)."""
    token = orjson.dumps({"v": VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode(token: str) -> Continue:
    """Return the place that a token stands for (`DecodeContinue`). Raises 400 with the reason."""
    raw = _unpacked(token)
    try:
        content, _ = patch_body.loads(raw, patch_body.keep_spelling)
    except DecodeError as error:
        raise _invalid(str(error)) from None
    content = _typed(content)
    if content.get("v") != VERSION:
        raise _invalid(f"server does not recognize this encoded version {content.get('v') or ''}")
    revision, start = content.get("rv"), content.get("start")
    if not revision:
        raise _invalid(f"incorrect encoded start resourceVersion (version {VERSION})")
    if not start:
        raise _invalid(f"encoded start key empty (version {VERSION})")
    key = start.removeprefix("/")
    if key and {"", ".", ".."} & set(key.split("/")):  # would leave the list's prefix
        raise _invalid(start)
    return Continue(key, revision)


def _unpacked(token: str) -> bytes:
    """Decode URL-safe base64 without padding. Ignores line breaks, like Go. Raises 400."""
    for at, char in enumerate(token):
        if char not in ALPHABET:
            raise _invalid(f"illegal base64 data at input byte {at}")
    text = token.replace("\r", "").replace("\n", "")
    if len(text) % 4 == 1:
        raise _invalid(f"illegal base64 data at input byte {len(token) - 1}")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _typed(content: Any) -> Obj:
    """Return the fields of a token. Raises 400 if one has another type."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _invalid(
            f"json: cannot unmarshal {patch_body.kind_of(content)} into Go value of type storage.continueToken"
        )
    for name, of_type, go_type in (("v", str, "string"), ("rv", int, "int64"), ("start", str, "string")):
        value = content.get(name)
        if value is not None and type(value) is not of_type:
            kind = patch_body.kind_of(value)
            if isinstance(value, RawNumber) and of_type is int:
                kind = f"number {value.source.decode()}"
            raise _invalid(f"json: cannot unmarshal {kind} into Go struct field continueToken.{name} of type {go_type}")
    return content


def _invalid(message: str) -> errors.StatusError:
    """Return the 400 for a token."""
    return errors.bad_request(f"invalid continue token: continue key is not valid: {message}")
