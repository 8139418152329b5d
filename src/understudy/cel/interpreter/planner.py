"""The planner: turns a checked tree into a program, one Python closure for each node (`interpreter/planner.go`).

Errors are `EvaluationError`s with cel-go's texts. `&&` and `||` ignore an error on one side if the other side decides;
so do `all` and `exists`, which are comprehensions made of them. Where the checker could not choose one overload,
because an attribute may be of any type, the call chooses by the run-time types of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from understudy.cel.ast import (
    Call,
    Comprehension,
    Const,
    Ident,
    ListExpr,
    MapExpr,
    Node,
    Select,
    StructExpr,
    is_conditional,
    qualified_name,
    uses_name,
    walk,
)
from understudy.cel.checker.declarations import Declarations, Overload
from understudy.cel.errors import EvaluationError
from understudy.cel.interpreter.control_flow import SPECIAL_CALLS, Program, Scope, attempt
from understudy.cel.interpreter.field_access import has_field, new_message, optional_entry, select_field
from understudy.cel.interpreter.type_guards import type_guard
from understudy.cel.library.shared_lists import GrowingList, GrowingMap, grown
from understudy.cel.limits.interrupts import current_meter
from understudy.cel.values import NONE, Value, map_key, map_keys, raise_if_error, run_time_type, type_name
from understudy.machinery.golang import regexp
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, ByRelease, Version

# In 1.32 a range that fails is taken for one of a wrong type by macros with two variables.
_NAMES_RANGE_ERRORS = ByRelease({V1_33: False, V1_32: True, V1_31: False})
_CONVERSIONS = frozenset(["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"])


class PlanError(Exception):
    """The expression has no type errors but cannot be turned into a program; the text is cel-go's."""


@cache
def overload_bindings(library: str, version: Version) -> Mapping[str, Callable[..., Value]]:
    """Return the functions behind the overloads of a library in a release, by overload id.

    A library is imported when an expression first calls one of its functions: all would take 0.02 s.
    """
    module = import_module(f"understudy.cel.library.{library}")
    bindings: Mapping[str, Callable[..., Value]] = module.FUNCTIONS
    return {**bindings, **module.functions_of(version)} if hasattr(module, "functions_of") else bindings


def plan(root: Node, declarations: Declarations, version: Version) -> Program:
    """Return the program of a checked tree. Raises `PlanError`, as for constants that cannot be converted."""
    return with_hidden_variables(root, Planner(declarations, version).plan(root))


def with_hidden_variables(root: Node, program: Program) -> Program:
    """Return a program whose scope has the variables of the environment that macros' variables of their names hide.

    They have a dot before their names, as in the tree.
    """
    hidden = {node.name for node in walk(root) if isinstance(node, Ident) and node.name.startswith(".")}
    if not hidden:
        return program
    return lambda scope: program({**scope, **{name: scope[name[1:]] for name in hidden if name[1:] in scope}})


