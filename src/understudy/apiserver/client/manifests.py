"""Reads manifests: files, folders and texts of YAML or JSON documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.machinery.types import Obj

SUFFIXES = (".yaml", ".yml", ".json")
NO_MANIFESTS = f"no manifests there: recognized file extensions are {', '.join(SUFFIXES)}"


class LoadError(ValueError):
    """A manifest that cannot be read or that the server refuses; str(error) names file and document."""


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a manifest, and where it stands: `where` is for people ("FILE, document N (line L)")."""

    obj: Obj
    where: str
    file: str = ""
    line: int = 0


def read_manifests(source: str | os.PathLike[str]) -> Iterator[Document]:
    """Read the documents of a file, of every manifest below a folder (by name), or of a text.

    A text has more than one line or begins with "{". The items of a List are read as documents. Raises LoadError.
    """
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        yield from _documents(source, "the given text")
        return
    path = Path(source)
    try:
        files = manifests_below(path) if os.path.isdir(source) else [path]
        if not files:
            raise LoadError(f"{path}: {NO_MANIFESTS}")
        for file in files:
            yield from _documents(file.read_text(), str(file))
    except (OSError, UnicodeDecodeError) as why:
        raise LoadError(f"{path}: {getattr(why, 'strerror', None) or why}") from None


def manifests_below(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the manifests in a folder and the folders in it, by name."""
    return sorted(path for path in Path(folder).rglob("*") if path.suffix in SUFFIXES)


def _documents(text: str, file: str) -> Iterator[Document]:
    from understudy.machinery.golang.yaml_reader import YAMLError, load_yaml  # a server without manifests needs no YAML

    try:
        for number, (obj, duplicates, root) in enumerate(load_yaml(text), 1):
            where = f"{file}, document {number} (line {root.line})"
            if duplicates:
                raise LoadError(f"{where}: {', '.join(duplicates)}")
            if not isinstance(obj, dict) or not obj.get("kind") or not obj.get("apiVersion"):
                raise LoadError(f"{where}: no object with apiVersion and kind")
            items = obj["items"] if obj["kind"] == "List" and isinstance(obj.get("items"), list) else [obj]
            for item in items:
                yield Document(item, where, file, root.line)
    except YAMLError as why:
        raise LoadError(f"{file}:{why.line}: {why.problem}") from None
