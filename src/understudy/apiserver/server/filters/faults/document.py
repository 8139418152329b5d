"""Rules as JSON and YAML: what `/understudy/faults` and the option `faults` read, and how rules are listed.

    {"fault": "tooManyRequests", "retryAfter": 5, "verb": "list", "resource": "pods", "nth": 2}
    {"chaos": {"seed": 7, "share": 0.05}, "namespace": "team-*"}

The names of faults and of their fields are those of `Fault` and its methods, the others those of `Faults.add`, in
camel case.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path as FilePath
from typing import Any, TypeVar

from understudy.apiserver.server.filters.faults.fault import Fault
from understudy.apiserver.server.filters.faults.faults import Faults, FiredFault, Where
from understudy.apiserver.server.filters.faults.rules import CHAOS, Chaos, FaultRule, Rule
from understudy.machinery.errors import StatusError
from understudy.machinery.util.regex import regex
from understudy.machinery.util.spelling import did_you_mean
from understudy.machinery.validation.field import (
    Errors,
    Path,
    invalid,
    not_supported,
    required,
    type_invalid,
)

M = TypeVar("M")
_UPPER = regex("[A-Z]")
# Types of fields, as annotations write them: how JSON calls them, and the Python types that stand for them.
_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "int": ("an integer", (int,)),
    "int | None": ("an integer", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("a boolean", (bool,)),
    "str": ("a string", (str,)),
    "str | Collection[str]": ("a string or a list of strings", (str, list)),
}
_COUNTS = {"nth": "int", "times": "int"}
_WHERE = dict.fromkeys(Where.__annotations__, "str") | {"verb": "str | Collection[str]"}


class InvalidRulesError(Exception):
    """Rules that cannot be; `errors` say why."""

    def __init__(self, errors: Errors) -> None:
        super().__init__(", ".join(error.field for error in errors))
        self.errors = errors


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _snake(name: str) -> str:
    return _UPPER.sub(lambda match: f"_{match[0].lower()}", name)


def _factories() -> dict[str, Callable[..., Fault]]:
    """Return the methods of `Fault` that make one, by their names in camel case."""
    members = [name for name, member in vars(Fault).items() if isinstance(member, staticmethod)]
    return {_camel(name): getattr(Fault, name) for name in members}


def read_rules(documents: Sequence[Any], faults: Faults, path: Path | None = None) -> list[Rule]:
    """Return the rules of some documents, which are not in force yet. Raises InvalidRulesError with all that is wrong.

    path  of the list, None for a single document
    """
    rules, problems = [], []
    for at, document in enumerate(documents):
        reader = _Reader(faults, Path() if path is None else path.index(at))
        rules.append(reader.rule(document))
        problems += reader.errors
    if problems:
        raise InvalidRulesError(problems)
    return [rule for rule in rules if rule is not None]


class _Reader:
    """Reads one rule, and collects what is wrong with it."""

    def __init__(self, faults: Faults, path: Path) -> None:
        self._faults = faults
        self._path = path
        self.errors: Errors = []

    def rule(self, document: Any) -> Rule | None:
        """Return the rule of a document, None if there are errors."""
        if not isinstance(document, dict):
            self.errors.append(type_invalid(self._path, _shown(document), "want an object"))
            return None
        if "chaos" in document:
            return self._chaos(document)
        fault, rest = self._fault(document, self._path)
        options = self._fields(rest, {**_WHERE, **_COUNTS}, self._path)
        if fault is None or self.errors:
            return None
        return self._made(lambda: self._faults.new_rule(fault, **options), document)

    def _chaos(self, document: dict[str, Any]) -> Rule | None:
        path, given = self._path.child("chaos"), document["chaos"]
        where = self._fields({name: document[name] for name in document if name != "chaos"}, _WHERE, self._path)
        if not isinstance(given, dict):
            self.errors.append(type_invalid(path, _shown(given), "want an object"))
            return None
        faults = self._faults_of(given.get("faults"), path.child("faults")) if "faults" in given else CHAOS
        numbers = {name: value for name, value in given.items() if name != "faults"}
        options = self._fields(numbers, {"seed": "int", "share": "float"}, path)
        self.errors += [required(path.child(name)) for name in ("seed", "share") if name not in given]
        if self.errors:
            return None
        return self._made(lambda: self._faults.new_chaos(**options, faults=faults, **where), document)

    def _faults_of(self, documents: Any, path: Path) -> Sequence[Fault]:
        """Return the faults that chaos chooses from."""
        if not isinstance(documents, list):
            self.errors.append(type_invalid(path, _shown(documents), "want a list"))
            return ()
        faults = [self._only_fault(each, path.index(at)) for at, each in enumerate(documents)]
        return [fault for fault in faults if fault is not None]

    def _only_fault(self, document: Any, path: Path) -> Fault | None:
        """Return a fault that chaos may choose: without a selector."""
        if not isinstance(document, dict):
            self.errors.append(type_invalid(path, _shown(document), "want an object"))
            return None
        fault, rest = self._fault(document, path)
        self._fields(rest, {}, path)
        return fault

    def _fault(self, document: dict[str, Any], path: Path) -> tuple[Fault | None, dict[str, Any]]:
        """Return the fault of a document, None if there are errors, and the fields that are not the fault's."""
        factories, name = _factories(), document.get("fault")
        rest = {field: value for field, value in document.items() if field != "fault"}
        if name is None:
            self.errors.append(required(path.child("fault")))
        elif name not in factories:
            self.errors.append(not_supported(path.child("fault"), _shown(name), sorted(factories)))
        if not isinstance(name, str) or name not in factories:
            return None, {}
        parameters = inspect.signature(factories[name]).parameters
        types = {field: str(parameter.annotation) for field, parameter in parameters.items()}
        own = {field: rest.pop(field) for field in list(rest) if _snake(field) in types}
        missing = [_camel(each.name) for each in parameters.values() if each.default is each.empty]
        self.errors += [required(path.child(field)) for field in missing if field not in own]
        arguments = self._fields(own, types, path)
        if self.errors:
            return None, rest
        return self._made(lambda: factories[name](**arguments), name, path), rest

    def _fields(self, given: Mapping[str, Any], types: Mapping[str, str], path: Path) -> dict[str, Any]:
        """Return fields by their Python names; note those that are unknown or of a wrong type."""
        values = {}
        for field, value in given.items():
            name = _snake(field)
            if name not in types or field != _camel(name):
                hint = did_you_mean(field, map(_camel, types))
                self.errors.append(invalid(path.child(field), _shown(value), f"unknown field{hint}"))
                continue
            text, classes = _TYPES[types[name]]
            items = value if isinstance(value, list) else ()
            is_boolean = isinstance(value, bool) and bool not in classes
            if not isinstance(value, classes) or is_boolean or not all(isinstance(item, str) for item in items):
                self.errors.append(type_invalid(path.child(field), _shown(value), f"want {text}"))
            values[name] = value
        return values

    def _made(self, make: Callable[[], M], document: Any, path: Path | None = None) -> M | None:
        """Call a function that makes something; return None, with an error noted, if it refuses."""
        path = path or self._path
        try:
            return make()
        except StatusError as why:
            self.errors.append(invalid(path.child("resource"), document["resource"], why.message))
        except ValueError as why:
            self.errors.append(invalid(path, _shown(document), str(why)))
        return None


