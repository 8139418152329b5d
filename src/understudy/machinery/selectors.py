"""Label and field selectors: parsing, with the real server's error texts, and matching. Node selectors: matching.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors (upstream:
`k8s.io/apimachinery/pkg/labels` and `pkg/fields`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from understudy.machinery.golang.text import aggregate, go_quote, parse_int
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, cache_short_texts
from understudy.machinery.validation.bad_values import Worded
from understudy.machinery.validation.field import Path
from understudy.machinery.validation.names import label_value_texts, qualified_name_texts

_WORDS = re.compile(r"==|!=|[=!(),<>]|[^=!(),<>\s]+")
_OPERATORS = {"in", "notin", "=", "==", "!=", ">", "<"}
_OPERATOR_NAMES = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS = {"=", "==", "!=", "!", "(", ")", ",", ">", "<", ""}


class SelectorError(ValueError):
    """A text that is not a selector; `str(error)` is the text that the real server answers."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a label selector (upstream: `labels.Requirement`). `operator` is in, notin, exists, !, gt or
    lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether labels meet the requirement. `notin` is met by labels without the key."""
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
    """Return the integer that a text says, None if it is not an int64."""
    try:
        return parse_int(text)
    except ValueError:
        return None


class _Parser:
    """A recursive descent parser of label selectors (upstream: `labels.Parser`). It reads tokens one after the other;
    "" is the end."""

    def __init__(self, text: str, release: Version) -> None:
        self.words = _WORDS.findall(text)
        self.release = release
        self.at = 0

    def peek(self) -> str:
        """Return the next token without consuming it."""
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self) -> str:
        """Consume and return the next token."""
        word = self.peek()
        self.at += 1
        return word

    def parse(self) -> list[Requirement]:
        """Parse the requirements, separated by commas. Raises SelectorError."""
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
        """Parse one requirement (upstream: `parseRequirement`)."""
        word = self.take()
        absent = word == "!"
        if absent:
            word = self.take()
        if word in _SYMBOLS:
            raise SelectorError(f"found '{word}', expected: identifier")
        _check(_key_errors(word, self.release))
        if self.peek() in ("", ","):
            return Requirement(word, "!" if absent else "exists")
        if absent:
            return Requirement(word, "!")
        operator = self.take()
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{operator}', expected: {_OPERATOR_NAMES}")
        values = self.values() if operator in ("in", "notin") else self.exact_value()
        return _requirement(word, operator, sorted(values), self.release)

    def exact_value(self) -> set[str]:
        """Parse the value of =, ==, !=, > or < (upstream: `parseExactValue`); a missing value is ""."""
        if self.peek() in ("", ","):
            return {""}
        word = self.take()
        if word in _SYMBOLS:
            raise SelectorError(f"found '{word}', expected: identifier")
        return {word}

    def values(self) -> set[str]:
        """Parse the values of `in` and `notin` with their parentheses (upstream: `parseValues`)."""
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
        """Parse the values between the parentheses (upstream: `parseIdentifiersList`); two commas have "" between
        them."""
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


def _key_errors(key: str, release: Version) -> list[str]:
    texts = qualified_name_texts(key)
    return [_invalid(Path(), key, _joined(texts, release))] if texts else []


def _joined(texts: Iterable[str], release: Version) -> str:
    return "; ".join(text.text(release) if isinstance(text, Worded) else text for text in texts)


def _invalid(path: Path, value: str, detail: str) -> str:
    """Return the text of a field error."""
    return f"{path}: Invalid value: {go_quote(value)}: {detail}"


def _check(errors: list[str]) -> None:
    if errors:
        raise SelectorError(aggregate(errors))


def _requirement(key: str, operator: str, values: list[str], release: Version) -> Requirement:
    errors: list[str] = []
    if operator in (">", "<"):
        for i, value in enumerate(values):
            if _integer(value) is None:
                text = "for 'Gt', 'Lt' operators, the value must be an integer"
                errors.append(_invalid(Path("values").index(i), value, text))
    for i, value in enumerate(values):
        if texts := label_value_texts(value):
            errors.append(_invalid(Path("values").index(i).key(key), value, _joined(texts, release)))
    _check(errors)
    names = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
    return Requirement(key, names.get(operator, operator), frozenset(values))


@cache_short_texts(1024)
def parse_labels(text: str, release: Version) -> tuple[Requirement, ...]:
    """Parse a label selector into requirements, all of which an object has to meet. Raises SelectorError."""
    return tuple(_Parser(text, release).parse())


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition of a field selector: `label=value`, or `label!=value` if `equal` is false (upstream:
    `fields.Requirement`)."""

    label: str
    value: str
    equal: bool


