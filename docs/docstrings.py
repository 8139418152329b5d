"""Writes the docstrings of the package as Markdown, for the site: an extension of griffe, which mkdocs.yml names.

In a docstring, parameters and fields stand in a table of words and texts:

    kind        a kind, or a resource
    namespace   "default" for one object
                and for deletions

On a page each is an item of a list. What is indented after an empty line is code, as Markdown has it.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Alias, Docstring, Extension, Object

_ENTRY = re.compile(r"(?P<names>\w+(?:, \w+)*)(?:,?|\s{2,}(?P<text>\S.*))")
_STANDARD = {
    "understudy.machinery.types.dataclass": "dataclasses.dataclass",
    "understudy.machinery.types.NamedTuple": "typing.NamedTuple",
}
_MORE = re.compile(r"\s{4,}\S.*")


class DocstringTables(Extension):
    """Turns the tables in docstrings into lists."""

    def on_instance(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring of an object that was read from its source."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_alias_instance(self, *, alias: Alias, **kwargs: Any) -> None:
        """Let our dataclasses and named tuples be those of the standard library, as which griffe shows them."""
        alias.target_path = _STANDARD.get(alias.target_path, alias.target_path)


def as_markdown(docstring: str) -> str:
    """Return a docstring with lists in place of tables."""
    return "\n\n".join(_as_list(paragraph) or paragraph for paragraph in docstring.split("\n\n"))


def _as_list(paragraph: str) -> str:
    """Return the list that a table makes, "" for any other paragraph."""
    items: list[list[str]] = []
    for line in paragraph.split("\n"):
        entry = _ENTRY.fullmatch(line)
        if entry:
            items.append([f"- `{entry['names']}`:", *([entry["text"]] if entry["text"] else [])])
        elif items and _MORE.fullmatch(line):
            items[-1].append(line.strip())
        else:
            return ""
    return "\n".join(" ".join(item) for item in items) if all(len(item) > 1 for item in items) else ""
