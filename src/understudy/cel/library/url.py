"""URLs, such as `url("https://host/path").getHost()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

from understudy.cel.errors import EvaluationError
from understudy.cel.types import Type, struct
from understudy.cel.values import Value
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.urls import parse_error
from understudy.machinery.types import dataclass


@dataclass(frozen=True, slots=True)
class URL:
    """An absolute URL or path, with the parts that Go splits it into."""

    text: str
    scheme: str
    host: str
    path: str
    query: str
    cel_type: ClassVar[Type] = struct("kubernetes.URL")

    @classmethod
    def parse(cls, text: str) -> URL:
        """Return the URL of a text, which must have a scheme or be an absolute path. Raises `EvaluationError`."""
        reason = parse_error(text)
        if reason:
            raise EvaluationError(f"URL parse error during conversion from string: parse {go_quote(text)}: {reason}")
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        return cls(text, parts.scheme.lower(), host, parts.path, parts.query)

    def hostname(self) -> str:
        """Return the host without port and brackets."""
        return self.host[1 : self.host.index("]")] if self.host.startswith("[") else self.host.partition(":")[0]

    def port(self) -> str:
        """Return the digits after the host's colon, "" if there are none."""
        return self.host.rpartition("]")[2].partition(":")[2]


def _escaped_path(url: URL) -> str:
    """Return the path with special characters escaped; one that has escapes already is returned unchanged."""
    return url.path if "%" in url.path else quote(unquote(url.path), safe="/:@!$&'()*+,;=~-._")


def _parses(text: str) -> bool:
    return not parse_error(text)


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
