"""The controllers make of each story what those of Kubernetes made of it, recorded beside a real kube-apiserver.

`python -m scripts.record again` records fixtures/controllers/recorded/FILE-RELEASE.jsonl.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.compare.cases import controller_stories as stories
from tests.releases import often
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.devicetainteviction import rule_status
from understudy.machinery.releases.version import V1_35, Version

ROOT = Path(__file__).parents[2]
RECORDED = sorted((ROOT / "fixtures" / "controllers" / "recorded").glob("*.jsonl"))
CONTROLLERS = {
    "claims": ["resourceclaim", "garbage-collector"],
    "groups": ["resourceclaim", "garbage-collector"],
    "taints": ["device-taint-eviction"],
}
GATES = {
    "claims": {},
    "groups": {"GenericWorkload": True, "DRAWorkloadResourceClaims": True},
    "taints": {"DRADeviceTaints": True},
}
# Every run tells the stories of workloads on the newest release; -m every_recording tells the others.
OFTEN = [path for path in RECORDED if path.stem.startswith("groups")][-1]
CASES = [pytest.param(path, id=path.stem, marks=often(path == OFTEN)) for path in RECORDED]
REST = 0.8  # seconds without a change, after which objects are at rest


@pytest.mark.parametrize("recorded", CASES)
async def test_stories_end_as_recorded(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object is the same in the end, managed fields and events included, but for names, uids and times."""
    file, _, text = recorded.stem.partition("-")
    release = Version.parse(text)
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    expected = {line["story"]: line["end"] for line in lines}
    goals = {line["story"]: line["digests"] for line in lines}
    monkeypatch.setattr(rule_status, "PERIOD", 1.0)
    gates = GATES[file] | ({"DRADeviceTaintRules": True} if file == "taints" and release >= V1_35 else {})
    server = Server(emulated_version=text, controllers=CONTROLLERS[file], feature_gates=gates)
    told = stories.read_stories(release, f"{file}.yaml")
    async with server, APIClient(Connection(url=server.url), "stories") as client:
        tellings = await stories.tell(client, release, told, REST, 1.0, goals)
    actual = {story: ends[-1] for story, ends in tellings.items()}
    different = {story: actual.get(story) for story in expected if actual.get(story) != expected[story]}
    assert different == {story: expected[story] for story in different}
    assert different == {}
    assert actual.keys() == expected.keys()
