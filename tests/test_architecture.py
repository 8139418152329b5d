"""The shape of the code: who may import whom."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EDGE = {
    "apiserver.http",
    "apiserver.streams",
    "apiserver.server",
    "apiserver.listening",
    "apiserver.controllers",
    "apiserver.cli",
}
WAITING = {"apiserver.freshness"}
LOOP = {"aiohttp", "asyncio", "uvloop"}
LAYERS = [  # from the outermost in: each may import those after it, never one before
    {"apiserver.http"},
    {"apiserver.dispatch"},
    {"apiserver.routing"},
    {"apiserver.registry"},
    {"admission", "apiserver.patch", "apiserver.storage"},
    {"apiserver.errors", "apiserver.types"},
]


@cache
def imports(path: Path) -> set[str]:
    """The modules that a source file imports when it runs, sooner or later; those for types alone do not count."""
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    found: set[str] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
        else:
            nodes += ast.iter_child_nodes(node)
    return found


def named(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


PACKAGE = ROOT / "src" / "understudy"
SOURCES = {named(path): path for folder in ("apiserver", "admission") for path in (PACKAGE / folder).rglob("*.py")}


def test_only_the_edge_knows_of_event_loops() -> None:
    """Everything but the edge is plain functions, and the one thing that reads may wait for."""
    for module in SOURCES.keys() - EDGE - WAITING:
        assert not {name.split(".")[0] for name in imports(SOURCES[module])} & LOOP, module


def inside(module: str, layer: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in layer)


def reached(module: str) -> set[str]:
    """The modules of ours that importing `module` imports."""
    seen, todo = set(), [module]
    while todo:
        for name in imports(SOURCES[todo.pop()]):
            name = name.removeprefix("understudy.")
            found = name if name in SOURCES else name.rpartition(".")[0]
            if found in SOURCES and found not in seen:
                seen.add(found)
                todo.append(found)
    return seen


@pytest.mark.parametrize("depth", range(1, len(LAYERS)), ids=lambda depth: "+".join(sorted(LAYERS[depth])))
def test_arrows_point_one_way(depth: int) -> None:
    """No module reaches an outer layer, be it over others."""
    outer = set().union(*LAYERS[:depth])
    for module in SOURCES:
        if inside(module, LAYERS[depth]):
            assert not [name for name in reached(module) if inside(name, outer)], module
