"""Options and fixtures of all tests."""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from gc import freeze
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

from tests.frozen import freeze_stored_values

pytest_plugins = ["pytester", "tests.no_skips"]

# How fast a machine is, and what chance has made up, are no failures; in CI the examples are the same each time.
settings.register_profile(
    "understudy",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("understudy")

# The processes that tests start share compiled modules, where the environment forbids to write any beside the sources:
# each would compile a thousand of them, for two seconds.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    bytecode = tempfile.mkdtemp(prefix="understudy-bytecode-")
    atexit.register(shutil.rmtree, bytecode, ignore_errors=True)
    os.environ["PYTHONPYCACHEPREFIX"] = bytecode


@pytest.fixture(autouse=True, scope="session")
def frozen_values() -> Iterator[None]:
    """Every test runs with stored values that raise TypeError where they are edited in place."""
    with pytest.MonkeyPatch.context() as patch:
        freeze_stored_values(patch)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Run more tests at once than there are processors (`-n auto`): they wait for others for a third of their time."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) * 3 // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give each process neighbours, which share servers, instead of the next test of all (`--dist load`)."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_finish() -> None:
    """Leave the thousands of tests and their parameters out of Python's searches for cycles."""
    # At its first test Hypothesis asks Python who refers to its random generator, and is not told of what is left out.
    given(none())(lambda _: None)()
    gc.collect()
    freeze()


@pytest.fixture(autouse=True, scope="session")
def ordinary_garbage_collection() -> Iterator[None]:
    """Leave nothing else out of them: a command that runs in this process would leave out what it knows at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "freeze", lambda: None)
        yield


@pytest.fixture(scope="module")
def little_garbage() -> None:
    """Leave what earlier tests have kept out of searches for cycles and out of `gc.get_objects`, which a test uses."""
    gc.collect()
    freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--client-release", metavar="RELEASE", help="run the tests of clients on this release")
    parser.addoption("--redraw", action="store_true", help="draw the layers in CONTRIBUTING.md anew")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Return a kubectl of 1.32 or later: $KUBECTL, or the one on PATH. Skip the test without one; fail it in CI."""
    path = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if path and minor(path) >= 32:
        return path
    reason = "needs kubectl 1.32 or later, on PATH or named by KUBECTL: scripts/build_kubectl.sh builds one"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def minor(kubectl: str) -> int:
    done = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, check=True)
    return int(json.loads(done.stdout)["clientVersion"]["minor"].rstrip("+"))
