"""Makes functions of the recorded rules of a type; `scripts/record/govalidations` describes their form.

A value is JSON in the version of the request. A field that is not set is None, whatever its Go type: a struct that is
no pointer is then taken for an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.declared_rules.checks import CHECKS, OPTIONAL, items_stay
from understudy.kinds.declared_rules.run import Check, Found, Run, Steps
from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Field, List, Map, Scalar, Schemas, Shape, Struct
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, FieldError, Path, duplicate, forbidden, invalid, required


class Program:
    """The declared rules of a release."""

    @staticmethod
    @cache
    def of(version: Version) -> Program:
        """Return the rules of a release, which are read once."""
        return Program(version)

    def __init__(self, version: Version) -> None:
        recorded = read_release_file(version, "validations.json")
        self._recorded = recorded["types"]
        self._requests = recorded["requests"]
        self._schemas = Schemas.of(version)
        self._types: dict[str, Steps] = {}
        self._telling_types: dict[str, bool] = {}

    def of_request(self, group: str, version: str, kind: str, subresource: str) -> Steps | None:
        """Return the rules for a request about a kind, None if there are none. "" is the subresource of the object."""
        if not self._schemas.has_kind(group, version, kind):
            return None
        struct = self._schemas.kind(group, version, kind)
        return self._of_type(struct.name) if f"/{subresource}" in self._requests.get(struct.name, ()) else None

    def _of_type(self, name: str) -> Steps:
        """Return the rules of a type, which may refer to itself."""
        if name not in self._types:
            self._types[name] = lambda run, path, value, old: self._types[name](run, path, value, old)
            self._types[name] = self._steps(self._recorded[name], self._schemas.shape(name))
        return self._types[name]

    def _tells(self, steps: Sequence[Any]) -> bool:
        """Report whether anybody is told of what steps find: not of alpha rules, nor of those that are quiet."""
        return any(map(self._step_tells, steps))

    def _step_tells(self, step: Sequence[Any]) -> bool:
        match step:
            case ["field", _, steps] | ["group", steps]:
                return self._tells(steps)
            case ["type", name]:
                if name not in self._telling_types:
                    self._telling_types[name] = True  # if it is within itself
                    self._telling_types[name] = self._tells(self._recorded[name])
                return self._telling_types[name]
        if not {"a", "q"}.isdisjoint(step[0]):
            return False
        inner = [part["steps"] for part in step[2:] if isinstance(part, dict) and "steps" in part]
        return not inner or any(map(self._tells, inner))

    def _steps(self, steps: Sequence[Any], shape: Shape | None) -> Steps:
        """Return recorded steps as one. An error of those that stop ends them, after all that stop."""
        others: list[Steps] = []
        for is_field, group in groupby(filter(self._step_tells, steps), _is_field):
            alike = [step for step in group if not _stops(step)]
            others += [self._fields(alike, shape)] if is_field else [self._step(step, shape) for step in alike]
        if not others and not self._tells(steps):
            return _find_nothing
        stopping = [(self._step(step, shape), _is_quiet(step)) for step in steps if _stops(step)]
        if len(others) == 1 and not stopping:
            return others[0]

        def run_all(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
            errors: list[Found] = []
            stopped = False
            for each, is_quiet in stopping:
                if wrong := each(run, path, value, old):
                    stopped = True
                    errors += [] if is_quiet else wrong
            if not stopped:
                for each in others:
                    errors += each(run, path, value, old)
            return errors

        return run_all

    def _step(self, step: Sequence[Any], shape: Shape | None) -> Steps:
        match step:
            case ["group", steps] | ["field", "", steps]:  # of an inlined struct
                return self._steps(steps, shape)
            case ["type", name]:
                return self._of_type(name)
        flags, name, *arguments = step
        stage = flags.strip("sq")
        return self._check(name, arguments, shape, stage)

    def _fields(self, steps: Sequence[Any], shape: Shape | None) -> Steps:
        """Return the rules of fields, which are not asked about what an update leaves as it was."""
        rules = [self._field(name, of_field, shape) for _, name, of_field in steps]

        def run_fields(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
            errors: list[Found] = []
            for name, is_struct, is_optional, checks, changed in rules:
                new, stored = value.get(name) if value else None, old.get(name) if old else None
                if is_struct:  # is never missing
                    new, stored = new or {}, None if old is None else stored or {}
                elif new is None and stored is None and is_optional:
                    continue
                if old is None:
                    errors += checks(run, path.child(name), new, stored)
                elif new != stored or not run.update:
                    errors += changed(run, path.child(name), new, stored)
            return errors

        return run_fields

    def _field(self, name: str, steps: Sequence[Any], shape: Shape | None) -> tuple[str, bool, bool, Steps, Steps]:
        """Return a field's name, whether it is a struct, whether it is optional, and its rules: those of a new value
        and those of a changed one."""
        field = shape.fields.get(name) if isinstance(shape, Struct) else None
        checks = self._steps(steps, field.type if field else None)
        is_struct = field is not None and isinstance(field.type, Struct) and not field.pointer
        return name, is_struct, any(step[1] in OPTIONAL for step in steps), checks, _of_changes(checks)

    def _check(self, name: str, arguments: Sequence[Any], shape: Shape | None, stage: str = "") -> Steps:
        """Return a check with its arguments, whose errors are of a stage."""
        if name in _OF_PARTS:
            return _marked(_OF_PARTS[name](self, shape, *arguments), stage)
        if name in _OF_FIELDS:
            return _found(_OF_FIELDS[name](_fields(shape), *arguments), stage)
        return _found(CHECKS[name](*map(_plain, arguments)), stage)

    def validator(self, argument: Obj, shape: Shape | None) -> Steps:
        """Return the steps that an argument names for each part of a value, be it one check or several."""
        if "check" in argument:
            return self._check(argument["check"], (), shape)
        return self._steps(argument["steps"], shape)


# --- Checks of parts of a value: each is made from the program, the shape of the value, and arguments ---------------


def _each_item(program: Program, shape: Shape | None, match: Obj | None, equal: Obj | None, validator: Obj) -> Steps:
    """Return the rules of a list's items; an item is the stored one that it matches (upstream: `EachValSliceVal`)."""
    element = shape.element if isinstance(shape, List) else None
    key, check = _key_of(match, element), program.validator(validator, element)
    changed = _of_changes(check)

    def each(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
        errors: list[Found] = []
        stored = {} if key is None else {repr(key(item)): item for item in reversed(old or ())}
        for i, item in enumerate(value or ()):
            before = None if key is None else stored.get(repr(key(item)))
            errors += (check if before is None else changed)(run, path.index(i), item, before)
        return errors

    return each


def _each_value(program: Program, shape: Shape | None, equal: Obj | None, validator: Obj) -> Steps:
    """Return the rules of a map's values (upstream: `EachMapVal`)."""
    check = program.validator(validator, shape.value if isinstance(shape, Map) else None)
    changed = check if equal is None else _of_changes(check)

    def each(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
        errors: list[Found] = []
        for key, item in (value or {}).items():
            before = (old or {}).get(key)
            errors += (check if before is None else changed)(run, path.key(key), item, before)
        return errors

    return each


def _each_key(program: Program, shape: Shape | None, validator: Obj) -> Steps:
    """Return the rules of a map's keys, which are reported at the map (upstream: `EachMapKey`)."""
    check = program.validator(validator, None)

    def each(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
        new = [key for key in value or () if not (run.update and key in (old or ()))]
        return [one for key in new for one in check(run, path, key, None)]

    return each


def _if_option(program: Program, shape: Shape | None, option: str, enabled: bool, validator: Obj) -> Steps:
    """Return rules that hold while an option is on, or while it is off (upstream: `IfOption`)."""
    check = program.validator(validator, shape)
    return lambda run, path, value, old: check(run, path, value, old) if run.options(option) == enabled else []


def _subfield(program: Program, shape: Shape | None, name: str, field: Obj, equal: Obj, validator: Obj) -> Steps:
    """Return rules of one field of a struct (upstream: `Subfield`)."""
    check = program.validator(validator, None)
    changed = _of_changes(check)
    of_type = _fields(shape)[field["field"]]
    unset = "" if isinstance(of_type.type, Scalar) and of_type.type.kind == "string" and not of_type.pointer else None

    def of_field(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
        new, stored = (value or {}).get(name, unset), None if old is None else old.get(name, unset)
        return (check if old is None else changed)(run, path.child(name), new, stored)

    return of_field


def _discriminated(
    program: Program,
    shape: Shape | None,
    name: str,
    field: Obj,
    discriminator: Obj,
    equal: Obj,
    default: Obj | None,
    rules: Sequence[tuple[str, Obj | None]],
) -> Steps:
    """Return rules of a field that depend on another one's value (upstream: `Discriminated`)."""
    by_value = {value: None if steps is None else program.validator(steps, None) for value, steps in rules}
    otherwise = None if default is None else program.validator(default, None)
    chosen_by = _fields(shape)[discriminator["field"]].json

    def of_member(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
        new, choice = value.get(name), value.get(chosen_by) or ""
        stored, before = (None, None) if old is None else (old.get(name), old.get(chosen_by) or "")
        check = by_value.get(choice, otherwise)
        if check is None:
            return []
        return (_of_changes(check) if old is not None and choice == before else check)(
            run, path.child(name), new, stored
        )

    return of_member


_OF_PARTS: Mapping[str, Callable[..., Steps]] = {
    "EachValSliceVal": _each_item,
    "EachMapVal": _each_value,
    "EachMapKey": _each_key,
    "IfOption": _if_option,
    "Subfield": _subfield,
    "Discriminated": _discriminated,
}


# --- Checks of the fields of a struct, or of a list's items: each is made from fields by Go name --------------------

Fields = Mapping[str, Field]


def _union(fields: Fields, names: Sequence[str], *members: Obj) -> Check:
    """Return a check that exactly one member is set (upstream: `Union`)."""
    return _one_of(fields, names, members, "must specify exactly one of", "must specify one of")


def _zero_or_one(fields: Fields, names: Sequence[str], *members: Obj) -> Check:
    """Return a check that at most one member is set (upstream: `ZeroOrOneOfUnion`)."""
    return _one_of(fields, names, members, "must specify at most one of", None)


def _one_of(fields: Fields, names: Sequence[str], members: Sequence[Obj], several: str, none: str | None) -> Check:
    set_in = [_is_set(fields, member) for member in members]
    listed = ", ".join(f"`{name}`" for name in names)

    def check(run: Run, path: Path, value: Any, old: Any) -> Errors:
        present = [is_set(value) for is_set in set_in]
        if run.update and old is not None and present == [is_set(old) for is_set in set_in]:
            return []
        given = [name for name, is_present in zip(names, present, strict=True) if is_present]
        if len(given) > 1:
            return [invalid(path, f"{{{', '.join(given)}}}", f"{several}: {listed}")]
        return [invalid(path, "", f"{none}: {listed}")] if not given and none is not None else []

    return check


def _dependent(present_too: bool, error: Callable[[Path, str], FieldError], text: str) -> Callable[..., Check]:
    """Return the maker of a check that one field goes with another (upstream: `DependentRequired`, `-Forbidden`)."""

    def made(fields: Fields, trigger: str, triggers: Obj, dependent: str, depends: Obj) -> Check:
        set_in = (_is_set(fields, triggers), _is_set(fields, depends))

        def check(run: Run, path: Path, value: Any, old: Any) -> Errors:
            present = [is_set(value) for is_set in set_in]
            if run.update and old is not None and present == [is_set(old) for is_set in set_in]:
                return []
            wrong = present[0] and present[1] is not present_too
            return [error(path.child(dependent), text.format(trigger))] if wrong else []

        return check

    return made


def _unique(fields: Fields, match: Obj) -> Check:
    """Return a check that no two items of a list are the same (upstream: `ValSliceUnique`)."""
    element = getattr(fields, "element", None)
    key = _key_of(match, element)
    go_type = element.name if isinstance(element, Struct) else ""

    def check(run: Run, path: Path, value: Any, old: Any) -> Errors:
        seen: set[str] = set()
        errors: Errors = []
        for i, item in enumerate(value or ()):
            mark = repr(item if key is None else key(item))
            if mark in seen:
                errors.append(duplicate(path.index(i), Typed(item, go_type) if go_type else item))
            seen.add(mark)
        return errors

    return check


def _list_update(fields: Fields, match: Obj, *constraints: Obj) -> Check:
    """Return a check of how the items of a list change (upstream: `ValSliceUpdate`)."""
    key = _key_of(match, getattr(fields, "element", None))
    return items_stay(key or repr, *(constraint["check"] for constraint in constraints))


_OF_FIELDS: Mapping[str, Callable[..., Check]] = {
    "Union": _union,
    "ZeroOrOneOfUnion": _zero_or_one,
    "DependentRequired": _dependent(True, required, "must be set when {} is set"),
    "DependentForbidden": _dependent(False, forbidden, "may not be set when {} is set"),
    "ValSliceUnique": _unique,
    "ValSliceUpdate": _list_update,
}


class _ByGoName(dict[str, Field]):
    """The fields of a struct, or of a list's items, by Go name; `element` is the shape of the items of a list."""

    element: Shape | None = None


def _fields(shape: Shape | None) -> _ByGoName:
    element = shape.element if isinstance(shape, List) else None
    struct = element or shape
    made = _ByGoName({field.go_name: field for field in struct.fields.values()} if isinstance(struct, Struct) else {})
    made.element = element
    return made


def _key_of(match: Obj | None, element: Shape | None) -> Callable[[Any], Any] | None:
    """Return a function of the keys of a list's item, or of the whole item; None if items have no identity."""
    if match is None:
        return None
    if "keys" not in match:
        return lambda item: item
    by_go_name = _fields(element)
    names = [by_go_name[key].json for key in match["keys"]]
    return lambda item: [item.get(name) for name in names]


def _is_set(fields: Fields, member: Obj) -> Callable[[Any], bool]:
    """Return whether a field of a value is set, or whether a list has an item with some values."""
    if "item" in member:
        values = {fields[name].json: value for name, value in member["item"].items()}
        return lambda items: any(all(item.get(k) == v for k, v in values.items()) for item in items or ())
    field = fields[member["field"]]
    name = field.json
    unset: tuple[Any, ...] = (None, []) if field.pointer else (None, "", [])
    return lambda value: (value or {}).get(name) not in unset


def _plain(argument: Any) -> Any:
    """Return an argument without checks: {"check": name} is a constant's name."""
    return argument["check"] if isinstance(argument, dict) else argument


def _is_field(step: Sequence[Any]) -> bool:
    return bool(step[0] == "field" and step[1])


def _stops(step: Sequence[Any]) -> bool:
    """Report whether an error of a step ends the steps: one that stops them, or one that is not told."""
    return step[0] not in ("field", "group", "type") and not {"s", "q"}.isdisjoint(step[0])


def _is_quiet(step: Sequence[Any]) -> bool:
    return "q" in step[0]


def _find_nothing(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
    return []


def _of_changes(check: Steps) -> Steps:
    """Return the rules of a value that find nothing in one that an update leaves as it was."""

    def changed(run: Run, path: Path, value: Any, old: Any) -> list[Found]:
        if run.update and value == old:  # mostly; values that differ in what counts for nothing are seldom wrong
            return []
        errors = check(run, path, value, old)
        return [] if errors and run.update and semantic_deep_equal(value, old) else errors

    return changed


def _found(check: Check, stage: str) -> Steps:
    return lambda run, path, value, old: [Found(error, stage) for error in check(run, path, value, old)]


def _marked(steps: Steps, stage: str) -> Steps:
    """Return steps whose errors are of a stage, unless it is ""."""
    if not stage:
        return steps
    return lambda run, path, value, old: [Found(one.error, stage) for one in steps(run, path, value, old)]
