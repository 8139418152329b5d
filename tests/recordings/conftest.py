"""Compare the number of agreeing exchanges of each file with agreement.json: it may only rise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .replay import Outcome

AGREEMENT = Path(__file__).with_name("agreement.json")


class Agreement:
    """Hold the content of agreement.json: {recorded file: [steps that agree, steps]}."""

    def __init__(self, is_raised: bool) -> None:
        self.is_raised = is_raised
        self.kept: dict[str, list[int]] = json.loads(AGREEMENT.read_text())
        self.risen: dict[str, list[int]] = {}

    def check(self, name: str, outcome: Outcome) -> None:
        if name not in self.kept and not self.is_raised:
            pytest.fail(f"{name} is not in agreement.json: keep it by --raise-agreement", pytrace=False)
        least = self.kept.get(name, [0, 0])[0]
        print(*outcome.differences, sep="\n")
        if outcome.same < least:
            report = "\n".join(outcome.differences[:20])
            pytest.fail(f"{outcome.same} of {outcome.total} agree; it was {least} before:\n{report}", pytrace=False)
        if [outcome.same, outcome.total] != self.kept.get(name):
            self.risen[name] = [outcome.same, outcome.total]

    def write(self) -> None:
        lines = (f"  {json.dumps(name)}: {counts}" for name, counts in sorted({**self.kept, **self.risen}.items()))
        AGREEMENT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


KEY = pytest.StashKey[Agreement]()


@pytest.fixture(scope="session")
def agreement(pytestconfig: pytest.Config) -> Iterator[Agreement]:
    kept = pytestconfig.stash[KEY] = Agreement(pytestconfig.getoption("raise_agreement"))
    yield kept
    if kept.risen and kept.is_raised:
        kept.write()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    kept = config.stash.get(KEY, None)
    if kept is None:
        return
    now = {**kept.kept, **kept.risen}
    same, total = (sum(counts[i] for counts in now.values()) for i in (0, 1))
    terminalreporter.write_line(f"recordings: {same} of {total} steps agree with kube-apiserver")
    if kept.risen and not kept.is_raised:
        terminalreporter.write_line(
            f"{len(kept.risen)} files do better than agreement.json: keep it by --raise-agreement"
        )
