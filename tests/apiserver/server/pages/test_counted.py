"""Requests as /metrics counts them, beside what kube-apiserver has counted of the same ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.apiserver.server.pages.counted import ask_all
from tests.http import send, watch
from tests.waiting import wait_until
from understudy import Server

RECORDED = Path(__file__).parent / "counted"
TOKEN = "admintoken"


def test_watches_count_when_they_end() -> None:
    """A watch is open until it ends, and counts as a request then, also where an audit log waits for its end."""
    labels = 'resource="nodes",scope="cluster",subresource="",verb="WATCH",version="v1"}'
    with Server(audit_policy="Metadata") as server:

        def counted() -> list[str]:
            page = send(server, "GET", "/metrics").body.decode()
            return [line for line in page.splitlines() if labels in line and not re.search("seconds|sizes", line)]

        opened = f'apiserver_longrunning_requests{{component="apiserver",group="",{labels} '
        with watch(server, "/api/v1/nodes"):
            assert counted() == [f"{opened}1"]
        total = f'apiserver_request_total{{code="200",component="apiserver",dry_run="",group="",{labels} 1'
        assert wait_until(lambda: sorted(counted()) == [f"{opened}0", total])


@pytest.mark.maintenance
@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_requests_are_counted_as_recorded(release: str, tmp_path: Path) -> None:
    """Compare the samples that requests change, and by how much, with what was recorded."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    with Server(emulated_version=release, token_auth_file=tokens) as server:
        counted = {*ask_all(server.url, TOKEN)}
    recorded = {*(RECORDED / f"{release}.txt").read_text().splitlines()}
    assert sorted(counted ^ recorded) == []
