"""The problems of a text: what the API server of each release says about the objects in it, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import chain
from typing import Any

from understudy.languageserver.parts import Parsed, Part, is_of_kubernetes, is_template, parse, parts_of
from understudy.machinery.golang.yaml_reader import Node, resolve
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex
from understudy.offline.checks import Checks, duplicates, has_kind
from understudy.offline.documents import Document, Place, objects_in, place_of
from understudy.offline.validator import Finding

# Begins the text of a warning that is about a field.
_PATH = regex(r"((?:metadata|spec|status|[a-z]\w*(?=[.\[]))[^\s:]*): ")
_UNKNOWN_FIELD = "unknown field"
_WRONG_TYPE = regex(r"cannot unmarshal (\w+)(?: \S+)? into Go struct field")


class Severity(IntEnum):
    """The severity of a problem, as the protocol numbers it."""

    ERROR = 1
    WARNING = 2


class Problem(NamedTuple):
    """An error or a warning, and the offsets of its place; `code` is the reason, as in the causes of a Status."""

    start: int
    end: int
    severity: Severity
    code: str
    message: str


class Judge:
    """Judges texts by the same checks, each part of them once."""

    def __init__(self, checks: Checks) -> None:
        self.checks = checks
        self._known: dict[str, list[Problem]] = {}

    def problems(self, text: str) -> list[Problem]:
        """Return the problems of a text, in its order. A template of Helm has none."""
        if is_template(text):
            return []
        return [
            problem._replace(start=problem.start + part.offset, end=problem.end + part.offset)
            for part in parts_of(text)
            for problem in self._of_part(part)
        ]

    def forget_all_but(self, texts: Iterable[str]) -> None:
        """Forget what is known of parts that no text has any longer."""
        kept = {part.text for text in texts for part in parts_of(text)}
        self._known = {text: problems for text, problems in self._known.items() if text in kept}

    def _of_part(self, part: Part) -> list[Problem]:
        problems = self._known.get(part.text)
        if problems is None:
            problems = self._known[part.text] = sorted(self._judged(part.text, parse(part.text)))
        return problems

    def _judged(self, text: str, parsed: Parsed) -> Iterator[Problem]:
        if parsed.error is not None and is_of_kubernetes(text):
            place = _line(text, _offset_of_line(text, parsed.error.line))
            yield Problem(*place, Severity.ERROR, "BadRequest", parsed.error.problem)
        for document in parsed.documents:
            yield from self._of_document(document, text)

    def _of_document(self, document: Document, text: str) -> Iterator[Problem]:
        objects = [(obj, node) for obj, node in objects_in(document) if has_kind(obj)]
        checked = [(obj, node or document.root) for obj, node in objects if not self.checks.is_skipped(obj)]
        if checked:
            for line, finding in duplicates(document):
                place = _line(text, _offset_of_line(text, line))
                yield Problem(*place, Severity.ERROR, finding.reason, finding.message)
        for obj, node in checked:
            yield from self._of_object(obj, node, text)

    def _of_object(self, obj: Any, node: Node, text: str) -> Iterator[Problem]:
        """Yield the problems of an object: each once, with the releases that have it unless all do."""
        releases: dict[Problem, list[str]] = {}
        for name, validator in self.checks.validators.items():
            findings, warnings = validator.findings_and_warnings(obj)
            for problem in chain(
                (self._problem(finding, obj, node, text) for finding in findings),
                (Problem(*_place_of_warning(each, node, text), Severity.WARNING, "Warning", each) for each in warnings),
            ):
                releases.setdefault(problem, []).append(name)
        for problem, names in releases.items():
            suffix = "" if len(names) == len(self.checks.validators) else f" [{', '.join(names)}]"
            yield problem._replace(message=problem.message + suffix)

    def _problem(self, finding: Finding, obj: Any, node: Node, text: str) -> Problem:
        """Return the problem of a finding. A custom resource without a definition may be known to the cluster."""
        is_unknown = finding.reason == "NoMatch"
        severity = Severity.WARNING if is_unknown and self.checks.is_undefined(obj) else Severity.ERROR
        field = "kind" if is_unknown else finding.field
        if wrong := _WRONG_TYPE.search(finding.message):
            place = _extent(_of_type(field, node, wrong[1]) or place_of(field, node), text)
        else:
            place = _place(field, node, text, at_key=_UNKNOWN_FIELD in finding.message)
        return Problem(*place, severity, finding.reason, finding.text)


def _place_of_warning(warning: str, node: Node, text: str) -> tuple[int, int]:
    """Return the place of the field that a warning names, of the apiVersion for a deprecated one, else of the kind."""
    if match := _PATH.match(warning):
        return _place(match[1], node, text)
    return _place("apiVersion" if " is deprecated" in warning else "kind", node, text)


def _place(field: str, node: Node, text: str, *, at_key: bool = False) -> tuple[int, int]:
    """Return the offsets of a field. Where the text does not have it, the nearest one above counts."""
    place = place_of(field, node)
    return _extent(place._replace(value=place.key) if at_key or not place.is_exact else place, text)


def _extent(place: Place, text: str) -> tuple[int, int]:
    """Return the offsets of a place: of its value if that is a scalar in one line, else of its key, or first line."""
    for each in (place.value, place.key):
        start, end = each.start.index, each.end.index
        if each.kind == "scalar" and start < end and "\n" not in text[start:end]:
            return start, end
    return _line(text, place.key.start.index)


def _of_type(field: str, node: Node, type_: str) -> Place | None:
    """Return the first place of a field whose value has a type of JSON: Go's errors do not say in which item it is."""
    places = [Place(node, node, True)]
    for step in field.split("."):
        items = [item for place in places for item in _items(place)]
        inner = [place_of(step, item.value) for item in items if item.value.kind == "mapping"]
        places = [place for place in inner if place.is_exact]
    return next((place for place in places if _json_type(place.value) == type_), None)


def _items(place: Place) -> list[Place]:
    """Return the items of a list, and those of lists in it; else the place itself."""
    if place.value.kind != "sequence":
        return [place]
    return [each for item in place.value.children for each in _items(Place(item, item, True))]


def _json_type(node: Node) -> str:
    """Return the type of a value as Go's JSON names it."""
    if node.kind != "scalar":
        return {"mapping": "object", "sequence": "array"}.get(node.kind, "")
    if not node.plain:
        return "string"
    return {"!!bool": "bool", "!!int": "number", "!!float": "number"}.get(resolve(node.text)[0], "string")


def _line(text: str, offset: int) -> tuple[int, int]:
    """Return the offsets of the rest of a line, without the spaces around it."""
    end = text.find("\n", offset)
    rest = (text[offset:] if end < 0 else text[offset:end]).rstrip()
    return offset + len(rest) - len(rest.lstrip()), offset + len(rest)


def _offset_of_line(text: str, line: int) -> int:
    """Return the offset at which a line begins, counted from 1."""
    return sum(map(len, text.splitlines(keepends=True)[: line - 1]))
