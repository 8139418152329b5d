"""The script that compares the allocator with upstream's, and the one that measures it."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from scripts.common import commands
from scripts.compare.cases import allocations
from scripts.measure.allocator import cases as measured_cases
from understudy.cli.commands.allocate_command import CaseError, answer_of
from understudy.controlplane.allocator.errors import AllocationTimeoutError
from understudy.machinery.releases.version import V1_32, V1_36, Version

CASES = Path(__file__).parents[1] / "controlplane" / "allocator" / "cases"

# An oracle that has the answers of a file; to a changed case it answers something else.
ORACLE = """
import json, sys
known = {c["case"]: c["answers"] for c in map(json.loads, open(sys.argv[1]))}
for line in sys.stdin:
    name = json.loads(line)["case"]
    print(json.dumps({"case": name, "answers": known[name]} if len(sys.argv) < 3 else {"case": name, "slow": True}))
    if len(sys.argv) > 2:
        sys.exit(3)
"""


def compare(tmp_path: Path, cases: Path, *more: str) -> int:
    oracle = tmp_path / "oracle.py"
    oracle.write_text(ORACLE)
    recorded = CASES / "1.36.jsonl"
    command = f"{sys.executable} {oracle} {recorded} {' '.join(more)}"
    arguments = ["--emulated-version", "1.36", "--oracle", command, str(cases)]
    return commands.main("scripts.compare", ["allocator"], ["allocator", *arguments])


def test_same_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cases whose answers are those of the oracle are counted, with exit code 0."""
    count = len((CASES / "1.36.jsonl").read_text().splitlines())
    assert compare(tmp_path, CASES / "1.36.jsonl") == 0
    assert f"'same': {count}" in capsys.readouterr().err


def test_different_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A case with another answer is printed, with exit code 1."""
    case = next(
        case
        for case in map(json.loads, (CASES / "1.36.jsonl").read_text().splitlines())
        if "allocations" in case["answers"][0]
    )
    changed = tmp_path / "cases.jsonl"
    changed.write_text(json.dumps({**case, "slices": []}) + "\n")
    assert compare(tmp_path, changed) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["ours"] == {"fits": False}
    assert "'different': 1" in err


def test_slow_cases_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An oracle that ends after a slow case is started again for those that follow."""
    three = tmp_path / "cases.jsonl"
    three.write_text("".join((CASES / "1.36.jsonl").read_text().splitlines(keepends=True)[:3]))
    assert compare(tmp_path, three, "slow") == 0
    assert "'slow': 3" in capsys.readouterr().err


@pytest.mark.parametrize("release", [V1_32, V1_36])
def test_changed_cases_have_answers(release: Version) -> None:
    """Cases are changed in their own version of the API, and differ from what they were."""
    lines = (CASES / f"{release}.jsonl").read_text().splitlines()
    rng = random.Random(1)
    changed = [allocations.mutated(case, rng) for case in map(json.loads, lines)]
    assert sum(case != json.loads(line) for case, line in zip(changed, lines, strict=True)) > len(lines) / 3
    assert all(answer_of(case, release) for case in changed)


def test_cases_of_the_benchmark() -> None:
    """The cases that are measured fit, but for those that are tried in vain."""
    gates = {"DRAConsumableCapacity": True}  # the allocator of 1.36 that tries no set of devices twice
    for case in measured_cases():
        if "10,000" not in case["case"]:
            answer = answer_of({**case, "features": gates}, V1_36)
            assert ("allocations" in answer) is ("in vain" not in case["case"])


@pytest.mark.parametrize("path", sorted(CASES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_broken_cases_have_answers(path: Path) -> None:
    """Whatever is broken in a case, it has an answer, or is no case."""
    rng = random.Random(1)
    release = Version.parse(path.stem)
    answers: Counter[str] = Counter()
    for case in map(json.loads, path.read_text().splitlines()):
        try:
            answers.update([next(iter(answer_of(allocations.broken(case, rng), release, timeout=1.0)))])
        except CaseError:
            answers["none"] += 1
        except AllocationTimeoutError:
            answers["late"] += 1
    assert {"allocations", "error", "fits", "none"} <= answers.keys()
