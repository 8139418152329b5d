"""The worst-case cost of a checked expression, in cel-go's units of about one simple operation.

The estimate is made of sizes and costs. Sizes are known of literals, of results, and of everything reachable from
`device`, whose maps and strings are limited by the API (`device_sizes`). Costs per unit of size are in `call_cost`. The
sources are cel-go's `checker/cost.go` and `k8s.io/apiserver/pkg/cel/library/cost.go`. Numbers saturate at 2^64-1, so an
unknown size exceeds every limit.
"""

from __future__ import annotations

from understudy.admission.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Const,
    Ident,
    ListExpr,
    MapExpr,
    Node,
    Select,
    StructExpr,
)
from understudy.admission.cel.cost.call_cost import estimate_call_cost
from understudy.admission.cel.cost.device_sizes import estimate_size
from understudy.admission.cel.cost.estimate import ONE, ZERO, AstNode, Estimate, Path, fixed

_LIST, _MAP, _MESSAGE = fixed(10), fixed(30), fixed(40)


def estimate_cost(root: Node) -> int:
    """Return the largest possible cost of one evaluation of a checked tree (`EstimateCost`)."""
    return _Estimator().cost(root).max


class _Estimator:
    """Estimates one tree (`coster`): `_paths` says where the values of nodes come from, `_sizes` how large results are.

    `_iter_ranges` has, for each iteration variable in scope, the ranges that it iterates over, the innermost last.
    """

    def __init__(self) -> None:
        self._paths: dict[Node, Path] = {}
        self._sizes: dict[Node, Estimate] = {}
        self._iter_ranges: dict[str, list[Node]] = {}

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
                return self._sum_of(node.elements) + _LIST
            case MapExpr():
                parts = [part for entry in node.entries for part in (entry.key, entry.value)]
                return self._sum_of(parts) + _MAP
            case StructExpr():
                return self._sum_of([field.value for field in node.fields]) + _MESSAGE
            case Comprehension():
                return self._fold(node)
        return ZERO

    def _sum_of(self, nodes: list[Node]) -> Estimate:
        total = ZERO
        for node in nodes:
            total += self.cost(node)
        return total

    def _ident(self, node: Ident) -> Estimate:
        name = node.name.removeprefix(".")
        ranges = self._iter_ranges.get(name)
        if ranges:
            over = ranges[-1]
            kind = over.type.kind if over.type else ""
            if kind in ("list", "map"):
                self._paths[node] = (*self._paths.get(over, ()), "@items" if kind == "list" else "@keys")
        else:
            self._paths[node] = (name,)
        return ONE

    def _select(self, node: Select) -> Estimate:
        total = self.cost(node.operand)
        if node.test_only:
            return total
        kind = node.operand.type.kind if node.operand.type else ""
        if kind in ("map", "struct", "param"):
            total += ONE
        self._paths[node] = (*self._paths.get(node.operand, ()), node.field)
        return total

    def _call(self, node: Call) -> Estimate:
        costs = [self.cost(arg) for arg in node.args]
        args = [self._node(arg) for arg in node.args]
        if not node.overloads:
            return ZERO
        before, target = ZERO, None
        if node.target is not None:
            before = self.cost(node.target)
            target = self._node(node.target)
        lowest, highest, result = 2**64 - 1, 0, None
        for overload in node.overloads:
            own, size = self._function_cost(node.function, overload, target, args, costs)
            lowest, highest = min(lowest, own.min), max(highest, own.max)
            if size is not None:
                result = size if result is None else result | size
            if overload in _INDEXED:
                self._paths[node] = (*self._paths.get(node.args[0], ()), _INDEXED[overload])
        if result is not None:
            self._sizes[node] = result
        return before + Estimate(lowest, highest)

    def _function_cost(
        self, name: str, overload: str, target: AstNode | None, args: list[AstNode], costs: list[Estimate]
    ) -> tuple[Estimate, Estimate | None]:
        """Return the cost of one call with its arguments, and the size of its result or None (`functionCost`)."""
        if overload in ("logical_and", "logical_or"):
            return Estimate(costs[0].min, (costs[0] + costs[1]).max), None
        if overload == "conditional":
            return costs[0] + (costs[1] | costs[2]), args[1].size_estimate | args[2].size_estimate
        arguments = ZERO
        for cost in costs:
            arguments += cost
        own, size = estimate_call_cost(name, overload, target, args)
        return own + arguments, size

    def _fold(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range) + self.cost(node.accu_init)
        stack = self._iter_ranges.setdefault(node.iter_var, [])
        stack.append(node.iter_range)
        condition = self.cost(node.condition)
        step = self.cost(node.step)
        stack.pop()
        total += self.cost(node.result)
        count = self._node(node.iter_range).size_estimate
        self._sizes[node] = count
        return total + count * (step + condition)

    def _node(self, node: Node) -> AstNode:
        """Return a node as cost rules see it.

        An accumulator has no path: its size is not that of the variable it started with.
        """
        path = self._paths.get(node, ())
        if path and path[0] == ACCUMULATOR:
            path = ()
        computed_size = self._sizes.get(node) or _literal_size(node)
        assert node.type is not None
        return AstNode(node, node.type, path, computed_size, estimate_size(path) if path else None)


_INDEXED = {"index_list": "@items", "index_map": "@values"}


def _literal_size(node: Node) -> Estimate | None:
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
