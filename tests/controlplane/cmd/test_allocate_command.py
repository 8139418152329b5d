"""The command `understudy allocate`."""

from __future__ import annotations

import io
import json
import re

import pytest

from tests.releases import NEWEST
from understudy.controlplane.cmd import cli

CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "slice"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "node",
        "devices": [{"name": "gpu-0"}],
    },
}


def claim(count: int, class_name: str = "gpu") -> dict[str, object]:
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    metadata = {"name": "claim", "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *claims: object) -> list[object]:
    cases = [
        {"case": str(i), "node": NODE, "claims": [claim], "classes": [CLASS], "slices": [SLICE]}
        for i, claim in enumerate(claims)
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(case) + "\n" for case in cases)))
    assert cli.main(["allocate", "--emulated-version", str(NEWEST)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_case_has_an_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer is the allocations, that the claims do not fit, or an error."""
    found, too_many, wrong = ask(monkeypatch, capsys, claim(1), claim(2), claim(1, "missing"))
    result = {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
    selector = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}]
    }
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    assert found == {"case": "0", "answer": {"allocations": [allocation]}}
    assert too_many == {"case": "1", "answer": {"fits": False}}
    missing = 'could not retrieve device class missing: deviceclass.resource.k8s.io "missing" not found'
    assert wrong == {"case": "2", "answer": {"error": f"claim default/claim, request r: {missing}"}}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no JSON", "Expecting value: line 1 column 1 (char 0)"),
        ("[]", "'list' object has no attribute 'get'"),
        ('{"case": "without a node", "claims": []}', "'node' is missing"),
    ],
)
def test_line_that_is_no_case(
    line: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is no case ends the command with exit code 2 and the number of the line."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\n{line}\n"))
    assert cli.main(["allocate"]) == 2
    assert capsys.readouterr().err == f"understudy: line 2 is no case: {why}\n"


def test_help_shows_a_case_and_its_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` shows a case, and what the command answers to it."""
    with pytest.raises(SystemExit):
        cli.main(["allocate", "--help"])
    shown = capsys.readouterr().out
    case, answer = (json.JSONDecoder().raw_decode(shown, start.start())[0] for start in re.finditer('{"case"', shown))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(case)))
    assert cli.main(["allocate"]) == 0
    assert json.loads(capsys.readouterr().out) == answer


def test_unknown_release(capsys: pytest.CaptureFixture[str]) -> None:
    """A release that cannot be emulated ends the command with exit code 2."""
    assert cli.main(["allocate", "--emulated-version", "1.2"]) == 2
    assert "1.2" in capsys.readouterr().err
