"""URLs as Go's `net/url` parses them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)


def parse_error(text: str, *, relative: bool = False) -> str:
    """Return the text of Go's error for a text that is not a URL, "" for a URL. `relative`: a URL without a scheme is
    fine."""
    if not text:
        return "" if relative else "empty url"
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return "net/url: invalid control character in URL"
    if text.startswith("/"):
        return _escape_problem(text) or _host_problem(text)
    if text.startswith(":"):
        return "missing protocol scheme"
    rest = text.partition(":")[2] if _SCHEME.match(text) else ""
    if not relative and not rest:
        return "invalid URI for request"
    if not _SCHEME.match(text) and ":" in text.partition("/")[0]:
        return "first path segment in URL cannot contain colon"
    return (_escape_problem(text) or _host_problem(text)) if rest.startswith("/") else ""


def _escape_problem(text: str) -> str:
    bad = _BAD_ESCAPE.search(text.partition("?")[0])
    return f'invalid URL escape "{bad.group()}"' if bad else ""


def _host_problem(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        return "missing ']' in host"
    port = parts.netloc.rpartition("@")[2].rpartition("]")[2].partition(":")[2]
    if port and not port.isdigit():
        return f'invalid port ":{port}" after host'
    if " " in parts.netloc:
        return 'invalid character " " in host name'
    return ""
