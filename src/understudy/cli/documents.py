"""Reads the manifests that a command is given: files, folders and standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from understudy.apiserver.client.manifests import NO_MANIFESTS, manifests_below, why_unread
from understudy.cli.output import counted
from understudy.cli.world_text import DEFAULT_RELEASE, WorldsIn, world_text
from understudy.machinery.golang.yaml_reader import YAMLError
from understudy.offline.documents import Document, documents_in, objects_in
from understudy.worlds.catalog import PREFIX as WORLD
from understudy.worlds.world import WorldError

STDIN = "-"
TEMPLATE = "; templates are rendered first: helm template CHART | understudy validate -"


class UnreadableError(ValueError):
    """A file that is missing or holds no YAML, or a folder without manifests; str(error) begins with its place.

    file     its name, "" for several
    line     counted from 1, 0 for the whole file
    problem  what is wrong with it
    """

    def __init__(self, file: str, problem: str, line: int = 0) -> None:
        super().__init__(f"{place(file, line)}: {problem}" if file else problem)
        self.file, self.line, self.problem = file, line, problem


def read_manifests(
    paths: Sequence[str], exclude: Sequence[str] = (), worlds_in: WorldsIn = DEFAULT_RELEASE
) -> tuple[dict[str, list[Document]], list[UnreadableError]]:
    """Read all documents as `read_all` does, with one more error if all can be read and none is there."""
    documents, unreadable = read_all(paths, exclude, worlds_in)
    if not unreadable and not any(documents.values()):
        unreadable.append(UnreadableError(paths[0] if len(paths) == 1 else "", "no objects to look at"))
    return documents, unreadable


def read_all(
    paths: Iterable[str], exclude: Sequence[str] = (), worlds_in: WorldsIn = DEFAULT_RELEASE
) -> tuple[dict[str, list[Document]], list[UnreadableError]]:
    """Return the documents of files, and of the manifests below folders, by file, and an error for each unreadable one.

    exclude    globs of files that are left out, as `is_excluded` reads them
    worlds_in  the release in whose form worlds are read (`world:almost-full`)
    """
    documents: dict[str, list[Document]] = {}
    unreadable = []
    for path in paths:
        is_folder = path != STDIN and os.path.isdir(path)
        files = list(map(str, manifests_below(path))) if is_folder else [path]
        if not files:
            unreadable.append(UnreadableError(path, NO_MANIFESTS))
        for file in counted(files, "files read"):
            if is_excluded(file, exclude):
                continue
            if is_folder and (problem := why_unread(file)):
                unreadable.append(UnreadableError(file, problem))
                continue
            try:
                documents[file] = parse(file, worlds_in)
            except UnreadableError as why:
                unreadable.append(why)
    return documents, unreadable


def is_excluded(file: str, globs: Iterable[str]) -> bool:
    """Report whether a glob matches a file or a folder around it: its name, or the end of its path (`charts/*/crds`).

    `*` is a part of one name, `**` any number of names.
    """
    parts = Path(file).parts
    return any(
        _matches_first(parts[start:], [name for name in glob.split("/") if name not in ("", ".")])
        for glob in globs
        for start in range(len(parts))
    )


def _matches_first(names: Sequence[str], globs: Sequence[str]) -> bool:
    """Report whether globs match the first of some names, one glob for each name but `**`."""
    if not globs:
        return True
    if globs[0] == "**":
        return _matches_first(names, globs[1:]) or (bool(names) and _matches_first(names[1:], globs))
    return bool(names) and fnmatchcase(names[0], globs[0]) and _matches_first(names[1:], globs[1:])


def parse(file: str, worlds_in: WorldsIn = DEFAULT_RELEASE) -> list[Document]:
    """Return the documents of a file, of standard input or a world. Raises UnreadableError."""
    text = ""
    try:
        text = _text_of(file, worlds_in)
        return documents_in(text)
    except OSError as why:
        raise UnreadableError(file, why.strerror or str(why)) from None
    except WorldError as why:
        raise UnreadableError(file, str(why).removeprefix(f"{file}: ")) from None
    except UnicodeDecodeError as why:
        raise UnreadableError(file, str(why), why.object.count(b"\n", 0, why.start) + 1) from None
    except YAMLError as why:
        hint = TEMPLATE if "{{" in text else ""
        raise UnreadableError(file, f"{why.problem}{hint}", why.line) from None


def _text_of(file: str, worlds_in: WorldsIn) -> str:
    """Return the text of a file, of standard input or a world. Raises OSError, UnicodeDecodeError, WorldError."""
    if file == STDIN:
        return sys.stdin.read()
    if file.startswith(WORLD):
        return world_text(file, worlds_in)
    with open(file, encoding="utf-8") as opened:
        return opened.read()


def place(file: str, line: int) -> str:
    """Return `FILE:LINE`, and only the file for line 0."""
    return f"{file}:{line}" if line else file


def all_objects(documents: Mapping[str, list[Document]]) -> list[Any]:
    """Return the objects of files."""
    return [obj for parsed in documents.values() for document in parsed for obj, _ in objects_in(document)]
