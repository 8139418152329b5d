"""The README and the pages below docs/, and the code blocks in them.

A block begins at the start of a line: three backticks, a language, and perhaps `title="NAME"`. Language and text decide
its `Role`, and so how it is checked; a block without a role is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"```(?P<language>\w+)(?: title=\"(?P<title>[\w.-]+)\")?")
_TEST = re.compile(r"^(?:async )?def test_", re.MULTILINE)


class Role(Enum):
    """A way in which a block is checked."""

    FILE = "is written into the folder of the page's session or tests, which use it"
    TEST = "passes, by pytest, in a project that holds nothing else"
    SCRIPT = "runs, by Python"
    SESSION = "its commands print what stands below them"
    INSTALLATION = "holds nothing but commands that .ci/run executes, or that install an extra that there is"
    GO = "stands in a test in Go, word for word"
    CONTAINER = "holds commands that .ci/image executes, or Python that it runs, where containers can be built"
    EDITOR = "configures an editor to start a command, with flags that there are"
    OUTPUT = "holds no command"


class Block(NamedTuple):
    """A code block of a page."""

    page: Path
    line: int
    language: str
    title: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page}:{self.line}"

    @property
    def tests(self) -> int:
        """Return the number of test functions in it."""
        return len(_TEST.findall(self.code))


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page. Raises ValueError for a fence that is not one of a block."""
    return list(_blocks(page, page.read_text()))


def _blocks(page: Path, text: str) -> Iterator[Block]:
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        if "```" not in line and "~~~" not in line:
            continue
        fence = _FENCE.fullmatch(line)
        if fence is None:
            raise ValueError(f'{page}:{number}: want ```LANGUAGE or ```LANGUAGE title="NAME", not {line!r}')
        code: list[str] = []
        for _, inner in lines:
            if inner == "```":
                break
            code.append(f"{inner}\n")
        else:
            raise ValueError(f"{page}:{number}: a block without an end")
        yield Block(page, number, fence["language"], fence["title"] or "", "".join(code))


def role_of(block: Block) -> Role:
    """Return the role of a block. Raises ValueError for one that nothing checks."""
    match block.language:
        case "python" if block.tests:
            return Role.FILE if block.title else Role.TEST
        case "python" if "testcontainers" in block.code:
            return Role.CONTAINER
        case "python":
            return Role.FILE if block.title else Role.SCRIPT
        case "yaml" | "json" | "toml" | "ini" if block.title:
            return Role.FILE
        case "lua" | "elisp" | "json" | "toml":
            return Role.EDITOR
        case "console" if block.code.startswith("$ docker "):
            return Role.CONTAINER
        case "console":
            return Role.SESSION
        case "sh":
            return Role.INSTALLATION
        case "go":
            return Role.GO
        case "text" if not re.search(r"^\s*[$>#] ", block.code, re.MULTILINE):
            return Role.OUTPUT
    raise ValueError(f"{block}: nothing checks this block of {block.language!r}")


def blocks(role: Role, *pages: Path) -> list[Block]:
    """Return the blocks of a role, of all pages or of some."""
    return [block for page in pages or PAGES for block in blocks_of(page) if role_of(block) is role]


def files_of(page: Path) -> list[Block]:
    """Return the blocks of a page that are files."""
    return blocks(Role.FILE, page)
