"""Asks the servers behind API services for their OpenAPI documents, in the background.

Upstream: `openapi.AggregationController` and `openapiv3.AggregationController`, here in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha512
from typing import TYPE_CHECKING, Any

import orjson

from understudy.admission.webhooks import CallError
from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.apiserver.endpoints.openapi.merging.specs import AggregatedSpec
from understudy.apiserver.server.webhooks.aggregation.aggregator import Aggregator
from understudy.apiserver.server.webhooks.aggregation.availability import API_SERVICES, GROUP, RESOURCE
from understudy.apiserver.server.webhooks.aggregation.backends import backend_of, is_local, path_of
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.auth.users import User
from understudy.machinery.golang.json_writer import encode_unescaped
from understudy.machinery.releases.version import Version

if TYPE_CHECKING:
    from understudy.apiserver.server.webhooks.aggregation.proxy import Fetched

REFRESH = 60.0  # seconds after which a server is asked again
DELAYS = REFRESH, 3600.0  # of one that does not answer
_OWN_ETAG = "own-"  # begin of the versions of documents whose server gives none
_USER = User("system:aggregator", [])

Fetch = Callable[[str, Mapping[str, str]], Awaitable["Fetched"]]  # asks a server for a path, with headers


class OpenAPIController(Controller[str]):
    """Keeps the documents of aggregated servers, of one that is away those that it had; keys are the names of API
    services."""

    def __init__(self, context: ControllerContext, informers: StoreInformers, aggregator: Aggregator) -> None:
        super().__init__(informers, workers=2, delays=DELAYS)
        self._state = context.state
        self._aggregator = aggregator
        informers.of(API_SERVICES).on_change(self._changed)

    def _changed(self, entry: Entry) -> None:
        name = entry.key.removeprefix(API_SERVICES)
        if name in self._aggregator.specs or not is_local(entry.object):
            self.queue.add(name)

    async def sync(self, key: str) -> None:
        """Ask the server behind an API service. Raises TryAgainError for one that does not answer."""
        service = self._state.registry.lookup(GROUP, RESOURCE, "", key)
        backend = None if service is None else backend_of(service)
        if service is None or backend is None:
            self._keep(key, None)
            return
        empty = AggregatedSpec.of(service, f"{path_of(service)}/")
        known = self._aggregator.specs.get(key, empty)
        fetch, version = partial(self._aggregator.fetch, backend, _USER), self._state.release.version
        spec, problems = known._replace(priority=empty.priority), []
        for asked in (partial(with_urls, fetch=fetch), partial(with_v2, version=version, fetch=fetch)):
            try:
                spec = await asked(spec)
            except (CallError, ValueError) as error:
                problems.append(str(error))
        self._keep(key, spec)
        if problems:
            raise TryAgainError("; ".join(problems))
        self.queue.add_after(key, REFRESH)

    def _keep(self, key: str, spec: AggregatedSpec | None) -> None:
        """Publish the documents of an API service from now on, None for none."""
        specs = self._aggregator.specs
        if specs.get(key) != spec:
            others = {name: other for name, other in specs.items() if name != key}
            self._aggregator.specs = others if spec is None else {**others, key: spec}


async def with_urls(spec: AggregatedSpec, fetch: Fetch) -> AggregatedSpec:
    """Return documents with the v3 documents that a server has now. Raises CallError, ValueError."""
    answer = await fetch("/openapi/v3", {})
    if answer.status == 404:
        return spec._replace(urls={}, is_legacy=True)
    if answer.status != 200:
        raise CallError("Error, could not get list of group versions for APIService")
    return spec._replace(urls=_urls(orjson.loads(answer.body)), is_legacy=False, v3=b"")


async def with_v2(spec: AggregatedSpec, version: Version, fetch: Fetch) -> AggregatedSpec:
    """Return documents with the v2 document that a server has now. Raises CallError, ValueError."""
    headers = {"Accept": "application/json"}
    lacks_v3 = spec.is_legacy and not spec.v3
    if spec.etag and not lacks_v3 and not spec.etag.startswith(_OWN_ETAG):
        headers["If-None-Match"] = spec.etag
    answer = await fetch("/openapi/v2", headers)
    if answer.status == 304 and spec.etag:
        return spec
    if answer.status != 200:
        raise CallError(f"failed to retrieve openAPI spec, http error: {answer.status}")
    etag = answer.headers.get("ETag") or _OWN_ETAG + sha512(answer.body).hexdigest()
    if etag == spec.etag and not lacks_v3:
        return spec
    v3, v3_hash = await asyncio.to_thread(_as_v3, answer.body) if spec.is_legacy else (b"", "")
    v2 = await asyncio.to_thread(_read, answer.body, spec.path, version)
    return spec._replace(etag=etag, v2=v2, v3=v3, v3_hash=v3_hash)


def _urls(index: Any) -> Mapping[str, str]:
    """Return the URLs in a v3 index by the names of documents. Raises ValueError for what is none."""
    try:
        return {name: str(item.get("serverRelativeURL", "")) for name, item in (index.get("paths") or {}).items()}
    except AttributeError:
        raise ValueError("no index of OpenAPI documents") from None


def _as_v3(document: bytes) -> tuple[bytes, str]:
    """Return a v2 document as v3, in JSON, and its hash. Raises ValueError."""
    from understudy.apiserver.endpoints.openapi.merging.conversion import converted

    v3 = encode_unescaped(converted(orjson.loads(document)))
    return v3, sha512(v3).hexdigest().upper()


def _read(document: bytes, prefix: str, version: Version) -> bytes:
    """Return the paths of a v2 document that begin with a text, and their definitions, in JSON. Raises ValueError."""
    from understudy.apiserver.endpoints.openapi.merging.merge import below  # where there are aggregated servers
    from understudy.apiserver.endpoints.openapi.merging.swagger_types import as_read

    return encode_unescaped(below(as_read(orjson.loads(document)), prefix, version))
