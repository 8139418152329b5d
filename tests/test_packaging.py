"""What `pip install understudy` brings."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("apiserver", "admission", "schemas")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of an sdist of the sources, built without the network."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in (*FOLDERS, "src"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignore)
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_wheel_holds_everything(wheel: Path) -> None:
    """Every module, the type marker and every schema file are inside, and nothing else."""
    wanted = {"understudy/__init__.py", "understudy/py.typed"}
    for folder in FOLDERS:
        paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".json", ".yaml", ".pyi")]
        wanted |= {f"understudy/{path.relative_to(ROOT).as_posix()}" for path in paths}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == wanted


def test_wheel_works_by_itself(wheel: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, every module can be imported, without a warning."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import importlib, pkgutil, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import understudy\n"
        f"assert understudy.__file__.startswith({str(tmp_path)!r}), understudy.__file__\n"
        "for module in pkgutil.walk_packages(understudy.__path__, 'understudy.'):\n"
        "    importlib.import_module(module.name)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_wheel_declares_its_ways_in(wheel: Path) -> None:
    """The command and the pytest plugin are entry points; the licence is inside."""
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        text = archive.read(entry_points).decode()
        assert any(name.endswith("/LICENSE") for name in archive.namelist())
    assert "understudy = understudy.apiserver.cli:main" in text
    assert "understudy = understudy.apiserver.pytest_plugin" in text
