"""GET of an object and of a list, and watches."""

from __future__ import annotations

from dataclasses import replace

from understudy.apiserver.endpoints.handlers.watch import SENDS_BLUEPRINT, EventSource
from understudy.apiserver.endpoints.negotiation import LIST, output, route, watch_output
from understudy.apiserver.endpoints.request import Call, Reply, Stream
from understudy.apiserver.endpoints.responsewriters.writers import form_of, list_reply, object_reply, wanted
from understudy.apiserver.endpoints.scope import Api, Target, selector_of
from understudy.machinery.options import ListOptions, list_options, resource_version
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32

# In 1.32 the bookmark that ends initial events holds an empty list in the watch's form: no table.
_TABLELESS = replace(LIST, tables=False)


async def get(api: Api, call: Call, target: Target) -> Reply:
    """One object, by `resourceVersion` at least as new as that."""
    form = form_of(call, target)
    if call.query:
        await api.registry.not_older(target.kind, call.query.get("resourceVersion"))
    entry = await api.registry.get(target.kind, target.namespace, target.name)
    return object_reply(call, target, entry, form=form)


def _options(api: Api, call: Call, *, watch: bool) -> ListOptions:
    """What is asked for. The router refuses forms before the options are read, the handler after that (1.31: too)."""
    route(call.headers.get("Accept", ""), LIST.produces)
    if api.release.version < V1_32:
        wanted(call, LIST)
    options = list_options(call.query, call.release, watch=watch, watch_list=api.gates[features.WATCH_LIST])
    wanted(call, LIST)
    return options


async def list_(api: Api, call: Call, target: Target) -> Reply:
    options = _options(api, call, watch=False)
    selector = selector_of(target, options)
    page = await api.registry.list(target.kind, target.namespace, options, selector)
    return list_reply(call, target, page)


async def watch(api: Api, call: Call, target: Target) -> Stream:
    options = _options(api, call, watch=True)
    selector = selector_of(target, options)
    resource_version(options.version)
    form = watch_output(call.headers.get("Accept", ""))
    listed = options.initial_events and options.bookmarks and SENDS_BLUEPRINT[api.release.version]
    if listed and form.target == "Table":
        form = output(call.headers.get("Accept", ""), _TABLELESS)
    source = EventSource(api, call, target, options, selector, form)
    await source.start()
    return Stream(source, form.watch_type)
