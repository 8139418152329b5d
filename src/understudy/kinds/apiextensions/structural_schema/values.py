"""Validation of values with the texts and the order of kube-openapi's `validate` package.

A schema is compiled part by part, when the first value is checked by it. Each part has, for every type that a JSON
value may have, just the checks that concern that type; most have none, so that a valid value costs little more than a
walk.

    check = compile_values(schema, release)
    errors = validate(check, value, "status")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from understudy.kinds.apiextensions.structural_schema.correlation import Correlation
from understudy.kinds.apiextensions.structural_schema.formats import is_supported
from understudy.kinds.apiextensions.structural_schema.json_values import (
    compile_properties,
    is_same,
    json_type,
    with_go_numbers,
)
from understudy.kinds.apiextensions.structural_schema.numbers import compile_number, is_whole, to_int64
from understudy.kinds.apiextensions.structural_schema.result import Result
from understudy.machinery.golang.json_writer import as_read_again, encode_sorted
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.validation import strfmt
from understudy.machinery.validation.bad_values import LengthLimit, Untyped
from understudy.machinery.validation.field import Errors, ErrorType, at_most_items

# Checks a value at a place; the last argument says how it changed, None if nothing is known of that.
Check = Callable[[Any, str, Result, Correlation | None], None]


def validate(check: Check, value: Any, root: str = "", old: Correlation | None = None) -> Errors:
    """Return the errors of a value. `root` is the path of the value in front of all places in it.

    With `old`, errors of parts that did not change are left out (upstream: `RatchetingSchemaValidator`).
    """
    result = Result(root)
    check(value, "", result, old)
    return list(result.errors.values())


def compile_values(schema: Obj, version: Version, *, structural: bool = False) -> Check:
    """Return the check of values by a schema.

    A `structural` schema is what defaults are checked by: it knows formats that no release knows, and what is an
    integer or a string has no type (upstream: `Structural.ToKubeOpenAPI`).
    """
    return _Compiler(version, structural).compile(schema).check


class _Plan(NamedTuple):
    """The checks of values of one type, and how many checks of upstream's they pass at least."""

    matches: int
    checks: tuple[Check, ...]


class _Part:
    """The checks of the values of one schema, planned for each type of values when the first one comes.

    plans  by the types of values that have come
    """

    __slots__ = ("_compiler", "_schema", "plans")

    def __init__(self, compiler: _Compiler, schema: Obj) -> None:
        self._compiler = compiler
        self._schema = schema
        self.plans: dict[type, _Plan] = {}

    def check(self, value: Any, place: str, result: Result, old: Correlation | None) -> None:
        """Check a value, as `Check` says."""
        try:
            matches, checks = self.plans[type(value)]
        except KeyError:
            matches, checks = self.plans[type(value)] = self._compiler.plan(json_type(value), self._schema)
        own = result if old is None else Result(result.root)
        own.matches += matches
        for check in checks:
            check(value, place, own, old)
        if old is not None:
            if own.errors and old.is_unchanged:
                own.errors = {}
            result.merge(own)


