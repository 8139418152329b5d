"""Answers what APIServices with a Service behind them are asked. Upstream: `APIAggregator`.

A server without such APIServices imports no HTTP client, and its requests are looked at no closer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.admission.webhooks import CallError
from understudy.apiserver.endpoints.openapi.merging.specs import Specs
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server.webhooks.aggregation.backends import UNAVAILABLE, Backend, Backends
from understudy.apiserver.server.webhooks.certificates import CertificateCounts
from understudy.apiserver.server.webhooks.egress.dialing import Dial
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.machinery.auth.users import User

if TYPE_CHECKING:
    from understudy.apiserver.server.webhooks.aggregation.proxy import Fetched, Proxy

DOWNLOAD_SECONDS = 60.0
Certificate = tuple[bytes | None, bytes | None]


class Aggregator:
    """The servers behind APIServices, and what asks them.

    services     finds the addresses of Services
    certificate  the front proxy's client certificate and its key (PEM), None without one
    tells_uid    whether servers learn the uid of a user
    dial         connects to servers through a proxy, None to connect to them directly
    specs        the OpenAPI documents of the servers; replaced, never changed
    certificates count those of servers that are deprecated
    """

    def __init__(
        self, services: ServiceResolver, certificate: Certificate, *, tells_uid: bool, dial: Dial | None = None
    ) -> None:
        self.services = services
        self.backends = Backends()
        self.specs: Specs = {}
        self.certificates = CertificateCounts("kube_aggregator")
        self._certificate = certificate
        self._tells_uid = tells_uid
        self._dial = dial
        self._proxy: Proxy | None = None

    @property
    def proxy(self) -> Proxy:
        """Return the client of the servers, opened in the running event loop."""
        if self._proxy is None:
            from understudy.apiserver.server.webhooks.aggregation.proxy import (  # aiohttp, which takes a while
                Identity,
                Proxy,
            )
            from understudy.apiserver.server.webhooks.exchange import Connections

            identity = Identity(*self._certificate)
            connections = Connections(decompresses=False, dial=self._dial, certificates=self.certificates)
            self._proxy = Proxy(self.services, identity, connections, tells_uid=self._tells_uid)
        return self._proxy

    async def answer(self, backend: Backend, request: Request) -> Response:
        """Return the answer of the server behind an APIService. Raises BodyAwaitedError."""
        return await self.proxy.answer(backend, request)

    async def fetch(self, backend: Backend, user: User, path: str, headers: Mapping[str, str]) -> Fetched:
        """Return the answer of an available server to a GET of a document by a user of this server. Raises
        CallError."""
        if not backend.is_available:
            raise CallError(UNAVAILABLE)
        return await self.proxy.fetch(backend, path, user, headers, DOWNLOAD_SECONDS)

    def forget(self) -> None:
        """Forget all servers, and what they serve."""
        self.backends.clear()
        self.specs = {}

    def find_document(self, name: str) -> Backend | None:
        """Return the server whose v3 document has a name, None if none has."""
        paths = (spec.path for spec in self.specs.values() if name in spec.urls)
        return next((backend for path in paths if (backend := self.backends.find(path)) is not None), None)

    async def close(self) -> None:
        """End all connections to aggregated servers."""
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.close()
