"""The recorder of exchanges: what it masks, and that its recordings can be replayed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.client import Client
from tests.recordings.recorded import read
from tests.recordings.replay import replay
from understudy import Server

SCRIPTS = Path(__file__).parents[2] / "scripts"
SCENARIOS = Path(__file__).parents[1] / "recordings" / "scenarios"
UID, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def placeholders(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import record

    return record.Placeholders()


def stored(version: str, **metadata: Any) -> dict[str, Any]:
    fields = {"uid": UID, "resourceVersion": version, "creationTimestamp": "2026-01-02T03:04:05Z", **metadata}
    return {"kind": "ConfigMap", "metadata": fields}


def test_values_of_the_server_are_masked(placeholders: Any) -> None:
    """A value gets the same placeholder wherever it stands, and resource versions keep their numbers for the order."""
    masked = placeholders.mask_response(stored("7", name="a"))
    times = {"creationTimestamp": "<time>"}
    assert masked["metadata"] == {"uid": "<uid:1>", "resourceVersion": "<rv:1>", **times, "name": "a"}
    message = f"Precondition failed: UID in precondition: {OTHER}, UID in object meta: {UID}"
    assert placeholders.mask_response({"message": message}) == {
        "message": "Precondition failed: UID in precondition: <uid:2>, UID in object meta: <uid:1>"
    }
    assert placeholders.resource_versions == {"<rv:1>": 7}


def test_generated_names_are_masked_everywhere(placeholders: Any) -> None:
    """A name made from generateName has a placeholder in the object, in messages and in later paths."""
    masked = placeholders.mask_response(stored("7", generateName="made-", name="made-x7k2p"))
    assert masked["metadata"]["name"] == "<name:1>"
    assert placeholders.mask_response({"message": 'configmaps "made-x7k2p" not found'}) == {
        "message": 'configmaps "<name:1>" not found'
    }
    assert placeholders.mask_reference("name", "made-x7k2p") == "<name:1>"


def test_lists_have_placeholders_of_their_own(placeholders: Any) -> None:
    """The version of a list may equal an object's by chance: something else may be written in between."""
    placeholders.mask_response(stored("7"))
    listed = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "7", "continue": "abc"}, "items": [stored("7")]}
    masked = placeholders.mask_response(listed)
    assert masked["metadata"] == {"resourceVersion": "<rv:2>", "continue": "<continue:1>"}
    assert masked["items"][0]["metadata"]["resourceVersion"] == "<rv:1>"
    assert placeholders.resource_versions == {"<rv:1>": 7, "<rv:2>": 7}


def test_values_of_the_client_stay(placeholders: Any) -> None:
    """Times, uids and versions that a request made up are recorded as they are, and so in its answer."""
    body = {"metadata": {"uid": OTHER, "resourceVersion": "5", "annotations": {"at": "2020-01-01T00:00:00Z"}}}
    assert placeholders.mask_request(body) == body
    answer = {"message": f"uid {OTHER} at 2020-01-01T00:00:00Z"}
    assert placeholders.mask_response(answer) == answer


def test_values_that_are_sent_back_are_masked(placeholders: Any) -> None:
    """A value of an earlier answer is recorded by its placeholder, so that a replay sends the live value."""
    masked = placeholders.mask_response(stored("7", name="a"))
    assert placeholders.mask_request(stored("7", name="a")) == masked


def test_ages_in_tables_are_masked(placeholders: Any) -> None:
    """Columns that tell how long ago something was are masked; later events of a watch have no columns."""
    columns = [{"name": "Name"}, {"name": "Age"}]
    first = {"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": ["a", "5s"]}]}
    assert placeholders.mask_response(first)["rows"] == [{"cells": ["a", "<age>"]}]
    assert placeholders.mask_response({"kind": "Table", "rows": [{"cells": ["b", "6s"]}]})["rows"] == [
        {"cells": ["b", "<age>"]}
    ]


def test_own_words_of_a_build_are_masked(placeholders: Any) -> None:
    """Memory addresses and the server's own revision differ in every run."""
    message = "Too large resource version: 99, current: 12; at 0xc000123456"
    masked = placeholders.mask_response({"message": message})
    assert masked == {"message": "Too large resource version: 99, current: <number>; at <pointer>"}


@pytest.mark.parametrize("scenario", sorted(path.stem for path in SCENARIOS.glob("*.yaml")))
def test_recordings_can_be_replayed(scenario: str, tmp_path: Path) -> None:
    """A scenario recorded from one server agrees in every step with another one that answers alike."""
    with Server() as recorded:
        script = [sys.executable, str(SCRIPTS / "record.py"), str(SCENARIOS / f"{scenario}.yaml")]
        subprocess.run([*script, "--server", recorded.url, "--output", str(tmp_path)], check=True, timeout=60)
    lines = read(tmp_path / f"{scenario}.jsonl")
    with Server() as server:
        client = Client(server.url, "")
        outcome = replay(lines, client, lambda what, body: None)
        client.close()
    assert (outcome.differences, outcome.total) == ({}, len(lines) - 2)


def test_unknown_references_are_refused(tmp_path: Path) -> None:
    """A scenario that refers to an answer that is not there ends with one line that names the step."""
    scenario = tmp_path / "s.yaml"
    scenario.write_text("- request: GET /api/v1/namespaces/{{2.metadata.name}}\n")
    with Server() as server:
        sent = [sys.executable, str(SCRIPTS / "record.py"), str(scenario), "--server", server.url]
        done = subprocess.run(sent, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "step 1: {{2.metadata.name}} is not in the answers so far\n")
