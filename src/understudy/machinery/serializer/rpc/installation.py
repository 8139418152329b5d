"""Tells whether grpcio is installed, which kubelets and etcd need, and how to install what an extra brings.

An understudy that comes from a package index is installed by its name; one that comes from a clone, an archive or a
repository by where that is, as its `direct_url.json` (PEP 610) says.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

LIBRARY = "grpcio"


def has_grpc() -> bool:
    """Report whether the library is installed."""
    return find_spec("grpc") is not None


def install_command(extra: str = "kubelet", library: str = LIBRARY) -> str:
    """Return the command that installs a library, by an extra that needs it, as it is typed in the working
    directory."""
    try:
        origin = distribution("understudy").read_text("direct_url.json")
    except PackageNotFoundError:  # the package is on the path without having been installed
        return f"{_pip()} install {library}"
    named = _requirement(json.loads(origin), extra, library) if origin else _quoted(f"understudy[{extra}]")
    return f"{_pip()} install {named}"


def _requirement(origin: dict[str, Any], extra: str, library: str) -> str:
    """Return the requirement for pip: this understudy, from the place it was installed from, with the library."""
    url: str = origin["url"]
    if "dir_info" in origin:
        folder = Path(url2pathname(urlsplit(url).path))
        if not (folder / "pyproject.toml").exists():
            return library
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"{editable}{_quoted(f'{_seen_from_here(folder)}[{extra}]')}"
    if version_control := origin.get("vcs_info"):
        url = f"{version_control['vcs']}+{url}@{version_control['commit_id']}"
    return _quoted(f"understudy[{extra}] @ {url}")


def _pip() -> str:
    """Return the command of this environment's pip: its path, if it is not the first on the search path."""
    own = Path(sys.executable).with_name("pip")
    first = shutil.which("pip")
    if not own.exists() or (first is not None and own.samefile(first)):
        return "pip"
    return str(_seen_from_here(own))


def _seen_from_here(path: Path) -> Path:
    """Return a path relative to the working directory, if it is in there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _quoted(text: str) -> str:
    return f"'{text}'"
