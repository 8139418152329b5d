"""Every OpenAPI document is that of the real server, but for the descriptions of types, which are our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apiserver.endpoints.openapi.openapi_digests import digests
from tests.http import send
from tests.releases import often
from understudy import Server

RECORDED = Path(__file__).parent / "recorded"
GATES = {"AllAlpha": True, "AllBeta": True, "CBORServingAndStorage": False}
RELEASES = sorted(path.stem for path in RECORDED.glob("1.*.json"))


# Every run compares the newest release; -m every_recording compares the others.
@pytest.mark.parametrize("release", [pytest.param(each, marks=often(each == RELEASES[-1])) for each in RELEASES])
def test_documents_are_as_recorded(release: str) -> None:
    """Paths, parameters, definitions and the rest of v2, and each document of v3 have the recorded digests."""
    with Server(emulated_version=release, feature_gates=GATES, runtime_config={"api/all": True}) as server:
        for definition in json.loads((RECORDED / "definitions.json").read_text()):
            server.apply(definition)
        ours = digests(lambda path, accept: send(server, "GET", path, headers={"Accept": accept}).body)
    recorded = json.loads((RECORDED / f"{release}.json").read_text())
    different = {part: dict(ours[part].items() ^ recorded[part].items()) for part in recorded}
    assert different == {part: {} for part in recorded}
