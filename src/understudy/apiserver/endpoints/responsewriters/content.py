"""Answers with a document as Go's `http.ServeContent` does: conditional requests, and requests for ranges of bytes.

Preconditions are judged in the order of RFC 9110, 13.2.2. What Go does otherwise: a range that cannot be read is a 416,
ranges that are longer together than the document are ignored, and an error loses what says how it may be cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from secrets import token_hex

from understudy.apiserver.endpoints.request import Request, Response
from understudy.machinery.golang.times import http_date
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

Headers = list[tuple[str, str]]
_TAG = regex(r'[ \t]*((?:W/)?"[\x21\x23-\x7E\x80-\U0010FFFF]*")', re.ASCII)
_SEPARATORS = " \t\r\n,"
_BYTES = "bytes="
_OF_CACHES = {"Cache-Control", "ETag", "Last-Modified"}
_HTTP_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S %Z", "%a %b %d %H:%M:%S %Y")
_INTEGER = regex(r"[+-]?0*(\d{1,19})", re.ASCII)
_MOST = 2**63  # of Go's int64


class RangeError(Exception):
    """A Range header that cannot be read, or whose ranges are all behind the document."""


class ByteRange(NamedTuple):
    """A range of bytes; `end` is that of the byte behind it."""

    start: int
    end: int

    def text(self, size: int) -> str:
        """Return the value of Content-Range."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


def serve_content(
    request: Request, etag: str, modified: float, media_type: str, headers: Headers, body: Callable[[], bytes]
) -> Response:
    """Return a document, ranges of it, or why the client gets neither.

    etag      of the document, in quotes; "" if it has none
    modified  when the document became what it is, in seconds since 1970
    headers   of the answer, besides those that depend on the request
    """
    tag, date = [("ETag", etag)] if etag else [], ("Last-Modified", http_date(int(modified)))
    if not _is_expected(request, etag, modified):
        return Response(412, content_type=media_type, headers=[*headers, *tag, date])
    is_read = request.method in ("GET", "HEAD")
    if _is_known(request, etag, modified, is_read=is_read):
        if is_read:
            return Response(304, content_type="", headers=[*headers, *(tag or [date])])
        return Response(412, content_type=media_type, headers=[*headers, *tag, date])
    content = body()
    try:
        ranges = parse_ranges(_asked(request, etag, modified, is_read=is_read), len(content))
    except RangeError as why:
        return _unsatisfiable(str(why), len(content), headers)
    if sum(end - start for start, end in ranges) > len(content):
        ranges = []
    headers_of_all = [*headers, *tag, date, ("Accept-Ranges", "bytes")]
    response = Response(206 if ranges else 200, content, media_type, headers_of_all)
    if len(ranges) == 1:
        response.parts = [content[slice(*ranges[0])]]
        response.headers.append(("Content-Range", ranges[0].text(len(content))))
    elif ranges:
        boundary = token_hex(30)
        response.parts = [*_multipart(content, ranges, media_type, boundary)]
        response.content_type = f"multipart/byteranges; boundary={boundary}"
    if request.method == "HEAD":
        response.headers.append(("Content-Length", str(sum(map(len, response.parts)))))
    return response


def _is_expected(request: Request, etag: str, modified: float) -> bool:
    """Report whether a document is one that the client expects (`If-Match`, or `If-Unmodified-Since`)."""
    if expected := request.headers.get("If-Match"):
        return any(each in ("*", etag) for each in _tags(expected))  # a strong comparison
    since = _seconds(request.headers.get("If-Unmodified-Since"))
    return since is None or int(modified) <= since


def _is_known(request: Request, etag: str, modified: float, *, is_read: bool) -> bool:
    """Report whether the client has a document (`If-None-Match`, or `If-Modified-Since`)."""
    if known := request.headers.get("If-None-Match"):
        return any(each.removeprefix("W/") in ("*", etag) for each in _tags(known))
    since = _seconds(request.headers.get("If-Modified-Since")) if is_read else None
    return since is not None and int(modified) <= since


