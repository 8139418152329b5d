"""GET of an object and of a list, and watches."""

from __future__ import annotations

from understudy.apiserver.encoding.encoded import is_loaded
from understudy.apiserver.endpoints.handlers.watch import SENDS_BLUEPRINT, EventSource
from understudy.apiserver.endpoints.negotiation import output, route, watch_output, with_cbor, without_tables
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.responsewriters.lists import list_response
from understudy.apiserver.endpoints.responsewriters.tables import list_endpoint
from understudy.apiserver.endpoints.responsewriters.writers import (
    form_of,
    object_response,
)
from understudy.apiserver.endpoints.scope import RequestScope, selector_of
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.corrupt_objects import read_anew, unreadable_list, unreadable_object
from understudy.apiserver.storage.interface import UnreadableError
from understudy.machinery.options import ListOptions, list_options, minimum_version, resource_version
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_32, V1_36, V1_37, ByRelease
from understudy.machinery.selectors.shards import Shards


async def get(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET of an object (`GetResource`), at least as new as the `resourceVersion` of the query, if any."""
    form = form_of(request, scope)
    version = ""
    if request.query:
        version = minimum_version(request.query)
        await state.registry.not_older(scope.kind, version)
    cached = bool(version) and state.registry.has_cache(scope.kind)
    entry = await state.registry.get(scope.kind, scope.namespace, scope.name, cached=cached)
    if not cached or not is_loaded(entry, scope.kind):
        entry = read_anew(entry, scope.kind, state.gates)
    try:
        return await object_response(request, scope, entry, form=form)
    except UnreadableError as error:
        raise unreadable_object(entry, error, state.gates) from None


def shards_of(state: ServerState, options: ListOptions) -> Shards | None:
    """Return the shards that a client asks for, None for all. Raises 500 for what names none."""
    if not options.shards or not state.gates[features.SHARDED_LIST_AND_WATCH]:
        return None
    from understudy.apiserver.endpoints.handlers import shard_selector  # an alpha feature, which needs CEL

    return shard_selector.parse(options.shards, state.release.version)


# Whether what etcd tells of kinds without a watch cache, such as events, is of the shards that are asked for alone.
_WATCHES_SHARDS = ByRelease({V1_37: True, V1_31: False})
_NEGOTIATES_FIRST = ByRelease({V1_36: True, V1_32: False, V1_31: True})


def _options(state: ServerState, request: Request, scope: RequestScope, *, watch: bool) -> ListOptions:
    """Negotiate the form of a list and parse its ListOptions. Raises 400, 406.

    kube-apiserver checks Accept twice: the router before it parses, the handler after, or before it as well.
    """
    endpoint = list_endpoint(scope.kind)
    if request.serves_cbor:
        endpoint = with_cbor(endpoint)
    if endpoint.produces:
        route(request.headers.get("Accept", ""), endpoint.produces)
    if _NEGOTIATES_FIRST[state.release.version]:
        output(request.headers.get("Accept", ""), endpoint)
    options = list_options(request.query, request.release, watch=watch, watch_list=state.gates[features.WATCH_LIST])
    output(request.headers.get("Accept", ""), endpoint)
    return options


async def list_(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET of a collection (`ListResource`)."""
    options = _options(state, request, scope, watch=False)
    selector = selector_of(scope, options)
    selector.shards = shards_of(state, options)
    page = await state.registry.list(scope.kind, scope.namespace, options, selector, state.gates)
    try:
        return await list_response(request, scope, page, state.list_items)
    except UnreadableError as error:
        raise unreadable_list(scope.kind, page.entries, selector, 0, state.gates) or error from None


async def watch(state: ServerState, request: Request, scope: RequestScope) -> WatchResponse:
    """Answer GET of a collection with `watch=true` (`ListResource`), which sends events until it ends."""
    options = _options(state, request, scope, watch=True)
    selector = selector_of(scope, options)
    selector.shards = shards_of(state, options)
    if selector.has_shards_only and not (_WATCHES_SHARDS[request.release] or state.registry.has_cache(scope.kind)):
        selector.shards = None
    resource_version(options.version)
    endpoint = with_cbor(list_endpoint(scope.kind)) if request.serves_cbor else list_endpoint(scope.kind)
    form = watch_output(request.headers.get("Accept", ""), endpoint)
    # In 1.32 the bookmark that ends initial events holds an empty list in the watch's form: no table.
    is_list = bool(options.initial_events and options.bookmarks)
    if is_list and SENDS_BLUEPRINT[state.release.version] and form.target == "Table":
        form = output(request.headers.get("Accept", ""), without_tables(endpoint))
    source = EventSource(state, request, scope, options, selector, form)
    try:
        await source.start()
    except BaseException:
        source.close()
        raise
    return WatchResponse(source, form.watch_type, is_list and state.gates[features.WATCH_LIST_COMPRESSION])
