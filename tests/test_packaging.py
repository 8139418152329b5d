"""What `pip install understudy` brings, from every form in which the sources travel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

pytestmark = pytest.mark.maintenance

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "understudy"
LINKS = sorted(path.name for path in ROOT.iterdir() if path.is_symlink())
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE")
DATA = {".py", ".json", ".yaml", ".txt", ".pyi", ".typed", ".js", ".css", ".html"}  # and licences of what others made


def sources() -> Iterator[Path]:
    """Yield every file that a checkout has for building, caches left out."""
    yield from (ROOT / name for name in BUILT_FROM)
    yield from (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def checkout_without_links(where: Path) -> Path:
    """Copy the sources as git writes them where links are not made: a link is a text file that holds its target."""
    for path in sources():
        target = where / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name in LINKS:
        (where / name).write_text(os.readlink(ROOT / name))
    return where


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist of a checkout without links, and the wheel, without the network; return their folder."""
    out = tmp_path_factory.mktemp("dist")
    checkout = checkout_without_links(tmp_path_factory.mktemp("checkout") / "understudy")
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel", "--outdir", out, checkout)
    return out


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Path:
    return next(dist.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a folder that is not on Python's path."""
    target = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", target, wheel)
    return target


def test_links_point_to_the_source_folders() -> None:
    """Every folder of the package has a link of its name at the top of the checkout, and nothing else is a link."""
    folders = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
    assert folders == LINKS
    assert all((ROOT / name).resolve() == PACKAGE / name for name in LINKS)


def zip_of_checkout(where: Path) -> Path:
    """Write the sources into an archive, as a site that hosts them offers it: links are kept."""
    with zipfile.ZipFile(where / "understudy.zip", "w") as archive:
        for path in sources():
            archive.write(path, Path("understudy") / path.relative_to(ROOT))
        for name in LINKS:
            link = zipfile.ZipInfo(f"understudy/{name}")
            link.external_attr = 0o120777 << 16
            archive.writestr(link, os.readlink(ROOT / name))
    return where / "understudy.zip"


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("form", ["zip", "sdist"])
def test_every_form_makes_the_same_wheel(form: str, wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """A zip archive and the sdist install the same files as a checkout without links."""
    source = zip_of_checkout(tmp_path) if form == "zip" else sdist
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", tmp_path / "built", source)
    assert contents(next((tmp_path / "built").glob("*.whl"))) == contents(wheel)


def test_wheel_holds_everything(wheel: Path) -> None:
    """Every module, the type marker and every schema file are inside, and nothing else."""
    expected = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in sources()
        if path.suffix in DATA or path.name.startswith("LICENSE-")
    }
    expected -= set(BUILT_FROM)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_sdist_holds_the_package_and_no_links(sdist: Path) -> None:
    """The sdist has real folders only, so that it can be unpacked anywhere."""
    with tarfile.open(sdist) as archive:
        assert [member.name for member in archive if member.issym() or member.islnk()] == []
        assert any(member.name.endswith("src/understudy/py.typed") for member in archive)


def test_installed_modules_can_be_imported(installed: Path, tmp_path: Path) -> None:
    """Installed elsewhere, every module can be imported, without a warning."""
    code = (
        "import importlib, pkgutil, sys\n"
        f"sys.path.insert(0, {str(installed)!r})\n"
        "import understudy\n"
        f"assert understudy.__file__.startswith({str(installed)!r}), understudy.__file__\n"
        "for module in pkgutil.walk_packages(understudy.__path__, 'understudy.'):\n"
        "    importlib.import_module(module.name)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_installed_worlds_are_loaded_by_name(installed: Path, tmp_path: Path) -> None:
    """Installed elsewhere, the worlds of the quick start are there, whatever the working directory is."""
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(installed)!r})\n"
        "from understudy import Server\n"
        "with Server(load=['gpu-cluster']) as server:\n"
        "    print(sys.modules['understudy'].__file__, len(server.list('resourceslices')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == [str(installed / "understudy" / "__init__.py"), "2"], done.stderr


def test_wheel_says_for_whom_it_is(wheel: Path) -> None:
    """The metadata names every Python that is supported, from the oldest on, and where to find project and changes."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    classifiers = metadata.get_all("Classifier") or []
    minors = [int(text.rpartition(".")[2]) for text in classifiers if re.search(r":: 3\.\d+$", text)]
    assert metadata["Requires-Python"] == f">=3.{minors[0]}"
    assert minors == list(range(11, 15))
    urls = dict(text.split(", ") for text in metadata.get_all("Project-URL") or [])
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    assert all(url.startswith("https://") for url in urls.values())


def test_wheel_declares_its_ways_in(wheel: Path) -> None:
    """The command and the pytest plugin are entry points; the licence is inside."""
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        text = archive.read(entry_points).decode()
        assert any(name.endswith("/LICENSE") for name in archive.namelist())
    assert "understudy = understudy.cli.main:main" in text
    assert "understudy = understudy.pytest_plugin" in text


def test_suite_ends_with_a_summary() -> None:
    """pytest is as talkative as its user wants: with `-q` in its options, a user's own `-q` would hide the summary."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    assert "-q" not in options.split()
