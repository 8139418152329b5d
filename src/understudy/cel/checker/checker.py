"""The type checker: resolves names and overloads, and reports type errors in cel-go's words.

It walks a tree once, writes `type` and `overloads` onto every node, and reports errors at the nodes' offsets. Where an
error makes a type unknown, the walk continues with the error type, which is accepted everywhere, so that one mistake is
reported once. The rules are those of the CEL specification ("Gradual Type Checking"); the messages are cel-go's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.cel import types
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
    UnsignedInt,
    is_conditional,
    qualified_name,
    walk,
)
from understudy.cel.types import BOOL, DYN, ERROR, INT, Type
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version

if TYPE_CHECKING:
    from understudy.cel.checker.declarations import Declarations, Function, Overload
    from understudy.cel.errors import Report

_LITERALS: Mapping[type, Type] = {
    bool: BOOL,
    bytes: types.BYTES,
    float: types.DOUBLE,
    int: INT,
    str: types.STRING,
    type(None): types.NULL,
    UnsignedInt: types.UINT,
}

# The names of the well-known message types that stand for CEL types, by the kind of the type.
_WELL_KNOWN = {
    "any": "google.protobuf.Any",
    "bool": "google.protobuf.BoolValue",
    "bytes": "google.protobuf.BytesValue",
    "double": "google.protobuf.DoubleValue",
    "duration": "google.protobuf.Duration",
    "dyn": "google.protobuf.Value",
    "int": "google.protobuf.Int64Value",
    "list": "google.protobuf.ListValue",
    "null": "google.protobuf.NullValue",
    "map": "google.protobuf.Struct",
    "string": "google.protobuf.StringValue",
    "timestamp": "google.protobuf.Timestamp",
    "uint": "google.protobuf.UInt64Value",
}


def check(root: Node, declarations: Declarations, report: Report, version: Version) -> None:
    """Write types and overloads onto the tree, afterwards without free type parameters. Errors go to `report`.

    A leading dot stays only before the name of a variable of the environment that a macro's variable hides.
    """
    checker = _Checker(declarations, report, _SKIPS_MACROS[version])
    checker.check(root)
    checker.resolve_types(root)


# Whether a leading dot skips the variables of macros, as the specification has it; older cel-go only removes it.
_SKIPS_MACROS = ByRelease({V1_37: True, V1_31: False})


class _Checker:
    """Checks one tree; `_scopes` holds the variables of the comprehensions around the node that is being checked."""

    def __init__(self, declarations: Declarations, report: Report, dot_skips_macros: bool) -> None:
        self._dot_skips_macros = dot_skips_macros
        self._declarations = declarations
        self._report = report
        self._scopes: list[dict[str, Type]] = []
        self._bindings: types.Bindings = {}
        self._type_params = 0
        self._reported: dict[Node, tuple[int, int]] = {}  # counts of errors before and after the check of a conditional

    def resolve_types(self, root: Node) -> None:
        """Replace free type parameters in the type of every node by the types they are bound to, or else by `dyn`."""
        for node in walk(root):
            if node.type is not None:
                node.type = types.substitute(self._bindings, node.type, type_param_to_dyn=True)

    def check(self, node: Node) -> Type:
        """Return the type of a node, and write it onto the node. One that occurs again has the same errors again."""
        if is_conditional(node):
            return self._check_conditional(node)
        return self._check(node)

    def _check_conditional(self, node: Node) -> Type:
        if node.type is not None:
            self._report.repeat(*self._reported[node])
            return node.type
        first = self._report.count
        type_ = self._check(node)
        self._reported[node] = first, self._report.count
        return type_

    def _check(self, node: Node) -> Type:
        match node:
            case Const():
                type_ = _LITERALS[type(node.value)]
            case Ident():
                type_ = self._ident(node)
            case Select():
                type_ = self._select(node)
            case Call():
                type_ = self._call(node)
            case ListExpr():
                type_ = self._list(node)
            case MapExpr():
                type_ = self._map(node)
            case StructExpr():
                type_ = self._struct(node)
            case Comprehension():
                type_ = self._comprehension(node)
            case _:
                type_ = ERROR
        node.type = type_
        return type_

    # names

    def _lookup_ident(self, name: str) -> Type | None:
        """Return the type of a variable of a comprehension or of the environment, None if it is not declared."""
        if name.startswith("."):
            name = name[1:]
            if self._dot_skips_macros:
                return self._declarations.variable(name)
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._declarations.variable(name)

    def _lookup_function(self, name: str) -> Function | None:
        return self._declarations.functions.get(name.removeprefix("."))

    def _ident(self, node: Ident) -> Type:
        declared = self._lookup_ident(node.name)
        if declared is None:
            return self._undeclared(node.pos, node.name)
        bare = node.name.removeprefix(".")
        if not self._dot_skips_macros or not any(bare in scope for scope in self._scopes):
            node.name = bare
        return declared

    def _undeclared(self, pos: int, name: str) -> Type:
        """Report a name that is not declared, and return the error type."""
        self._report.add(pos, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    # selection

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name is not None and (declared := self._lookup_ident(name)) is not None:
            return declared
        field = self._check_select_field(node.pos, node.operand, node.field, optional=False)
        return types.substitute(self._bindings, BOOL if node.test_only else field)

    def _check_select_field(self, pos: int, operand: Node, field: str, *, optional: bool) -> Type:
        """Return the type of a field of a map, message, optional or dynamic operand (`checkSelectField`)."""
        declared = self.check(operand)  # first, since it may bind type parameters
        target, is_optional = types.unwrap_optional(types.substitute(self._bindings, declared))
        match target.kind:
            case "map":
                result = target.params[1]
            case "struct":
                result = self._lookup_field_type(pos, target.name, field)
            case "param":
                self._assignable(DYN, target)
                result = DYN
            case _:
                if not types.is_dyn_or_error(target):
                    self._report.add(pos, f"type '{target.text}' does not support field selection")
                result = DYN
        return types.optional_of(result) if optional or is_optional else result

    def _lookup_field_type(self, pos: int, message: str, field: str) -> Type:
        """Return the type of a message's field, or report that there is none (`lookupFieldType`)."""
        fields = self._declarations.fields_of(message)
        if fields is None:
            self._report.add(pos, f"unexpected failed resolution of '{message}'")
        elif field in fields:
            return fields[field]
        else:
            self._report.add(pos, f"undefined field '{field}'")
        return ERROR

    # calls

    def _call(self, node: Call) -> Type:
        """Return the type of a call; `a.b.f(x)` may be the function `a.b.f` or the method `f` of `a.b`."""
        if node.function == "_?._":
            operand, field = node.args
            assert isinstance(field, Const)
            field.type = types.STRING
            node.overloads = ("select_optional_field",)
            result = self._check_select_field(node.pos, operand, str(field.value), optional=True)
            return types.substitute(self._bindings, result)
        args = [self.check(arg) for arg in node.args]
        if node.target is None:
            return self._resolve_overload(node, node.function, args)
        prefix = qualified_name(node.target)
        if prefix is not None and self._lookup_function(f"{prefix}.{node.function}") is not None:
            node.function, node.target = f"{prefix}.{node.function}".removeprefix("."), None
            return self._resolve_overload(node, node.function, args)
        return self._resolve_overload(node, node.function, [self.check(node.target), *args])

    def _resolve_overload(self, node: Call, name: str, args: list[Type]) -> Type:
        """Return the result type of a call, and write all overloads that accept the arguments onto the node.

        If overloads with different results match, as they do for dynamic arguments, the result is `dyn`.
        """
        function = self._lookup_function(name)
        if function is None:
            return self._undeclared(node.pos, name)
        node.function = function.name
        if name in ("_&&_", "_||_"):
            return self._logical(node, function, args)
        matched: list[str] = []
        result: Type | None = None
        for overload in function.overloads:
            if overload.method is (node.target is None):
                continue
            params, answer = self._instantiate(overload)
            bindings = types.unify(self._bindings, args, params)
            if bindings is None:
                continue
            self._bindings = bindings
            matched.append(overload.id)
            answer = types.substitute(bindings, answer)
            if result is None:
                result = answer
            elif not types.is_dyn(result) and not types.is_exact_type(answer, result):
                result = DYN
        if result is None:
            self._no_overload(node, function.name, args)
            return ERROR
        node.overloads = tuple(matched)
        return result

    def _logical(self, node: Call, function: Function, args: list[Type]) -> Type:
        """Return the type of `&&` or `||`, whose operands must be bool."""
        wrong = False
        for arg, actual in zip(node.args, args, strict=True):
            if not self._assignable(actual, BOOL):
                self._type_mismatch(arg.pos, BOOL, actual)
                wrong = True
        node.overloads = (function.overloads[0].id,)
        return ERROR if wrong else BOOL

    def _instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Return the arguments and the result of an overload with fresh type parameters in place of its own."""
        if not overload.params:
            return overload.args, overload.result
        fresh = {param.text: self._fresh_type_param() for param in overload.params}
        return tuple(types.substitute(fresh, arg) for arg in overload.args), types.substitute(fresh, overload.result)

    def _no_overload(self, node: Call, name: str, args: list[Type]) -> None:
        """Report that no overload accepts the arguments."""
        texts = [types.substitute(self._bindings, arg, type_param_to_dyn=True).text for arg in args]
        target = f"{texts.pop(0)}." if node.target is not None else ""
        self._report.add(node.pos, f"found no matching overload for '{name}' applied to '{target}({', '.join(texts)})'")

    # aggregates

    def _list(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, child in enumerate(node.elements):
            actual = self.check(child)
            if index in node.optional:
                actual = self._unwrap_optional(child.pos, actual)
            element = self._join_types(element, actual)
        return types.list_of(element or self._fresh_type_param())

    def _map(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join_types(key, self.check(entry.key))
            actual = self.check(entry.value)
            if entry.optional:
                actual = self._unwrap_optional(entry.value.pos, actual)
            value = self._join_types(value, actual)
        if key is None or value is None:
            return types.map_of(self._fresh_type_param(), self._fresh_type_param())
        return types.map_of(key, value)

    def _unwrap_optional(self, pos: int, actual: Type) -> Type:
        """Return the type inside of an optional element, or report that it is not optional."""
        inner, is_optional = types.unwrap_optional(actual)
        if not is_optional and not types.is_dyn(inner):
            self._type_mismatch(pos, types.optional_of(inner), inner)
        return inner

    def _join_types(self, before: Type | None, actual: Type) -> Type:
        """Return the type of a collection's elements so far (`joinTypes`).

        Mixed types become `dyn` here; `validators` refuses them.
        """
        if before is None:
            return actual
        return types.most_general(before, actual) if self._assignable(before, actual) else DYN

    def _struct(self, node: StructExpr) -> Type:
        """Return the type of a message literal, after checking its fields."""
        declared = self._lookup_ident(node.name)
        if declared is None:
            return self._undeclared(node.pos, node.name)
        name = node.name.removeprefix(".")
        result = ERROR
        if declared.kind == "type":
            result = declared.params[0] if declared.params else types.TYPE
            known = _well_known_name(result)
            if known:
                name = known
            elif result.kind == "struct":
                name = result.name
            else:
                self._report.add(node.pos, f"'{result.declared_name}' is not a message type")
                result = ERROR
        elif declared.kind != "error":
            self._report.add(node.pos, f"'{declared.declared_name}' is not a type")
        node.name = name
        for field in node.fields:
            actual = self.check(field.value)
            expected = self._lookup_field_type(field.pos, name, field.name)
            if field.optional:
                actual = self._unwrap_optional(field.value.pos, actual)
            if not self._assignable(expected, actual):
                self._report.add(
                    field.pos,
                    f"expected type of field '{field.name}' is '{expected.text}' but provided type is '{actual.text}'",
                )
        return result

    # comprehensions

    def _comprehension(self, node: Comprehension) -> Type:
        """Return the type of a comprehension, after checking its parts in the scope of its variables."""
        self.check(node.iter_range)
        accu = self.check(node.accu_init)
        range_ = types.substitute(self._bindings, node.iter_range.type or ERROR)
        first, second = self._iteration_types(node, range_)
        self._scopes.append({node.accu_var: accu})
        inner = {node.iter_var: first}
        if node.iter_var2:
            inner[node.iter_var2] = second
        self._scopes.append(inner)
        self._check_assignable(node.condition, BOOL)
        self._check_assignable(node.step, accu)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return types.substitute(self._bindings, result)

    def _iteration_types(self, node: Comprehension, range_: Type) -> tuple[Type, Type]:
        """Return the types of the iteration variables."""
        match range_.kind:
            case "list":
                element = range_.params[0]
                return (INT, element) if node.iter_var2 else (element, element)
            case "map":
                return range_.params[0], range_.params[1]
            case "dyn" | "error" | "param":
                self._assignable(DYN, range_)
                return DYN, DYN
        self._report.add(
            node.iter_range.pos,
            f"expression of type '{range_.text}' cannot be range of a comprehension (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def _check_assignable(self, node: Node, expected: Type) -> None:
        """Check a node, and report it if its type is not the expected one."""
        actual = self.check(node)
        if not self._assignable(expected, actual):
            self._type_mismatch(node.pos, expected, actual)

    # helpers

    def _type_mismatch(self, pos: int, expected: Type, actual: Type) -> None:
        self._report.add(pos, f"expected type '{expected.text}' but found '{actual.text}'")

    def _assignable(self, source: Type, target: Type) -> bool:
        """Report whether one type is assignable to another, and keep the bindings that this needs."""
        bindings = types.unify(self._bindings, (source,), (target,))
        if bindings is None:
            return False
        self._bindings = bindings
        return True

    def _fresh_type_param(self) -> Type:
        """Return a type parameter that occurs nowhere else (`newTypeVar`)."""
        self._type_params += 1
        return types.type_param(f"_var{self._type_params - 1}")


def _well_known_name(type_: Type) -> str:
    """Return the name of the well-known message that a type stands for, "" if there is none."""
    match type_.kind:
        case "any" | "timestamp" | "duration" | "dyn" | "null":
            known = True
        case "bool" | "bytes" | "double" | "int" | "string" | "uint":
            known = type_.nullable
        case "list":
            known = type_.params[0] is DYN
        case "map":
            known = type_.params[0] is types.STRING and type_.params[1] is DYN
        case _:
            known = False
    return _WELL_KNOWN[type_.kind] if known else ""
