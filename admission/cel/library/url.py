"""URLs: `url("https://host/path").getHost()`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from understudy.admission.cel.errors import EvaluationError
from understudy.admission.cel.types import Type, struct
from understudy.admission.cel.values import Value

DECLARATIONS = """
getEscapedPath
    url_get_escaped_path: kubernetes.URL.() -> string
getHost
    url_get_host: kubernetes.URL.() -> string
getHostname
    url_get_hostname: kubernetes.URL.() -> string
getPort
    url_get_port: kubernetes.URL.() -> string
getQuery
    url_get_query: kubernetes.URL.() -> map(string, list(string))
getScheme
    url_get_scheme: kubernetes.URL.() -> string
isURL
    is_url_string: (string) -> bool
url
    string_to_url: (string) -> kubernetes.URL
"""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class URL:
    """An absolute URL or path, split as Go splits it."""

    text: str
    scheme: str
    host: str
    path: str
    query: str
    cel_type: ClassVar[Type] = struct("kubernetes.URL")

    @classmethod
    def parse(cls, text: str) -> URL:
        """Read a URL; it must have a scheme or be an absolute path."""
        wrong = problem(text)
        if wrong:
            raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": {wrong}')
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        return cls(text, parts.scheme.lower(), host, parts.path, parts.query)

    def hostname(self) -> str:
        """The host without port and brackets."""
        return self.host[1 : self.host.index("]")] if self.host.startswith("[") else self.host.partition(":")[0]

    def port(self) -> str:
        """The digits behind the host's colon."""
        return self.host.rpartition("]")[2].partition(":")[2]


def problem(text: str, *, relative: bool = False) -> str:
    """What Go's net/url says of a text that is no URL, "" for one that is; `relative` lets it have no scheme."""
    if not text:
        return "" if relative else "empty url"
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return "net/url: invalid control character in URL"
    if not text.startswith("/"):
        if text.startswith(":"):
            return "missing protocol scheme"
        rest = text.partition(":")[2] if _SCHEME.match(text) else ""
        if not relative and not rest:
            return "invalid URI for request"
        if not _SCHEME.match(text) and ":" in text.partition("/")[0]:
            return "first path segment in URL cannot contain colon"
        if not rest.startswith("/"):
            return ""
    bad = _BAD_ESCAPE.search(text.partition("?")[0])
    if bad:
        return f'invalid URL escape "{bad.group()}"'
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


def _escaped_path(url: URL) -> str:
    return url.path if "%" in url.path else quote(unquote(url.path), safe="/:@!$&'()*+,;=~-._")


def _parses(text: str) -> bool:
    return not problem(text)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "string_to_url": URL.parse,
    "is_url_string": _parses,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": URL.hostname,
    "url_get_port": URL.port,
    "url_get_escaped_path": _escaped_path,
    "url_get_query": lambda url: parse_qs(url.query, keep_blank_values=True),
}
