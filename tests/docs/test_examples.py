"""Every example of the README and of the pages in docs/ is executed: those of docs/ with -m maintenance."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs import session
from tests.docs.pages import DOCS, PAGES, README, ROOT, Block, Role, blocks, blocks_of, files_of, role_of
from tests.waiting import PATIENCE

CLIENTS = DOCS / "howto" / "clients.md"  # needs the extra `clients`: tests/clients/test_recipes.py executes it
OTHERS = [page for page in PAGES if page != CLIENTS]
GO_FILES = sorted((ROOT / "tests" / "go").glob("*.go"))
FRESH_MACHINE = re.compile(
    r"python3 -m venv \.venv && \.venv/bin/pip install \S+(?: \S+)? && "
    r"(?:\.venv/bin/understudy serve --load \S+|\.venv/bin/pytest -n auto)"
)
PIP = re.compile(
    r"(?:python3 -m venv \.venv && )?(?:\.venv/bin/)?pip install (?:-e )?'?(?P<what>[^\s']+)'?(?: [\w-]+)*"
)
PLUGINS = ("pytest-aiohttp", "pytest-asyncio")  # of pytest, for tests that are coroutine functions
PYTEST = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "--strict-markers")


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of tests of a page: every run executes the README's examples alone."""
    return [] if page == README else [pytest.mark.maintenance]


def each(role: Role) -> pytest.MarkDecorator:
    """Parametrise a test by the blocks of a role."""
    cases = [pytest.param(block, id=str(block), marks=marks_of(block.page)) for block in blocks(role, *OTHERS)]
    return pytest.mark.parametrize("block", cases)


def each_page(*chosen: Path) -> pytest.MarkDecorator:
    """Parametrise a test by pages."""
    cases = [pytest.param(page, id=page.stem, marks=marks_of(page)) for page in chosen]
    return pytest.mark.parametrize("page", cases)


def test_every_block_is_checked() -> None:
    """Every code block of every page has a way in which it is checked."""
    assert all(role_of(block) for page in PAGES for block in blocks_of(page))


@pytest.fixture
def run_tests(pytester: pytest.Pytester) -> Callable[[list[Block]], None]:
    """Return a function that runs tests of a page in a project that holds nothing but them and the page's files."""

    def run(tests: list[Block]) -> None:
        for file in files_of(tests[0].page) if tests[0].page in PAGES else []:
            if not file.tests:
                (pytester.path / file.title).write_text(file.code)
        pytester.makepyfile(**{f"test_line_{block.line}": block.code for block in tests})
        outcomes = pytester.runpytest_subprocess(*PYTEST).parseoutcomes()
        assert outcomes.keys() == {"passed"}
        assert outcomes["passed"] >= sum(block.tests for block in tests)

    return run


@each_page(*(page for page in OTHERS if blocks(Role.TEST, page)))
def test_tests_pass(page: Path, run_tests: Callable[[list[Block]], None]) -> None:
    """The tests on a page pass in a project that holds nothing else."""
    run_tests(blocks(Role.TEST, page))


def run_script(block: Block) -> None:
    command = [sys.executable, "-W", "error", "-c", block.code]
    subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE, capture_output=True)


@each(Role.SCRIPT)
def test_scripts_run(block: Block) -> None:
    """A script on a page runs in a checkout without a warning."""
    run_script(block)


def run_sessions(sessions: list[Block], files: list[Block], kubectl: str) -> None:
    with TemporaryDirectory() as folder:  # its path is short: sockets below it have at most 107 characters
        (programs := Path(folder) / "programs").mkdir()
        (work := Path(folder) / "work").mkdir()
        (work / "fixtures").symlink_to(ROOT / "fixtures")
        session.run([*files, *sessions], work, session.environment(programs, kubectl))


@each_page(*(page for page in OTHERS if blocks(Role.SESSION, page)))
def test_sessions_print_the_same(page: Path, request: pytest.FixtureRequest) -> None:
    """The commands of a page print what stands below them."""
    sessions = blocks(Role.SESSION, page)
    needs_kubectl = any("kubectl" in block.code for block in sessions)
    run_sessions(sessions, files_of(page), request.getfixturevalue("kubectl") if needs_kubectl else "")


@pytest.mark.parametrize("page", [page for page in OTHERS if files_of(page)], ids=lambda page: page.stem)
def test_files_are_used(page: Path) -> None:
    """Every file that a page shows is named by another block of that page, which uses it; tests are run."""
    for file in files_of(page):
        others = [block for block in blocks_of(page) if block != file]
        assert any(file.title in block.code for block in others), f"{file}: nothing uses {file.title}"
        if file.tests:
            run = [block for block in others if role_of(block) is Role.SESSION and "pytest" in block.code]
            assert any(file.title in block.code for block in run), f"{file}: no session runs {file.title}"


