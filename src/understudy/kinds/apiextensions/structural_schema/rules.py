"""The CEL rules of schemas, `x-kubernetes-validations`, at work on values (upstream: `apiserver/schema/cel`).

    rules = compile_rules(schema, release)
    outcome = rules.validate(value, old)
    outcome.errors, outcome.warnings

Each schema with rules is compiled once, when a value first comes to it. A value is converted for CEL at the outermost
schema with rules; those inside read the parts of that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from time import perf_counter
from typing import Any, Final

from understudy.cel import Budget, CostLimitError, EvaluationError, OutOfBudgetError
from understudy.cel.checker.declared_types import declared_type, has_typed_elements, is_typed
from understudy.cel.escaping import escape
from understudy.cel.interpreter.unstructured import Converter, converter
from understudy.cel.rules import NO_DECLARATION, Rule, compile_rule
from understudy.cel.types import with_type_and_object_meta
from understudy.cel.values import NONE, Optional, Value
from understudy.kinds.apiextensions.structural_schema.correlation import Correlation
from understudy.kinds.context import COMPILATION, EVALUATION, observe_nothing
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.validation.bad_values import Untyped
from understudy.machinery.validation.field import (
    OMITTED,
    Errors,
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
)
from understudy.machinery.validation.schema_paths import SchemaPathError, resolve

_RULES = "x-kubernetes-validations"
_UNTYPED = f"rule compiler initialization error: {NO_DECLARATION}"
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_NOT_CONVERTED: Final[Any] = object()
# Until 1.34 an error of a rule shows the type of the value instead of the value.
_SHOWS_VALUE = ByRelease({V1_35: True, V1_31: False})


@dataclass(frozen=True, slots=True)
class Ratcheting:
    """The change of a value: `current` is its correlation, `parent` the nearest one around it (`ratchetingOptions`)."""

    current: Correlation | None = None
    parent: Correlation | None = None

    def key(self, name: str) -> Ratcheting:
        """Return the ratcheting of a field. Kind and apiVersion of the whole object count as changed."""
        if self.current is None:
            return self
        if self.parent is None and name in ("apiVersion", "kind"):
            return Ratcheting()
        return Ratcheting(self.current.key(name), self.current)

    def index(self, index: int) -> Ratcheting:
        """Return the ratcheting of an element of a list."""
        return self if self.current is None else Ratcheting(self.current.index(index), self.current)

    def is_unchanged(self) -> bool:
        """Report whether the value, or the value around it that can be compared, is the old one."""
        known = self.current or self.parent
        return known is not None and known.is_unchanged


@dataclass(slots=True)
class Outcome:
    """The errors of a value. `warnings` are errors of rules that an unchanged value breaks as before."""

    errors: Errors = field(default_factory=list)
    warnings: Errors = field(default_factory=list)


class _StopError(Exception):
    """The end of an evaluation before its last rule: there is no budget left, or one rule cost too much."""


@dataclass(slots=True)
class _Evaluation:
    """One validation of a value.

    optional_rules  whether rules with `optionalOldSelf` apply to new values
    observe         counts the seconds of compilations and of evaluations
    """

    outcome: Outcome
    budget: Budget
    optional_rules: bool
    observe: Callable[[str, float], None]
    _compiling: float = 0.0  # seconds

    def seconds(self) -> float:
        """Return a time in seconds that stands still while rules are compiled."""
        return perf_counter() - self._compiling

    def add_compilation(self, seconds: float) -> None:
        """Count the compilation of the rules of a schema."""
        self._compiling += seconds
        self.observe(COMPILATION, seconds)


def compile_rules(
    schema: Obj, version: Version, *, resource_root: bool = True, typed: bool = True
) -> SchemaRules | None:
    """Return the validation of values by the rules within a structural schema, None if there are none.

    typed  whether CEL knows the type of the values (upstream: `declType`): else fields are not looked at. Items below
           a schema that describes no lists have none, and their rules are errors.
    """
    parts = (schema.get("properties") or {}) if typed and _has_fields(schema) else {}
    compiled = {name: _compile_part(part, version) for name, part in parts.items() if is_typed(part)}
    properties = {name: rules for name, rules in compiled.items() if rules is not None}
    typed_elements = typed and has_typed_elements(schema)
    others = _compile_part(schema.get("additionalProperties"), version, typed=typed_elements)
    items = _compile_part(schema.get("items"), version, typed=typed_elements)
    if not (schema.get(_RULES) or properties or others or items):
        return None
    return SchemaRules(schema, version, resource_root, typed, properties, others, items)


def _has_fields(schema: Obj) -> bool:
    """Report whether the values of a schema are objects with fields: no maps."""
    return schema.get("type") == "object" and not isinstance(schema.get("additionalProperties"), dict)


def _compile_part(schema: Any, version: Version, *, typed: bool = True) -> SchemaRules | None:
    if not isinstance(schema, dict):
        return None
    resource_root = bool(schema.get("x-kubernetes-embedded-resource"))
    return compile_rules(schema, version, resource_root=resource_root, typed=typed)


class SchemaRules:
    """The rules of a schema and of the schemas inside of it (upstream: `Validator`)."""

    def __init__(
        self,
        schema: Obj,
        version: Version,
        resource_root: bool,
        typed: bool,
        properties: dict[str, SchemaRules],
        others: SchemaRules | None,
        items: SchemaRules | None,
    ) -> None:
        self._schema = schema
        self._version = version
        self._resource_root = resource_root
        self._typed = typed
        self._properties = {name: (rules, escape(name)) for name, rules in properties.items()}
        self._others = others
        self._items = items
        self._go_type: str = schema.get("type") or ""
        self._is_compiled = False
        self._rules: tuple[Rule, ...] = ()

    def validate(
        self,
        value: Any,
        old: Any = None,
        *,
        path: Path | None = None,
        budget: Budget | None = None,
        correlation: Correlation | None = None,
        optional_rules: bool = True,
        observe: Callable[[str, float], None] = observe_nothing,
    ) -> Outcome:
        """Run the rules on a value, and on its change from an old one.

        old             the value that it replaces, None for a new one
        path            the path of the value in front of all others, that of the whole object by default
        budget          what the evaluation may cost, the budget of an object by default
        correlation     how the value changed: rules that unchanged parts break are warnings
        optional_rules  whether rules with `optionalOldSelf` apply to new values (the gate CRDValidationRatcheting)
        observe         counts the seconds of compilations and of evaluations
        """
        evaluation = _Evaluation(Outcome(), budget or Budget(), optional_rules, observe)
        with suppress(_StopError):
            self._validate(evaluation, path or Path(), value, old, Ratcheting(correlation), _NOT_CONVERTED)
        return evaluation.outcome

    def _validate(
        self, evaluation: _Evaluation, path: Path, value: Any, old: Any, ratcheting: Ratcheting, converted: Value
    ) -> None:
        """Validate a value and its parts, and count how long that takes.

        converted  the value as CEL sees it, `_NOT_CONVERTED` if nothing around it needed that
        """
        started = evaluation.seconds()
        try:
            if value is not None and self._schema.get(_RULES):
                converted = self._run(evaluation, path, value, old, ratcheting, converted)
            if isinstance(value, dict):
                self._validate_object(evaluation, path, value, old, ratcheting, converted)
            elif isinstance(value, list) and self._items is not None:
                self._validate_list(self._items, evaluation, path, value, old, ratcheting, converted)
        finally:
            evaluation.observe(EVALUATION, evaluation.seconds() - started)

    def _run(
        self, evaluation: _Evaluation, path: Path, value: Any, old: Any, ratcheting: Ratcheting, converted: Value
    ) -> Value:
        """Run the rules of the schema itself; return the value as CEL sees it."""
        if not self._typed:
            evaluation.outcome.errors.append(invalid(path, self._go_type, _UNTYPED))
            return converted
        if not self._is_compiled:
            self._compile(evaluation)
        if not self._rules:
            return converted
        if evaluation.budget.remaining <= 0:
            evaluation.outcome.errors.append(invalid(path, self._go_type, str(OutOfBudgetError())))
            raise _StopError
        if converted is _NOT_CONVERTED:
            converted = self._convert(value)
        _RuleRun(self, evaluation, path, value, ratcheting).run(self._variables(converted, old))
        return converted

    def _validate_list(
        self,
        items: SchemaRules,
        evaluation: _Evaluation,
        path: Path,
        value: list[Any],
        old: Any,
        ratcheting: Ratcheting,
        converted: Value,
    ) -> None:
        before = self._old_items(value, old)
        for i, item in enumerate(value):
            old_item = before.index(i) if before is not None else None
            items._validate(
                evaluation,
                path.index(i),
                item,
                old_item.old if old_item is not None else None,
                ratcheting.index(i),
                converted[i] if isinstance(converted, list) else _NOT_CONVERTED,
            )

    def _validate_object(
        self, evaluation: _Evaluation, path: Path, value: Obj, old: Any, ratcheting: Ratcheting, converted: Value
    ) -> None:
        before = old if isinstance(old, dict) else {}
        parts: Obj = converted if isinstance(converted, dict) else {}
        if self._others is not None:
            for name, each in value.items():
                part = parts.get(name, _NOT_CONVERTED)
                self._others._validate(evaluation, path.key(name), each, before.get(name), ratcheting.key(name), part)
        for name, each in value.items() if self._properties else ():
            if name in self._properties:
                rules, escaped = self._properties[name]
                part = parts.get(escaped, _NOT_CONVERTED) if escaped is not None else _NOT_CONVERTED
                rules._validate(evaluation, path.child(name), each, before.get(name), ratcheting.key(name), part)

    def _old_items(self, value: list[Any], old: Any) -> Correlation | None:
        """Return the correlation that finds old items by their keys, None if the list has no keys."""
        if not old or self._schema.get("x-kubernetes-list-type") != "map":
            return None
        return Correlation(value, old, self._schema)

    @cached_property
    def _convert(self) -> Converter:
        return converter(with_type_and_object_meta(self._schema) if self._resource_root else self._schema)

    def _compile(self, evaluation: _Evaluation) -> None:
        """Compile the rules of the schema itself, and count that."""
        started = perf_counter()
        declared = declared_type(self._schema, self._version, resource_root=self._resource_root)
        if declared is not None:
            self._rules = tuple(compile_rule(source, declared, self._version) for source in self._schema[_RULES])
        self._is_compiled = True
        evaluation.add_compilation(perf_counter() - started)

    @cached_property
    def _uses_old_self(self) -> bool:
        return any(rule.uses_old_self for rule in self._rules)

    def _variables(self, converted: Value, old: Any) -> dict[str, Value]:
        """Return `self`, and `oldSelf` if a rule uses it and there is an old value."""
        if old is None or not self._uses_old_self:
            return {"self": converted}
        return {"self": converted, "oldSelf": self._convert(old)}

    def field_path(self, rule: Rule, path: Path) -> Path:
        """Return the path that errors of a rule show: that of its `fieldPath`, or that of the value."""
        source: str = rule.source.get("fieldPath") or ""
        if not source:
            return path
        try:
            return path.child(resolve(self._schema, source, brackets=True)[0].text)
        except SchemaPathError:
            return path

    def shown(self, value: Any) -> Any:
        """Return a value as errors of rules show it."""
        if not _SHOWS_VALUE[self._version]:
            return self._go_type
        if self._go_type in ("object", "array"):
            return OMITTED
        return Untyped(value)


class _RuleRun:
    """The evaluation of the rules of one schema on one value."""

    def __init__(
        self, rules: SchemaRules, evaluation: _Evaluation, path: Path, value: Any, ratcheting: Ratcheting
    ) -> None:
        self._rules = rules
        self._evaluation = evaluation
        self._path = path
        self._value = value
        self._ratcheting = ratcheting

    def run(self, variables: dict[str, Value]) -> None:
        """Evaluate the rules. Raises `_StopError`."""
        for rule in self._rules._rules:
            if rule.compiled is None:
                continue
            optional = bool(rule.source.get("optionalOldSelf"))
            if rule.uses_old_self and "oldSelf" not in variables:
                if not (optional and self._evaluation.optional_rules):
                    continue
            seen = variables
            if optional:
                old = variables.get("oldSelf", _NOT_CONVERTED)
                seen = {**variables, "oldSelf": NONE if old is _NOT_CONVERTED else Optional(old)}
            self._run(rule, seen, variables)

    def _run(self, rule: Rule, seen: dict[str, Value], variables: dict[str, Value]) -> None:
        assert rule.compiled is not None
        text = _rule_text(rule.source)
        if rule.compiled.error is not None:
            self._add_invalid(f"rule compile error: {rule.compiled.error}")
            return
        try:
            result = rule.compiled.run(seen, self._evaluation.budget)
        except OutOfBudgetError as error:
            self._add_invalid(str(error))
            raise _StopError from None
        except CostLimitError as error:
            reason = "no further validation rules will be run due to call cost exceeds limit for rule"
            self._add_invalid(f"'{error}': {reason}: {text}")
            raise _StopError from None
        except EvaluationError as error:
            if str(error).startswith("no such overload"):
                reason = "call arguments did not match a supported operator, function or macro signature for rule"
                self._add_invalid(f"'{error}': {reason}: {text}")
            else:
                self._add_invalid(f"{error} evaluating rule: {text}")
            return
        if result is not True:
            self._add_broken(rule, variables)

    def _add_invalid(self, detail: str) -> None:
        """Add the error of a rule that could not be evaluated."""
        self._evaluation.outcome.errors.append(invalid(self._path, self._rules._go_type, detail))

    def _add_broken(self, rule: Rule, variables: dict[str, Value]) -> None:
        """Add the error of a value that breaks a rule."""
        path = self._rules.field_path(rule, self._path)
        try:
            detail = self._message(rule, variables)
        except _MessageError as error:
            self._add(rule, invalid(path, self._rules._go_type, str(error)))
            raise _StopError from None
        self._add(rule, _error(rule.source.get("reason"), path, self._rules.shown(self._value), detail))

    def _add(self, rule: Rule, error: FieldError) -> None:
        """Add an error; it is a warning if the rule and the value are as before."""
        outcome = self._evaluation.outcome
        is_known = not rule.uses_old_self and self._ratcheting.is_unchanged()
        (outcome.warnings if is_known else outcome.errors).append(error)

    def _message(self, rule: Rule, variables: dict[str, Value]) -> str:
        """Return the message of a broken rule. Raises `_MessageError` if its expression cost too much."""
        default = rule.source.get("message") or ""
        default = default.strip() if default else f"failed rule: {_rule_text(rule.source)}"
        if rule.message is None or rule.message.error is not None:
            return default
        try:
            message = rule.message.run(variables, self._evaluation.budget)
        except OutOfBudgetError:
            reason = "messageExpression evaluation failed due to running out of cost budget"
            raise _MessageError(f"{reason}, no further validation rules will be run") from None
        except CostLimitError:
            reason = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            raise _MessageError(f"{reason}: {go_quote(rule.source['messageExpression'])}") from None
        except EvaluationError:
            return default
        message = message.strip() if isinstance(message, str) else ""
        is_usable = message and "\n" not in message and len(message.encode()) <= _MAX_MESSAGE_BYTES
        return message if is_usable else default


class _MessageError(Exception):
    """The evaluation of a messageExpression cost too much; str(e) is the detail of the error."""


def _rule_text(source: Obj) -> str:
    """Return the text of a rule in errors: its message or itself."""
    text: str = source.get("message") or source.get("rule") or ""
    return text.strip()


def _error(reason: str | None, path: Path, value: Any, detail: str) -> FieldError:
    """Return the error with the reason that a rule names (`fieldErrorForReason`)."""
    match reason:
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return duplicate(path, value)
    return invalid(path, value, detail)