def _shown(value: Any) -> Any:
    """Return a value as an error shows it: scalars as they are, others as JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value


# --- files ----------------------------------------------------------------------------------------------------


def read_file(path: str | PathLike[str]) -> list[Any]:
    """Return the documents of a file of YAML or JSON, the items of those that are lists.

    Raises ValueError, which names the file, for one that cannot be read.
    """
    from understudy.machinery.golang.yaml_reader import YAMLError, load_yaml  # most servers read no YAML

    try:
        documents = [obj for obj, *_ in load_yaml(FilePath(path).read_text())]
    except (OSError, UnicodeDecodeError) as why:
        raise ValueError(f"{path}: {getattr(why, 'strerror', None) or why}") from None
    except YAMLError as why:
        raise ValueError(f"{path}: {why}") from None
    items = [each for document in documents for each in (document if isinstance(document, list) else [document])]
    return [item for item in items if item is not None]


def chaos_document(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the rule of the option `chaos`, {"seed": "7", "share": "0.05"}. Numbers that are none stay texts."""
    return {"chaos": {name: _number(text) for name, text in options.items()}}


def _number(text: str) -> int | float | str:
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text


# --- listings -------------------------------------------------------------------------------------------------


def described(rule: Rule) -> dict[str, Any]:
    """Return a rule as it is listed: as it would be read, with `id`, `matched` and `fired`."""
    content: dict[str, Any] = {"id": rule.id}
    if isinstance(rule, FaultRule):
        content |= _described_fault(rule.fault)
        content |= {} if rule.times is None else {"nth": rule.nth, "times": rule.times}
    elif isinstance(rule, Chaos):
        content["chaos"] = {"seed": rule.seed, "share": rule.share}
        if rule.faults != CHAOS:
            content["chaos"]["faults"] = [_described_fault(fault) for fault in rule.faults]
    where = {_camel(name): value for name, value in rule.selector.given.items()}
    return {**content, **where, "matched": rule.matched, "fired": rule.fired}


def described_fired(fired: FiredFault) -> dict[str, Any]:
    """Return a fault that has taken effect, as it is listed."""
    request = {"verb": fired.verb, "path": fired.path, "user": fired.user}
    return {"rule": fired.rule, **_described_fault(fired.fault), **request}


def _described_fault(fault: Fault) -> dict[str, Any]:
    return {"fault": _camel(fault.name), **{_camel(name): value for name, value in fault.parameters.items()}}
