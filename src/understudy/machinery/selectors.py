"""Label and field selectors: parsing, with the real server's texts, and matching.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from understudy.machinery.golang.text import aggregate, go_quote, parse_int
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path
from understudy.machinery.validation.names import label_value_texts, qualified_name_texts

_WORDS = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s]+")
_OPERATORS = {"in", "notin", "=", "==", "!=", ">", "<"}
_OPERATOR_NAMES = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS = {"=", "==", "!=", "!", "(", ")", ",", ">", "<", ""}


class SelectorError(ValueError):
    """str(e) is the text that the server answers."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """operator: in, notin, exists, !, gt, lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
        if value is None or (number := _integer(value)) is None:
            return False
        (limit,) = (int(v) for v in self.values)
        return number > limit if self.operator == "gt" else number < limit


def _integer(text: str) -> int | None:
    """None for what is no int64."""
    try:
        return parse_int(text)
    except ValueError:
        return None


class _Parser:
    """A selector's words, read one after the other; "" is the end."""

    def __init__(self, text: str) -> None:
        self.words = _WORDS.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self) -> str:
        word = self.peek()
        self.at += 1
        return word

    def parse(self) -> list[Requirement]:
        out: list[Requirement] = []
        while True:
            word = self.peek()
            if not word:
                return out
            if word in _SYMBOLS and word != "!":
                raise SelectorError(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                out.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            word = self.take()
            if not word:
                return out
            if word != ",":
                raise SelectorError(f"found '{word}', expected: ',' or 'end of string'")
            word = self.peek()
            if word in _SYMBOLS and word != "!":
                raise SelectorError(f"found '{word}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        word = self.take()
        absent = word == "!"
        if absent:
            word = self.take()
        if word in _SYMBOLS:
            raise SelectorError(f"found '{word}', expected: identifier")
        _check(_key_errors(word))
        if self.peek() in ("", ","):
            return Requirement(word, "!" if absent else "exists")
        if absent:
            return Requirement(word, "!")
        operator = self.take()
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{operator}', expected: {_OPERATOR_NAMES}")
        values = self.values() if operator in ("in", "notin") else self.value()
        return _requirement(word, operator, sorted(values))

    def value(self) -> set[str]:
        if self.peek() in ("", ","):
            return {""}
        word = self.take()
        if word in _SYMBOLS:
            raise SelectorError(f"found '{word}', expected: identifier")
        return {word}

    def values(self) -> set[str]:
        word = self.take()
        if word != "(":
            raise SelectorError(f"found '{word}' expected: '('")
        word = self.peek()
        if word == ")":
            self.take()
            return {""}
        if word in _SYMBOLS and word != ",":
            raise SelectorError(f"found '{word}', expected: ',', ')' or identifier")
        values = self.identifiers()
        word = self.take()
        if word != ")":
            raise SelectorError(f"found '{word}', expected: ')'")
        return values

    def identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            word = self.take()
            if word == ",":
                if not values:
                    values.add("")
                following = self.peek()
                if following == ")":
                    return values | {""}
                if following == ",":
                    self.take()
                    values.add("")
            elif word in _SYMBOLS:
                raise SelectorError(f"found '{word}', expected: ',', or identifier")
            else:
                values.add(word)
                following = self.peek()
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{following}', expected: ',' or ')'")


def _key_errors(key: str) -> list[str]:
    texts = qualified_name_texts(key)
    return [_invalid(Path(), key, "; ".join(texts))] if texts else []


def _invalid(path: Path, value: str, detail: str) -> str:
    """Return the text of a field error, which is the same in every release."""
    return f"{path}: Invalid value: {go_quote(value)}: {detail}"


def _check(errors: list[str]) -> None:
    if errors:
        raise SelectorError(aggregate(errors))


def _requirement(key: str, operator: str, values: list[str]) -> Requirement:
    errors: list[str] = []
    if operator in (">", "<"):
        for i, value in enumerate(values):
            if _integer(value) is None:
                text = "for 'Gt', 'Lt' operators, the value must be an integer"
                errors.append(_invalid(Path("values").index(i), value, text))
    for i, value in enumerate(values):
        if texts := label_value_texts(value):
            errors.append(_invalid(Path("values").index(i).key(key), value, "; ".join(texts)))
    _check(errors)
    names = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
    return Requirement(key, names.get(operator, operator), frozenset(values))


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector, all of which an object has to meet. Raises SelectorError."""
    return tuple(_Parser(text).parse())


@dataclass(frozen=True, slots=True)
class FieldTerm:
    label: str
    value: str
    equal: bool


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """The terms of a field selector; one of an empty label and an empty value selects everything. Raises
    SelectorError."""
    out = []
    for part in sorted(re.findall(r"(?:\\.|\\$|[^,\\])+", text, re.S)):
        found = re.search(r"!=|==|=", part)
        if not found:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        out.append(FieldTerm(part[: found.start()], _unescaped(part[found.end() :]), found.group() != "!="))
    return tuple(term for term in out if term.label or term.value)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        if "=" in text:
            raise SelectorError("invalid field selector: unescaped character in value: 61")
        return text
    out, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            escaped = text[at + 1 : at + 2]
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            char = escaped
            at += 1
        elif char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        out += char
        at += 1
    return out


class Selector:
    """What a list, a watch or a deletion of a collection asks for. `values` answers each field label of the kind."""

    __slots__ = ("_fields", "_labels", "_values")

    def __init__(
        self,
        labels: tuple[Requirement, ...] = (),
        fields: tuple[FieldTerm, ...] = (),
        values: Mapping[str, Callable[[Obj], str]] | None = None,
    ) -> None:
        self._labels = labels
        self._fields = fields
        self._values = values or {}

    @property
    def everything(self) -> bool:
        return not self._labels and not self._fields

    @property
    def name(self) -> str:
        """The one name that is asked for, "" for any."""
        return self._required("metadata.name")

    @property
    def namespace(self) -> str:
        """The one namespace that is asked for, "" for any."""
        return self._required("metadata.namespace")

    def _required(self, label: str) -> str:
        return next((t.value for t in self._fields if t.label == label and t.equal), "")

    def matches(self, obj: Obj) -> bool:
        if self._labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(r.matches(labels) for r in self._labels):
                return False
        return all((self._value(t.label, obj) == t.value) == t.equal for t in self._fields)

    def _value(self, label: str, obj: Obj) -> str:
        if label in ("metadata.name", "name"):
            return str(obj["metadata"].get("name", ""))
        if label == "metadata.namespace":
            return str(obj["metadata"].get("namespace", ""))
        return self._values[label](obj)