class Planner:
    """Plans one tree.

    `_constants` has the values of nodes that do not change, `_accumulators` the names of accumulators, `_conditionals`
    the programs of conditionals.
    """

    def __init__(self, declarations: Declarations, version: Version) -> None:
        self._declarations = declarations
        self._version = version
        self._names_range_errors = _NAMES_RANGE_ERRORS[version]
        self._constants: dict[Node, Value] = {}
        self._accumulators: set[str] = set()
        self._conditionals: dict[Node, Program] = {}

    def plan(self, node: Node) -> Program:
        """Return the program of a node."""
        match node:
            case Const(value=value):
                return self._constant(node, value)
            case Ident():
                return self._ident(node.name, node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListExpr():
                return self._list(node)
            case MapExpr():
                return self._map(node)
            case StructExpr():
                return self._struct(node)
            case Comprehension():
                return self._comprehension(node)
        raise PlanError(f"unsupported expression: {type(node).__name__}")

    def _constant(self, node: Node, value: Value) -> Program:
        """Return the program of a node that always has the same value."""
        self._constants[node] = value
        return lambda _scope: value

    # names and fields

    def _ident(self, name: str, node: Node) -> Program:
        """Return the program of a variable, or of a type used as a value."""
        declared = self._declarations.variable(name.removeprefix("."))
        if declared is not None and declared.kind == "type" and node.type is not None and node.type.kind == "type":
            if name in _UNDEFINED_TYPES or name.startswith("kubernetes."):
                raise PlanError(f"reference to undefined type: {name}")
            return self._constant(node, run_time_type(declared.params[0]) if declared.params else declared)
        if name == "google.protobuf.NullValue.NULL_VALUE":
            return self._constant(node, 0)
        if name in self._accumulators:
            return lambda scope: _accumulated(scope[name])
        return _variable(name)

    def _select(self, node: Select) -> Program:
        name = qualified_name(node)
        if name is not None and self._declarations.variable(name.removeprefix(".")) is not None:
            return self._ident(name.removeprefix("."), node)
        operand, field = self.plan(node.operand), node.field
        if node.test_only:
            return lambda scope: has_field(operand(scope), field)
        return lambda scope: select_field(operand(scope), field)

    # calls

    def _call(self, node: Call) -> Program:
        if is_conditional(node):
            return self._conditional(node, self.plan)
        special = SPECIAL_CALLS.get(node.function)
        if special is not None:
            parts = [self.plan(part) for part in ([node.target] if node.target else []) + node.args]
            return special(*parts)
        self._check_constant_pattern(node)
        arguments = ([node.target] if node.target else []) + node.args
        parts = [self.plan(part) for part in arguments]
        call = self._binding(node)
        if node.function in _CONVERSIONS and arguments[0] in self._constants:
            return self._constant_conversion(node, call, self._constants[arguments[0]])
        return self._apply(node, call, parts)

    def _conditional(self, node: Call, plan: Callable[[Node], Program]) -> Program:
        """Return the program of a conditional, which may occur again; `plan` returns those of what it chooses from."""
        if node not in self._conditionals:
            condition, yes, no = node.args
            self._conditionals[node] = SPECIAL_CALLS[node.function](self.plan(condition), plan(yes), plan(no))
        return self._conditionals[node]

    def _apply(self, _node: Call, call: Callable[..., Value], parts: list[Program]) -> Program:
        """Return the program that calls a function with the values of programs."""
        if len(parts) == 1:
            (only,) = parts
            return lambda scope: call(only(scope))
        if len(parts) == 2:
            left, right = parts
            return lambda scope: call(left(scope), right(scope))
        return lambda scope: call(*[part(scope) for part in parts])

    def _constant_conversion(self, node: Node, call: Callable[..., Value], argument: Value) -> Program:
        """Return the program of a constant that is converted while planning. Raises `PlanError` if it cannot be."""
        try:
            value = call(argument)
        except EvaluationError as error:
            raise PlanError(str(error)) from None
        return self._constant(node, value)

    def _check_constant_pattern(self, node: Call) -> None:
        """Compile a constant regular expression while planning. Raises `PlanError` if it is invalid."""
        if node.function not in ("matches", "find", "findAll"):
            return
        pattern = node.args[0] if node.target is not None else node.args[1]
        if isinstance(pattern, Const) and isinstance(pattern.value, str):
            try:
                regexp.compile_pattern(pattern.value)
            except regexp.PatternError as error:
                raise PlanError(str(error)) from None

    def _binding(self, node: Call) -> Callable[..., Value]:
        """Return the function of a call: of its one overload, or one that chooses by the types of the arguments."""
        declared = {overload.id: overload for overload in self._declarations.functions[node.function].overloads}
        chosen = []
        for overload in map(declared.__getitem__, node.overloads):
            function = overload_bindings(overload.library, self._version).get(overload.id)
            if function is not None:
                chosen.append((_signature_guard(overload), function))
        name = node.function
        if len(chosen) == 1 and _needs_no_guard(node, declared[node.overloads[0]]):
            return chosen[0][1]

        def call(*args: Value) -> Value:
            for fits, function in chosen:
                if fits(*args):
                    return function(*args)
            raise EvaluationError(no_such_overload(name, args))

        return call

    # aggregates

    def _list(self, node: ListExpr) -> Program:
        parts = [(self.plan(element), index in node.optional) for index, element in enumerate(node.elements)]
        if all(element in self._constants for element in node.elements):
            return self._constant(node, [self._constants[element] for element in node.elements])
        if not node.optional:
            plain = [part for part, _ in parts]
            return lambda scope: [part(scope) for part in plain]

        def build(scope: Scope) -> Value:
            out = []
            for part, optional in parts:
                value = part(scope)
                if not optional:
                    out.append(value)
                elif (inner := optional_entry(value)) is not NONE:
                    out.append(inner.value)
            return out

        return build

    def _map(self, node: MapExpr) -> Program:
        parts = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]

        def build(scope: Scope) -> Value:
            out: dict[Any, Value] = {}
            for key, value, optional in parts:
                name, entry = map_key(key(scope)), value(scope)
                if optional:
                    entry = optional_entry(entry)
                    if entry is NONE:
                        out.pop(name, None)
                        continue
                    entry = entry.value
                out[name] = entry
            return out

        if all(part in self._constants for entry in node.entries for part in (entry.key, entry.value)):
            return self._constant(node, build({}))
        return build

    def _struct(self, node: StructExpr) -> Program:
        parts = [(field.name, self.plan(field.value)) for field in node.fields]
        name = node.name
        fields = self._declarations.fields_of(name) or {}

        def build(scope: Scope) -> Value:
            values = {field: part(scope) for field, part in parts}
            return new_message(name, values, fields)

        return build

    # comprehensions

    def _comprehension(self, node: Comprehension) -> Program:
        """Return the program of a comprehension.

        Errors of a step are kept as values, since a later step may ignore them.
        """
        range_, init = self.plan(node.iter_range), self.plan(node.accu_init)
        self._accumulators.add(node.accu_var)
        condition, step, result = self.plan(node.condition), self.plan(node.step), self.plan(node.result)
        accu, variable, second = node.accu_var, node.iter_var, node.iter_var2
        entries = _pairs if second else _elements
        new_collection = _collection_of(node)
        if self._constants.get(node.condition, True) is False:
            return lambda scope: result({**scope, accu: _Bound(init, scope)})
        is_constant_true = isinstance(node.condition, Const) and node.condition.value is True

        if second and self._names_range_errors:
            range_ = _naming_errors(range_)

        def run(scope: Scope) -> Value:
            values = range_(scope)
            kind = type(values)
            if not isinstance(values, (list, dict)):
                go_type = _GO_TYPES.get(kind, kind.__name__)
                if second:
                    raise EvaluationError(f"unsupported comprehension range type: {go_type}")
                raise EvaluationError(f"got '{go_type}', expected iterable type")
            inner = dict(scope)
            value = attempt(init, scope) if new_collection is None else new_collection()
            meter, uncounted = current_meter(), 0
            for element in entries(values):
                uncounted += 1
                if uncounted == _COUNTED_TOGETHER:
                    meter.count(uncounted)
                    uncounted = 0
                inner[accu] = value
                if second:
                    inner[variable], inner[second] = element
                else:
                    inner[variable] = element
                if not is_constant_true and not condition(inner):
                    break
                value = attempt(step, inner)
            meter.count(uncounted)
            return result({**scope, accu: grown(value)})

        return run