class _Compiler(NamedTuple):
    """The compilation of one schema and those inside of it."""

    version: Version
    structural: bool

    def compile(self, schema: Obj) -> _Part:
        """Return the checks of values by a schema."""
        return _Part(self, schema)

    def _types(self, schema: Obj) -> tuple[str, ...]:
        if schema.get("x-kubernetes-int-or-string") and not self.structural:
            return ("integer", "string")
        return (schema["type"],) if schema.get("type") else ()

    def _format(self, schema: Obj, types: tuple[str, ...]) -> str:
        """Return the format of a schema, "" if it is ignored."""
        name: str = schema.get("format") or ""
        kind = types[0] if len(types) == 1 else ""
        return name if not name or self.structural or is_supported(name, kind, self.version) else ""

    def plan(self, kind: str, schema: Obj) -> _Plan:
        """Return the checks of values of a JSON type by a schema."""
        types = self._types(schema)
        string_format = self._format(schema, types)
        typed = bool(types or string_format)
        check_type = _compile_type(kind, types, string_format, bool(schema.get("nullable"))) if typed else None
        checks = [check_type]
        matches = int(check_type is None and (typed or kind == "null"))
        if kind != "null":
            matches += self._applying(kind, typed, string_format)
            checks.append(self._logic(schema))
        if kind == "string":
            checks += [_compile_string(schema), self._string_format(string_format)]
        elif kind in ("integer", "number"):
            checks.append(compile_number(schema, types, string_format, self.version, integers=kind == "integer"))
        elif kind == "array":
            checks.append(self._array(schema))
        checks.append(_compile_enum(schema.get("enum") or ()))
        if kind == "object":
            checks.append(self._object(schema))
        return _Plan(matches, tuple(check for check in checks if check is not None))

    def _applying(self, kind: str, typed: bool, string_format: str) -> int:
        """Return the number of upstream's checks of a value of a type: that decides which failure of `anyOf` is
        reported."""
        own = {"string": 1, "integer": 2, "number": 2, "array": 2, "object": 1}.get(kind, 0)
        has_format = kind == "string" and strfmt.format_of(string_format, self.version) is not None
        return 4 + typed + own + has_format

    def _string_format(self, name: str) -> Check | None:
        is_valid = strfmt.format_of(name, self.version)
        if is_valid is None:
            return None

        def check(value: str, place: str, result: Result, old: Correlation | None) -> None:
            if not is_valid(value):
                result.add_type(place, name, value)

        return check

    def _array(self, schema: Obj) -> Check | None:
        items, size = schema.get("items"), _compile_size(schema, "Items")
        check_item = self.compile(items).check if isinstance(items, dict) else None
        unique = schema.get("uniqueItems")
        if check_item is None and size is None and not unique:
            return None

        def check(value: list[Any], place: str, result: Result, old: Correlation | None) -> None:
            if check_item is not None:
                for i, item in enumerate(value):
                    check_item(item, f"{place}[{i}]", result, old and old.index(i))
            if size is not None:
                size(value, place, result, old)
            if unique and _has_duplicates(value):
                text = f"{place} in body shouldn't contain duplicates"
                result.add(ErrorType.INVALID, place, text, "")

        return check

    def _object(self, schema: Obj) -> Check | None:
        size, required = _compile_size(schema, "Properties"), tuple(schema.get("required") or ())
        properties = compile_properties(schema, self.compile)
        others = schema.get("additionalProperties")
        check_other = self.compile(others).check if isinstance(others, dict) else None
        forbidden = others is False
        if size is None and not required and not properties and check_other is None and not forbidden:
            return None

        def check(value: Obj, place: str, result: Result, old: Correlation | None) -> None:
            if size is not None:
                size(value, place, result, old)
            if forbidden or check_other is not None:
                for name in value.keys() - properties.keys() if properties else value:
                    if check_other is not None:
                        check_other(value[name], f"{place}.{name}", result, old and _old_field(old, name, place))
                    else:
                        text = f"{place}.{name} in body is a forbidden property"
                        result.add(ErrorType.INVALID, place, text, name)
            for name, item in value.items():
                part = properties.get(name)
                if part is None:
                    continue
                plan = part.plans.get(type(item))
                if plan is not None and not plan.checks and old is None:  # as for most values
                    result.matches += plan.matches
                    continue
                inside = f"{place}.{name}" if place else name
                part.check(item, inside, result, old and _old_field(old, name, place))
            for name in required:
                if name not in value:
                    missing = f"{place}.{name}"
                    result.add(ErrorType.REQUIRED, missing, f"{missing} in body is required", detail="")

        return check

    def _logic(self, schema: Obj) -> Check | None:
        any_of, one_of, all_of = (
            [self.compile(part).check for part in schema.get(name) or ()] for name in ("anyOf", "oneOf", "allOf")
        )
        negated = self.compile(schema["not"]).check if schema.get("not") is not None else None
        if not any_of and not one_of and not all_of and negated is None:
            return None

        def check(value: Any, place: str, result: Result, old: Correlation | None) -> None:
            if any_of:
                _check_any_of(any_of, value, place, result)
            if one_of:
                _check_one_of(one_of, value, place, result)
            if all_of:
                _check_all_of(all_of, value, place, result)
            if negated is not None and not _outcome(negated, value, place, result).errors:
                result.add_plain(f"{go_quote(place)} must not validate the schema (not)")

        return check


def _compile_type(kind: str, types: tuple[str, ...], type_format: str, nullable: bool) -> Check | None:
    """Return the check of values of one type, None if they fit (upstream: `typeValidator`)."""
    expected = ",".join(types)
    if kind == "null":
        if not types or nullable:
            return None
    elif kind in types or (kind == "integer" and "number" in types):
        return None
    elif type_format and kind in ("string", "array"):
        if not {"integer", "number"} & set(types):
            return None
    elif type_format:
        go_format = {"integer": "int64", "number": "float64"}.get(kind, "")
        if go_format != type_format:
            return _type_error(type_format, go_format, is_integer=kind == "number" and "integer" in types)
    return _type_error(expected, kind, is_integer=kind == "number" and "integer" in types)


def _type_error(expected: str, actual: str, *, is_integer: bool) -> Check:
    """Return the check that refuses every value, but whole numbers if it `is_integer` that is expected."""

    def check(value: Any, place: str, result: Result, old: Correlation | None) -> None:
        if is_integer and is_whole(value):
            result.matches += 1
        else:
            result.add_type(place, expected, actual)

    return check


