"""The pytest fixtures `apiserver` and `apiserver_session`, and what chooses the options of their servers: a marker,
flags and keys of pytest.

pytest imports this module in every project that has understudy installed: it imports nothing of the server until a test
asks for the fixture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from understudy import Server
    from understudy.ui.failing_tests import Pages

MARKER = (
    'apiserver(emulated_version="1.32", feature_gates={"NAME": True}, load=["world.yaml"], ...): '
    "the options of the `apiserver` fixture's server, as understudy.Server takes them; "
    "files are found beside the test's own or in the working directory; load may name a world such as gpu-cluster"
)
RELEASE = (
    "release of the `apiserver` fixture, such as 1.34, where no marker names one (default: the newest); "
    "tests run on each of several, such as 1.32,1.34"
)
GATES = (
    "feature gates of the `apiserver` fixture, A=true,B=false, where no marker has some (default: as in the release)"
)
REPORT = "leave a page of what the servers of a failing test hold in a folder, as Server.report writes it"
WIDER_SCOPE = """
Each test gets an `apiserver` that is as new. A fixture that lasts longer uses `apiserver_session`, one server for all
tests: each test begins with what such fixtures have stored."""

REPORTED = 20  # requests that a failed test shows

T = TypeVar("T")
SERVERS = pytest.StashKey[dict["Server", None]]()  # of a test, in the order in which it got them
PAGES: pytest.StashKey[Pages] = pytest.StashKey()  # of pytest's configuration, with --understudy-report
LAST = pytest.StashKey[bool]()  # of a test that is torn down: with it everything ends


class _PlainImports(MetaPathFinder):
    """Finds the modules of understudy as Python does, before pytest finds them.

    pytest rewrites the assertions in all modules of a package that brings a plugin. To do that with the modules of a
    server takes seconds, whenever there are no files of an earlier run.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of understudy on the path of its package; return None for other modules."""
        return PathFinder.find_spec(fullname, path, target) if fullname.startswith("understudy.") else None


_PLAIN_IMPORTS = _PlainImports()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flags and the keys of pytest's configuration that choose release and gates for a whole suite."""
    group = parser.getgroup("understudy", "Kubernetes API server of the `apiserver` fixture")
    group.addoption("--apiserver-version", metavar="RELEASE", help=RELEASE)
    group.addoption("--apiserver-feature-gates", metavar="A=true,B=false", help=GATES)
    group.addoption("--understudy-report", metavar="DIR", help=REPORT)
    parser.addini("apiserver_version", RELEASE)
    parser.addini("apiserver_feature_gates", GATES, type="linelist")
    if sys.meta_path[0] is not _PLAIN_IMPORTS:  # each run of pytest in a process puts its own finder before all others
        sys.meta_path.insert(0, _PLAIN_IMPORTS)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that pytest does not warn of it, and refuse a release or gates that there are not."""
    config.addinivalue_line("markers", MARKER)
    if options := suite_options(config):
        from understudy.apiserver.server.options.config import ServerConfig

        try:
            for release in releases_of(options):
                ServerConfig(**{**options, "emulated_version": release})
        except ValueError as why:
            raise pytest.UsageError(f"apiserver: {why}") from None
    if folder := config.getoption("understudy_report"):
        from understudy.ui import failing_tests

        config.stash[PAGES] = failing_tests.Pages(config.invocation_params.dir / folder)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which release and gates the flags and keys have chosen."""
    chosen = [f"{name}={value}" for name, value in suite_options(config).items()]
    return f"apiserver: {', '.join(chosen)}" if chosen else None


def suite_options(config: pytest.Config) -> dict[str, Any]:
    """Return the options that flags and keys choose for a whole suite; flags come first."""
    chosen = {
        "emulated_version": config.getoption("apiserver_version") or config.getini("apiserver_version"),
        "feature_gates": config.getoption("apiserver_feature_gates")
        or ",".join(config.getini("apiserver_feature_gates")),
    }
    return {name: value for name, value in chosen.items() if value}


def releases_of(options: Mapping[str, Any]) -> list[Any]:
    """Return the releases that options name, a list or a text with commas; [None] if they name none."""
    named = options.get("emulated_version")
    if isinstance(named, str):
        return [each.strip() for each in named.split(",")]
    return list(named) if isinstance(named, list | tuple) else [named]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on each release that its marker, or else the suite, names."""
    options = marker_options(metafunc.definition) if "apiserver" in metafunc.fixturenames else {}
    fixture = "apiserver"
    if "emulated_version" not in options:
        options, fixture = suite_options(metafunc.config), "apiserver_options"
    releases = releases_of(options)
    if releases != [options.get("emulated_version")] and fixture in metafunc.fixturenames:
        metafunc.parametrize(fixture, releases, indirect=True, ids=str)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, T, T]:
    """Say what a fixture of a wider scope uses instead where it has asked for `apiserver`."""
    try:
        return (yield)
    except pytest.fail.Exception as failure:
        message = str(failure)
        if message.startswith("ScopeMismatch") and "scoped fixture apiserver " in message:
            raise pytest.fail.Exception(message + WIDER_SCOPE, pytrace=False) from None
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, T, T]:
    """Note whether fixtures of the session end with a test."""
    item.stash[LAST] = nextitem is None
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last requests that the servers of a failed test have answered, and name the pages of what they hold."""
    report = yield
    pages = item.config.stash.get(PAGES, None)
    for server in servers_of(item) if report.failed else ():
        if lines := server.request_log.lines(REPORTED):
            report.sections.append((f"Last requests to {server!r}", "\n".join(lines)))
        if pages:
            report.sections.append((f"Page of {server!r}", pages.keep(server, item.nodeid)))
    if pages and report.when == "teardown":
        pages.end_test()
    return report