def _collection_of(node: Comprehension) -> Callable[[], GrowingList | GrowingMap] | None:
    """Return the class of what a comprehension only collects in, None if a step looks at what was collected so far."""
    step, accu = node.step, node.accu_var
    parts: list[Node] = []
    if isinstance(step, Call) and step.function == "_?_:_":
        predicate, step, unchanged = step.args
        if not _is_name(unchanged, accu):
            return None
        parts.append(predicate)
    if not isinstance(step, Call) or step.function not in _COLLECTING or not _is_name(step.args[0], accu):
        return None
    if any(uses_name(part, accu) for part in [*parts, *step.args[1:]]):
        return None
    match node.accu_init:
        case ListExpr(elements=[]):
            return GrowingList
        case MapExpr(entries=[]):
            return GrowingMap
    return None


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


_COLLECTING = ("_+_", "cel.@mapInsert")
_COUNTED_TOGETHER = 128  # elements of a range


def _variable(name: str) -> Program:
    """Return the program of a variable, which the caller of an evaluation may have left out."""

    def read(scope: Scope) -> Value:
        try:
            return scope[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None

    return read


def _naming_errors(range_: Program) -> Program:
    """Return the program of a range that reports every error as a range of a wrong type."""

    def run(scope: Scope) -> Value:
        try:
            return range_(scope)
        except EvaluationError:
            raise EvaluationError("unsupported comprehension range type: *types.Err") from None

    return run


class _Bound:
    """The value of a name that `cel.bind` gives: it is evaluated when it is first used."""

    __slots__ = ("_init", "_scope", "_value")

    def __init__(self, init: Program, scope: Scope) -> None:
        self._init = init
        self._scope: Scope | None = scope
        self._value: Value = None

    def value(self) -> Value:
        """Return the value, which may be an error."""
        if self._scope is not None:
            scope, self._scope = self._scope, None
            self._value = attempt(self._init, scope)
        return self._value


def _accumulated(value: Value) -> Value:
    """Return the value of an accumulator. Raises `EvaluationError` if it is an error."""
    return raise_if_error(value.value() if type(value) is _Bound else value)


def _elements(values: Value) -> list[Value]:
    """Return the elements of a list or the keys of a map."""
    return values if isinstance(values, list) else list(map_keys(values))


def _pairs(values: Value) -> Iterable[tuple[Value, Value]]:
    """Return the indices of a list with its elements, or the keys of a map with its values."""
    if isinstance(values, list):
        return enumerate(values)
    return zip(map_keys(values), values.values(), strict=True)


# The names of types that cel-go declares but has no run-time value for.
_UNDEFINED_TYPES = frozenset(
    ["duration", "timestamp", "google.protobuf.Struct.FieldsEntry"]
    + [
        f"google.protobuf.{name}"
        for name in [
            "Any",
            "BoolValue",
            "BytesValue",
            "DoubleValue",
            "FloatValue",
            "Int32Value",
            "Int64Value",
            "ListValue",
            "StringValue",
            "Struct",
            "UInt32Value",
            "UInt64Value",
            "Value",
        ]
    ]
)

_GO_TYPES = {
    bool: "types.Bool",
    bytes: "types.Bytes",
    float: "types.Double",
    int: "types.Int",
    str: "types.String",
    type(None): "types.Null",
}


# The kinds of types whose values always have that type at run time.
_CHECKED_KINDS = frozenset(["bool", "bytes", "double", "int", "string", "uint", "struct", "opaque"])


def _needs_no_guard(node: Call, overload: Overload) -> bool:
    """Report whether the checker has proved that the arguments match, so that nothing is left to test at run time."""
    arguments = ([node.target] if node.target else []) + node.args
    return all(
        type_guard(declared_type) is None or (arg.type is not None and arg.type.kind in _CHECKED_KINDS)
        for declared_type, arg in zip(overload.args, arguments, strict=True)
    )


# The overloads whose functions test their arguments themselves (`DisableTypeGuards`).
_UNGUARDED = frozenset(["list_flatten", "list_flatten_int"])


@cache
def _signature_guard(overload: Overload) -> Callable[..., bool]:
    """Return the test that arguments match an overload (`matchesRuntimeSignature`)."""
    tests = [None if overload.id in _UNGUARDED else type_guard(arg) for arg in overload.args]

    def fits(*args: Value) -> bool:
        return len(args) == len(tests) and all(test is None or test(arg) for test, arg in zip(tests, args, strict=True))

    return fits


def no_such_overload(name: str, args: tuple[Value, ...]) -> str:
    """Return cel-go's message for arguments of wrong run-time types; standard functions do not name the types."""
    if name == "size":
        return "no such overload: size"
    if hasattr(args[0], "cel_type") and name in ("_<_", "_<=_", "_>_", "_>=_"):
        return f"no such overload: {name}"
    if name.startswith(("_", "@", "!", "-")) or name in _STANDARD_METHODS:
        return "no such overload"
    return f"no such overload: {name}({', '.join(type_name(arg) for arg in args)})"


_STANDARD_METHODS = frozenset(
    [
        "contains",
        "endsWith",
        "matches",
        "startsWith",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
    ]
)
