"""The path of a server's kubeconfig, as clients and tests use it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy import Server
from understudy.apiserver.client.kubeconfig import KubeconfigPath


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(params=["server", "user"])
def path(server: Server, request: pytest.FixtureRequest) -> KubeconfigPath:
    """Return the kubeconfig of a server, or that of one of its users."""
    return server.kubeconfig if request.param == "server" else server.user("driver").kubeconfig


def test_path_is_text(path: KubeconfigPath) -> None:
    """A kubeconfig is a `str`: it can be split, joined, put into the environment and into JSON."""
    assert isinstance(path, str)
    assert path.split(os.pathsep) == [path]
    assert json.loads(json.dumps({"path": path})) == {"path": str(path)}
    code = "import os; print(open(os.environ['KUBECONFIG']).read())"
    done = subprocess.run([sys.executable, "-c", code], env={"KUBECONFIG": path}, capture_output=True, check=True)
    assert json.loads(done.stdout)["kind"] == "Config"


def test_path_has_the_methods_of_a_path(path: KubeconfigPath) -> None:
    """A kubeconfig has the methods of `pathlib.Path`, and is one to functions that take any path."""
    assert json.loads(path.read_text())["kind"] == "Config"
    assert (path.exists(), path.suffix) == (True, ".kubeconfig")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert isinstance(path, os.PathLike)
    assert Path(path) == path.absolute()


def test_path_has_no_other_attributes(path: KubeconfigPath) -> None:
    """A mistyped method is an AttributeError."""
    with pytest.raises(AttributeError, match="read_txt"):
        path.read_txt()
