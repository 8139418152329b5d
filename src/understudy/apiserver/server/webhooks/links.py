"""The links of pages that requests are proxied to, which have to lead through the proxy.

Upstream: `Transport` (k8s.io/apimachinery/pkg/util/proxy).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection
from html.parser import HTMLParser
from itertools import accumulate
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from understudy.machinery.golang.urls import clean_path, parse_error
from understudy.machinery.types import NamedTuple

# Attributes that are links, by the names of tags.
_LINKS = {
    **dict.fromkeys(("a", "area", "base", "link"), ("href",)),
    **dict.fromkeys(("blockquote", "del", "ins", "q"), ("cite",)),
    **dict.fromkeys(("button", "input"), ("formaction",)),
    **dict.fromkeys(("frame", "iframe"), ("longdesc", "src")),
    **dict.fromkeys(("script", "source"), ("src",)),
    "applet": ("codebase",),
    "body": ("background",),
    "command": ("icon",),
    "form": ("action",),
    "head": ("profile",),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "object": ("classid", "codebase", "data", "usemap"),
    "video": ("poster", "src"),
}
# Characters that Go writes in another way than they are.
_ESCAPES = str.maketrans({"&": "&amp;", "'": "&#39;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "\r": "&#13;"})


class Links(NamedTuple):
    """Rewrites links to hosts so that they lead behind a prefix of the path."""

    prefix: str
    hosts: Collection[str]

    def rewrite(self, link: str) -> str:
        """Return a link through the proxy; one that is relative, no URL, or leads elsewhere stays."""
        if parse_error(link, relative=True):
            return link
        parts = urlsplit(link)
        if (parts.netloc and parts.netloc not in self.hosts) or not parts.path.startswith("/"):
            return link
        path = unquote(parts.path, errors="surrogateescape")
        if not path.startswith(self.prefix):
            path = clean_path(f"{self.prefix}/{path}")
        escaped = quote(path, "/:@&=+$,;", errors="surrogateescape")
        return urlunsplit(("", "", escaped, parts.query, parts.fragment))


class _Tags(HTMLParser):
    """Finds tags that begin elements, and what they become: (begin, end, text)."""

    def __init__(self, links: Links, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self._links = links
        self._lines = [0, *accumulate(map(len, page.splitlines(keepends=True)))]
        self.changed: list[tuple[int, int, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self._note(tag, attrs, ">")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that ends its element, too."""
        self._note(tag, attrs, "/>")

    def _note(self, tag: str, attrs: list[tuple[str, str | None]], end: str) -> None:
        line, column = self.getpos()
        begin = self._lines[line - 1] + column
        texts = [f"<{tag}"]
        for name, value in attrs:
            text = self._links.rewrite(value or "") if name in _LINKS.get(tag, ()) else value or ""
            texts.append(f' {name}="{text.translate(_ESCAPES)}"')
        self.changed.append((begin, begin + len(self.get_starttag_text() or ""), "".join(texts) + end))


def rewrite_page(links: Links, encoding: str, body: bytes) -> bytes:
    """Return a page, compressed as before, whose links are rewritten."""
    match encoding:
        case "gzip":
            return gzip.compress(rewrite_page(links, "", gzip.decompress(body)))
        case "deflate":
            packed = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            return packed.compress(rewrite_page(links, "", zlib.decompress(body, -zlib.MAX_WBITS))) + packed.flush()
    page = body.decode("utf-8", "surrogateescape")
    parts, at = [], 0
    for begin, end, text in _Tags(links, page).changed:
        parts += [page[at:begin], text]
        at = end
    return "".join([*parts, page[at:]]).encode("utf-8", "surrogateescape")
