"""Continue tokens: which key a list goes on at, and at which revision.

A token is {"v": "meta.k8s.io/v1", "rv": revision, "start": key} in URL-safe base64; a revision of -1 stands for an
inconsistent continuation, at whatever is newest.
"""

from __future__ import annotations

import base64
from string import ascii_letters, digits
from typing import Any, NamedTuple

import orjson

from understudy.machinery import errors
from understudy.machinery.golang.json_reader import DecodeError, parse
from understudy.machinery.types import Obj

VERSION = "meta.k8s.io/v1"
INCONSISTENT = -1
ALPHABET = frozenset(f"{ascii_letters}{digits}-_\r\n")
KINDS = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}  # of JSON


class Continue(NamedTuple):
    start: str  # relative to the prefix of the list
    revision: int


def encode(start: str, revision: int) -> str:
    token = orjson.dumps({"v": VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode(token: str) -> Continue:
    """Raises 400 with the reason."""
    raw = _unpacked(token)
    try:
        parse(raw.decode("utf-8", "surrogateescape"))
    except DecodeError as error:
        raise _invalid(str(error)) from None
    content = _typed(orjson.loads(raw))
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
    """The bytes of URL-safe base64 without padding; line breaks do not count, as in Go."""
    for at, char in enumerate(token):
        if char not in ALPHABET:
            raise _invalid(f"illegal base64 data at input byte {at}")
    text = token.replace("\r", "").replace("\n", "")
    if len(text) % 4 == 1:
        raise _invalid(f"illegal base64 data at input byte {len(token) - 1}")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _typed(content: Any) -> Obj:
    """The token's fields, if they are of their types."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _invalid(f"json: cannot unmarshal {KINDS[type(content)]} into Go value of type storage.continueToken")
    for name, of_type, wanted in (("v", str, "string"), ("rv", int, "int64"), ("start", str, "string")):
        value = content.get(name)
        if value is not None and type(value) is not of_type:
            kind = f"number {value}" if isinstance(value, float) and of_type is int else KINDS[type(value)]
            raise _invalid(f"json: cannot unmarshal {kind} into Go struct field continueToken.{name} of type {wanted}")
    return content


def _invalid(why: str) -> errors.StatusError:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {why}")
