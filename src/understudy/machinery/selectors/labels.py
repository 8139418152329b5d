"""Label selectors: parsing, with the real server's error texts, and matching.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors (upstream:
`k8s.io/apimachinery/pkg/labels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.machinery.golang.text import aggregate, parse_int
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.caches import cache_short_texts
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.bad_values import Joined, Typed
from understudy.machinery.validation.field import Errors, Path, invalid
from understudy.machinery.validation.names import label_value_texts, qualified_name_texts

_WORDS = regex(r"==|!=|[=!(),<>]|[^=!(),<>\s]+")
_OPERATORS = {"in", "notin", "=", "==", "!=", ">", "<"}
_NAMES = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}
_OPERATOR_NAMES = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS = {"=", "==", "!=", "!", "(", ")", ",", ">", "<", ""}


Test = Callable[[Mapping[str, str]], bool]  # of labels


class SelectorError(ValueError):
    """A text that is not a selector; `str(error)` is the text that the real server answers."""


class Requirement(NamedTuple):
    """One condition of a label selector (upstream: `labels.Requirement`). `operator` is in, notin, exists, !, gt or
    lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether labels meet the requirement. `notin` is met by labels without the key."""
        return self.test()(labels)

    def test(self) -> Test:
        """Return `matches` for many objects: a function that knows operator and values already."""
        key, values = self.key, self.values
        match self.operator:
            case "exists":
                return lambda labels: key in labels
            case "!":
                return lambda labels: key not in labels
            case "in" if len(values) == 1:
                (only,) = values
                return lambda labels: labels.get(key) == only
            case "in":
                return lambda labels: labels.get(key) in values
            case "notin":
                return lambda labels: labels.get(key) not in values
        (limit,) = map(int, values)
        greater = self.operator == "gt"

        def compare(labels: Mapping[str, str]) -> bool:
            number = _integer(labels.get(key, ""))
            return number is not None and (number > limit if greater else number < limit)

        return compare


def _integer(text: str) -> int | None:
    """Return the integer that a text says, None if it is not an int64."""
    try:
        return parse_int(text)
    except ValueError:
        return None


class _Parser:
    """A recursive descent parser of label selectors (upstream: `labels.Parser`). It reads tokens one after the other;
    "" is the end."""

    def __init__(self, text: str, version: Version) -> None:
        self.words = _WORDS.findall(text)
        self.version = version
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
        _check(key_errors(word, Path()), self.version)
        if self.peek() in ("", ","):
            return Requirement(word, "!" if absent else "exists")
        if absent:
            return Requirement(word, "!")
        operator = self.take()
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{operator}', expected: {_OPERATOR_NAMES}")
        values = self.values() if operator in ("in", "notin") else self.exact_value()
        operator = _NAMES.get(operator, operator)
        _check(requirement_errors(word, operator, Typed(sorted(values), "[]string"), Path()), self.version)
        return Requirement(word, operator, frozenset(values))

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


def _check(errors: Errors, version: Version) -> None:
    if errors:
        raise SelectorError(aggregate([error.text(version) for error in errors]))


def key_errors(key: str, path: Path) -> Errors:
    """Check the key of a requirement (upstream: `validateLabelKey`)."""
    texts = qualified_name_texts(key)
    return [invalid(path, key, Joined(texts))] if texts else []


_SETS, _EXISTENCE, _COMPARISONS = ("in", "notin"), ("exists", "!"), ("gt", "lt")


def requirement_errors(key: str, operator: str, typed: Typed, path: Path) -> Errors:
    """Check a requirement. Upstream: `labels.NewRequirement`.

    operator  one of `Requirement`
    typed     the values: a list of strings, or None
    """
    errors = key_errors(key, path.child("key"))
    at, values = path.child("values"), typed.value or ()
    if operator in _SETS and not values:
        errors.append(invalid(at, typed, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in _EXISTENCE and values:
        errors.append(invalid(at, typed, "values set must be empty for exists and does not exist"))
    elif operator in _COMPARISONS:
        if len(values) != 1:
            errors.append(invalid(at, typed, "for 'Gt', 'Lt' operators, exactly one value is required"))
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [invalid(at.index(i), value, text) for i, value in enumerate(values) if _integer(value) is None]
    for i, value in enumerate(values):
        if texts := label_value_texts(value):
            errors.append(invalid(at.index(i).key(key), value, Joined(texts)))
    return errors


@cache_short_texts(1024)
def parse_labels(text: str, version: Version) -> tuple[Requirement, ...]:
    """Parse a label selector into requirements, all of which an object has to meet. Raises SelectorError."""
    return tuple(_Parser(text, version).parse())


def label_selector_matches(selector: Obj, labels: Mapping[str, str]) -> bool:
    """Report whether labels match a valid `LabelSelector` object, which matches everything if it is empty.

    Upstream: `LabelSelectorAsSelector`.
    """
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        Requirement(term["key"], OPERATORS_OF_OBJECTS[term["operator"]], frozenset(term.get("values") or ())).matches(
            labels
        )
        for term in selector.get("matchExpressions") or ()
    )


OPERATORS_OF_OBJECTS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
