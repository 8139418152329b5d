"""Worlds that are written as YAML: their first line says what they are, `# Needs: …` which feature gates they need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from understudy.machinery.util.regex import regex
from understudy.worlds.world import World, WorldObject

FOLDER = Path(__file__).parent
_NEEDS = regex(r"^# Needs: (.*)$", re.MULTILINE)


@cache
def written_worlds() -> dict[str, World]:
    """Return the worlds that are written, by name."""
    return {file.stem: _world(file) for file in sorted(FOLDER.glob("*.yaml"))}


def _world(file: Path) -> World:
    head = file.read_text().partition("\napiVersion:")[0]
    summary = head.partition("\n")[0].removeprefix("# ")
    needs = _NEEDS.search(head)
    gates = tuple(needs[1].split(", ")) if needs else ()
    return World(file.stem, summary, lambda _: _objects(file), gates)


def _objects(file: Path) -> Iterator[WorldObject]:
    from understudy.machinery.golang.yaml_reader import load_yaml  # a server without manifests needs no YAML

    for number, document in enumerate(load_yaml(file.read_text()), 1):
        line = document.root.line
        yield WorldObject(document.value, f"{file}, document {number} (line {line})", str(file), line)
