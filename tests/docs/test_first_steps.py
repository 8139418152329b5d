"""A stranger gets from an empty folder to a green test, or a running server, with nothing but what the pages say.

No test here sees the checkout: understudy is installed in a new environment, by the commands of the tutorial, and the
programs on PATH are those of that environment and of the system. pip needs a package index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs import session
from tests.docs.pages import DOCS, README, ROOT, Block, Role, blocks_of, role_of
from tests.docs.test_examples import FRESH_MACHINE
from tests.waiting import PATIENCE

pytestmark = pytest.mark.maintenance

TUTORIAL = DOCS / "tutorial.md"
CLONED = ("src", "fixtures", "pyproject.toml", "README.md", "LICENSE")
# What a test of ours is told by, and a stranger's would not be.
OURS = ("VIRTUAL_ENV", "PYTHON", "PYTEST", "KUBE", "COVERAGE", "UNDERSTUDY")
# In this order, since what a page installs is there for those behind it: their readers have less.
WAYS_IN = {
    "validate, in a clone": DOCS / "howto" / "ci.md",
    "README, in a clone": README,
    "fixture": DOCS / "howto" / "fixture.md",
    "kubectl": DOCS / "howto" / "kubectl.md",
    "server": DOCS / "howto" / "serve.md",
    "envtest": DOCS / "howto" / "go.md",
    "dev": DOCS / "howto" / "dev.md",
    "aiohttp": DOCS / "howto" / "aiohttp.md",
    "drivers test": DOCS / "howto" / "driver-tests.md",
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what a clone of the repository has for installing, and for the examples that say "in a clone"."""
    clone = tmp_path_factory.mktemp("clone") / "understudy"
    clone.mkdir()
    for name in CLONED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree((ROOT / name).resolve(), clone / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, clone)
    return clone


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of somebody who has Python and kubectl, and has never seen this checkout."""
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
    if kubectl := os.environ.get("KUBECTL"):  # or one on PATH: the tests that need it ask for the fixture
        (programs / "kubectl").symlink_to(kubectl)
    theirs = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    path = [each for each in os.get_exec_path() if not Path(each).resolve().is_relative_to(sys.prefix)]
    return {**theirs, "PATH": os.pathsep.join([str(programs), *path]), "KUBECACHEDIR": str(programs / "cache")}


@pytest.fixture(scope="module")
def machine(clone: Path, stranger: dict[str, str]) -> Iterator[Path]:
    """Follow the tutorial from its first line, in an empty folder; return that folder."""
    with TemporaryDirectory() as folder:
        follow(TUTORIAL, Path(folder), clone, stranger)
        yield Path(folder)


def follow(page: Path, folder: Path, clone: Path, environment: dict[str, str]) -> None:
    """Do what a page says, from its first line to the last."""
    (folder / "path" / "to").mkdir(parents=True, exist_ok=True)
    if not (folder / "path" / "to" / "understudy").exists():
        (folder / "path" / "to" / "understudy").symlink_to(clone)
    session.run([block for block in blocks_of(page) if is_for_readers(block)], folder, environment)


def is_for_readers(block: Block) -> bool:
    """Report whether a reader does what a block says: .ci/run executes the README's commands that install all anew."""
    installs_anew = role_of(block) is Role.INSTALLATION and FRESH_MACHINE.fullmatch(block.code.strip())
    return role_of(block) not in (Role.GO, Role.CONTAINER, Role.EDITOR, Role.OUTPUT) and not installs_anew


def test_tutorial_leads_to_a_green_test(machine: Path) -> None:
    """The tutorial installs understudy and arrives at a test that passes: `machine` has followed it."""
    assert (machine / ".venv" / "bin" / "understudy").exists()


@pytest.mark.parametrize("way", WAYS_IN)
def test_way_in_works_in_an_empty_folder(
    way: str, machine: Path, clone: Path, stranger: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """A page keeps its promise to a reader who has installed understudy as the tutorial says, in an empty folder.

    Pages that say "in a clone" find its `fixtures` there.
    """
    if any("kubectl " in block.code for block in blocks_of(WAYS_IN[way]) if is_for_readers(block)):
        request.getfixturevalue("kubectl")
    environment = with_programs_of(machine, stranger)
    with TemporaryDirectory() as folder:
        (Path(folder) / ".venv").symlink_to(machine / ".venv")
        if way.endswith("in a clone"):
            (Path(folder) / "fixtures").symlink_to(clone / "fixtures")
        follow(WAYS_IN[way], Path(folder), clone, environment)


def with_programs_of(machine: Path, stranger: dict[str, str]) -> dict[str, str]:
    """Return the environment of a reader who has activated the environment of the tutorial."""
    return {**stranger, "PATH": f"{machine / '.venv' / 'bin'}{os.pathsep}{stranger['PATH']}"}


def test_editor_starts_the_language_server(machine: Path, clone: Path, stranger: dict[str, str]) -> None:
    """The language server that the page about editors installs answers an editor that starts it."""
    environment = with_programs_of(machine, stranger)
    with TemporaryDirectory() as folder:
        (Path(folder) / ".venv").symlink_to(machine / ".venv")
        follow(DOCS / "howto" / "editors.md", Path(folder), clone, environment)
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    sent = json.dumps({**request, "params": {"processId": None, "rootUri": None, "capabilities": {}}})
    message = f"Content-Length: {len(sent)}\r\n\r\n{sent}"
    command = [str(machine / ".venv" / "bin" / "understudy"), "lsp"]
    done = subprocess.run(command, input=message, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert '"hoverProvider"' in done.stdout, done.stderr
