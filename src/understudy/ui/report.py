"""The page as one file: what a server holds, to be looked at when the server is gone."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Awaitable, Callable

import orjson

from understudy.apiserver.client.loopback import Client
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.server.lifecycle import Lifecycle
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.types import Obj
from understudy.ui import assets, past
from understudy.ui.data import kinds, requests, watches
from understudy.ui.data.masks import mask_secret
from understudy.ui.data.readers import everything

MOST_EXPLAINED = 20  # claims without devices
SECRETS = "/secrets"
CLAIMS = "resource.k8s.io/resourceclaims"
Explain = Callable[[int], Awaitable[dict[str, Obj]]]


async def page(client: Client, lifecycle: Lifecycle, explain: Explain, title: str) -> str:
    """Return the page about a server as HTML that holds all of its data, without those of Secrets.

    explain  returns why claims get no devices, some at most, by their names
    title    of what has led to it, such as a test
    """
    state = lifecycle.state
    document = {**await kinds.document(state), "title": title, "tables": await _tables(client, state)}
    waits = any(not (claim.get("status") or {}).get("allocation") for claim in _objects(document, CLAIMS))
    document["explanations"] = {}
    if waits:
        with ignore_not_found():  # from a server that serves only older versions of the kinds
            document["explanations"] = await explain(MOST_EXPLAINED)
    document["past"] = await past.document(state, lifecycle.request_log)
    document["oldest"] = document["past"]["since"]
    for part in (document, document["past"]):
        for row in part["tables"].get(SECRETS, {"rows": ()})["rows"]:
            row["object"] = mask_secret(row["object"])
    document["requests"] = await requests.document(state, lifecycle.request_log)
    components = lifecycle.request_log.components
    document["watches"] = watches.document(state, lifecycle.watches, components, everything)
    document["url"] = lifecycle.url
    packed = gzip.compress(orjson.dumps(document), mtime=0)
    return assets.report(base64.b64encode(packed).decode())


async def _tables(client: Client, state: ServerState) -> dict[str, Obj]:
    """Return the table of each kind that has objects, with the objects, by GROUP/RESOURCE."""
    tables = {}
    for kind in [*kinds.stored_kinds(state)]:
        if state.registry.store.count(prefix_of(kind)):
            table = await client.table(kinds.path_of(kind))
            rows = [{"cells": row["cells"], "object": row["object"]} for row in table["rows"] or ()]
            tables[f"{kind.group}/{kind.resource}"] = {"columns": table["columnDefinitions"], "rows": rows}
    return tables


def _objects(document: Obj, kind: str) -> list[Obj]:
    """Return the objects of a kind, GROUP/RESOURCE."""
    return [row["object"] for row in document["tables"].get(kind, {"rows": ()})["rows"]]
