"""How often custom resources are compared with those that they replace, as /metrics tells."""

from __future__ import annotations

import re

import pytest

from tests.apiserver.extensions.conversion_webhook import V1, define, widget
from tests.http import MERGE_PATCH, exchange, send
from understudy import Server


@pytest.mark.parametrize(("release", "expected"), [("1.32", [0, 1, 2, 2]), ("1.37", [0, 1, 2, 3])])
def test_updates_are_timed(release: str, expected: list[int]) -> None:
    """Updates are timed, refused ones as well, and since 1.33 those of the status."""
    with Server(emulated_version=release) as server:
        define(server)
        exchange(server, "POST", V1, widget(size=1))
        counts = [count(server)]
        for path, patch in (("", {"spec": {"size": 2}}), ("", {"spec": {"size": "x"}}), ("/status", {"status": {}})):
            exchange(server, "PATCH", f"{V1}/a{path}", patch, MERGE_PATCH)
            counts.append(count(server))
    assert counts == expected


def count(server: Server) -> int:
    page = send(server, "GET", "/metrics").body.decode()
    found = re.search(r"^apiextensions_apiserver_validation_ratcheting_seconds_count (\d+)$", page, re.MULTILINE)
    assert found is not None
    return int(found[1])
