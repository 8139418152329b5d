"""Reads manifests: objects, files, folders and texts of YAML or JSON, and worlds that understudy brings along."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from understudy.machinery.types import Obj

# Not Iterable["Manifest"]: a dict is one of its keys, and type checkers would take {**obj, "data": {}} for that.
Manifest = str | os.PathLike[str] | Obj | Sequence["Manifest"] | Iterator["Manifest"] | ValuesView["Manifest"]
SUFFIXES = (".yaml", ".yml", ".json")
NO_MANIFESTS = f"no manifests there: recognized file extensions are {', '.join(SUFFIXES)}"
T = TypeVar("T")
WORLDS = Path(__file__).parents[2] / "worlds"


class LoadError(ValueError):
    """A manifest that cannot be read or that the server refuses; str(error) names file and document."""


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a manifest, and its place: `where` is for people ("FILE, document N (line L)")."""

    obj: Obj
    where: str
    file: str = ""
    line: int = 0


def settled(manifest: Manifest, folder: Path | None) -> Manifest:
    """Return a manifest that can be read in any thread: with absolute paths, and the objects that an iterator gives.

    Raises LoadError for a relative path that is neither in a folder nor in the working directory, TypeError for what is
    no manifest.
    """
    __tracebackhide__ = True
    if isinstance(manifest, str | os.PathLike):
        return located(manifest, folder)
    if isinstance(manifest, dict):
        return manifest
    if not isinstance(manifest, Iterable):
        raise TypeError(f"want an object, a path, YAML or JSON, not {manifest!r}")
    return [*map(partial(settled, folder=folder), manifest)]  # a comprehension would be a frame that pytest shows


def documents(manifest: Manifest, is_served: Callable[[Obj], bool]) -> Iterator[Document]:
    """Yield the objects of a manifest, those in a List one by one. `is_served` is that of `read_manifests`.

    Raises LoadError.
    """
    if isinstance(manifest, str | os.PathLike):
        yield from read_manifests(manifest, is_served)
    elif isinstance(manifest, dict):
        for obj in _items(manifest):
            yield Document(obj, "the given object")
    else:
        for item in manifest:
            yield from documents(item, is_served)


def located(manifest: T, folder: Path | None) -> T | Path:
    """Return the path of a manifest: in a folder if it is there, else in the working directory.

    Other manifests and names of worlds are returned as they are. Raises LoadError for a path that is in neither.
    """
    __tracebackhide__ = True  # so that pytest shows the line of the test, and the error
    if folder is None or not isinstance(manifest, str | os.PathLike) or _is_text(manifest):
        return manifest
    beside, path = folder / manifest, Path(manifest)
    if beside.exists():
        return beside
    if path.is_absolute() or path.exists() or files_of_world(manifest):
        return manifest
    raise LoadError(f"{path}: No such file or directory, neither in {folder} nor in the working directory {Path.cwd()}")


def _is_text(source: str | os.PathLike[str]) -> bool:
    """Report whether a manifest is not the path of one, but its content."""
    return isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{"))


def read_manifests(
    source: str | os.PathLike[str], is_served: Callable[[Obj], bool] = lambda obj: True
) -> Iterator[Document]:
    """Read the documents of a file, of every manifest below a folder (by name), of a text, or of a world by its name.

    A text has more than one line or begins with "{". The items of a List are read as documents. A world that is written
    in several versions is read in the newest one of which `is_served` holds for every object. Raises LoadError.
    """
    if isinstance(source, str) and _is_text(source):
        yield from _documents(source, "the given text")
        return
    forms = files_of_world(source)
    if not forms:
        yield from _read_path(Path(source))
        return
    read = [list(_read_path(path)) for path in forms]
    yield from next((form for form in read if all(is_served(document.obj) for document in form)), read[0])


def files_of_world(source: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a world that understudy brings along, such as "gpu-cluster", newest versions first.

    A file or folder of that name in the working directory comes before it: the list is empty then, as for other names.
    """
    name = str(source)
    if name not in world_names() or Path(name).exists():
        return []
    return [WORLDS / f"{name}.yaml", *sorted(WORLDS.glob(f"{name}-v[0-9]*.yaml"), reverse=True)]


def world_names() -> list[str]:
    """List the names of the worlds that understudy brings along."""
    names = sorted(path.stem for path in WORLDS.glob("*.yaml"))
    return [name for name in names if not re.search(r"-v\d\w+$", name)]


def _read_path(path: Path) -> Iterator[Document]:
    try:
        is_folder = path.is_dir()
        files = manifests_below(path) if is_folder else [path]
        if not files:
            raise LoadError(f"{path}: {NO_MANIFESTS}")
        for file in files:
            if is_folder and (problem := why_unread(file)):
                raise LoadError(f"{file}: {problem}")
            yield from _documents(file.read_text(), str(file))
    except (OSError, UnicodeDecodeError) as why:
        is_name = isinstance(why, FileNotFoundError) and path.name == str(path) and not path.suffix
        names = f"; worlds by name are {', '.join(world_names())}" if is_name else ""
        raise LoadError(f"{path}: {getattr(why, 'strerror', None) or why}{names}") from None


def manifests_below(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the manifests in a folder and the folders in it, by name."""
    return sorted(path for path in Path(folder).rglob("*") if path.suffix in SUFFIXES and not path.is_dir())


def why_unread(path: str | os.PathLike[str]) -> str:
    """Return the reason not to read a path, "" for a file. Pipes and devices might never come to an end."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # reading it tells more
        return ""
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(mode), "")
    return f"{kind}, not a file: in a folder only files are read" if kind else ""


def _documents(text: str, file: str) -> Iterator[Document]:
    from understudy.machinery.golang.yaml_reader import YAMLError, load_yaml  # a server without manifests needs no YAML

    try:
        for number, (obj, duplicates, root) in enumerate(load_yaml(text), 1):
            where = f"{file}, document {number} (line {root.line})"
            if duplicates:
                raise LoadError(f"{where}: {', '.join(duplicates)}")
            if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("apiVersion"):
                raise LoadError(f"{where}: no object with apiVersion and kind")
            for item in _items(obj):
                yield Document(item, where, file, root.line)
    except YAMLError as why:
        raise LoadError(f"{file}:{why.line}: {why.problem}") from None


def _items(obj: Obj) -> list[Obj]:
    """Return the items of a List, or the object itself in a list."""
    items = obj.get("items")
    return items if obj.get("kind") == "List" and isinstance(items, list) else [obj]
