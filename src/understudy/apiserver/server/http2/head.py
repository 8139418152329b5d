"""Reads the headers of a request as Go's server of HTTP/2 does (`processHeaders`, `newWriterAndRequest`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from multidict import CIMultiDict, CIMultiDictProxy, istr

from understudy.apiserver.server.http1.head import (
    CHUNKED,
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    HTTP_2,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    Head,
    has_token,
)
from understudy.apiserver.server.http1.target import InvalidTargetError, read_target
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_33, V1_36, ByRelease, Version
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

MAX_HEADERS = 1024 * 1024 + 320  # bytes of all headers, with 32 for each (`maxHeaderListSize`)
_OVERHEAD = 32
_PSEUDO = (":method", ":scheme", ":authority", ":path")
_NAME = regex(r"[!#$%&'*+.^_`|~0-9a-z-]+")  # in lower case
_NOT_IN_VALUES = regex(r"[\x00-\x08\x0a-\x1f\x7f]")
_DIGITS = regex("[0-9]{1,19}")
_OF_CONNECTIONS = (CONNECTION, istr("Keep-Alive"), istr("Proxy-Connection"), TRANSFER_ENCODING, UPGRADE)
_REFUSES_USERS = ByRelease({V1_33: True, V1_31: False})  # in `:authority`
_REFUSES_URLS = ByRelease({V1_36: True, V1_31: False})  # as a `:path`
_EXPECT, _TE = istr("Expect"), istr("TE")


class MalformedRequestError(Exception):
    """A request that is not answered: its stream is reset (`PROTOCOL_ERROR`)."""


class Refusal(NamedTuple):
    """A page of Go's server that refuses a request."""

    status: int
    headers: Sequence[tuple[str, str]]
    text: str


TOO_LARGE = Refusal(
    431,
    [("Content-Type", "text/html; charset=utf-8")],
    "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>",
)


def read_head(fields: Iterable[tuple[bytes, bytes]], version: Version, *, ends: bool) -> tuple[Head, Refusal | None]:
    """Return a request without its body, and what refuses it. Raises MalformedRequestError.

    version  the release that is emulated
    ends     whether it has no body
    """
    pseudo, headers, size = _read_fields(fields)
    method, path = pseudo.get(":method", ""), pseudo.get(":path", "")
    authority = pseudo.get(":authority", "") or headers.get(HOST, "")
    if method == "CONNECT":
        if path or ":scheme" in pseudo or not pseudo.get(":authority"):
            raise MalformedRequestError("a CONNECT with more than its :authority, or without one")
        path = authority
    elif not method or not path or pseudo.get(":scheme") not in ("https", "http"):
        raise MalformedRequestError("a request without method, path or scheme")
    elif path[0] != "/" and path != "*" and _REFUSES_URLS[version]:
        raise MalformedRequestError("a :path that is a URL")
    if "@" in authority and _REFUSES_USERS[version]:
        raise MalformedRequestError("a user in :authority")
    try:
        target = read_target(method, path)[0]
    except InvalidTargetError:
        raise MalformedRequestError("an invalid path") from None
    refusal = TOO_LARGE if size > MAX_HEADERS else _refusal(headers)
    if not has_token(headers, _EXPECT, "100-continue"):
        headers.popall(_EXPECT, None)
    headers.popall(TRAILER, None)
    headers[HOST] = authority
    length = 0 if ends else _body_length(headers.get(CONTENT_LENGTH))
    return Head(method, target, HTTP_2, CIMultiDictProxy(headers), length, False, False), refusal


def _read_fields(fields: Iterable[tuple[bytes, bytes]]) -> tuple[dict[str, str], CIMultiDict[str], int]:
    """Return the headers with a colon in front, the others, and the size of all. Raises MalformedRequestError."""
    pseudo: dict[str, str] = {}
    headers: CIMultiDict[str] = CIMultiDict()
    size = 0
    for raw_name, raw_value in fields:
        size += len(raw_name) + len(raw_value) + _OVERHEAD
        if size > MAX_HEADERS:
            break
        name, value = raw_name.decode("utf-8", "surrogateescape"), raw_value.decode("utf-8", "surrogateescape")
        if _NOT_IN_VALUES.search(value):
            raise MalformedRequestError(f"an invalid value of {name}")
        if name[:1] == ":":
            if headers or name in pseudo or name not in _PSEUDO:
                raise MalformedRequestError(f"{name} where there may be none")
            pseudo[name] = value
        elif not _NAME.fullmatch(name):
            raise MalformedRequestError("an invalid name of a header")
        else:
            headers.add(name, value)
    return pseudo, headers, size


def _body_length(declared: str | None) -> int:
    """Return the bytes of a body that a client has declared, CHUNKED if it has not."""
    if declared is None:
        return CHUNKED
    return int(declared) if _DIGITS.fullmatch(declared) else 0


def _refusal(headers: CIMultiDict[str]) -> Refusal | None:
    """Return the page for headers that only HTTP/1.1 has. Upstream: `checkValidHTTP2RequestHeaders`."""
    for name in _OF_CONNECTIONS:
        if name in headers:
            return _bad_request(f"request header {go_quote(name)} is not valid in HTTP/2")
    codings = headers.getall(_TE, [])
    if len(codings) > 1 or (codings and codings[0] not in ("trailers", "")):
        return _bad_request('request header "TE" may only be "trailers" in HTTP/2')
    return None


def _bad_request(text: str) -> Refusal:
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]
    return Refusal(400, headers, f"{text}\n")
