"""Continue tokens: which key a list goes on at, and at which revision.

A token is {"v": "meta.k8s.io/v1", "rv": revision, "start": key} in URL-safe base64; a revision of -1 stands for an
inconsistent continuation, at whatever is newest.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import orjson

from understudy.apiserver import errors
from understudy.apiserver.gojson import DecodeError, parse

VERSION = "meta.k8s.io/v1"
INCONSISTENT = -1


class Continue(NamedTuple):
    start: str  # relative to the prefix of the list
    revision: int


def encode(start: str, revision: int) -> str:
    token = orjson.dumps({"v": VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode(token: str) -> Continue:
    """Raises 400 with the reason."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("illegal base64 data") from None
    try:
        parse(raw.decode("utf-8", "surrogateescape"))
    except DecodeError as error:
        raise _invalid(str(error)) from None
    content = orjson.loads(raw)
    if not isinstance(content, dict) or content.get("v") != VERSION:
        version = content.get("v", "") if isinstance(content, dict) else ""
        raise _invalid(f"server does not recognize this encoded version {version}")
    revision, start = content.get("rv", 0), content.get("start", "")
    if revision == 0:
        raise _invalid(f"incorrect encoded start resourceVersion (version {VERSION})")
    if not start:
        raise _invalid(f"encoded start key empty (version {VERSION})")
    return Continue(start.removeprefix("/"), revision)


def _invalid(why: str) -> errors.StatusError:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {why}")
