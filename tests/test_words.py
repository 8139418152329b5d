"""The words of the code: docstrings that are read alone, and names that say what they hold."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.maintenance

PACKAGE = Path(__file__).parent.parent / "src" / "understudy"

# A docstring begins with a verb and its object: "Return the number of keys". These words begin a noun clause ("how many
# there are") that makes sense only beside the function's name or another docstring.
RIDDLES = re.compile(
    r"((Return |Yield )(what|which|who|whose|how|where|when|why)|"
    r"What|Which|As|Of|By|That|Those|And|So|Nobody|Nothing|The same|Its|It|Who|Whose|How|Where|There|They)\b"
)
# Names that say nothing about their value: errors, expected, message or value are meant.
VAGUE = {"found", "wanted", "told"}
WORD = re.compile(r"\w+")

Function = ast.FunctionDef | ast.AsyncFunctionDef
# The fields of statements that hold other statements.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def definitions(node: ast.AST, public: bool = True) -> Iterator[tuple[Function | ast.ClassDef, bool]]:
    """Yield every function and class below a node, and whether it is public: no part of its path is private."""
    for child in (child for block in BLOCKS for child in getattr(node, block, ())):
        if isinstance(child, Function | ast.ClassDef):
            is_public = public and not child.name.startswith("_")
            yield child, is_public
            yield from definitions(child, is_public and isinstance(child, ast.ClassDef))
        else:
            yield from definitions(child, public)


@cache
def methods(node: ast.ClassDef) -> dict[str, Function]:
    """Return the methods that a class defines itself, by name."""
    return {child.name: child for child in node.body if isinstance(child, Function)}


@cache
def names_of_bases(node: ast.ClassDef) -> list[str]:
    """Return the names of the base classes, without modules and type parameters."""
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in bases]


class Classes:
    """The classes of some modules, by name; several may have the same one."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self._named = defaultdict[str, list[ast.ClassDef]](list)
        for node in (node for tree in trees for node, _ in definitions(tree)):
            if isinstance(node, ast.ClassDef):
                self._named[node.name].append(node)
        every = (node for nodes in self._named.values() for node in nodes)
        self._protocols = [methods(node) for node in every if "Protocol" in names_of_bases(node) and methods(node)]

    def implementations(self) -> set[Function]:
        """Return the methods that implement one with a docstring, of a base class or of a protocol.

        A class implements a protocol if it has all of its methods.
        """
        return {
            method
            for nodes in self._named.values()
            for node in nodes
            if "Protocol" not in names_of_bases(node)
            for method in self._implementations_in(node)
        }

    def _implementations_in(self, node: ast.ClassDef) -> Iterator[Function]:
        inherited = [methods(base) for base in self._bases(node, set())]
        every = set(methods(node)).union(*inherited)
        contracts = [*inherited, *(protocol for protocol in self._protocols if set(protocol) <= every)]
        for name, method in methods(node).items():
            if any(ast.get_docstring(contract[name]) for contract in contracts if name in contract):
                yield method

    def _bases(self, node: ast.ClassDef, seen: set[str]) -> Iterator[ast.ClassDef]:
        """Yield all classes above a class, those of the same name as a base included."""
        for name in set(names_of_bases(node)) - seen:
            seen.add(name)
            for base in self._named.get(name, ()):
                yield base
                yield from self._bases(base, seen)


def undescribed(tree: ast.Module, excused: set[Function]) -> list[str]:
    """List the public functions and classes without a docstring, but for those that implement a documented one, and for
    signatures of one that is overloaded."""
    nodes = [node for node, public in definitions(tree) if public and ast.get_docstring(node) is None]
    return [node.name for node in nodes if node not in excused and not is_overload(node)]


def is_overload(node: Function | ast.ClassDef) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in node.decorator_list)


def riddles(tree: ast.Module) -> list[str]:
    """List the functions and classes whose docstring begins with a noun clause."""
    return [node.name for node, _ in definitions(tree) if RIDDLES.match(ast.get_docstring(node) or "")]


def vague(tree: ast.Module) -> list[str]:
    """List the variables, parameters and fields that are bound under a vague name, with their lines."""
    bound = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            bound.append((node.lineno, node.arg))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append((node.lineno, node.id))
    return [f"{name} in line {line}" for line, name in sorted(bound) if name in VAGUE]


def test_source_uses_plain_words() -> None:
    """Public definitions have docstrings, no docstring is a riddle, and no name is vague."""
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    excused = Classes(trees.values()).implementations()
    words = {path: (undescribed(tree, excused), riddles(tree)) for path, tree in trees.items()}
    assert {path: names for path, names in words.items() if any(names)} == {}
    assert {
        path: names for path, text in texts.items() if VAGUE & set(WORD.findall(text)) and (names := vague(trees[path]))
    } == {}


@pytest.mark.parametrize("folder", ["scripts", "tests"])
def test_scripts_and_tests_have_no_riddles(folder: str) -> None:
    """The docstrings of scripts and tests are read alone, too."""
    paths = sorted((PACKAGE.parents[1] / folder).rglob("*.py"))
    assert {str(path): names for path in paths if (names := riddles(ast.parse(path.read_text())))} == {}


SAMPLE = '''
class Checker:
    """Who checks."""
    def check(self, found): ...
    def _inner(self):
        """What is inside."""
        def nested(): ...


class Shape(Protocol):
    """Drawn shapes."""
    def area(self):
        """Return the area in square metres."""
    def name(self): ...


class Circle:
    """Circles, which are shapes, since they have all of their methods."""
    def area(self): ...
    def name(self): ...


class Point:
    """Points, which have no name."""
    def area(self): ...


class Disc(Circle, Shape):
    """Filled circles."""
    def area(self): ...


def compare():
    """Return whose it is."""
    return [wanted for wanted in ()], lambda told: told
'''


def test_every_kind_of_bad_word_is_noticed() -> None:
    """The checks find missing docstrings, riddles, and vague parameters, variables and arguments of lambdas."""
    tree = ast.parse(SAMPLE)
    assert undescribed(tree, Classes([tree]).implementations()) == ["check", "name", "name", "area"]
    assert riddles(tree) == ["Checker", "_inner", "compare"]
    assert vague(tree) == ["found in line 4", "told in line 35", "wanted in line 35"]
