"""Lets everybody see the frame of the page at /ui/: its markup, style and script, which hold nothing of the server.

A browser sends no token when somebody opens a page. The frame asks for one, and its script sends it with each request
for data, all of which pass the other filters.
"""

from __future__ import annotations

from understudy.apiserver.endpoints.request import Request

ROOT = "/ui"
PREFIX = "/ui/"
DATA = f"{PREFIX}data/"


class OpenPageError(Exception):
    """A request for a page that everybody may see: it is answered without the filters behind."""


def with_open_pages(request: Request) -> None:
    """Raise OpenPageError for a request for the frame of the page."""
    path = request.path
    if path.startswith(ROOT) and (path == ROOT or path.startswith(PREFIX)) and not path.startswith(DATA):
        raise OpenPageError