def check_installation(block: Block) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for command in block.code.splitlines():
        if FRESH_MACHINE.fullmatch(command):
            assert command in README.read_text(), f"{block}: .ci/run does not execute {command}"
            continue
        if command in ("python3 -m venv .venv", ". .venv/bin/activate"):
            continue
        pip = PIP.fullmatch(command)
        assert pip, f"{block}: {command}"
        where, _, extra = pip["what"].rstrip("]").partition("[")
        assert where in (".", "understudy", "path/to/understudy", *PLUGINS), f"{block}: {command}"
        assert extra in ("", *extras), f"{block}: there is no extra {extra}"


@each(Role.INSTALLATION)
def test_installations_are_possible(block: Block) -> None:
    """A command that installs is one of the README's, which .ci/run executes, or names an extra that there is."""
    check_installation(block)


def check_container(block: Block) -> None:
    if block.language == "python":
        compile(block.code, str(block), "exec")
        return
    executed = (ROOT / ".ci" / "image").read_text().replace('"$builder"', "docker")
    for line in block.code.splitlines():
        assert line.removeprefix("$ ").partition(" -")[0] in executed, f"{block}: .ci/image does not execute {line}"


@each(Role.CONTAINER)
def test_containers_are_tried(block: Block) -> None:
    """A command that needs containers is one that .ci/image executes; so is Python, which is correct at least."""
    check_container(block)


def check_go(block: Block) -> None:
    code = re.sub(r"\s+", " ", block.code).strip()
    assert any(code in re.sub(r"\s+", " ", file.read_text()) for file in GO_FILES), f"{block} is no part of tests/go"


@pytest.mark.parametrize("block", blocks(Role.GO), ids=str)
def test_go_is_tested(block: Block) -> None:
    """Code in Go is part of the tests in Go."""
    check_go(block)


def test_fresh_machine_commands_are_in_ci() -> None:
    """The README's two commands for a fresh machine stand on one line each, and .ci/run executes both."""
    commands = [block.code.strip() for block in blocks(Role.INSTALLATION, README)]
    fresh = [command for command in commands if FRESH_MACHINE.fullmatch(command)]
    assert len(fresh) == 2
    for command, program in zip(fresh, ("understudy serve", "pytest"), strict=True):
        assert re.match(rf"python3 -m venv .* && \.venv/bin/{program}\b", command)  # as .ci/run finds it


# --- a broken example fails

BROKEN = Path("broken.md")


def broken(language: str, code: str, title: str = "") -> Block:
    return Block(ROOT / BROKEN, 1, language, title, code)


@pytest.mark.maintenance
def test_broken_test_fails(run_tests: Callable[[list[Block]], None]) -> None:
    """A test on a page that does not pass is a failure."""
    with pytest.raises(AssertionError):
        run_tests([broken("python", "def test_it(apiserver):\n    assert apiserver.list('pods') == 1\n")])


@pytest.mark.maintenance
def test_broken_script_fails() -> None:
    """A script on a page that raises, or warns, is a failure."""
    for code in ("from understudy import Servr\n", "import warnings\nwarnings.warn('old')\n"):
        with pytest.raises(subprocess.CalledProcessError):
            run_script(broken("python", code))


def test_broken_session_fails() -> None:
    """A session whose commands print something else is a failure."""
    sessions = [broken("console", "$ echo one\none\n$ echo two\nthree\n")]
    with pytest.raises(AssertionError, match=r"\$ echo two\ntwo"):
        run_sessions(sessions, [], "")


def test_broken_installation_fails() -> None:
    """An installation of an extra that there is not, or by a command that nothing runs, is a failure."""
    for code in ("pip install '.[kubelets]'\n", "make install\n"):
        with pytest.raises(AssertionError):
            check_installation(broken("sh", code))


def test_broken_container_fails() -> None:
    """A command for containers that nothing executes, and Python that cannot be read, are failures."""
    with pytest.raises(AssertionError):
        check_container(broken("console", "$ docker swarm init\n"))
    with pytest.raises(SyntaxError):
        check_container(broken("python", "import testcontainers as\n"))


def test_broken_go_fails() -> None:
    """Code in Go that no test has is a failure."""
    with pytest.raises(AssertionError):
        check_go(broken("go", "config := &rest.Config{Hosts: url}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "```bash\nls\n```\n",
        "```yaml\na: b\n```\n",
        "```text\n$ ls\n```\n",
        "``` python\nx\n```\n",
        "- a\n  ```python\n  x\n  ```\n",
        "```python\nx\n",
    ],
    ids=["language", "no title", "command", "space", "indented", "no end"],
)
def test_unchecked_block_is_an_error(tmp_path: Path, text: str) -> None:
    """A block that nothing would check is an error, not left out."""
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"nothing checks|want ```|without an end"):
        blocks(Role.FILE, page)
