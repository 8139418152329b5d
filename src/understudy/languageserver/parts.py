"""The parts of a text, one for each YAML document, which are read and judged one by one.

A change concerns one part: all others are known from before. A part that is no YAML hides nothing of the others.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from understudy.machinery.golang.yaml_reader import YAMLError
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex
from understudy.offline.documents import Document, documents_in

_BEGIN = regex(r"^---(?=\s|$)", re.MULTILINE)
_DIRECTIVE = regex(r"^%", re.MULTILINE)
# Begins a line of an object of Kubernetes, or stands in its JSON.
_API_VERSION = regex(r"""(?:^|[{,])[\s-]*["']?apiVersion["']?\s*:""", re.MULTILINE)


class Part(NamedTuple):
    """A part of a text, and the offset at which it begins."""

    offset: int
    text: str


class Parsed(NamedTuple):
    """The documents of a part, usually one; or the error that it is no YAML."""

    documents: list[Document]
    error: YAMLError | None


def parts_of(text: str) -> list[Part]:
    """Return the parts of a text, each from its `---` to the next. A text with directives is one part."""
    if _DIRECTIVE.search(text):
        return [Part(0, text)]
    offsets = [0, *(match.start() for match in _BEGIN.finditer(text) if match.start()), len(text)]
    return [Part(begin, text[begin:end]) for begin, end in pairwise(offsets)]


@lru_cache(4096)
def parse(text: str) -> Parsed:
    """Read a part, each text once."""
    try:
        return Parsed(documents_in(text), None)
    except YAMLError as error:
        return Parsed([], error)


def is_of_kubernetes(text: str) -> bool:
    """Report whether a text looks like an object of Kubernetes, be it YAML or not: it has an apiVersion."""
    return _API_VERSION.search(text) is not None


def is_template(text: str) -> bool:
    """Report whether a text is a template of Helm: it has actions in braces, and is no YAML as long as it has."""
    return "{{" in text and any(parse(part.text).error for part in parts_of(text) if "{{" in part.text)
