"""The recorder of exchanges: what it masks, and that its recordings can be replayed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scripts.compare.cases.controller_stories import STORIES
from scripts.record.again import with_gates_of
from scripts.record.placeholders import Placeholders
from scripts.record.rows import same_age
from tests.recordings.client import Client
from tests.recordings.recorded import Recording, read, started, write
from tests.recordings.replay import replay
from tests.scripts.commands import run
from understudy import Server
from understudy.apiserver.server.options.values import switches
from understudy.machinery.releases.version import V1_37

RECORDINGS = Path(__file__).parents[1] / "recordings"
SCENARIOS = RECORDINGS / "scenarios"
KINDS = Path(__file__).parents[1] / "kinds" / "recorded"
UID, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def placeholders() -> Placeholders:
    return Placeholders()


def stored(version: str, **metadata: Any) -> dict[str, Any]:
    fields = {"uid": UID, "resourceVersion": version, "creationTimestamp": "2026-01-02T03:04:05Z", **metadata}
    return {"kind": "ConfigMap", "metadata": fields}


def test_values_of_the_server_are_masked(placeholders: Placeholders) -> None:
    """A value gets the same placeholder wherever it stands, and resource versions keep their numbers for the order."""
    masked = placeholders.mask_response(stored("7", name="a"))
    times = {"creationTimestamp": "<time>"}
    assert masked["metadata"] == {"uid": "<uid:1>", "resourceVersion": "<rv:1>", **times, "name": "a"}
    message = f"Precondition failed: UID in precondition: {OTHER}, UID in object meta: {UID}"
    assert placeholders.mask_response({"message": message}) == {
        "message": "Precondition failed: UID in precondition: <uid:2>, UID in object meta: <uid:1>"
    }
    assert placeholders.resource_versions == {"<rv:1>": 7}


def test_generated_names_are_masked_everywhere(placeholders: Placeholders) -> None:
    """A name made from generateName has a placeholder in the object, in messages and in later paths."""
    masked = placeholders.mask_response(stored("7", generateName="made-", name="made-x7k2p"))
    assert masked["metadata"]["name"] == "<name:1>"
    assert placeholders.mask_response({"message": 'configmaps "made-x7k2p" not found'}) == {
        "message": 'configmaps "<name:1>" not found'
    }
    assert placeholders.mask_reference("name", "made-x7k2p") == "<name:1>"


def test_lists_have_placeholders_of_their_own(placeholders: Placeholders) -> None:
    """The version of a list may equal an object's by chance: something else may be written in between."""
    placeholders.mask_response(stored("7"))
    listed = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "7", "continue": "abc"}, "items": [stored("7")]}
    masked = placeholders.mask_response(listed)
    assert masked["metadata"] == {"resourceVersion": "<rv:2>", "continue": "<continue:1>"}
    assert masked["items"][0]["metadata"]["resourceVersion"] == "<rv:1>"
    assert placeholders.resource_versions == {"<rv:1>": 7, "<rv:2>": 7}


def test_values_of_the_client_stay(placeholders: Placeholders) -> None:
    """Times, uids and versions that a request made up are recorded as they are, and so in its answer."""
    body = {"metadata": {"uid": OTHER, "resourceVersion": "5", "annotations": {"at": "2020-01-01T00:00:00Z"}}}
    assert placeholders.mask_request(body) == body
    answer = {"message": f"uid {OTHER} at 2020-01-01T00:00:00Z"}
    assert placeholders.mask_response(answer) == answer


def test_values_that_are_sent_back_are_masked(placeholders: Placeholders) -> None:
    """A value of an earlier answer is recorded by its placeholder, so that a replay sends the live value."""
    masked = placeholders.mask_response(stored("7", name="a"))
    assert placeholders.mask_request(stored("7", name="a")) == masked


def test_ages_in_tables_are_masked(placeholders: Placeholders) -> None:
    """Columns that tell how long ago something was are masked; later events of a watch have no columns."""
    columns = [{"name": "Name"}, {"name": "Age"}]
    first = {"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": ["a", "5s"]}]}
    assert placeholders.mask_response(first)["rows"] == [{"cells": ["a", "<age>"]}]
    assert placeholders.mask_response({"kind": "Table", "rows": [{"cells": ["b", "6s"]}]})["rows"] == [
        {"cells": ["b", "<age>"]}
    ]


def test_own_words_of_a_build_are_masked(placeholders: Placeholders) -> None:
    """Memory addresses and the server's own revision differ in every run, hashes of documents with their texts."""
    message = "Too large resource version: 99, current: 12; at 0xc000123456"
    masked = placeholders.mask_response({"message": message, "url": f"/openapi/v3/api?hash={'0F' * 64}"})
    assert masked == {
        "message": "Too large resource version: 99, current: <number>; at <pointer>",
        "url": "/openapi/v3/api?hash=<hash>",
    }


