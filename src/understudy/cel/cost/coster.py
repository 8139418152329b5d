"""The walk over a tree that adds up its cost (`coster` of cel-go).

Sizes follow values: from a variable of `cel.bind` or of a macro to its uses, and from a list or map to its entries.
"""

from __future__ import annotations

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
)
from understudy.cel.cost.call_cost import call_rules, estimate_call_cost
from understudy.cel.cost.estimate import (
    LIMIT,
    ONE,
    SCALARS,
    UNKNOWN_SIZE,
    ZERO,
    AstNode,
    Estimate,
    Path,
    SizeEstimator,
    fixed,
)
from understudy.cel.types import Type
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple

LIST, MAP, MESSAGE = fixed(10), fixed(30), fixed(40)
INDEXED = {"index_list": "@items", "index_map": "@values"}


class EntrySize(NamedTuple):
    """The sizes of the keys (or indices) and of the values of a collection; `kind` is `list` or `map`."""

    kind: str
    key: Estimate
    value: Estimate


class _LocalVariable(NamedTuple):
    """A variable of a macro: where its value comes from, and its sizes if they are known."""

    path: Path
    size: Estimate | None = None
    entry_size: EntrySize | None = None


class Coster:
    """Estimates one tree.

    `_paths` says where the values of nodes come from, `_sizes` how large they are, `_entry_sizes` how large their
    entries are, and `_variables` has the variables of macros in scope by name, the innermost last. `_conditionals` has
    the costs of conditionals, which may occur again.
    """

    def __init__(self, version: Version, estimate_size: SizeEstimator) -> None:
        self._estimate_size = estimate_size
        self._rules = call_rules(version)
        self._paths: dict[Node, Path] = {}
        self._sizes: dict[Node, Estimate] = {}
        self._entry_sizes: dict[Node, EntrySize] = {}
        self._variables: dict[str, list[_LocalVariable]] = {}
        self._conditionals: dict[Node, Estimate] = {}

    def cost(self, node: Node) -> Estimate:
        """Return the cost of evaluating a node, with everything inside it."""
        match node:
            case Const():
                return ZERO
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListExpr():
                return self._list(node)
            case MapExpr():
                return self._map(node)
            case StructExpr():
                return self._sum_of([field.value for field in node.fields]) + MESSAGE
            case Comprehension():
                return self._comprehension(node)
        return ZERO

    def _sum_of(self, nodes: list[Node]) -> Estimate:
        total = ZERO
        for node in nodes:
            total += self.cost(node)
        return total

    # names and fields

    def _ident(self, node: Ident) -> Estimate:
        variable = self._local(node)
        self._paths[node] = (node.name,) if variable is None else variable.path
        return ONE

    def _select(self, node: Select) -> Estimate:
        total = self.cost(node.operand)
        if node.test_only:
            return total
        kind = node.operand.type.kind if node.operand.type else ""
        if kind in ("map", "struct", "param"):
            total += ONE
        self._paths[node] = (*self._path(node.operand), node.field)
        return total

    # calls

    def _call(self, node: Call) -> Estimate:
        if not is_conditional(node):
            return self._cost_of_call(node)
        if node not in self._conditionals:
            self._conditionals[node] = self._cost_of_call(node)
        return self._conditionals[node]

    def _cost_of_call(self, node: Call) -> Estimate:
        if node.function == "dyn":
            return self._dyn(node)
        costs = [self.cost(arg) for arg in node.args]
        args = [self._node(arg) for arg in node.args]
        if not node.overloads:
            return ZERO
        before, target = ZERO, None
        if node.target is not None:
            before = self.cost(node.target)
            target = self._node(node.target)
        lowest, highest, result = LIMIT, 0, None
        for overload in node.overloads:
            own, size = self._function_cost(node, overload, target, args, costs)
            lowest, highest = min(lowest, own.min), max(highest, own.max)
            if size is not None:
                result = size if result is None else result | size
            if overload in INDEXED:
                entry = self._entry_size(node.args[0])
                result = entry.value if entry else None
                self._paths[node] = (*self._path(node.args[0]), INDEXED[overload])
            if result is None:
                result = self._size(node)
        if result is not None:
            self._sizes[node] = result
        return before + Estimate(lowest, highest)

    def _dyn(self, node: Call) -> Estimate:
        """Return the cost of `dyn(x)`, which keeps the sizes of its argument."""
        cost = self.cost(node.args[0])
        self._copy_sizes(node, node.args[0])
        return ONE + cost

    def _function_cost(
        self, node: Call, overload: str, target: AstNode | None, args: list[AstNode], costs: list[Estimate]
    ) -> tuple[Estimate, Estimate | None]:
        """Return the cost of one call with its arguments, and the size of its result or None (`functionCost`)."""
        if overload in ("logical_and", "logical_or"):
            return Estimate(costs[0].min, (costs[0] + costs[1]).max), None
        if overload == "conditional":
            self._unite_entry_sizes(node, node.args[1], node.args[2])
            return costs[0] + (costs[1] | costs[2]), args[1].size_estimate | args[2].size_estimate
        if overload in ("add_string", "add_bytes", "add_list"):
            self._unite_entry_sizes(node, node.args[0], node.args[1])
        arguments = ZERO
        for cost in costs:
            arguments += cost
        own, size = estimate_call_cost(self._rules, node.function, overload, target, args)
        return own + arguments, size

    def _unite_entry_sizes(self, node: Node, one: Node, other: Node) -> None:
        """Keep the sizes of entries of a value that comes from one or the other node, if both are known."""
        left, right = self._entry_size(one), self._entry_size(other)
        if left is not None and right is not None:
            self._entry_sizes[node] = EntrySize(left.kind, left.key | right.key, left.value | right.value)

    # aggregates

    def _list(self, node: ListExpr) -> Estimate:
        total = self._sum_of(node.elements)
        self._entry_sizes[node] = EntrySize("list", ONE, self._union_of_sizes(node.elements))
        return total + LIST

    def _map(self, node: MapExpr) -> Estimate:
        total = self._sum_of([part for entry in node.entries for part in (entry.key, entry.value)])
        keys = self._union_of_sizes([entry.key for entry in node.entries])
        self._entry_sizes[node] = EntrySize("map", keys, self._union_of_sizes([entry.value for entry in node.entries]))
        return total + MAP

    def _union_of_sizes(self, nodes: list[Node]) -> Estimate:
        """Return the size that covers that of every node, 0 if there is none."""
        union = Estimate(LIMIT, 0) if nodes else ZERO
        for node in nodes:
            union |= self._size_or_unknown(node)
        return union

    # comprehensions

    def _comprehension(self, node: Comprehension) -> Estimate:
        if _is_bind(node):
            return self._bind(node)
        total = self.cost(node.iter_range) + self.cost(node.accu_init)
        self._push(node.accu_var, node.accu_init)
        entry = self._entry_size(node.iter_range)
        kind = entry.kind if entry else (node.iter_range.type or _NO_TYPE).kind
        names = [node.iter_var, node.iter_var2] if node.iter_var2 else [node.iter_var]
        steps = self._steps(kind, entry, two=bool(node.iter_var2))
        for name, (step, size) in zip(names, steps, strict=True):
            variable = _LocalVariable((*self._path(node.iter_range), step), size)
            self._variables.setdefault(name, []).append(variable)
        condition = self.cost(node.condition)
        step_cost = self.cost(node.step)
        for name in names:
            self._variables[name].pop()
        total += self.cost(node.result)
        self._variables[node.accu_var].pop()
        count = self._size_or_unknown(node.iter_range)
        self._keep_result_size(node, count)
        return total + count * (step_cost + condition)

    @staticmethod
    def _steps(kind: str, entry: EntrySize | None, *, two: bool) -> list[tuple[str, Estimate | None]]:
        """Return for each iteration variable the last step of its path, and its size if it is known."""
        key, value = (entry.key, entry.value) if entry else (None, None)
        if two:
            keys, values = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
            return [(keys, key), (values, value)]
        return [("@items", value) if kind == "list" else ("@keys", key)]

    def _keep_result_size(self, node: Comprehension, count: Estimate) -> None:
        """Keep the size of what a comprehension collects, and of its entries."""
        match node.accu_init:
            case Const():
                self._sizes[node] = ONE
            case ListExpr() | MapExpr():
                self._sizes[node] = count
                if (entry := self._entry_size(node.step)) is not None:
                    self._entry_sizes[node] = entry

    def _bind(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range) + self.cost(node.accu_init)
        self._push(node.accu_var, node.accu_init)
        total += self.cost(node.result)
        self._variables[node.accu_var].pop()
        self._copy_sizes(node, node.result)
        return total

    # variables and sizes

    def _push(self, name: str, value: Node) -> None:
        """Bring a variable with the value of a node into scope."""
        variable = _LocalVariable(self._path(value), self._size(value), self._entry_size(value))
        self._variables.setdefault(name, []).append(variable)

    def _variable(self, name: str) -> _LocalVariable | None:
        """Return a macro's variable that is in scope, None if there is none with the name."""
        stack = self._variables.get(name)
        return stack[-1] if stack else None

    def _local(self, node: Node) -> _LocalVariable | None:
        """Return the macro's variable that a node names, None if it names none; a name with a dot never does."""
        return self._variable(node.name) if isinstance(node, Ident) else None

    def _path(self, node: Node) -> Path:
        variable = self._local(node)
        return self._paths.get(node, ()) if variable is None else variable.path

    def _size(self, node: Node) -> Estimate | None:
        """Return the size of a node's value, None if nothing is known about it (`computeSize`)."""
        known = self._sizes.get(node) or literal_size(node)
        if known is not None:
            return known
        path = self._path(node)
        declared = self._estimate_size(path) if path else None
        if declared is not None:
            self._sizes[node] = declared
            return declared
        if node.type is not None and _is_scalar(node.type):
            return ONE
        variable = self._local(node)
        return variable.size if variable else None

    def _size_or_unknown(self, node: Node) -> Estimate:
        return self._size(node) or UNKNOWN_SIZE

    def _entry_size(self, node: Node) -> EntrySize | None:
        """Return the sizes of the entries of a node's value, None if they are not known (`computeEntrySize`)."""
        known = self._entry_sizes.get(node)
        variable = self._local(node)
        return known or (variable.entry_size if variable else None)

    def _copy_sizes(self, node: Node, source: Node) -> None:
        """Give a node the sizes of another."""
        size, entry = self._size(source), self._entry_size(source)
        if size is not None:
            self._sizes[node] = size
        if entry is not None:
            self._entry_sizes[node] = entry

    def _node(self, node: Node) -> AstNode:
        """Return a node as cost rules see it."""
        path = self._path(node)
        assert node.type is not None
        declared = self._estimate_size(path) if path else None
        return AstNode(node, node.type, path, self._size(node), declared, self._estimate_size)


_NO_TYPE = Type("", "")


def _is_bind(node: Comprehension) -> bool:
    """Report whether a comprehension stands for `cel.bind`: it runs over nothing."""
    nothing = isinstance(node.iter_range, ListExpr) and not node.iter_range.elements
    return nothing and isinstance(node.condition, Const) and node.condition.value is False


def literal_size(node: Node) -> Estimate | None:
    """Return the size of a literal, None for other nodes."""
    match node:
        case Const(value=str() | bytes() as text):
            return fixed(len(text))
        case Const():
            return fixed(1)
        case ListExpr():
            return fixed(len(node.elements))
        case MapExpr():
            return fixed(len(node.entries))
    return None


def _is_scalar(type_: Type) -> bool:
    """Report whether all values of a type have the same size."""
    if type_.kind == "opaque" and type_.name == "optional_type":
        return bool(type_.params) and _is_scalar(type_.params[0])
    return type_.kind in SCALARS
