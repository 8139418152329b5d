"""The command that installs what kubelets need, for each way in which understudy itself may have been installed."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.machinery.serializer.rpc import installation


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a clone of the repository, beside the working directory, with an environment whose pip comes first."""
    folder, bin_ = tmp_path / "clone", tmp_path / "clone" / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    for name in ("python", "pip"):
        (bin_ / name).touch(mode=0o755)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    monkeypatch.setenv("PATH", str(bin_))
    return folder


def installed_from(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None) -> None:
    """Let the distribution say where it comes from, as `direct_url.json` does; None for a package index."""

    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(installation, "distribution", lambda _: Distribution())


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'understudy[kubelet]'"),
        ({"url": "file://CLONE", "dir_info": {}}, "pip install 'CLONE[kubelet]'"),
        ({"url": "file://CLONE", "dir_info": {"editable": True}}, "pip install -e 'CLONE[kubelet]'"),
        ({"url": "file:///no/such/clone", "dir_info": {}}, "pip install grpcio"),
        (
            {"url": "file:///dist/understudy-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'understudy[kubelet] @ file:///dist/understudy-0.1.0-py3-none-any.whl'",
        ),
        (
            {"url": "https://git.example/understudy", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'understudy[kubelet] @ git+https://git.example/understudy@abc'",
        ),
    ],
)
def test_command_fits_the_origin(
    clone: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, command: str
) -> None:
    """A package from a clone, an archive or a repository is installed from there again, with the extra."""
    filled = origin and {**origin, "url": origin["url"].replace("CLONE", str(clone))}
    installed_from(monkeypatch, filled)
    assert installation.install_command() == command.replace("CLONE", str(clone))


def test_command_in_the_clone(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the clone the command names it by a dot, and pip by its path if no environment is active."""
    installed_from(monkeypatch, {"url": f"file://{clone}", "dir_info": {}})
    monkeypatch.chdir(clone)
    assert installation.install_command() == "pip install '.[kubelet]'"
    monkeypatch.setenv("PATH", "/nowhere")
    assert installation.install_command() == ".venv/bin/pip install '.[kubelet]'"


def test_package_that_is_not_installed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is only on the path, not installed, has no extra: the command installs grpcio."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", missing)
    assert installation.install_command() == "pip install grpcio"
