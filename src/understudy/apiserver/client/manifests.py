"""Reads manifests: objects, files, folders and texts of YAML or JSON, and worlds that understudy brings along."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from understudy.machinery.types import NamedTuple, Obj

if TYPE_CHECKING:
    from understudy.worlds.world import WorldObject

# Not Iterable["Manifest"]: a dict is one of its keys, and type checkers would take {**obj, "data": {}} for that.
Manifest = str | os.PathLike[str] | Obj | Sequence["Manifest"] | Iterator["Manifest"] | ValuesView["Manifest"]
SUFFIXES = (".yaml", ".yml", ".json")
NO_MANIFESTS = f"no manifests there: recognized file extensions are {', '.join(SUFFIXES)}"
T = TypeVar("T")
ReadWorld = Callable[[str], Iterable["WorldObject"]]


class LoadError(ValueError):
    """A manifest that cannot be read or that the server refuses; str(error) names file and document."""


class Document(NamedTuple):
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


def documents(manifest: Manifest, read_world: ReadWorld) -> Iterator[Document]:
    """Yield the objects of a manifest, those in a List one by one. `read_world` is that of `read_manifests`.

    Raises LoadError.
    """
    if isinstance(manifest, str | os.PathLike):
        yield from read_manifests(manifest, read_world)
    elif isinstance(manifest, dict):
        for obj in _items(manifest):
            yield Document(obj, "the given object")
    else:
        for item in manifest:
            yield from documents(item, read_world)


def located(manifest: T, folder: Path | None) -> T | Path:
    """Return the path of a manifest: in a folder if it is there, else in the working directory.

    Other manifests and names of worlds are returned as they are. Raises LoadError for a path that is in neither.
    """
    __tracebackhide__ = True  # so that pytest shows the line of the test, and the error
    if folder is None or not isinstance(manifest, str | os.PathLike) or _is_text(manifest):
        return manifest
    if isinstance(manifest, str) and manifest.startswith("world:"):
        return manifest
    beside, path = folder / manifest, Path(manifest)
    if beside.exists():
        return beside
    if path.is_absolute() or path.exists() or is_world(manifest):
        return manifest
    raise LoadError(f"{path}: No such file or directory, neither in {folder} nor in the working directory {Path.cwd()}")


def _is_text(source: str | os.PathLike[str]) -> bool:
    """Report whether a manifest is not the path of one, but its content."""
    return isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{"))


def read_manifests(source: str | os.PathLike[str], read_world: ReadWorld) -> Iterator[Document]:
    """Read the documents of a file, of every manifest below a folder (by name), of a text, or of a world by its name.

    A text has more than one line or begins with "{". The items of a List are read as documents.

    read_world  returns the objects of a world, such as "world:nodes?count=3"; raises ValueError

    Raises LoadError.
    """
    if isinstance(source, str) and _is_text(source):
        yield from _documents(source, "the given text")
    elif is_world(source):
        try:
            for each in read_world(str(source)):
                yield Document(each.obj, each.where, each.file, each.line)
        except ValueError as why:
            raise LoadError(str(why)) from None
    else:
        yield from _read_path(Path(source))


def is_world(source: str | os.PathLike[str]) -> bool:
    """Report whether a text names a world: `world:NAME`, or a world's NAME if there is no file of that name."""
    from understudy.worlds.catalog import PREFIX, is_named  # a server that loads nothing needs no worlds

    return isinstance(source, str) and is_named(source) and (source.startswith(PREFIX) or not Path(source).exists())


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
        hint = _worlds_hint(path.name) if is_name else ""
        raise LoadError(f"{path}: {getattr(why, 'strerror', None) or why}{hint}") from None


def _worlds_hint(name: str) -> str:
    """Return the end of an error about a name that neither a file nor a world has."""
    from understudy.machinery.util.spelling import did_you_mean
    from understudy.worlds.catalog import worlds

    return f"; worlds by name are {', '.join(worlds())}{did_you_mean(name, worlds())}"


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
    from understudy.apiserver.encoding.packed_documents import packed_documents  # a server without manifests needs none
    from understudy.machinery.golang.yaml_reader import YAMLError

    try:
        for number, packed in enumerate(packed_documents(text), 1):
            where = f"{file}, document {number} (line {packed.line})"
            if packed.duplicates:
                raise LoadError(f"{where}: {', '.join(packed.duplicates)}")
            obj = packed.value
            if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("apiVersion"):
                raise LoadError(f"{where}: no object with apiVersion and kind")
            if obj["kind"] == "List" and packed.items is not None:
                for item in packed.unpacked():
                    yield Document(item, where, file, packed.line)
            else:
                if packed.items is not None:
                    obj["items"] = [*packed.unpacked()]
                yield Document(obj, where, file, packed.line)
    except YAMLError as why:
        raise LoadError(f"{file}:{why.line}: {why.problem}") from None


def _items(obj: Obj) -> list[Obj]:
    """Return the items of a List, or the object itself in a list."""
    items = obj.get("items")
    return items if obj.get("kind") == "List" and isinstance(items, list) else [obj]
