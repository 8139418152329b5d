"""The command `understudy allocate`."""

from __future__ import annotations

import io
import json
import re

import pytest

from tests.releases import NEWEST
from understudy.cli import main as cli

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
        ('{"case": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "it nests too deep"),
        ("[]", "it is not an object"),
        ('{"case": "1", "claims": []}', "'node' is missing"),
        ('{"case": "1", "node": {}, "claims": {}}', "'claims' has to be a list"),
        ('{"case": "1", "node": {}, "claims": [null]}', "claims[0] is not an object"),
        ('{"case": "1", "node": {}, "claims": [], "features": {"a": 1}}', "'features' has to be an object of booleans"),
        (
            '{"case": "1", "node": {"metadata": {"name": 1}}, "claims": []}',
            "node: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            '{"case": "1", "node": {}, "claims": [], "slices": [{"apiVersion": "v1"}]}',
            'slices[0]: no kind "ResourceSlice" in version "v1"',
        ),
        (
            '{"case": "1", "node": {}, "claims": [], "slices": '
            '[{"spec": {"devices": [{"capacity": {"a": {"value": "x"}}}]}}]}',
            "slices[0]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_line_that_is_no_case(
    line: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is no case fails with its number and exit code 2 at the end; the cases after it are answered."""
    good = {"case": "good", "node": NODE, "claims": [claim(1)], "classes": [CLASS], "slices": [SLICE]}
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\n{line}\n{json.dumps(good)}\n"))
    assert cli.main(["allocate"]) == 2
    shown = capsys.readouterr()
    assert shown.err == f"understudy: line 2 has no answer: {why}\n"
    failed, answered = map(json.loads, shown.out.splitlines())
    assert failed == {"case": "1" if "node" in line or "claims" in line else None, "answer": {"failed": why}}
    assert (answered["case"], list(answered["answer"])) == ("good", ["allocations"])


def test_endless_search(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A search that takes too long fails, and the next case is answered."""
    devices = [{"name": f"gpu-{i}"} for i in range(40)]
    many = {**SLICE, "spec": {**SLICE["spec"], "devices": devices}}  # type: ignore[dict-item]
    requests = [
        {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}}
        for count in (20, 1)
    ]
    requests[1]["exactly"] |= {"selectors": [{"cel": {"expression": "false"}}]}  # type: ignore[operator]
    endless = {**claim(1), "spec": {"devices": {"requests": requests}}}
    case = {"node": NODE, "classes": [CLASS], "slices": [many]}
    cases = [{"case": "1", **case, "claims": [endless]}, {"case": "2", **case, "claims": [claim(1)]}]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(case) + "\n" for case in cases)))
    assert cli.main(["allocate", "--timeout", "1"]) == 2
    first, second = (json.loads(line)["answer"] for line in capsys.readouterr().out.splitlines())
    assert first == {"failed": "the search takes too long"}
    assert list(second) == ["allocations"]


def test_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that are not UTF-8, and names that no encoding has, end nothing."""
    case = {"node": NODE, "claims": [claim(1)], "classes": [CLASS], "slices": [SLICE]}
    lines = [
        b"\xff",
        json.dumps({"case": "\ud800", **case}).encode(),
        b'{"case": "\xff", ' + json.dumps(case)[1:].encode(),
    ]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
    assert cli.main(["allocate"]) == 2
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["case"] for answer in answers] == [None, "\ud800", "\ufffd"]
    assert ["allocations" in answer["answer"] for answer in answers] == [False, True, True]


def test_wrong_node_selector_is_an_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A slice with a node selector that cannot be read is the error of its case only."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
    spec = {**SLICE["spec"], "nodeSelector": {"nodeSelectorTerms": terms}}  # type: ignore[dict-item]
    wrong = {**SLICE, "spec": {field: value for field, value in spec.items() if field != "nodeName"}}
    case = {"node": NODE, "claims": [claim(1)], "classes": [CLASS]}
    cases = [{"case": "1", **case, "slices": [wrong]}, {"case": "2", **case, "slices": [SLICE]}]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(case) + "\n" for case in cases)))
    assert cli.main(["allocate"]) == 0
    first, second = (json.loads(line)["answer"] for line in capsys.readouterr().out.splitlines())
    assert 'operator: Unsupported value: "Near"' in first["error"]
    assert list(second) == ["allocations"]


def test_help_shows_a_case_and_its_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` shows a case, and what the command answers to it."""
    with pytest.raises(SystemExit):
        cli.main(["allocate", "--help"])
    shown = capsys.readouterr().out
    case, answer = (json.JSONDecoder().raw_decode(shown, start.start())[0] for start in re.finditer('{"case"', shown))
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(case)))
    assert cli.main(["allocate"]) == 0
    assert json.loads(capsys.readouterr().out) == answer


@pytest.mark.parametrize("seconds", ["x", "-1", "nan"])
def test_wrong_timeout(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A timeout that is no time ends the command with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["allocate", "--timeout", seconds])
    assert ended.value.code == 2
    assert f"argument --timeout: {seconds!r} is no number of seconds" in capsys.readouterr().err


def test_unknown_release(capsys: pytest.CaptureFixture[str]) -> None:
    """A release that cannot be emulated ends the command with exit code 2."""
    assert cli.main(["allocate", "--emulated-version", "1.2"]) == 2
    assert "1.2" in capsys.readouterr().err