@cache_short_texts(1024)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector into terms, all of which an object has to meet. Raises SelectorError.

    A term with an empty label and an empty value selects everything and is left out.
    """
    out = []
    for part in sorted(re.findall(r"(?:\\.|\\$|[^,\\])+", text, re.S)):
        operator = re.search(r"!=|==|=", part)
        if not operator:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        out.append(FieldTerm(part[: operator.start()], _unescaped(part[operator.end() :]), operator.group() != "!="))
    return tuple(term for term in out if term.label or term.value)


def _unescaped(text: str) -> str:
    """Return the value of a field selector's term without backslashes (upstream: `fields.UnescapeValue`). Raises
    SelectorError."""
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
    """The selector of a list, a watch or a deletion of a collection: label requirements and field terms.

    `values` maps each field label that the kind supports to a function that reads it from an object.
    """

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
        """Report whether every object matches (upstream: `Everything`)."""
        return not self._labels and not self._fields

    @property
    def name(self) -> str:
        """Return the name that the field selector asks for, "" for any."""
        return self._required("metadata.name")

    @property
    def namespace(self) -> str:
        """Return the namespace that the field selector asks for, "" for any."""
        return self._required("metadata.namespace")

    def _required(self, label: str) -> str:
        return next((t.value for t in self._fields if t.label == label and t.equal), "")

    def matches(self, obj: Obj) -> bool:
        """Report whether an object meets all requirements and terms. KeyError for a field label that the kind does not
        have."""
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


def label_selector_matches(selector: Obj, labels: Mapping[str, str]) -> bool:
    """Report whether labels match a valid `LabelSelector` object, which matches everything if it is empty.

    Upstream: `LabelSelectorAsSelector`.
    """
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        Requirement(term["key"], _OPERATORS_OF_OBJECTS[term["operator"]], frozenset(term.get("values") or ())).matches(
            labels
        )
        for term in selector.get("matchExpressions") or ()
    )


_OPERATORS_OF_OBJECTS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


# --- nodes ------------------------------------------------------------------------------------------------------------

_NODE_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


def node_selector_matches(selector: Obj, node: Obj) -> bool:
    """Report whether a node meets one of the terms of a valid node selector; without terms none does.

    A term without requirements is ignored. The only field that a term can ask for is `metadata.name`.
    """
    metadata = node.get("metadata") or {}
    labels = metadata.get("labels") or {}
    fields = {"metadata.name": metadata["name"]} if metadata.get("name") else {}
    return any(_term_matches(term, labels, fields) for term in selector.get("nodeSelectorTerms") or ())


def _term_matches(term: Obj, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, of_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not of_fields:
        return False
    if not all(_node_requirement(expression).matches(labels) for expression in expressions):
        return False
    return not fields or all(_field_matches(field, fields) for field in of_fields)


def _node_requirement(expression: Obj) -> Requirement:
    values = frozenset(expression.get("values") or ())
    return Requirement(expression["key"], _NODE_OPERATORS[expression["operator"]], values)


def _field_matches(field: Obj, fields: Mapping[str, str]) -> bool:
    asks_for_equal: bool = field["operator"] == "In"
    return asks_for_equal == (fields.get(field["key"], "") == str(field["values"][0]))
