"""Reads the head of a request, its request line and headers, as Go's `net/http` does (`readRequest`).

Most heads are plain: complete in the bytes that came, in the form that HTTP libraries send. They are read by two
regular expressions. All others are read line by line, by `HeadReader`.
"""

from __future__ import annotations

from multidict import CIMultiDict, CIMultiDictProxy, istr

from understudy.apiserver.server.http1.target import InvalidTargetError, read_target
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex

MAX_HEAD = 1024 * 1024 + 4096  # bytes of a request line with its headers: `DefaultMaxHeaderBytes`, and a buffer
CHUNKED = -1  # the length of a body that comes in chunks
_KEPT_HEADERS = 256  # of plain heads; a client sends the same ones again and again, but for Content-Length

HTTP_1_0, HTTP_1_1, HTTP_2 = (1, 0), (1, 1), (2, 0)
CONNECTION, CONTENT_LENGTH, HOST = istr("Connection"), istr("Content-Length"), istr("Host")
TRAILER, TRANSFER_ENCODING, UPGRADE = istr("Trailer"), istr("Transfer-Encoding"), istr("Upgrade")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PLAIN_LINE = regex(rf"({_TOKEN}) (/[!-~]*) HTTP/1\.1\r\n".encode())
_PLAIN_FIELD = regex(rf"(?m)^({_TOKEN}):[ \t]*+((?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?)\r\n")
_VERSION = regex(r"HTTP/([0-9])\.([0-9])")
_EMPTY_LINE = b"\n\r\n"  # with the end of the line before
_METHOD = regex(_TOKEN)
_NAME = regex(rf"(?:{_TOKEN}| )+")  # spaces are refused later, with another text
_NOT_IN_VALUES = regex(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_HOSTS = regex(r"[^0-9A-Za-z!$%&'()*+,\-.:;=\[\]_~]")
_LENGTH = regex("0*([0-9]{1,19})")
_MAX_LENGTH = (1 << 63) - 1
_NOT_IN_TRAILERS = {"transfer-encoding", "trailer", "content-length"}


class RefusedError(Exception):
    """A request that is answered with a page of Go's server: a status, which is also its text unless there is one."""

    def __init__(self, status: str, text: str = "") -> None:
        super().__init__(status)
        self.text = text or status


class MalformedHeaderError(Exception):
    """A line that is no header. Upstream: `textproto.ProtocolError`."""


class Head(NamedTuple):
    """A request without its body.

    target    path and query, as the client has written them
    version   HTTP_1_0, HTTP_1_1 or HTTP_2
    length    of the body: bytes, or CHUNKED
    closes    whether the connection closes after the answer
    upgrades  whether the client asks for a WebSocket: what follows may be no HTTP
    """

    method: str
    target: str
    version: tuple[int, int]
    headers: CIMultiDictProxy[str]
    length: int
    closes: bool
    upgrades: bool


def bad_request(reason: str = "") -> RefusedError:
    """Return the refusal of a request that breaks the rules of HTTP; Go tells few reasons."""
    return RefusedError(f"400 Bad Request: {reason}" if reason else "400 Bad Request")


def read_plain_head(data: bytes, start: int, end: int) -> Head | None:
    """Return the head in data[start:end], which ends with an empty line, or None if it is not plain.

    Raises RefusedError.
    """
    line = _PLAIN_LINE.match(data, start, end)
    if line is None or line[1] == b"CONNECT" or end - start > MAX_HEAD:
        return None
    method, target = line[1].decode(), line[2].decode()
    if "%" in target:
        _read_target(method, target)
    headers = _plain_headers(data[line.end() : end - 2].decode("utf-8", "surrogateescape"))
    return headers and Head(method, target, *headers[2:])


@cache_short_texts(_KEPT_HEADERS)
def _plain_headers(text: str) -> Head | None:
    """Return the head of some request with these headers, or None if they are not plain. Raises RefusedError."""
    fields = _PLAIN_FIELD.findall(text)
    return new_head("GET", "/", HTTP_1_1, CIMultiDict(fields)) if len(fields) == text.count("\n") else None


class FieldReader:
    """Reads header lines up to an empty one. Upstream: `textproto.ReadMIMEHeader`."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # of one header, which goes on in lines that begin with a space
        self.fields: CIMultiDict[str] = CIMultiDict()
        self.has_spaces = False  # in the name of a header

    def add(self, line: str) -> bool:
        """Add a line without its end; report whether it is the last, so that `fields` is complete.

        Raises MalformedHeaderError.
        """
        if line[:1] in (" ", "\t"):
            if not self._lines:
                raise MalformedHeaderError(f"malformed MIME header initial line: {go_quote(line)}")
            self._lines.append(line.strip(" \t"))
            return False
        if self._lines:
            self._finish_field()
        if line and ":" not in line:
            raise MalformedHeaderError(f"malformed MIME header: missing colon: {go_quote(line)}")
        self._lines = [line.strip(" \t")]
        return not line

    def add_plain(self, fields: list[tuple[str, str]]) -> None:
        """Add headers that are read already, and do not go on in the next line. Raises MalformedHeaderError."""
        if self._lines:
            self._finish_field()
            self._lines.clear()
        self.fields.extend(fields)

    def _finish_field(self) -> None:
        text = " ".join(self._lines)
        name, _, value = text.partition(":")
        if not _NAME.fullmatch(name) or _NOT_IN_VALUES.search(value):
            raise MalformedHeaderError(f"malformed MIME header line: {go_quote(text)}")
        self.fields.add(name, value.lstrip(" \t"))
        self.has_spaces |= " " in name


class LineReader:
    """Cuts bytes into lines, which end with LF or CRLF, however they come."""

    def __init__(self) -> None:
        self._begin = bytearray()
        self.size = 0  # bytes that were read

    @property
    def has_begun(self) -> bool:
        """Report whether a part of a line was read."""
        return bool(self._begin)

    def read(self, data: bytes, start: int) -> tuple[str | None, int]:
        """Return the next line without its end, and where data goes on behind it; None if it is not complete."""
        end = data.find(b"\n", start) + 1 or len(data)
        self.size += end - start
        self._begin += data[start:end]
        if self._begin[-1:] != b"\n":
            return None, end
        line = self._begin[:-1].removesuffix(b"\r")
        self._begin.clear()
        return line.decode("utf-8", "surrogateescape"), end


class HeadReader:
    """Reads one head line by line, however its bytes come. Upstream: `readRequest`."""

    def __init__(self) -> None:
        self._lines = LineReader()
        self._fields = FieldReader()
        self._request_line: tuple[str, str, tuple[int, int]] | None = None
        self._is_plain = True  # no other header was found than those that `_PLAIN_FIELD` reads

    def read(self, data: bytes, start: int) -> tuple[Head | None, int]:
        """Return the head, and where data goes on behind it; None if it is not complete. Raises RefusedError."""
        while start < len(data):
            if self._is_plain and self._request_line is not None and not self._lines.has_begun:
                start += self._read_plain_fields(data, start)
            line, start = self._lines.read(data, start)
            if self._lines.size > MAX_HEAD:
                raise RefusedError("431 Request Header Fields Too Large")
            if line is None:
                continue
            if self._request_line is None:
                self._request_line = _request_line(line)
                continue
            try:
                complete = self._fields.add(line)
            except MalformedHeaderError:
                raise bad_request() from None
            if complete:
                head = new_head(*self._request_line, self._fields.fields)
                if self._fields.has_spaces:
                    raise bad_request("invalid header name")
                return head, start
        return None, start

    def _read_plain_fields(self, data: bytes, start: int) -> int:
        """Read the headers in data[start:] that are whole, but for the last one; return how many bytes they take.

        A head may have hundreds of thousands, which take too long one by one. The last one may go on in what comes.
        """
        end = data.find(_EMPTY_LINE, start)
        end = data.rfind(b"\n", start, end if end >= 0 else data.rfind(b"\n", start)) + 1
        lines = data[start:end].decode("utf-8", "surrogateescape")
        fields = _PLAIN_FIELD.findall(lines)
        self._is_plain = len(fields) == lines.count("\n") and data[end : end + 1] not in (b" ", b"\t")
        if not fields or not self._is_plain:
            return 0
        self._fields.add_plain(fields)
        self._lines.size += end - start
        return end - start


def _request_line(line: str) -> tuple[str, str, tuple[int, int]]:
    """Return method, target and version of a request line. Raises RefusedError."""
    method, _, rest = line.partition(" ")
    target, _, protocol = rest.partition(" ")
    version = _VERSION.fullmatch(protocol)
    if not _METHOD.fullmatch(method) or version is None:
        raise bad_request()
    _read_target(method, target)
    return method, target, (int(version[1]), int(version[2]))


def _read_target(method: str, target: str) -> tuple[str, str]:
    try:
        return read_target(method, target)
    except InvalidTargetError:
        raise bad_request() from None


def new_head(method: str, target: str, version: tuple[int, int], headers: CIMultiDict[str]) -> Head:
    """Return the head that a request line and headers make. It keeps the headers. Raises RefusedError."""
    path, host = _read_target(method, target)
    hosts = headers.getall(HOST, ())
    if len(hosts) > 1:
        raise bad_request()
    length = 0
    if CONTENT_LENGTH in headers or TRANSFER_ENCODING in headers:
        length = _body_length(headers, version)
    upgrades_to_2 = False
    if version[0] != 1:
        if (method, path, version) != ("PRI", "*", (2, 0)):
            raise RefusedError("505 HTTP Version Not Supported: unsupported protocol version")
        upgrades_to_2 = len(headers) == len(hosts)
    if hosts:
        if _NOT_IN_HOSTS.search(hosts[0]):
            raise bad_request("malformed Host header")
    elif version >= HTTP_1_1 and method != "CONNECT" and not upgrades_to_2:
        raise bad_request("missing required Host header")
    if host:
        headers[HOST] = host
    return Head(
        method,
        path,
        HTTP_1_0 if version == HTTP_1_0 else HTTP_1_1,
        CIMultiDictProxy(headers),
        length,
        _should_close(headers, version) or upgrades_to_2,
        UPGRADE in headers and _wants_websocket(headers),
    )


def _body_length(headers: CIMultiDict[str], version: tuple[int, int]) -> int:
    """Return the length of the body: CHUNKED, or bytes. Remove what counts for nothing. Raises RefusedError.

    Upstream: `readTransfer`.
    """
    chunked, length = False, 0
    if TRANSFER_ENCODING in headers:
        codings = headers.popall(TRANSFER_ENCODING)
        if version >= HTTP_1_1:
            if [coding.lower() for coding in codings] != ["chunked"]:
                raise RefusedError("501 Not Implemented", "Unsupported transfer encoding")
            chunked = True
    if CONTENT_LENGTH in headers:
        lengths = {text.strip(" \t") for text in headers.getall(CONTENT_LENGTH)}
        digits = _LENGTH.fullmatch(lengths.pop())
        if lengths or digits is None or (length := int(digits[1])) > _MAX_LENGTH:
            raise bad_request()
    if not chunked:
        return length
    headers.popall(CONTENT_LENGTH, None)
    for names in headers.getall(TRAILER, ()):
        if any(name.strip(" \t").lower() in _NOT_IN_TRAILERS for name in names.split(",")):
            raise bad_request()
    return CHUNKED


def _should_close(headers: CIMultiDict[str], version: tuple[int, int]) -> bool:
    """Report whether the connection closes after the answer. Upstream: `shouldClose`, `wantsHttp10KeepAlive`.

    Of several headers of HTTP/1.0 the first one counts, and `close` for nothing.
    """
    if version == HTTP_1_0:
        return "keep-alive" not in _tokens(headers.get(CONNECTION, ""))
    return CONNECTION in headers and has_token(headers, CONNECTION, "close")


def _wants_websocket(headers: CIMultiDict[str]) -> bool:
    return headers[UPGRADE].lower() == "websocket" and has_token(headers, CONNECTION, "upgrade")


def has_token(headers: CIMultiDict[str], name: str, token: str) -> bool:
    """Report whether a header, a list with commas, has a token. Upstream: `httpguts.HeaderValuesContainsToken`."""
    return any(token in _tokens(value) for value in headers.getall(name, ()))


def _tokens(value: str) -> list[str]:
    """Return the items of a list with commas, in lower case."""
    return [item.strip(" \t").lower() for item in value.split(",")]
