"""The texts that are open in an editor, the definitions among them and in the files around them, and what follows.

session = Session(checks)
session.set_files({"/project/crd.yaml": read_definitions("/project/crd.yaml")})
session.set_text("file:///project/widget.yaml", "/project/widget.yaml", text)     # True if definitions changed
session.problems("file:///project/widget.yaml")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from understudy.apiserver.client.manifests import SUFFIXES, why_unread
from understudy.languageserver.parts import parse, parts_of
from understudy.languageserver.problems import Judge, Problem
from understudy.languageserver.schema import Schemas
from understudy.machinery.types import Obj, dataclass
from understudy.offline.checks import Checks
from understudy.offline.documents import objects_in
from understudy.offline.validator import described

_DEFINITION = "CustomResourceDefinition"
_LARGEST_FILE = 16 << 20  # bytes
# Folders of a workspace that hold other people's files, besides those whose name begins with a dot.
_LEFT_OUT = frozenset(("node_modules", "__pycache__"))


def definitions_in(text: str) -> list[Obj] | None:
    """Return the definitions in a text, None if a part of it that may hold one is no YAML."""
    definitions = []
    if _DEFINITION in text:
        for part in parts_of(text):
            parsed = parse(part.text)
            if parsed.error is not None and _DEFINITION in part.text:
                return None
            objects = [obj for document in parsed.documents for obj, _ in objects_in(document)]
            definitions += [obj for obj in objects if described(obj)[0] == _DEFINITION]
    return definitions


def files_with_definitions(folder: str, is_excluded: Callable[[str], bool]) -> Iterator[tuple[str, list[Obj]]]:
    """Yield the manifests below a folder that hold definitions, with these."""
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(at, name)
            if name.endswith(SUFFIXES) and not is_excluded(path) and (definitions := read_definitions(path)):
                yield path, definitions


def read_definitions(path: str) -> list[Obj]:
    """Return the definitions in a file, [] for one that cannot be read, or not as a whole."""
    with suppress(OSError, UnicodeDecodeError):
        if not why_unread(path) and os.path.getsize(path) <= _LARGEST_FILE:
            return definitions_in(Path(path).read_bytes().decode()) or []
    return []


@dataclass
class _Open:
    """An open text, the path of its file, "" if it has none, and the definitions in it."""

    text: str
    path: str
    definitions: list[Obj] = field(default_factory=list)


class Session:
    """Knows the texts that an editor has open, by their URIs, and what follows from them."""

    def __init__(self, checks: Checks) -> None:
        self._base = checks
        self._files: dict[str, list[Obj]] = {}
        self._open: dict[str, _Open] = {}
        self._of_files: tuple[list[list[Obj]], Checks] = ([], checks)
        self._of_texts: list[list[Obj]] = []
        self._judge = Judge(checks)
        self._schemas: Schemas | None = None

    def set_text(self, uri: str, path: str, text: str) -> bool:
        """Note what an open text is now; report whether definitions changed. Those of a text that is no YAML at the
        moment stay as they were."""
        before = self._open.get(uri) or _Open("", path, self._files.get(path, []))
        definitions = definitions_in(text)
        self._open[uri] = _Open(text, path, before.definitions if definitions is None else definitions)
        return self._define()

    def close(self, uri: str) -> bool:
        """Forget an open text: its file counts again. Report whether definitions changed."""
        self._open.pop(uri, None)
        self._judge.forget_all_but(each.text for each in self._open.values())
        return self._define()

    def set_files(self, files: dict[str, list[Obj]]) -> bool:
        """Note the definitions that some files hold, [] for none; report whether those that count changed."""
        self._files.update(files)
        return self._define()

    def problems(self, uri: str) -> list[Problem]:
        """Return the problems of an open text."""
        return self._judge.problems(self._open[uri].text) if uri in self._open else []

    def open_texts(self) -> list[str]:
        """Return the URIs of the open texts."""
        return list(self._open)

    @property
    def schemas(self) -> Schemas:
        """Return the schemas of the newest release that is asked, and of custom resources."""
        if self._schemas is None:
            validators = self._judge.checks.validators
            self._schemas = Schemas(list(validators.values())[-1].serving)
        return self._schemas

    def _define(self) -> bool:
        """Take over the definitions of files, and of open texts in their place; report whether they changed.

        Those of files are not read again while somebody types.
        """
        open_paths = {each.path for each in self._open.values()}
        of_files = [objects for path, objects in sorted(self._files.items()) if objects and path not in open_paths]
        of_texts = [each.definitions for _, each in sorted(self._open.items()) if each.definitions]
        if (of_files, of_texts) == (self._of_files[0], self._of_texts):
            return False
        if of_files != self._of_files[0]:
            self._of_files = of_files, self._base.with_definitions(obj for objects in of_files for obj in objects)
        self._of_texts = of_texts
        checks = self._of_files[1].with_definitions(obj for objects in of_texts for obj in objects)
        self._judge, self._schemas = Judge(checks), None
        return True