@pytest.mark.parametrize("scenario", sorted(path.stem for path in SCENARIOS.glob("*.yaml")))
def test_recordings_can_be_replayed(scenario: str, tmp_path: Path) -> None:
    """A scenario recorded from one server agrees in every step with another one that answers alike."""
    with Server() as recorded:
        sent = [str(SCENARIOS / f"{scenario}.yaml"), "--server", recorded.url, "--output", str(tmp_path)]
        assert run("record", "scenario", *sent).returncode == 0
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
        done = run("record", "scenario", str(scenario), "--server", server.url, "--output", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "step 1: {{2.metadata.name}} is not in the answers so far\n")


# --- recorded again

AGAIN = ("validation/1.34/resourceclaim-update-v1beta2-01", "gates/1.34/consumable-slice-v1beta2-01")


def again(names: Iterable[str], server: Server, output: Path, *flags: str) -> str:
    """Record recordings again, and return what is said of them."""
    files = [str(RECORDINGS / f"{name}.jsonl") for name in names]
    done = run("record", "again", *files, "--output", str(output), "--server", server.url, *flags)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def gates() -> dict[str, bool]:
    head = read(RECORDINGS / f"{AGAIN[1]}.jsonl")[0]
    return switches(head["about"]["feature-gates"])


def test_recording_a_server_again_changes_nothing(tmp_path: Path, gates: dict[str, bool]) -> None:
    """A server that answers alike gives the file that there is, but for the order of gates and its version."""
    with Server(emulated_version="1.34", feature_gates=gates, control=True) as server:
        said = again(AGAIN, server, tmp_path)
    assert said == ""
    for name in AGAIN:
        assert read(tmp_path / f"{Path(name).name}.jsonl")[1:] == read(RECORDINGS / f"{name}.jsonl")[1:]


def set_gates(server: Server, what: str, changes: dict[str, bool]) -> None:
    server.set_feature_gates(changes)


def test_recordings_of_another_release_are_its_own(tmp_path: Path, gates: dict[str, bool]) -> None:
    """Recorded twice from servers of another release, a file is the same, and agrees with a third one in every step."""
    files = []
    for number in (1, 2):
        with Server(emulated_version="1.36", feature_gates=gates, control=True) as server:
            said = again(AGAIN, server, tmp_path / str(number))
        files.append([(tmp_path / str(number) / f"{Path(name).name}.jsonl").read_text() for name in AGAIN])
        assert "another answer" in said
    assert files[0] == files[1]
    for name in AGAIN:
        recording = Recording(tmp_path / "1" / f"{Path(name).name}.jsonl")
        started_ = started(recording.head, "any")
        assert started_.release == "1.36"
        with Server(emulated_version="1.36", feature_gates=switches(started_.feature_gates)) as server:
            client = Client(server.url, "")
            outcome = replay(recording.lines(), client, partial(set_gates, server))
            client.close()
        assert outcome.differences == {}


def test_what_was_never_answered_is_told_of(tmp_path: Path) -> None:
    """A value that this server does not give is sent as its placeholder; texts are replaced before."""
    lines = [
        {"scenario": "s", "server": "v1.34.0"},
        {
            "request": {"method": "GET", "path": "/api/v9/nodes/<name:1>", "headers": {}},
            "response": {"status": 200, "headers": {"content-type": "application/json"}, "body": {"uid": "<uid:1>"}},
        },
        {"resource_versions": {}},
    ]
    write(tmp_path / "s.jsonl", lines)
    with Server() as server:
        said = again([str(tmp_path / "s")], server, tmp_path / "new", "--replace", "/api/v9=/api/v1")
    assert said.splitlines() == [
        "line 2: no answer gave <name:1>: sent as it stands",
        "line 2: another answer: GET /api/v1/nodes/<name:1>",
    ]
    answer = read(tmp_path / "new" / "s.jsonl")[1]["response"]
    assert (answer["status"], answer["body"]["message"]) == (404, 'nodes "<name:1>" not found')


