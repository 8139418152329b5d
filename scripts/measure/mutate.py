"""Break the conditions of a source folder one at a time, and print those whose break no test notices.

    python -m scripts.measure mutate kinds/resource                    every condition, the mirrored tests
    python -m scripts.measure mutate kinds/resource --count 100 --seed 1    a sample
    python -m scripts.measure mutate kinds/resource --tests tests/kinds tests/recordings -k resource

A condition becomes true or false, is negated, its bound moves by one, `and` becomes `or`. The tests run once without a
mutant, to learn which lines each of them reaches; then for each mutant those that reach it, until one fails. A mutant
whose tests hang is noticed. No file is written: tests and sources are imported once, and each mutant is a fork of that
process with other code in it. What a test starts as a process of its own is not broken there. Needs fork.

The exit status is 1 if a smaller share is noticed than --at-least says, and 2 for wrong arguments and for tests that
fail without a mutant.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import random
import resource
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis
import pytest

from scripts.common.commands import UsageError
from scripts.measure.mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "understudy"
FIRST_RUN = 3600.0  # seconds
SLOWNESS = 5.0  # a mutant's tests may take so many times as long as without it, and --patience
QUIET = ("-q", "--no-header", "--no-summary", "--assert=plain")  # arguments of pytest
MEMORY = 8 << 30  # bytes of address space that a mutant may have: one that never ends may collect things

Line = tuple[str, int]


class Verdict(Enum):
    """The outcome of a mutant: what its line ends in."""

    NOTICED = None
    UNNOTICED = ""
    UNREACHED = "  (no test comes here)"
    LOST = "  (its function cannot be exchanged)"


class TestsFailError(Exception):
    """Tests that fail without a mutant."""


@dataclass
class Reached:
    """The lines of the folder that a test reached in the run without a mutant, and the seconds it took."""

    lines: set[Line] = field(default_factory=set)
    seconds: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="folder or file below src/understudy, such as kinds/resource")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="tests to run (default: the mirrored folder)")
    parser.add_argument("-k", dest="keyword", default="", metavar="EXPRESSION", help="choose tests, as pytest does")
    parser.add_argument("--count", type=int, metavar="N", help="try a sample of N mutants (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="choose the sample (default: 1)")
    parser.add_argument("--at-least", type=float, default=0.0, metavar="PERCENT", help="share that must be noticed")
    parser.add_argument("--patience", type=float, default=20.0, metavar="SECONDS", help="wait so long for a mutant")


def run(options: argparse.Namespace) -> int:
    source = next((path for path in (SOURCES / options.folder, Path(options.folder)) if path.exists()), None)
    if source is None:
        raise UsageError(f"there is no folder {SOURCES / options.folder}")
    tests = [Path(path).resolve() for path in options.tests or [mirrored(source.resolve())]]
    if missing := [path for path in tests if not Path(str(path).partition("::")[0]).exists()]:
        raise UsageError(f"there is no {missing[0]}")
    chosen = sample(all_mutants(source.resolve()), options.count, options.seed)
    try:
        unnoticed = Loop(chosen, options.patience, partial(print, flush=True)).run(tests, options.keyword)
    except TestsFailError as why:
        print(f"mutate: {why}", file=sys.stderr)
        return 2
    share = 100 * (1 - len(unnoticed) / len(chosen)) if chosen else 100.0
    print(f"{options.folder}: {len(chosen) - len(unnoticed)} of {len(chosen)} mutants are noticed, {share:.1f} %")
    return 1 if share < options.at_least else 0


def mirrored(source: Path) -> Path:
    """Return the folder of tests, or the file, that mirrors a source; the nearest one above it that there is."""
    path = ROOT / "tests" / source.relative_to(SOURCES)
    for candidate in (path.with_name(f"test_{path.name}"), path, *path.parents):
        if candidate.exists():
            return candidate
    raise AssertionError("the root exists")


def all_mutants(source: Path) -> list[Mutant]:
    """List the mutants of a file, or of the files of a folder."""
    files = [source] if source.is_file() else sorted(source.rglob("*.py"))
    return [mutant for file in files for mutant in mutants(file)]


def sample(listed: list[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """Choose some mutants at random, the same for the same seed, and keep their order."""
    if count is None or count >= len(listed):
        return listed
    return [listed[i] for i in sorted(random.Random(seed).sample(range(len(listed)), count))]


class Loop:
    """A plugin of pytest that runs the collected tests for each mutant, instead of once."""

    def __init__(self, chosen: Sequence[Mutant], patience: float, write: Callable[[str], Any]) -> None:
        self.chosen, self.patience, self.write = chosen, patience, write
        self.unnoticed: list[Mutant] | None = None
        self.why = ""

    def run(self, tests: Sequence[Path], keyword: str) -> list[Mutant]:
        """Run pytest; write a line for each mutant that its tests do not notice, and list these."""
        with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
            # CI: examples of Hypothesis are the same each time, and none is kept.
            os.environ.update(CI="1", TMPDIR=folder, PYTHONDONTWRITEBYTECODE="1")
            tempfile.tempdir = None
            files = [
                f"--config-file={ROOT / 'pyproject.toml'}",
                f"--basetemp={folder}/pytest",
                "-p",
                "no:cacheprovider",
            ]
            selected = ["-k", keyword] if keyword else []
            status = pytest.main([*QUIET, *files, *selected, *map(str, tests)], plugins=[self])
        if self.unnoticed is None:
            raise TestsFailError(self.why or f"pytest ends with status {status}")
        return self.unnoticed

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let Hypothesis stop at a failure, which it would shrink otherwise."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests without a mutant, then with each."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        files = {mutant.path for mutant in self.chosen}
        import_all(files)
        reached = in_fork(lambda: run_and_trace(session.items, set(map(str, files))), FIRST_RUN)
        if isinstance(reached, dict):
            self.unnoticed = list(self._try_each(session, reached))
        else:
            self.why = f"without a mutant {reached or 'the process of the tests'} fails"
        return True

    def _try_each(self, session: pytest.Session, reached: dict[str, Reached]) -> Iterator[Mutant]:
        """Yield the mutants that are not noticed."""
        for mutant in self.chosen:
            items = selection(mutant, session.items, reached)
            seconds = self.patience + SLOWNESS * sum(reached[item.nodeid].seconds for item in items)
            if (given := verdict(mutant, items, seconds)) is not Verdict.NOTICED:
                path = mutant.path.relative_to(SOURCES) if mutant.path.is_relative_to(SOURCES) else mutant.path
                self.write(f"{path}:{mutant.lines.start}  {mutant.before}  →  {mutant.after}{given.value}")
                yield mutant


def import_all(files: Iterable[Path]) -> None:
    """Import modules of this package that no test has imported yet, so that their functions can be exchanged."""
    for path in files:
        if path.is_relative_to(SOURCES):
            parts = path.relative_to(SOURCES.parent).with_suffix("").parts
            importlib.import_module(".".join(parts).removesuffix(".__init__"))


def selection(mutant: Mutant, items: Sequence[pytest.Item], reached: dict[str, Reached]) -> list[pytest.Item]:
    """List the tests that reach a condition: those of quick modules first, tests of one module side by side."""
    lines = {(str(mutant.path), line) for line in mutant.lines}
    reaching = [item for item in items if not lines.isdisjoint(reached[item.nodeid].lines)]
    seconds: dict[Path, float] = {}
    for item in reaching:
        seconds[item.path] = seconds.get(item.path, 0.0) + reached[item.nodeid].seconds
    return sorted(reaching, key=lambda item: seconds[item.path])


def verdict(mutant: Mutant, items: Sequence[pytest.Item], seconds: float) -> Verdict:
    """Run tests with a mutant in a fork, for some seconds at most."""

    def run() -> Verdict:
        if not mutant.apply():
            return Verdict.LOST
        return Verdict.NOTICED if first_failure(items) else Verdict.UNNOTICED

    if not items:
        return Verdict.UNREACHED
    answer = in_fork(run, seconds)
    return answer if isinstance(answer, Verdict) else Verdict.NOTICED


# --- in a fork


def run_and_trace(items: Sequence[pytest.Item], files: set[str]) -> dict[str, Reached] | str:
    """Run tests, and return what each of them reached in some files, or the name of one that fails."""
    reached = {item.nodeid: Reached() for item in items}
    current = [Reached()]

    def trace_lines(frame: FrameType, event: str, arg: Any) -> Any:
        current[0].lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace_lines

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        return trace_lines(frame, event, arg) if frame.f_code.co_filename in files else None

    def begin(item: pytest.Item) -> None:
        current[0].seconds += time.monotonic()
        current[0] = reached[item.nodeid]
        current[0].seconds -= time.monotonic()

    threading.settrace(trace)
    sys.settrace(trace)
    failed = first_failure(items, begin)
    current[0].seconds += time.monotonic()
    sys.settrace(None)
    return failed or reached


def first_failure(items: Sequence[pytest.Item], begin: Callable[[pytest.Item], Any] = lambda item: None) -> str | None:
    """Run tests until one fails; return its name, None if all pass."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        begin(item)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return item.nodeid
    return None


def in_fork(work: Callable[[], Any], seconds: float) -> Any:
    """Call a function in a fork of this process. Returns its result, None if it raises, dies or takes too long.

    The fork and all processes that it started are ended.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(reading)
        silence()
        with open(writing, "wb") as file:
            try:
                pickle.dump(work(), file)
                file.flush()
            finally:
                os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        answered, _, _ = select.select([file], [], [], seconds)
        try:
            return pickle.load(file) if answered else None
        except EOFError:
            return None
        finally:
            end_group(pid)


def silence() -> None:
    """Send the output of this process nowhere, and bound its memory."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def end_group(pid: int) -> None:
    """End a process that leads a group, and its group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # before it has a group
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
