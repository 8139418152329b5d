"""The pytest fixture `apiserver`, and the marker that chooses the options of its server.

pytest imports this module in every project that has understudy installed: it imports nothing of the server until a test
asks for the fixture.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from understudy import Server

MARKER = (
    'apiserver(emulated_version="1.32", feature_gates={"NAME": True}, load=["world.yaml"], ...): '
    "the options of the `apiserver` fixture's server, as understudy.Server takes them; "
    "files to load are found beside the test's own file, or name a world such as gpu-cluster"
)
WIDER_SCOPE = """
Each test gets an `apiserver` that is as new. A fixture that lasts longer starts a server of its own:

    @pytest.fixture(scope="module")
    def server():
        with understudy.Server() as server:
            yield server"""

T = TypeVar("T")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that pytest does not warn of it."""
    config.addinivalue_line("markers", MARKER)
    if sys.version_info < (3, 11, 8):
        _parse_in_one_thread_at_a_time()


def _parse_in_one_thread_at_a_time() -> None:
    """Guard `ast.parse` by a lock.

    pytest parses the modules that a server imports late, in the server's thread. Before Python 3.11.8 two threads that
    parse disturb each other: "SystemError: AST constructor recursion depth mismatch" (CPython's issue 106905).
    """
    parse, lock = ast.parse, threading.RLock()

    @wraps(parse)
    def parse_alone(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return parse(*args, **kwargs)

    ast.parse = parse_alone


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


class Pool:
    """Running servers, one for each set of options. A test gets one that has been reset."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[str, Server] = {}

    def server(self, options: Mapping[str, Any]) -> Server:
        """Return a server with these options, as if just started."""
        key = json.dumps(options, sort_keys=True, default=str)
        if key in self._running:
            self._running[key].reset()
        else:
            from understudy import Server

            lasting = {"etcd_compaction_interval": "0", **options}  # history ends only where a test says so
            self._running[key] = self._stack.enter_context(Server(**lasting))
        return self._running[key]


@pytest.fixture(scope="session")
def _apiserver_pool() -> Iterator[Pool]:
    with ExitStack() as stack:
        yield Pool(stack)


@pytest.fixture
def apiserver(request: pytest.FixtureRequest, _apiserver_pool: Pool) -> Server:
    """Return a running API server with the objects that it starts with; the marker `apiserver` sets its options."""
    return _apiserver_pool.server(marked(request.node))


def marked(item: pytest.Item) -> dict[str, Any]:
    """Return the options in a test's markers, option by option from the nearest one (function, class, module)."""
    options: dict[str, Any] = {}
    for marker in item.iter_markers("apiserver"):
        if marker.args:
            raise pytest.UsageError("the marker apiserver takes keyword arguments only, such as emulated_version")
        options = {**marker.kwargs, **options}
    if "load" in options:
        load = options["load"]
        paths = [load] if isinstance(load, str | Path) else load
        options["load"] = [_beside(item, path) if isinstance(path, str | Path) else path for path in paths]
    return options


def _beside(item: pytest.Item, path: str | Path) -> str | Path:
    """Return a path that is relative to the folder of a test's file; the name of a world stays if no file has it."""
    from understudy.apiserver.client.manifests import world_names

    beside = item.path.parent / path
    return path if str(path) in world_names() and not beside.exists() else beside