def test_ages_are_masked_again(tmp_path: Path) -> None:
    """A table that is another one holds no age, which the next server has not."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    columns = [{"name": "Name"}, {"name": "Status"}, {"name": "Age"}]
    old = {"kind": "Table", "columnDefinitions": columns, "rows": [{"cells": ["default", "Active", "5d"]}]}
    lines = [
        {"scenario": "s", "server": "v1.34.0"},
        {
            "request": {"method": "GET", "path": "/api/v1/namespaces/default", "headers": {"Accept": accept}},
            "response": {"status": 200, "headers": {"content-type": "application/json"}, "body": old},
        },
        {"resource_versions": {}},
    ]
    write(tmp_path / "s.jsonl", lines)
    with Server() as server:
        again([str(tmp_path / "s")], server, tmp_path / "new")
    body = read(tmp_path / "new" / "s.jsonl")[1]["response"]["body"]
    assert body["rows"][0]["cells"] == ["default", "Active", "<age>"]


@pytest.mark.parametrize(
    ("text", "told"),
    [("{}\n", "its first line is no head"), ("no\n", "not a recording"), ("", "not a recording")],
)
def test_other_files_are_not_recorded_again(tmp_path: Path, text: str, told: str) -> None:
    """A file that is no recording is refused in one line."""
    (tmp_path / "s.jsonl").write_text(text)
    done = run("record", "again", str(tmp_path / "s.jsonl"), "--server", "http://127.0.0.1:1")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert told in done.stderr


def test_rows_are_recorded_again(tmp_path: Path) -> None:
    """The new file holds the rows that another release answers differently, under their names."""
    rows = [row for row in read(KINDS / "created.jsonl") if row["object"]["kind"] in ("Service", "PriorityClass")]
    (tmp_path / "created.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for release, count in (("1.32", 0), ("1.36", 1)):
        with Server(emulated_version=release) as server:
            again([str(tmp_path / "created")], server, tmp_path / release)
        assert (tmp_path / release / f"created-{release}.jsonl").is_file() == bool(count)
    new = read(tmp_path / "1.36" / "created-1.36.jsonl")
    assert 0 < len(new) < len(rows)
    assert {row["why"] for row in new} <= {row["why"] for row in rows}


# An allocator that gives every case one answer; a real one writes the lines in the same order, too.
ORACLE = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"case": json.loads(line)["case"], "answers": [{"fits": False}]}))
"""


def test_allocations_are_recorded_again(tmp_path: Path) -> None:
    """Cases are asked without their answers; the file has the name of the oracle's release, and needs no server."""
    cases = [{"case": "a", "answers": [{"fits": False, "claims": []}]}, {"case": "b", "answers": [{"error": "no"}]}]
    (tmp_path / "1.36.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    (tmp_path / "oracle.py").write_text(ORACLE)
    oracle = f"{sys.executable} {tmp_path / 'oracle.py'}"
    done = run("record", "again", str(tmp_path / "1.36.jsonl"), "--oracle", "1.37", oracle, "--output", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "b: another answer\n")
    assert read(tmp_path / "1.37.jsonl") == [cases[0], {"case": "b", "answers": [{"fits": False}]}]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"case": "a", "answers": []}, "--oracle RELEASE COMMAND is needed"),
        ({"story": "s", "end": [], "digests": []}, "--server is needed"),
        ({"server": "v1.36.4"}, "--server is needed"),
    ],
)
def test_what_is_needed_is_named(tmp_path: Path, line: dict[str, Any], told: str) -> None:
    """A recording that needs another argument ends with one line that names it, and exit code 2."""
    write(tmp_path / "s.jsonl", [line])
    done = run("record", "again", str(tmp_path / "s.jsonl"))
    assert done.returncode == 2
    assert told in done.stderr.splitlines()[-1]


@pytest.mark.every_recording
def test_stories_are_recorded_again(tmp_path: Path) -> None:
    """The ends of stories are those that the tests replay; here the server runs the controllers itself."""
    gates = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
    recorded = STORIES / "recorded" / "groups-1.37.jsonl"
    with Server(controllers=["resourceclaim", "garbage-collector"], feature_gates=gates) as server:
        sent = [str(recorded), "--server", server.url, "--controllers", "sleep 600", "--output", str(tmp_path)]
        done = run("record", "again", *sent)
    assert done.returncode == 0, done.stderr
    ends = [{line["story"]: line["end"] for line in read(path)} for path in (recorded, tmp_path / "groups-1.37.jsonl")]
    assert ends[0] == ends[1]


def test_ages_of_rows_stay() -> None:
    """A cell with another age is the recorded one, since rows are replayed at the time of their recording."""
    assert [same_age("2y323d", "2y325d"), same_age("5m", "Running"), same_age("a", "b")] == ["2y323d", "Running", "b"]


def test_gates_of_control_steps() -> None:
    """A control step turns the gates that the release has and does not lock; without one it stays, and does nothing."""
    locked = {"control": {"feature-gates": {"DRAAdminAccess": False, "DRADeviceTaints": False}}}
    assert with_gates_of(V1_37, locked) == {"control": {"feature-gates": {"DRADeviceTaints": False}}}
    assert with_gates_of(V1_37, {"pause": 1}) == {"pause": 1}
