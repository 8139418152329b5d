"""The path of a request: through the filters, then to the handler of a resource or to a page.

Errors of everything below end here and become a metav1.Status in one place. Upstream: `APIServerHandler`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from understudy.apiserver.authentication.authenticator import Authenticator
from understudy.apiserver.authentication.errors import (
    EvaluationAwaitedError,
    FetchAwaitedError,
    ProviderError,
    TokenAwaitedError,
    UseAwaitedError,
)
from understudy.apiserver.authorization.webhook.awaited import decided
from understudy.apiserver.controllers.replicas.storage_versions import StorageVersionManager
from understudy.apiserver.endpoints import routing
from understudy.apiserver.endpoints.discovery.aggregations import Aggregations
from understudy.apiserver.endpoints.discovery.documents import (
    OPENID_CONFIGURATION,
    OPENID_KEYS,
    Discovery,
    not_found,
)
from understudy.apiserver.endpoints.discovery.openid_metadata import OpenID
from understudy.apiserver.endpoints.negotiation import RouteError
from understudy.apiserver.endpoints.openapi.merging.specs import NO_SPECS, Specs
from understudy.apiserver.endpoints.request import BodyAwaitedError, Request, Response
from understudy.apiserver.endpoints.requestinfo import RequestInfo, RequestInfoError
from understudy.apiserver.endpoints.responsewriters import deprecation
from understudy.apiserver.endpoints.responsewriters.writers import (
    error_response,
    render_document,
    text_response,
    warning_headers,
)
from understudy.apiserver.endpoints.routing import Answer, Route
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.server.filters.authorization import AuthorizationError
from understudy.apiserver.server.filters.chain import CBOR, CBOR_EVERYWHERE, Filter, build_handler_chain, mark_nothing
from understudy.apiserver.server.filters.faults.faults import Faults
from understudy.apiserver.server.filters.faults.meeting import Meeting
from understudy.apiserver.server.filters.faults.replica import replica_of
from understudy.apiserver.server.filters.hints.hints import Hints
from understudy.apiserver.server.filters.impersonation.filter import ImpersonationError
from understudy.apiserver.server.filters.limits.limiter import (
    Limiter,
    TooManyRequestsError,
    TurnAwaitedError,
    too_many_requests,
)
from understudy.apiserver.server.filters.monitoring.filter_times import FAIRNESS, MEASURED, FilterTimes
from understudy.apiserver.server.filters.monitoring.requests import RequestMetrics, monitored_page
from understudy.apiserver.server.filters.request_deadline import RequestTimeoutError, in_time, timed_out
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.server.pages import control, healthz, held, process, zpages
from understudy.apiserver.server.pages.control import Control
from understudy.apiserver.server.pages.exposition import Family, negotiate, written
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.metric_options import MetricSettings
from understudy.apiserver.server.pages.metrics import Metrics, slis
from understudy.apiserver.server.pages.mux import Page, PageMux, as_page
from understudy.apiserver.server.pages.open_pages import PREFIX as UI
from understudy.apiserver.server.pages.open_pages import OpenPageError
from understudy.apiserver.server.pages.request_counts import RequestCounts
from understudy.apiserver.server.pages.zpages import ZPages
from understudy.apiserver.server.webhooks.aggregation.aggregator import Aggregator
from understudy.apiserver.server.webhooks.aggregation.backends import Backend, Backends
from understudy.apiserver.server.worker.executor import Executor
from understudy.apiserver.storage.interface import StorageError
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.errors import StatusError, without_frames
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.util.caches import SHORT_KEPT, cache_results
from understudy.machinery.util.metrics import AnyFamily

if TYPE_CHECKING:
    from understudy.apiserver.endpoints.openapi.v3 import OpenAPI
    from understudy.apiserver.server.filters.audit.filter import Auditor

log = logging.getLogger("understudy")
ROUTES = 4096  # size of the cache of routes
V3_DOCUMENTS = "/openapi/v3/"


HandleResource = Callable[[Serving, Route, ServerState, Request], Coroutine[Any, Any, Answer]]


class Traces(Protocol):
    """Follows requests through filters and handlers."""

    def mark(self, name: str, /) -> Sequence[Filter]:
        """Return the filters that note that a filter begins."""

    def handled(self, resource: HandleResource, /) -> HandleResource:
        """Return a handler of resources that notes what another one does."""


class _Served:
    """The routes and documents of the resources that are served at one moment.

    address     address of the server, which discovery publishes
    aggregator  has the documents of aggregated servers, None where there are none
    counted     counts the documents of aggregated discovery
    """

    def __init__(self, state: ServerState, address: str, aggregator: Aggregator | None, counted: Aggregations) -> None:
        self.serving = state.serving
        self._find_route = partial(routing.find, state.serving)
        self._kept_route = cache_results(ROUTES, self._find_route)
        self._state = state
        self._address = address
        self._aggregator = aggregator
        self._counted = counted

    def route(self, method: str, info: RequestInfo) -> Route | None:
        """Return the route of a request, None if there is none. Raises 405."""
        return (self._kept_route if len(info.path) + len(method) <= SHORT_KEPT else self._find_route)(method, info)

    @cached_property
    def discovery(self) -> Discovery:
        """Return the pages of discovery."""
        state = self._state
        render = partial(render_document, schemas=state.schemas)
        checks = healthz.started(state.release.health_checks, state.gates)
        pages = [*healthz.paths(checks), *zpages.paths(state)]
        return Discovery(self.serving, state.gates, self._address, render, pages, self._counted)

    @property
    def openapi(self) -> OpenAPI:
        """Return the OpenAPI documents."""
        self._openapi.specs = self._specs
        return self._openapi

    @cached_property
    def _openapi(self) -> OpenAPI:
        from understudy.apiserver.endpoints.openapi.v3 import OpenAPI  # only kubectl and generators ask for it

        return OpenAPI(self.serving, self._specs)

    @property
    def _specs(self) -> Specs:
        """Return the documents of aggregated servers."""
        return NO_SPECS if self._aggregator is None else self._aggregator.specs

    def backend(self, path: str) -> Backend | None:
        """Return the aggregated server that answers a path, None for this one."""
        if self._aggregator is None:
            return None
        backend = self._aggregator.backends.find(path)
        if backend is None and path.startswith(V3_DOCUMENTS):
            name = path.removeprefix(V3_DOCUMENTS)
            return None if name in self.openapi.hashes else self._aggregator.find_document(name)
        return backend


class Director:
    """Answers every request of one server, at a URL.

    `aggregator` asks aggregated API servers, None where there are none.

    `accepted_hosts` are those of `build_handler_chain`, `flags` those that /flagz shows, `hints` look at every answer,
    `requests` keeps the last ones, `faults` are those that they meet, `pauses` are those of the event loop, `ui`
    answers below /ui/, None where nothing is. `flow_control` classifies requests, None where they are not; `limiter`
    admits them, None where nothing is limited.

    running    number of requests for resources that are being answered
    begun      number of those that were ever begun
    is_ending  whether the server comes to its end, and is not ready for more
    """

    def __init__(
        self,
        state: ServerState,
        authenticator: Authenticator,
        url: str,
        aggregator: Aggregator | None = None,
        control: Control | None = None,
        accepted_hosts: Sequence[re.Pattern[str]] | None = None,
        flags: Mapping[str, str] | None = None,
        hints: Hints | None = None,
        requests: RequestLog | None = None,
        faults: Faults | None = None,
        pauses: LoopPauses | None = None,
        auditor: Auditor | None = None,
        ui: Page | None = None,
        flow_control: FlowControl | None = None,
        limiter: Limiter | None = None,
        storage_versions: StorageVersionManager | None = None,
        traces: Traces | None = None,
        metric_settings: MetricSettings | None = None,
    ) -> None:
        self.state = state
        self._pauses = pauses or LoopPauses()
        self._requests = requests or RequestLog()
        self._faults = faults or Faults(lambda: state.serving, self._requests.components)
        self._hints = hints
        self._auditor = auditor
        self._aggregator = aggregator
        self._backends = Backends() if aggregator is None else aggregator.backends
        self.clock = state.clock
        self.running = self.begun = 0
        self.is_ending = False
        self._flow_control = flow_control
        self._limiter = limiter
        self._storage_versions = storage_versions
        self._counts = RequestCounts(
            lambda: state.clock.now(), state.release.version, native=state.gates[features.NATIVE_HISTOGRAMS]
        )
        self._metrics = Metrics(self._counts, state.release.version, metric_settings or MetricSettings())
        self._request_metrics = RequestMetrics(state, self._counts)
        users, decisions = state.authentication_metrics, state.authorization_metrics
        self._times = FilterTimes(users, decisions, self._request_metrics.terminations)
        self._chain, self._measured = build_handler_chain(
            authenticator,
            state.authorizer,
            state.gates,
            flow_control,
            limiter,
            state.permissions,
            accepted_hosts,
            auditor,
            storage_versions,
            mark_nothing if traces is None else traces.mark,
            users=users,
            decisions=decisions,
            times=self._times,
            has_ui=ui is not None,
            cbor=CBOR[state.release.version] if state.gates[features.CBOR_SERVING_AND_STORAGE] else "",
            tells_selectors=state.asks_outside and state.gates[features.AUTHORIZE_WITH_SELECTORS],
        )
        self._handle_resource = self._resource if traces is None else traces.handled(self._resource)
        self._filters = (*self._chain.before, *self._chain.behind)
        self._measured_filters = (*self._measured.before, *self._measured.behind)
        self._unmeasured = 0  # requests until one is measured
        self._executor = Executor(state)
        self._key_fetches: dict[Callable[[], None], asyncio.Task[None]] = {}
        self._address = url.partition("//")[2]
        self._aggregations = Aggregations()
        self._newest = _Served(state, self._address, aggregator, self._aggregations)
        self._zpages = ZPages(state, flags or {})
        self._ui = ui
        self._pages = self._page_mux(state, url, control)

    def _page_mux(self, state: ServerState, url: str, control_page: Control | None) -> PageMux:
        discovery = as_page(lambda request: self._served.discovery.answer(request))
        openid = as_page(OpenID(self.state.tokens.accounts, url).answer)
        checks = healthz.started(self.state.release.health_checks, self.state.gates)
        exact: dict[str, Page] = {
            **(self._limiter.pages if self._limiter is not None else {}),
            **dict.fromkeys(healthz.paths(checks), partial(self._health, checks)),
            zpages.STATUSZ: as_page(self._zpages.statusz),
            zpages.FLAGZ: as_page(self._zpages.flagz),
            "/metrics": self._metrics_page,
            "/metrics/slis": lambda request: self._exposed(request, [slis(checks)]),
            "/": discovery,
            "/index.html": discovery,
        }
        prefixes: dict[str, Page] = {
            "/version": discovery,
            "/api": discovery,
            "/openapi/": as_page(lambda request: self._served.openapi.answer(request)),
            OPENID_CONFIGURATION: openid,
            OPENID_KEYS: openid,
        }
        if control_page is not None:
            prefixes[control.PREFIX] = control_page.answer
        if self._ui is not None:
            prefixes[UI] = self._ui
        return PageMux(exact, prefixes)

    async def __call__(self, request: Request) -> Answer:
        """Answer a request, whatever happens: errors become answers, but for bugs."""
        started = monotonic()
        request.clock = self.clock
        if self._requests.on:
            request.writes = []
        answer: Answer
        try:
            try:
                if self.state.asks_outside:
                    await self._pass(self._measured_filters, request)
                elif self._unmeasured:
                    self._unmeasured -= 1
                    for check in self._filters:
                        check(request)
                else:
                    self._unmeasured = MEASURED - 1
                    for check in self._measured_filters:
                        check(request)
            except TurnAwaitedError as awaited:
                waiting = monotonic()
                await in_time(awaited.turn, request)
                request.waited += monotonic() - waiting
                await self._pass(self._measured.behind, request)
                self._times.note(FAIRNESS, request.waited)
            if request.audit is not None and not await self._written(request):
                return self._unwritten(request)
            answering = self._answer_with_body if not self._faults.rules else self._interfered
            answer = await in_time(answering(request), request)
        except OpenPageError:
            return await self._open_page(request)
        except RequestTimeoutError:
            answer = timed_out()
            self._request_metrics.terminate(request, answer.status)
            request.response_headers = ()  # of filters behind that of the deadline
        except StatusError as error:
            answer = error_response(request, without_frames(error))
        except TooManyRequestsError as error:
            answer = too_many_requests(error)
            self._request_metrics.drop(request, answer.status)
        except TokenAwaitedError as awaited:
            return await self._again(request, awaited)
        except (ImpersonationError, AuthorizationError) as error:
            answer = _internal_error(request, str(error))
        except RequestInfoError as error:
            return _internal_error(request, f"failed to create RequestInfo: {error}")
        except Exception as error:
            if request.audit is not None:
                request.audit.panic(str(error))
            raise
        finally:
            if request.leave is not None:
                leave, request.leave = request.leave, None
                leave()
        if request.audit is not None and not await self._written(request):  # a filter has refused the request
            return self._unwritten(request)
        answer.headers += request.response_headers
        if request.warnings:
            answer.headers += warning_headers(request.warnings)
        seconds = monotonic() - started
        self._request_metrics.observe(request, answer, seconds)
        if self._hints is not None:
            self._hints.observe(request, answer)
        if self._auditor is not None:
            self._auditor.answer(request, answer)
            await self._written(request)
        if self._requests.on:
            self._requests.note(request, answer, seconds)
        return answer

    async def _pass(self, filters: Sequence[Filter], request: Request) -> None:
        """Let a request pass filters, and wait for webhooks that say whose it is and whether it may be. Raises as they
        do."""

        def pass_anew(check: Filter, warnings: int) -> None:
            del request.warnings[warnings:]
            check(request)

        for check in filters:
            await in_time(decided(partial(pass_anew, check, len(request.warnings))), request)

    async def _open_page(self, request: Request) -> Answer:
        """Answer a request for a page that everybody may see."""
        assert self._ui is not None
        try:
            return await self._ui(request) or not_found()
        except StatusError as error:
            return error_response(request, error)

    async def _written(self, request: Request) -> bool:
        """Wait for the audit log to write the events of a request so far; report whether it has, if it must."""
        return self._auditor is None or await self._auditor.written(request)

    def _unwritten(self, request: Request) -> Response:
        """Return the answer to a request whose first event must be written to the audit log, and was not."""
        self.state.audit_metrics.reject()
        return _internal_error(request, "failed to store audit event")

    async def _again(self, request: Request, awaited: TokenAwaitedError) -> Answer:
        """Answer a request from the beginning, when its token can be judged."""
        try:
            if isinstance(awaited, EvaluationAwaitedError):
                await self._executor.evaluate(request, awaited.evaluate)
            elif isinstance(awaited, FetchAwaitedError):
                await asyncio.shield(self._key_fetch(awaited.fetch))
            elif isinstance(awaited, UseAwaitedError):
                await awaited.mark()
        except ProviderError as error:
            log.error("oidc: fetching keys %s", error)
        except (RequestTimeoutError, StatusError):
            return timed_out()
        request.warnings.clear()
        request.response_headers = ()
        with awaited.afterwards:
            return await self(request)

    def _key_fetch(self, fetch: Callable[[], None]) -> asyncio.Task[None]:
        """Return the running fetch of an issuer's keys, or a new one: all requests that need them wait for the same."""

        def end(task: asyncio.Task[None]) -> None:
            del self._key_fetches[fetch]
            if not task.cancelled():
                task.exception()  # else asyncio complains if no task waits any more

        if (running := self._key_fetches.get(fetch)) is None:
            running = self._key_fetches[fetch] = asyncio.create_task(asyncio.to_thread(fetch))
            running.add_done_callback(end)
        return running

    def work_inline(self) -> None:
        """Answer all requests in the event loop, and none in a thread."""
        self._executor.is_inline = True

    async def finish(self) -> None:
        """Wait for the request that is answered outside the event loop, and for no keys of an issuer."""
        for fetch in self._key_fetches.values():
            fetch.cancel()
        await self._executor.finish()

    async def _answer_with_body(self, request: Request) -> Answer:
        """Answer a request; wait for its body only if it is asked for, and so never for one that is refused before."""
        warnings = len(request.warnings)
        try:
            return await self._answer(request)
        except BodyAwaitedError:
            del request.warnings[warnings:]
        await request.receive_body()
        return await self._answer(request)

    async def _interfered(self, request: Request) -> Answer:
        """Answer a request where there are faults, which it may meet."""
        if self._faults.spares(request) or request.path.startswith(control.PREFIX):
            return await self._answer_with_body(request)
        proceed, behind = partial(self._answer_with_body, request), partial(self._answer_behind, request)
        return await self._faults.interfere(Meeting(request, proceed, behind, self.state.registry.store))

    async def _answer_behind(self, request: Request, revision: int) -> Answer:
        """Answer a read as a replica does whose cache is at a revision."""
        route = self._served.route(request.method, request.info)
        if route is None:
            return not_found()
        return await route.handler(replica_of(self.state, revision), request, route.scope)

    async def _answer(self, request: Request) -> Answer:
        if self._backends and (backend := self._served.backend(request.path)) is not None:
            assert self._aggregator is not None
            return await self._aggregator.answer(backend, request)
        if not request.info.is_resource:
            return await self._executor.run(self._page, request)
        served = self._served
        try:
            route = served.route(request.method, request.info)
        except StatusError:
            request.serves_cbor &= CBOR[request.release] == CBOR_EVERYWHERE
            raise
        if route is None:
            return not_found()
        request.monitored = route.monitored
        self.running += 1
        self.begun += 1
        try:
            return await self._executor.run(partial(self._handle_resource, served.serving, route), request, route)
        finally:
            self.running -= 1

    async def _resource(self, serving: Serving, known: Route, state: ServerState, request: Request) -> Answer:
        """Answer a request for a resource by the route that was found; by another one if others are served since."""
        route = known if state.serving is serving else self._served.route(request.method, request.info)
        if route is None:
            return not_found()
        if not route.warning:
            return await route.handler(state, request, route.scope)
        request.warnings.append(route.warning)
        if request.audit is not None:
            deprecation.annotate(request.audit, route.scope.kind.gvk(route.scope.version), state.release)
        try:
            return await route.handler(state, request, route.scope)
        except RouteError:
            request.warnings.remove(route.warning)
            raise

    async def _page(self, state: ServerState, request: Request) -> Answer:
        if request.path[:1] != "/" or request.path[1:2] == "/":
            return not_found()
        answer = await self._pages.answer(request)
        if answer is None:
            return self._served.discovery.missing(request.path)
        request.monitored = monitored_page(request.path, answer.content_type)
        return answer

    @property
    def _served(self) -> _Served:
        """Return routes and documents made of the resources that are served now."""
        if self._newest.serving is not self.state.serving:
            self._newest = _Served(self.state, self._address, self._aggregator, self._aggregations)
        return self._newest

    async def _health(self, checks: healthz.Checks, request: Request) -> Response:
        return await healthz.answer_with_store(checks, self.state.registry.store, request, self._failing)

    def _failing(self) -> Mapping[str, str]:
        """Return the checks that fail since the server has not begun, or comes to its end, with the reason."""
        begins = {} if self._storage_versions is None else self._storage_versions.unfinished()
        return {**begins, healthz.SHUTDOWN: "process is shutting down"} if self.is_ending else begins

    def count_tls_error(self) -> None:
        """Count a connection without an agreement on TLS."""
        self._request_metrics.tls_errors.add()

    async def _metrics_page(self, request: Request) -> Response:
        state = self.state
        store, kinds = state.registry.store, [kind for kind in state.serving.kinds if not kind.virtual]
        objects, turns = dict[tuple[str, str], int](), Turns()
        for kind in kinds:
            objects[kind.group, kind.resource] = store.count(prefix_of(kind))
            if turns.is_over:
                await turns.next()
        size = None
        with suppress(StorageError):  # then the family is missing, as kube-apiserver's
            size = await store.size()
        requests: list[AnyFamily] = [*self._request_metrics.families, *self._times.families, self._aggregations.counter]
        families = self._metrics.families(
            held=(
                *held.families(state, objects, size, self._counts.requested, hidden=self._metrics.shows_hidden),
                *process.families(state.release.version),
            ),
            admission=(*state.counted_families, *requests),
            flow_control=None if self._flow_control is None else self._flow_control.usage,
            limiter=() if self._limiter is None else self._limiter.families(),
            pauses=self._pauses,
        )
        return await self._exposed(request, families)

    async def _exposed(self, request: Request, families: Iterable[Family]) -> Response:
        """Return metrics in the form that the client prefers."""
        form = negotiate(request.headers.get("Accept", ""), self.state.release.version)
        return Response(200, await written(families, form), form.content_type)


def _internal_error(request: Request, message: str) -> Response:
    """Return the 500 in plain text of filters ahead of all resources. Upstream: `responsewriters.InternalError`."""
    from html import escape  # seldom needed, and 2,000 characters have names

    uri = f"{request.path}?{request.query.text}" if request.query.text else request.path
    text = f"Internal Server Error: {go_quote(uri)}: {message}\n"
    return text_response(500, escape(text, quote=False))
