"""OpenAPI documents of aggregated servers are asked for anew, and kept while the servers have nothing new."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from understudy.admission.webhooks import CallError
from understudy.apiserver.endpoints.openapi.merging.specs import AggregatedSpec
from understudy.apiserver.server.webhooks.aggregation.openapi import with_urls, with_v2
from understudy.apiserver.server.webhooks.aggregation.proxy import Fetched
from understudy.machinery.releases.version import V1_37

EMPTY = AggregatedSpec("/apis/g/v1/", "g", 1)
DOCUMENT = b'{"paths": {"/apis/g/v1/a": {}, "/b": {}}}'
KEPT = b'{"paths":{"/apis/g/v1/a":{}},"definitions":{},"parameters":{}}'


class Backend:
    """Gives one answer, and keeps the headers that it was asked with."""

    def __init__(self, status: int, body: bytes = b"", etag: str = "") -> None:
        headers = CIMultiDict({"ETag": etag} if etag else {})
        self.answer = Fetched(status, CIMultiDictProxy(headers), body)
        self.asked: list[Mapping[str, str]] = []

    async def fetch(self, _: str, headers: Mapping[str, str]) -> Fetched:
        """Return the answer."""
        self.asked.append(headers)
        return self.answer

    def v2(self, spec: AggregatedSpec) -> AggregatedSpec:
        """Return documents with the v2 document of this answer."""
        return asyncio.run(partial(with_v2, version=V1_37)(spec, fetch=self.fetch))

    def urls(self, spec: AggregatedSpec) -> AggregatedSpec:
        """Return documents with the index of this answer."""
        return asyncio.run(with_urls(spec, self.fetch))


def test_known_documents_are_asked_for_by_their_version() -> None:
    """The ETag of a document is sent back; 304 leaves what is known, which 304 without it does not."""
    spec = Backend(200, DOCUMENT, '"1"').v2(EMPTY)
    assert (spec.v2, spec.etag) == (KEPT, '"1"')
    unchanged = Backend(304)
    assert unchanged.v2(spec) is spec
    assert unchanged.asked == [{"Accept": "application/json", "If-None-Match": '"1"'}]
    with pytest.raises(CallError):
        unchanged.v2(EMPTY)


def test_documents_without_version_are_compared() -> None:
    """A server that gives no ETag is sent none; the same document is read once."""
    backend = Backend(200, DOCUMENT)
    spec = backend.v2(EMPTY)
    assert backend.v2(spec) is spec
    assert backend.asked == [{"Accept": "application/json"}] * 2
    assert Backend(200, b'{"paths": {}}').v2(spec).v2 != spec.v2


@pytest.mark.parametrize("backend", [Backend(503), Backend(404), Backend(200, b"{"), Backend(200, b'{"paths": 1}')])
def test_unreadable_documents_are_errors(backend: Backend) -> None:
    """An answer that is no v2 document raises an error, after which what was known before is kept."""
    with pytest.raises((CallError, ValueError)):
        backend.v2(EMPTY)


def test_index_of_v3_is_read() -> None:
    """The URLs of v3 documents are those of the index; a server that has none of them is no error, others are."""
    index = Backend(200, b'{"paths": {"apis/g/v1": {"serverRelativeURL": "/u"}, "version": {}}}')
    spec = index.urls(EMPTY)
    assert spec.urls == {"apis/g/v1": "/u", "version": ""}
    assert Backend(404).urls(spec).urls == {}
    for backend in (Backend(503), Backend(200, b"[]"), Backend(200, b'{"paths": {"a": 1}}'), Backend(200, b"")):
        with pytest.raises((CallError, ValueError)):
            backend.urls(spec)


def test_v2_is_converted_where_there_is_no_v3() -> None:
    """A known v2 document is asked for again once v3 is known to be missing; its conversion goes when v3 comes."""
    spec = Backend(404).urls(Backend(200, DOCUMENT, '"1"').v2(EMPTY))
    again = Backend(200, DOCUMENT, '"1"')
    spec = again.v2(spec)
    assert again.asked == [{"Accept": "application/json"}]
    assert spec.v3 == b'{"openapi":"3.0.0","paths":{"/apis/g/v1/a":{},"/b":{}},"components":{}}'
    assert again.v2(spec) is spec
    assert Backend(200, b'{"paths": {}}').urls(spec).v3 == b""


@pytest.mark.parametrize("part", ["info", "securityDefinitions", "externalDocs"])
def test_unreadable_parts_cannot_be_converted(part: str) -> None:
    """A v2 document in which a part is a text is none."""
    legacy = Backend(404).urls(EMPTY)
    with pytest.raises(ValueError, match="no OpenAPI document"):
        Backend(200, b'{"paths": {}, "%s": "x"}' % part.encode()).v2(legacy)