def servers_of(item: pytest.Item) -> list[Server]:
    """Return the servers that a test has used, with that of the session where fixtures of a wider scope have failed."""
    none: dict[Server, None] = {}
    uses_session = "apiserver_session" in getattr(item, "fixturenames", ())
    of_session = item.session.stash.get(SERVERS, none) if uses_session else none
    return [*(item.stash.get(SERVERS, none) | of_session)]


class Pool:
    """Running servers, one for each set of options. A test gets one that has been reset."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[str, Server] = {}

    def server(self, options: Mapping[str, Any]) -> Server:
        """Return a server with these options, as if just started. Raises ValueError, OSError."""
        key = json.dumps(options, sort_keys=True, default=str)
        if key in self._running:
            self._running[key].reset()
        else:
            self._running[key] = start_server(options, self._stack)
        return self._running[key]


def start_server(options: Mapping[str, Any], stack: ExitStack) -> Server:
    """Start a server for tests, which stops with a stack; return it. Raises ValueError, OSError."""
    from understudy.cli.garbage import without_garbage_collection

    with without_garbage_collection():
        from understudy import Server

        lasting = {"etcd_compaction_interval": "0", **options}  # history ends only where a test says so
        try:
            server = Server(**lasting)
        except TypeError as why:  # an option that there is not
            raise ValueError(str(why)) from None
        return stack.enter_context(server)


@pytest.fixture(scope="session")
def _apiserver_pool() -> Iterator[Pool]:
    with ExitStack() as stack:
        yield Pool(stack)


@pytest.fixture(scope="session")
def apiserver_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options that flags and keys choose for the whole suite, as `understudy.Server` takes them.

    A suite overrides it, with the same scope, to choose others.
    """
    options = suite_options(request.config)
    return {**options, "emulated_version": request.param} if hasattr(request, "param") else options


@pytest.fixture
def apiserver(
    request: pytest.FixtureRequest, apiserver_options: dict[str, Any], _apiserver_pool: Pool
) -> Iterator[Server]:
    """Return a running API server with the objects that it starts with; the marker `apiserver` sets its options."""
    release = {"emulated_version": request.param} if hasattr(request, "param") else {}
    with _refusals_shown():
        server = _apiserver_pool.server({**apiserver_options, **marked(request.node), **release})
    with _used_by(server, request.node):
        yield server
    if request.node.stash.get(LAST, False):
        _draft_page(server, request.node)


@pytest.fixture(scope="session")
def apiserver_session(request: pytest.FixtureRequest, apiserver_options: dict[str, Any]) -> Iterator[Server]:
    """Return a running API server for the whole session.

    Each test finds what fixtures of a wider scope have stored, and nothing of other tests.
    """
    with ExitStack() as stack:
        with _refusals_shown():
            server = start_server(apiserver_options, stack)
        request.session.stash[SERVERS] = {server: None}
        yield server


@pytest.fixture(autouse=True)
def _apiserver_restored(request: pytest.FixtureRequest) -> Iterator[None]:
    """Restore what `apiserver_session` held before a test that uses it."""
    if "apiserver_session" not in request.fixturenames:
        yield
        return
    server: Server = request.getfixturevalue("apiserver_session")
    server.request_log.clear()
    before = server.snapshot()
    with _used_by(server, request.node):
        yield
    _draft_page(server, request.node)
    server.faults.reset()
    server.restore(before)
    server.clock.reset()


@contextmanager
def _refusals_shown() -> Iterator[None]:
    """Fail a test with one line for options that make no sense."""
    try:
        yield
    except (ValueError, OSError) as why:
        raise pytest.fail.Exception(f"apiserver: {' '.join(str(why).split())}", pytrace=False) from None


@contextmanager
def _used_by(server: Server, item: pytest.Item) -> Iterator[None]:
    """Let a server find the manifests beside a test meanwhile, and be shown if it fails."""
    server.manifest_folder = item.path.parent
    item.stash.setdefault(SERVERS, {})[server] = None
    yield
    server.manifest_folder = None


def _draft_page(server: Server, item: pytest.Item) -> None:
    """Write the page of a server that is about to forget what a test has stored, in case that its teardown fails."""
    if pages := item.config.stash.get(PAGES, None):
        pages.draft(server, item.nodeid)


def marker_options(node: pytest.Item) -> dict[str, Any]:
    """Return the options in a test's markers, option by option from the nearest one (function, class, module)."""
    options: dict[str, Any] = {}
    for marker in node.iter_markers("apiserver"):
        options = {**marker.kwargs, **options}
    return options


def marked(item: pytest.Item) -> dict[str, Any]:
    """Return the options in a test's markers, with the paths of files.

    Raises ValueError for a marker with positional arguments, and for a file that is nowhere.
    """
    if any(marker.args for marker in item.iter_markers("apiserver")):
        raise ValueError("the marker takes keyword arguments only, such as emulated_version")
    options = marker_options(item)
    return {name: _located(value, item.path.parent) if _names_files(name) else value for name, value in options.items()}


def _names_files(option: str) -> bool:
    """Report whether the values of an option are paths of files that are read."""
    return option in ("load", "faults") or option.endswith("_file") or option == "authentication_config"


def _located(value: Any, folder: Path) -> Any:
    """Return a path, or a list of paths, of files in the folder of a test or in the working directory."""
    from understudy.apiserver.client.manifests import located

    if isinstance(value, list | tuple):
        return [located(each, folder) for each in value]
    return located(value, folder)
