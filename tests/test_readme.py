"""The examples of the README and of the pages in docs/ are executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.releases import RELEASES, served
from tests.waiting import PATIENCE
from understudy.apiserver.serving.release import Release
from understudy.apiserver.serving.runtime_config import SUFFICIENT_GATES
from understudy.machinery.releases.version import Version

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "understudy"
PAGES = sorted((ROOT / "docs").glob("*.md"))


def code_blocks(page: Path) -> list[tuple[str, str]]:
    """Return the code blocks of a page, each with its language."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


BLOCKS = code_blocks(ROOT / "README.md")


def blocks(language: str, *, tests: bool = False) -> pytest.MarkDecorator:
    """Parametrise a test by the code blocks of a language: test files with `tests`, else the others."""
    pages = (page for page in PAGES if page.name != "clients.md")  # tests/clients/test_recipes.py has these
    every = [*BLOCKS, *(block for page in pages for block in code_blocks(page))]
    codes = [code for name, code in every if name == language and tests == ("def test_" in code)]
    assert codes
    start = r"(async )?def test_" if tests else r"\S*(async )?def|from|\$|python3"
    first = [next(line for line in code.splitlines() if re.match(start, line)) for code in codes]
    return pytest.mark.parametrize(
        "code", [pytest.param(code, id=line[:60]) for code, line in zip(codes, first, strict=True)]
    )


@blocks("python", tests=True)
def test_readme_tests_pass(pytester: pytest.Pytester, code: str) -> None:
    """A test in the README passes in a project that holds nothing else."""
    shutil.copy(ROOT / "fixtures" / "gpu-cluster-v1alpha3.yaml", pytester.path / "world.yaml")
    pytester.makepyfile(code)
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "--strict-markers")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)


@blocks("python")
def test_readme_scripts_run(code: str) -> None:
    """A script in the README runs in a checkout without a warning."""
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True, timeout=PATIENCE)


@pytest.fixture
def port() -> str:
    return str(free_port())


