"""The table of pages: from a path that is no resource to the page that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from understudy.apiserver.endpoints.request import Request, Response

# Answers a request; None where there is nothing at the path.
Page = Callable[[Request], Awaitable[Response | None]]


def as_page(answer: Callable[[Request], Response | None]) -> Page:
    """Return the page of a function that answers without waiting."""

    async def answer_at_once(request: Request) -> Response | None:
        return answer(request)

    return answer_at_once


class PageMux:
    """Finds pages. Upstream: `mux.PathRecorderMux`.

    exact     {path: page}, asked first
    prefixes  {prefix: page}; the longest that a path begins with counts
    """

    def __init__(self, exact: Mapping[str, Page], prefixes: Mapping[str, Page]) -> None:
        self._exact = exact
        self._prefixes = sorted(prefixes.items(), key=lambda entry: len(entry[0]), reverse=True)

    async def answer(self, request: Request) -> Response | None:
        """Answer a request; None where there is no page."""
        page = self._exact.get(request.path) or self._below(request.path)
        return await page(request) if page else None

    def _below(self, path: str) -> Page | None:
        return next((page for prefix, page in self._prefixes if path.startswith(prefix)), None)
