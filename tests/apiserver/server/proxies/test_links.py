"""Links of pages that requests are proxied to."""

from __future__ import annotations

import gzip
import zlib

import pytest

from understudy.apiserver.server.webhooks.links import Links, rewrite_page

LINKS = Links("/api/v1/nodes/n/proxy", {"n:80"})


@pytest.mark.parametrize(
    ("link", "rewritten"),
    [
        ("/a", "/api/v1/nodes/n/proxy/a"),
        ("/a/?x=1#y", "/api/v1/nodes/n/proxy/a/?x=1#y"),
        ("http://n:80/a", "/api/v1/nodes/n/proxy/a"),
        ("//n:80/a/../b", "/api/v1/nodes/n/proxy/b"),
        ("/api/v1/nodes/n/proxy/a", "/api/v1/nodes/n/proxy/a"),
        ("a", "a"),
        ("http://other/a", "http://other/a"),
        ("/%zz", "/%zz"),
    ],
)
def test_links_lead_through_the_proxy(link: str, rewritten: str) -> None:
    """Absolute paths and URLs of the proxied host get the prefix, once; other links stay."""
    assert LINKS.rewrite(link) == rewritten


def test_compressed_pages_are_rewritten() -> None:
    """A compressed page is rewritten, and compressed as it was."""
    page, rewritten = b'<a href="/x">', b'<a href="/api/v1/nodes/n/proxy/x">'
    packed = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    deflated = packed.compress(page) + packed.flush()
    assert gzip.decompress(rewrite_page(LINKS, "gzip", gzip.compress(page))) == rewritten
    assert zlib.decompress(rewrite_page(LINKS, "deflate", deflated), -zlib.MAX_WBITS) == rewritten