def _asked(request: Request, etag: str, modified: float, *, is_read: bool) -> str:
    """Return the Range header that counts, "" for none: `If-Range` says of which document it is."""
    asked, of = request.headers.get("Range") or "", request.headers.get("If-Range")
    if not asked or not of or not is_read:
        return asked
    tag = _TAG.match(of)
    is_same = tag[1] == etag if tag else _seconds(of) == int(modified)
    return asked if is_same else ""


def _tags(text: str) -> Iterator[str]:
    """Yield the entity tags of a header, "*" as the last one, until one cannot be read."""
    text = text.lstrip(_SEPARATORS)
    while text:
        if text[0] == "*":
            yield "*"
            return
        tag = _TAG.match(text)
        if tag is None:
            return
        yield tag[1]
        text = text[tag.end() :].lstrip(_SEPARATORS)


def _seconds(text: str | None) -> float | None:
    """Return the time of a header in seconds since 1970, None for one that cannot be read (`http.ParseTime`)."""
    if not text:
        return None
    from datetime import UTC, datetime  # few clients ask with a time

    for layout in _HTTP_DATES:
        try:
            return datetime.strptime(text, layout).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


def parse_ranges(text: str, size: int) -> list[ByteRange]:
    """Return the ranges of a Range header, none for "". Raises RangeError. Upstream: `parseRange` of net/http."""
    if not text:
        return []
    if not text.startswith(_BYTES):
        raise RangeError("invalid range")
    parts = [part for each in text.removeprefix(_BYTES).split(",") if (part := each.strip(" \t\r\n"))]
    ranges = [_parse_range(part, size) for part in parts]
    within = [each for each in ranges if each is not None]
    if size and ranges and not within:
        raise RangeError("invalid range: failed to overlap")
    return within


def _parse_range(text: str, size: int) -> ByteRange | None:
    """Return one range, None for one behind the document. Raises RangeError."""
    first, hyphen, last = (part.strip(" \t\r\n") for part in text.partition("-"))
    if not hyphen:
        raise RangeError("invalid range")
    if not first:
        if last.startswith("-"):
            raise RangeError("invalid range")
        return ByteRange(size - min(_number(last), size), size)
    start = _number(first)
    if start >= size:
        return None
    end = _number(last) if last else size
    if end < start:
        raise RangeError("invalid range")
    return ByteRange(start, min(end + 1, size))


def _number(text: str) -> int:
    """Return a number as Go reads an int64, with a sign or without. Raises RangeError for a negative one."""
    number = _INTEGER.fullmatch(text)
    if number is None or int(number[1]) >= _MOST or (text[0] == "-" and int(number[1])):
        raise RangeError("invalid range")
    return int(number[1])


def _unsatisfiable(why: str, size: int, headers: Headers) -> Response:
    """Return the 416 for ranges that cannot be sent, in plain text. Upstream: `serveError`."""
    kept = [header for header in headers if header[0] not in _OF_CACHES]
    kept.append(("X-Content-Type-Options", "nosniff"))
    if "overlap" in why:
        kept.append(("Content-Range", f"bytes */{size}"))
    return Response(416, f"{why}\n".encode(), "text/plain; charset=utf-8", kept)


def _multipart(content: bytes, ranges: Sequence[ByteRange], media_type: str, boundary: str) -> Iterator[bytes]:
    """Yield the parts of a body that holds several ranges (RFC 9110, 14.6)."""
    line = f"--{boundary}\r\n"
    for each in ranges:
        yield f"{line}Content-Range: {each.text(len(content))}\r\nContent-Type: {media_type}\r\n\r\n".encode()
        yield content[slice(*each)]
        line = f"\r\n--{boundary}\r\n"
    yield f"\r\n--{boundary}--\r\n".encode()
