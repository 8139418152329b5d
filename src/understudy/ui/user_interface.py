"""The page at /ui/ of one server: its frame, and data that the API itself does not have.

GET  /ui/data/kinds                 the kinds that are served, with the number of their objects
GET  /ui/data/explanation?claim=…   why a claim, NAMESPACE/NAME, gets no devices
GET  /ui/data/life?path=…           the revisions of the object at a path of the API, for those who may get it
GET  /ui/data/requests?after=…      the requests after the one with a number, of those that the reader may see
GET  /ui/data/request?number=…      one of them: its body, and the object that it has written, before and after
GET  /ui/data/watches               the watches that are open, of those that the reader may see
GET  /ui/data/owners?uid=…          the objects around one: its owners, and what it owns, directly or over others
POST /ui/data/manifest              {"text": YAML, "fields": [path, …]}: what a manifest is about, and lines of fields

Kinds and owners are also told of an earlier revision, with `at=REVISION`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson

from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.registry.list import TOO_OLD
from understudy.apiserver.registry.resource_version import exact
from understudy.apiserver.server.filters.accept_hosts import foreign_page
from understudy.apiserver.server.lifecycle import Lifecycle
from understudy.apiserver.server.pages.open_pages import DATA, PREFIX
from understudy.apiserver.storage.interface import CompactedError, FutureRevisionError
from understudy.machinery import errors
from understudy.machinery.options import integer
from understudy.machinery.types import Obj
from understudy.ui.assets import assets, content_security_policy
from understudy.ui.data import kinds, life, manifest, owners, requests, watches
from understudy.ui.data.readers import Reader, reader

_HEADERS = [
    ("Content-Security-Policy", content_security_policy()),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
]


class UserInterface:
    """The page of one server, made when it is first asked for. From then on the server keeps its last requests.

    `explain` says why a claim, NAMESPACE/NAME, gets no devices.
    """

    def __init__(self, lifecycle: Lifecycle, explain: Callable[[str], Awaitable[Obj]]) -> None:
        self._lifecycle = lifecycle
        self._explain = explain
        lifecycle.request_log.on = lifecycle.request_log.keeps_components = True
        self._data: dict[tuple[str, str], Callable[[Request], Awaitable[object]]] = {
            ("GET", "kinds"): self._kinds,
            ("GET", "explanation"): self._explanation,
            ("GET", "life"): self._life,
            ("GET", "owners"): self._owners,
            ("GET", "requests"): self._requests,
            ("GET", "request"): self._request,
            ("GET", "watches"): self._watches,
            ("POST", "manifest"): self._manifest,
        }

    async def answer(self, request: Request) -> Response | None:
        """Answer a request, None for a path where nothing is. Raises 400, 403 for pages of other origins, 405."""
        if page := foreign_page(request, lambda _: False):
            raise errors.forbidden("", "", "", f"{page} may not use {PREFIX}")
        if request.path.startswith(DATA):
            return await self._answer_data(request)
        return _frame(request)

    async def _answer_data(self, request: Request) -> Response | None:
        name = request.path.removeprefix(DATA)
        data = self._data.get((request.method, name))
        if data is not None:
            body = orjson.dumps(await _told(data, request))
            return Response(200, body, headers=[*_HEADERS, ("Cache-Control", "no-store")])
        if any(name == known for _, known in self._data):
            raise errors.method_not_allowed()
        return None

    async def _kinds(self, request: Request) -> object:
        return await kinds.document(self._lifecycle.state, exact(request.query.get("at")))

    async def _life(self, request: Request) -> object:
        return await life.document(self._lifecycle.state, self._lifecycle.request_log, request)

    async def _owners(self, request: Request) -> object:
        return await owners.around(self._lifecycle.state, request.query.get("uid"), exact(request.query.get("at")))

    async def _requests(self, request: Request) -> object:
        return await requests.rows(self._lifecycle.request_log, self._reader(request), _number(request, "after"))

    async def _request(self, request: Request) -> object:
        number, log = _number(request, "number"), self._lifecycle.request_log
        return requests.detail(self._lifecycle.state, log, self._reader(request), number)

    async def _watches(self, request: Request) -> object:
        lifecycle = self._lifecycle
        components = lifecycle.request_log.components
        return watches.document(lifecycle.state, lifecycle.watches, components, self._reader(request))

    def _reader(self, request: Request) -> Reader:
        return reader(self._lifecycle.state.authorizer, request.user)

    async def _explanation(self, request: Request) -> object:
        return await self._explain(request.query.get("claim"))

    async def _manifest(self, request: Request) -> object:
        return manifest.read(request.body)


def _number(request: Request, name: str) -> int:
    """Return a parameter that is a number, 0 without it. Raises 400."""
    return integer(request.query.get(name) or "0")


async def _told(data: Callable[[Request], Awaitable[object]], request: Request) -> object:
    """Return data for a request. Raises 410 for a revision that is forgotten, 400 for one that is not written yet."""
    try:
        return await data(request)
    except CompactedError:
        raise errors.expired(TOO_OLD) from None
    except FutureRevisionError:
        raise errors.bad_request("there is no such revision yet") from None


def _frame(request: Request) -> Response | None:
    """Return a file of the frame, None for a path where nothing is. Raises 405."""
    if request.method not in ("GET", "HEAD"):
        raise errors.method_not_allowed()
    if request.path + "/" == PREFIX:
        return Response(301, headers=[("Location", "ui/")])
    asset = assets().get(request.path.removeprefix(PREFIX))
    if asset is None:
        return None
    headers = [*_HEADERS, ("ETag", asset.tag), ("Cache-Control", "no-cache")]
    if request.headers.get("If-None-Match") == asset.tag:
        return Response(304, b"", asset.content_type, headers)
    return Response(200, b"" if request.method == "HEAD" else asset.body, asset.content_type, headers)
