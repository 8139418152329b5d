"""The walk over a tree that adds up its cost, as cel-go up to 0.22 does it.

Of the variables of macros, only those that iterate are followed to their uses; nothing is known of the entries of
literals.
"""

from __future__ import annotations

from understudy.cel.ast import Comprehension, Ident, Node
from understudy.cel.cost.coster import Coster, EntrySize, literal_size
from understudy.cel.cost.estimate import ONE, AstNode, Estimate, Path, SizeEstimator
from understudy.cel.parser.dialect import DIALECTS
from understudy.machinery.releases.version import Version


class OlderCoster(Coster):
    """Estimates one tree.

    `_iter_ranges` has, for each iteration variable in scope, the ranges that it iterates over, the innermost last.
    """

    def __init__(self, version: Version, estimate_size: SizeEstimator) -> None:
        super().__init__(version, estimate_size)
        self._accumulator = DIALECTS[version].accumulator
        self._iter_ranges: dict[str, list[Node]] = {}

    def _ident(self, node: Ident) -> Estimate:
        name = node.name.removeprefix(".")
        ranges = self._iter_ranges.get(name)
        if ranges:
            over = ranges[-1]
            kind = over.type.kind if over.type else ""
            if kind in ("list", "map"):
                self._paths[node] = (*self._path(over), "@items" if kind == "list" else "@keys")
        else:
            self._paths[node] = (name,)
        return ONE

    def _comprehension(self, node: Comprehension) -> Estimate:
        total = self.cost(node.iter_range) + self.cost(node.accu_init)
        names = [node.iter_var, node.iter_var2] if node.iter_var2 else [node.iter_var]
        for name in names:
            self._iter_ranges.setdefault(name, []).append(node.iter_range)
        condition = self.cost(node.condition)
        step = self.cost(node.step)
        for name in names:
            self._iter_ranges[name].pop()
        total += self.cost(node.result)
        count = self._node(node.iter_range).size_estimate
        self._sizes[node] = count
        return total + count * (step + condition)

    def _path(self, node: Node) -> Path:
        return self._paths.get(node, ())

    def _size(self, node: Node) -> Estimate | None:
        return self._sizes.get(node) or literal_size(node)

    def _entry_size(self, _node: Node) -> EntrySize | None:
        return None

    def _copy_sizes(self, _node: Node, _source: Node) -> None:
        """Do nothing: a value that passes through `dyn` loses its size."""

    def _node(self, node: Node) -> AstNode:
        """Return a node as cost rules see it.

        An accumulator has no path: its size is not that of the variable it started with.
        """
        path = self._path(node)
        if path and path[0] == self._accumulator:
            path = ()
        assert node.type is not None
        declared = self._estimate_size(path) if path else None
        return AstNode(node, node.type, path, self._size(node), declared, self._estimate_size)