def _compile_string(schema: Obj) -> Check | None:
    """Return the check of a text, which reports the first rule that is broken."""
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is None and least is None and not pattern:
        return None
    matches = _compile_pattern(pattern) if pattern else None

    def check(value: str, place: str, result: Result, old: Correlation | None) -> None:
        if most is not None and len(value) > most:
            text = f"{place} in body should be at most {most} chars long"
            result.add(ErrorType.TOO_LONG, place, text, detail=LengthLimit(most, in_bytes=False))
        elif least is not None and len(value) < least:
            result.add_invalid(place, value, f"should be at least {least} chars long")
        elif matches is not None and not matches(value):
            result.add_invalid(place, value, f"should match '{pattern}'")

    return check


def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return the check of a pattern, which is compiled when the first text is checked."""

    def matches(text: str) -> bool:
        from understudy.machinery.golang.regexp import compile_pattern  # here, since most schemas have none

        return compile_pattern(pattern).search(text) is not None

    return matches


def _compile_size(schema: Obj, unit: str) -> Check | None:
    """Return the check of the number of Items or Properties."""
    least, most = schema.get(f"min{unit}"), schema.get(f"max{unit}")
    if least is None and most is None:
        return None

    def check(value: Sequence[Any], place: str, result: Result, old: Correlation | None) -> None:
        count = len(value)
        if least is not None and count < least:
            result.add_invalid(place, count, f"should have at least {least} {unit.lower()}")
        if most is not None and count > most:
            text = f"{place} in body should have at most {most} {unit.lower()}"
            result.add(ErrorType.TOO_MANY, place, text, count, at_most_items(most))

    return check


def _compile_enum(values: Sequence[Any]) -> Check | None:
    if not values:
        return None
    allowed = as_read_again(with_go_numbers(values))

    def check(value: Any, place: str, result: Result, old: Correlation | None) -> None:
        if not any(_is_enum_value(value, item) for item in allowed):
            texts = (item if isinstance(item, str) else encode_sorted(item).decode() for item in allowed)
            detail = f"supported values: {', '.join(map(go_quote, texts))}"
            text = f"{place} in body should be one of {allowed}"
            result.add(ErrorType.NOT_SUPPORTED, place, text, Untyped(value), detail)

    return check


def _is_enum_value(value: Any, item: Any) -> bool:
    """Report whether a value, converted to the type of a value of an enum, is that value. Go converts numbers into each
    other, and integers into characters; it converts nothing to or from null."""
    if type(value) is str and type(item) is str:
        return value == item
    kinds = json_type(value), json_type(item)
    if kinds[0] == kinds[1]:
        return kinds[0] != "null" and is_same(value, item)
    if kinds == ("integer", "number"):
        return float(value) == float(item)
    if kinds == ("number", "integer"):
        return bool(to_int64(value) == item)
    if kinds == ("integer", "string"):
        is_character = 0 <= value < 0xD800 or 0xE000 <= value < 0x110000
        return (chr(value) if is_character else "\ufffd") == str(item)
    return False


def _old_field(old: Correlation, name: str, place: str) -> Correlation | None:
    """Return the old value of a field, None for version and kind of a whole object: these are always checked."""
    if not place and name in ("kind", "apiVersion"):
        return None
    return old.key(name)


def _has_duplicates(items: Sequence[Any]) -> bool:
    return any(is_same(item, before) for i, item in enumerate(items) for before in items[:i])


def _outcome(check: Check, value: Any, place: str, result: Result) -> Result:
    """Return the result of one alternative. What did not change is not known within logic."""
    outcome = Result(result.root)
    check(value, place, outcome, None)
    return outcome


def _check_any_of(parts: Sequence[Check], value: Any, place: str, result: Result) -> None:
    best: Result | None = None
    for part in parts:
        outcome = _outcome(part, value, place, result)
        if not outcome.errors:
            result.merge(outcome)
            return
        if best is None or outcome.matches > best.matches:
            best = outcome
    result.add_plain(f"{go_quote(place)} must validate at least one schema (anyOf)")
    if best is not None:
        result.merge(best)


def _check_one_of(parts: Sequence[Check], value: Any, place: str, result: Result) -> None:
    outcomes = [_outcome(part, value, place, result) for part in parts]
    fitting = [outcome for outcome in outcomes if not outcome.errors]
    if len(fitting) == 1:
        result.merge(fitting[0])
        return
    count = f"Found {len(fitting)} valid alternatives" if fitting else "Found none valid"
    result.add_plain(f"{go_quote(place)} must validate one and only one schema (oneOf). {count}")
    if not fitting:
        result.merge(max(outcomes, key=lambda outcome: outcome.matches))


def _check_all_of(parts: Sequence[Check], value: Any, place: str, result: Result) -> None:
    outcomes = [_outcome(part, value, place, result) for part in parts]
    for outcome in outcomes:
        result.merge(outcome)
    failed = sum(bool(outcome.errors) for outcome in outcomes)
    if failed:
        none = ". None validated" if failed == len(outcomes) else ""
        result.add_plain(f"{go_quote(place)} must validate all the schemas (allOf){none}")
