"""Watches that are refused or end by themselves."""

from __future__ import annotations

import json
from typing import Any

from tests.http import send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"


def test_refused_watch_is_answered_in_yaml(server: Server) -> None:
    """A watch with a wrong version is refused in YAML if that is accepted, though no watch is served in YAML."""
    answer = send(server, "GET", f"{MAPS}?watch=true&resourceVersion=x", accept="application/yaml")
    assert (answer.status, answer.headers["Content-Type"]) == (500, "application/yaml")
    assert b"code: 500" in answer.body


def watched(server: Server, query: str, form: str) -> tuple[int, list[Any]]:
    """Return the status and the events of a watch that ends by itself."""
    answer = send(server, "GET", f"{MAPS}?watch=true{query}", accept=form)
    lines = answer.body.splitlines() if answer.status == 200 else []
    return answer.status, [json.loads(line) for line in lines]


TABLE, METADATA_LIST = (
    f"application/json;as={name};g=meta.k8s.io;v=v1" for name in ("Table", "PartialObjectMetadataList")
)
ENDED = "&timeoutSeconds=-1"  # after what is there


def test_table_watch_with_initial_events_is_refused(server: Server) -> None:
    """A watch from the start with bookmarks cannot be a table: the next accepted form is taken, or 406."""
    assert watched(server, ENDED, TABLE)[1][0]["object"]["kind"] == "Table"
    assert watched(server, "&allowWatchBookmarks=true", TABLE)[0] == 406
    events = watched(server, f"{ENDED}&allowWatchBookmarks=true", f"{TABLE},application/json")[1]
    assert [(event["type"], event["object"]["kind"]) for event in events][:2] == [
        ("ADDED", "ConfigMap"),
        ("BOOKMARK", "ConfigMap"),
    ]


def test_watch_of_metadata_lists_is_empty(server: Server) -> None:
    """An event cannot be a PartialObjectMetadataList, so such a watch ends before its first event."""
    assert watched(server, "", METADATA_LIST) == (200, [])