@pytest.fixture
def programs(kubectl: str, tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `understudy` and `kubectl` are the programs under test."""
    (tmp_path / "kubectl").symlink_to(kubectl)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "HOME": str(tmp_path)}


@blocks("console")
def test_readme_sessions_print_the_same(code: str, port: str, programs: dict[str, str]) -> None:
    """The commands of a session print what stands below them, except ages; a server gets a port of its own."""
    started = []
    try:
        for command, expected in steps(code.replace("8001", port)):
            if command.endswith("&"):
                argv = [*shlex.split(command.removesuffix("&")), "--port", port]
                server = subprocess.Popen(argv, cwd=ROOT, env=programs, stdout=subprocess.PIPE, text=True)
                started.append(server)
                guard = threading.Timer(PATIENCE, server.kill)
                guard.start()
                assert server.stdout is not None
                printed = server.stdout.readline()
                guard.cancel()
            else:
                done = subprocess.run(command, shell=True, cwd=ROOT, env=programs, capture_output=True, text=True)
                printed = done.stdout + done.stderr
            assert ageless(printed) == ageless(expected), command
    finally:
        for server in started:
            server.terminate()
            server.communicate(timeout=PATIENCE)


def steps(session: str) -> Iterator[tuple[str, str]]:
    """Return (command, output) of a session whose prompt is "$ "."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def ageless(text: str) -> str:
    return re.sub(r" +\d+m?s$", " <age>", text, flags=re.MULTILINE)


def test_fresh_machine_commands_are_in_ci() -> None:
    """The README's two commands for a fresh machine stand on one line each, and .ci/run executes both."""
    commands = [code.strip() for name, code in BLOCKS if name == "sh"]
    ends = (r"\.venv/bin/understudy serve --load fixtures/\S+", r"\.venv/bin/pytest -n auto")
    assert len(commands) == 2
    for command, end in zip(commands, ends, strict=True):
        assert re.fullmatch(r"python3 -m venv \.venv && \.venv/bin/pip install [^\n]+ && " + end, command)


@pytest.mark.parametrize(("section", "command"), [("As a server", "serve"), ("Without a server", "validate")])
def test_readme_flags_exist(section: str, command: str) -> None:
    """Every flag that the README names in the table of a command exists."""
    argv = [sys.executable, "-c", f"from understudy.cli.main import main; main(['{command}', '--help'])"]
    known = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    _, _, text = (ROOT / "README.md").read_text().partition(f"\n### {section}\n")
    rows = re.findall(r"^\| (`-.*?`) \|", text.partition("\n### ")[0], re.MULTILINE)
    named = [flag for row in rows for flag in re.findall(r"`(-[-\w]+)", row)]
    assert named
    assert [flag for flag in named if not re.search(rf"{flag}\b", known)] == []


def test_pages_are_linked() -> None:
    """The README leads to every page in docs/."""
    assert PAGES
    assert [page.name for page in PAGES if f"](docs/{page.name})" not in (ROOT / "README.md").read_text()] == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_named_files_exist(document: str) -> None:
    """Every file of this repository that a document names is there; words in capitals stand for any name."""
    text = (ROOT / document).read_text()
    named = re.findall(
        r"(?<![\w./-])(?:scripts|fixtures|tests|docs|\.ci|machinery|admission|apiserver|schemas)/[\w./-]*\w", text
    )
    assert named
    files = [name for name in named if not re.search(r"[A-Z]{3}", name)]
    assert [name for name in files if not (ROOT / name).exists() and not (PACKAGE / name).exists()] == []


def table(head: Sequence[str], *body: Sequence[str]) -> str:
    """Return a table in Markdown."""
    lines = ["".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in (head, *body)]
    return "".join([lines[0], "|" + "---|" * len(head) + "\n", *lines[1:]])


def versions(release: Version, group: str, name: str) -> str:
    """Return the versions of a kind in a release, preferred first, in italics those that are off by default."""
    kind = Release.of(release).kind(group, name)
    on = served(release).kind(group, name)
    of_kind = kind.versions if kind else ()
    return ", ".join(version if on and version in on.versions else f"*{version}*" for version in of_kind)


def kinds_table() -> str:
    """Return the table of the kinds that are not the same in every release, those with the same versions in one row."""
    every = {(kind.group, kind.name): kind.resource for release in RELEASES for kind in Release.of(release).kinds}
    rows: dict[tuple[str, ...], list[str]] = {}
    for group, name in sorted(every, key=lambda key: (key[0] != "resource.k8s.io", key)):
        cells = [versions(release, group, name) for release in RELEASES]
        if len(set(cells)) > 1 or group == "resource.k8s.io":
            gate = SUFFICIENT_GATES.get((group, every[group, name]), "")
            rows.setdefault((f" of `{group}`", *cells, gate), []).append(name)
    body = [(", ".join(names) + group, *cells) for (group, *cells), names in rows.items()]
    return table(("kind", *map(str, RELEASES), "feature gate"), *body)


STAGES = {"ALPHA": "alpha", "BETA": "beta", "": "GA"}


def gates_table(guards: dict[str, str]) -> str:
    """Return the table of the feature gates of DRA; `guards` is the text of their last cells."""
    histories = json.loads((PACKAGE / "schemas/feature_gates.json").read_text())
    named = sorted(gate for gate in histories if gate.startswith("DRA"))
    rows = []
    for gate in ("DynamicResourceAllocation", *named, "GenericWorkload"):
        specs = [latest(histories[gate], release) for release in RELEASES]
        cells = [f"{STAGES[stage]} {state(gate, on, locked)}" if stage != "-" else "" for stage, on, locked in specs]
        rows.append((gate, *cells, guards.get(gate, "?")))
    return table(("feature gate", *map(str, RELEASES), "guards"), *rows)


def latest(history: list[list[Any]], release: Version) -> tuple[str, bool, bool]:
    """Return the stage of a gate in a release, its default, and whether it is locked; the stage is "-" without one."""
    since = [entry[1:] for entry in history if Version.parse(entry[0]) <= release]
    stage, on, locked = since[-1] if since else ("-", False, False)
    return ("-" if stage == "REMOVED" else stage), on, locked


def state(gate: str, on: bool, locked: bool) -> str:
    return "locked" if locked else "on" if on or gate == "DynamicResourceAllocation" else "off"


def test_tables_of_releases_are_true(pytestconfig: pytest.Config) -> None:
    """The README shows the kinds and gates of each release; `pytest tests/test_readme.py --redraw` mends it."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    guards = {row[0]: row[-1] for row in rows}
    redrawn = text
    for head, new in (("kind", kinds_table()), ("feature gate", gates_table(guards))):
        old = rf"(?m)^\| {head} \| 1\.31 (?:.*\n)(?:\|.*\n)+"
        redrawn, count = re.subn(old, new.replace("\\", r"\\"), redrawn)
        assert count == 1
    if pytestconfig.getoption("redraw"):
        readme.write_text(redrawn)
    assert readme.read_text() == redrawn
