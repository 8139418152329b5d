"""The type checker: resolves names and overloads, and says what does not fit in cel-go's words.

It walks a tree once, writes `type` and `overloads` onto every node, and reports errors at the nodes' positions. Where
an error makes a type unknown the walk goes on with the error type, which fits everywhere, so that one mistake is
reported once. The rules are those of the CEL specification ("Gradual Type Checking"); texts are upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.admission.cel import types
from understudy.admission.cel.ast import (
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
    children,
    qualified_name,
)
from understudy.admission.cel.types import BOOL, DYN, ERROR, INT, Type

if TYPE_CHECKING:
    from understudy.admission.cel.checker.declarations import Declarations, Function, Overload
    from understudy.admission.cel.errors import Report

_LITERALS: Mapping[type, Type] = {
    bool: BOOL,
    bytes: types.BYTES,
    float: types.DOUBLE,
    int: INT,
    str: types.STRING,
    type(None): types.NULL,
    UnsignedInt: types.UINT,
}

# What a message type is called when it is one of the well-known ones that stand for a CEL type.
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


def check(root: Node, declarations: Declarations, report: Report) -> None:
    """Annotate the tree; afterwards no type holds a free variable. Errors go to `report`."""
    checker = _Checker(declarations, report)
    checker.check(root)
    checker.resolve_types(root)


class _Checker:
    def __init__(self, declarations: Declarations, report: Report) -> None:
        self._declarations = declarations
        self._report = report
        self._scopes: list[dict[str, Type]] = []
        self._bindings: types.Bindings = {}
        self._type_params = 0

    def resolve_types(self, root: Node) -> None:
        """Replace the free variables of every node's type by what they were found to be, else `dyn`."""
        pending = [root]
        while pending:
            node = pending.pop()
            if node.type is not None:
                node.type = types.substitute(self._bindings, node.type, type_param_to_dyn=True)
            pending.extend(children(node))

    def check(self, node: Node) -> Type:
        """The type of a node, noted on it."""
        match node:
            case Const():
                found = _LITERALS[type(node.value)]
            case Ident():
                found = self._ident(node)
            case Select():
                found = self._select(node)
            case Call():
                found = self._call(node)
            case ListExpr():
                found = self._list(node)
            case MapExpr():
                found = self._map(node)
            case StructExpr():
                found = self._struct(node)
            case Comprehension():
                found = self._comprehension(node)
            case _:
                found = ERROR
        node.type = found
        return found

    # names

    def _lookup_ident(self, name: str) -> Type | None:
        if name.startswith("."):
            # A leading dot skips the scopes of macros in the specification; upstream strips it and looks everywhere.
            name = name[1:]
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return self._declarations.variables.get(name)

    def _lookup_function(self, name: str) -> Function | None:
        return self._declarations.functions.get(name.removeprefix("."))

    def _ident(self, node: Ident) -> Type:
        found = self._lookup_ident(node.name)
        if found is None:
            return self._undeclared(node.pos, node.name)
        return found

    def _undeclared(self, pos: int, name: str) -> Type:
        self._report.add(pos, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    # selection

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name is not None and (found := self._lookup_ident(name)) is not None:
            return found
        field = self._check_select_field(node.pos, node.operand, node.field, optional=False)
        return types.substitute(self._bindings, BOOL if node.test_only else field)

    def _check_select_field(self, pos: int, operand: Node, field: str, *, optional: bool) -> Type:
        target, is_optional = types.unwrap_optional(types.substitute(self._bindings, self.check(operand)))
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
        fields = self._declarations.fields.get(message)
        if fields is None:
            self._report.add(pos, f"unexpected failed resolution of '{message}'")
        elif field in fields:
            return fields[field]
        else:
            self._report.add(pos, f"undefined field '{field}'")
        return ERROR

    # calls

    def _call(self, node: Call) -> Type:
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
            wanted, answer = self._instantiate(overload)
            bindings = types.unify(self._bindings, args, wanted)
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
        wrong = False
        for arg, found in zip(node.args, args, strict=True):
            if not self._assignable(found, BOOL):
                self._type_mismatch(arg.pos, BOOL, found)
                wrong = True
        node.overloads = (function.overloads[0].id,)
        return ERROR if wrong else BOOL

    def _instantiate(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The overload's arguments and result, with variables of its own for its type parameters."""
        if not overload.params:
            return overload.args, overload.result
        fresh = {param.text: self._fresh_type_param() for param in overload.params}
        return tuple(types.substitute(fresh, arg) for arg in overload.args), types.substitute(fresh, overload.result)

    def _no_overload(self, node: Call, name: str, args: list[Type]) -> None:
        texts = [types.substitute(self._bindings, arg, type_param_to_dyn=True).text for arg in args]
        target = f"{texts.pop(0)}." if node.target is not None else ""
        self._report.add(node.pos, f"found no matching overload for '{name}' applied to '{target}({', '.join(texts)})'")

    # aggregates

    def _list(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, child in enumerate(node.elements):
            found = self.check(child)
            if index in node.optional:
                found = self._unwrap_optional(child.pos, found)
            element = self._join_types(element, found)
        return types.list_of(element or self._fresh_type_param())

    def _map(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join_types(key, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self._unwrap_optional(entry.value.pos, found)
            value = self._join_types(value, found)
        if key is None or value is None:
            return types.map_of(self._fresh_type_param(), self._fresh_type_param())
        return types.map_of(key, value)

    def _unwrap_optional(self, pos: int, found: Type) -> Type:
        inner, is_optional = types.unwrap_optional(found)
        if not is_optional and not types.is_dyn(inner):
            self._type_mismatch(pos, types.optional_of(inner), inner)
        return inner

    def _join_types(self, before: Type | None, found: Type) -> Type:
        """The type of a collection's elements so far; mixed ones are `dyn` here, and refused in `validators`."""
        if before is None:
            return found
        return types.most_general(before, found) if self._assignable(before, found) else DYN

    def _struct(self, node: StructExpr) -> Type:
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
            found = self.check(field.value)
            wanted = self._lookup_field_type(field.pos, name, field.name)
            if field.optional:
                found = self._unwrap_optional(field.value.pos, found)
            if not self._assignable(wanted, found):
                self._report.add(
                    field.pos,
                    f"expected type of field '{field.name}' is '{wanted.text}' but provided type is '{found.text}'",
                )
        return result

    # comprehensions

    def _comprehension(self, node: Comprehension) -> Type:
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
        """The types of the iteration variables."""
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

    def _check_assignable(self, node: Node, wanted: Type) -> None:
        found = self.check(node)
        if not self._assignable(wanted, found):
            self._type_mismatch(node.pos, wanted, found)

    # helpers

    def _type_mismatch(self, pos: int, wanted: Type, found: Type) -> None:
        self._report.add(pos, f"expected type '{wanted.text}' but found '{found.text}'")

    def _assignable(self, source: Type, target: Type) -> bool:
        bindings = types.unify(self._bindings, (source,), (target,))
        if bindings is None:
            return False
        self._bindings = bindings
        return True

    def _fresh_type_param(self) -> Type:
        self._type_params += 1
        return types.type_param(f"_var{self._type_params - 1}")


def _well_known_name(type_: Type) -> str:
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
