"""Compare what a replay has found with the differences that are known, and count the steps that agree."""

from __future__ import annotations

import pytest

from .known import KNOWN
from .replay import Outcome

TOLD = 20  # new differences of one file that a failure tells


class Agreement:
    """Check each file that was replayed; count its steps in `same` and `total`."""

    def __init__(self) -> None:
        self.same = self.total = 0

    def check(self, name: str, outcome: Outcome) -> None:
        """Fail if a step differs that KNOWN does not list, or agrees although it does."""
        self.same += outcome.same
        self.total += outcome.total
        if problems := surprises(outcome, KNOWN.get(name, {})):
            pytest.fail(f"{name}:\n" + "\n".join(problems), pytrace=False)


def surprises(outcome: Outcome, known: dict[int, str]) -> list[str]:
    """Return the surprises of a replay: new differences, and lines that agree although they are listed."""
    new = {line: text for line, text in outcome.differences.items() if line not in known}
    listed = ", ".join(f"{line} ({reason})" for line, reason in known.items())
    problems = [f"line {line} is new: {text}" for line, text in list(new.items())[:TOLD]]
    if len(new) > TOLD:
        problems.append(f"… and {len(new) - TOLD} more: {sorted(new)}")
    if new and known:
        problems.append(f"known before: {listed}")
    agreeing = [line for line in known if line not in outcome.differences]
    return problems + [f"line {line} agrees now: take it off tests/recordings/known.py" for line in agreeing]


KEY = pytest.StashKey[Agreement]()


@pytest.fixture(scope="session")
def agreement(pytestconfig: pytest.Config) -> Agreement:
    kept = pytestconfig.stash[KEY] = Agreement()
    return kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if kept := config.stash.get(KEY, None):
        terminalreporter.write_line(f"recordings: {kept.same} of {kept.total} steps agree with kube-apiserver")
