"""Requests are passed on to an aggregated API server as recorded beside a real kube-apiserver.

`python -m scripts.compare aggregation … --save FILE` records recorded/STORY/RELEASE.jsonl, beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trustme

from scripts.common.comparing import Server as Asked
from scripts.compare.aggregation import STORIES, Scene
from scripts.compare.cases.aggregated_server import AggregatedServer
from understudy import Server

RECORDED = Path(__file__).with_name("recorded")
TOKENS = 'admin-token,admin,admin,system:masters\nalice-token,alice,uid-a,"devs,team a"\n'


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("release", ["1.32", "1.36", "1.37"])
def test_exchanges_are_as_recorded(release: str, story: str, tmp_path: Path) -> None:
    """Conditions, headers in both directions, bodies, upgrades, errors and discovery are those of the real server."""
    front, tokens = trustme.CA(), tmp_path / "tokens.csv"
    certificate = front.issue_cert(common_name="front-proxy-client")
    front.cert_pem.write_to_path(str(tmp_path / "ca"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key"))
    tokens.write_text(TOKENS)
    server = Server(
        emulated_version=release,
        token_auth_file=tokens,
        proxy_client_cert_file=tmp_path / "cert",
        proxy_client_key_file=tmp_path / "key",
    )
    with (
        server,
        Asked(server.url, "admin-token") as asked,
        AggregatedServer(str(tmp_path / "ca")) as aggregated,
    ):
        actual = list(Scene(asked, "alice-token", aggregated).story(story, release))
    assert actual == [json.loads(line) for line in (RECORDED / story / f"{release}.jsonl").read_text().splitlines()]
