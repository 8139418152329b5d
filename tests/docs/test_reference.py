"""The reference pages are complete: commands and flags by the parser, names by what the packages export."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from types import ModuleType

import pytest

import understudy
from tests.docs.pages import DOCS, PAGES, ROOT, Block, Role, blocks, blocks_of
from understudy.apiserver.serving.release import DEFAULT
from understudy.cli.main import COMMANDS, import_commands
from understudy.cli.program import new_parser

COMMAND_LINE = DOCS / "reference" / "command-line.md"
PYTHON = DOCS / "reference" / "python.md"
PUBLIC_MODULES = ("understudy", "understudy.aiohttp", "understudy.testing")


# --- commands and flags


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    parser, _ = new_parser(import_commands(COMMANDS))
    [choices] = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    assert isinstance(choices, dict)
    return choices


@pytest.mark.parametrize("block", [pytest.param(block, id=str(block)) for block in blocks(Role.EDITOR)])
def test_editors_start_a_command(block: Block) -> None:
    """The configuration of an editor names a command and its flags, in a form that the editor reads."""
    if block.language in ("json", "toml"):
        {"json": json.loads, "toml": tomllib.loads}[block.language](block.code)
    words = re.findall(r'"([^"]*)"', block.code)
    assert "understudy" in words
    arguments = words[words.index("lsp") :]
    flags = [word for word in arguments if word.startswith("--")]
    assert flags
    known = {name for action in commands()["lsp"]._actions for name in action.option_strings}
    assert [flag for flag in flags if flag not in known] == []
    assert DEFAULT in arguments, "the example is of an older release"


def rows_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the flags and arguments of a command, each with its help, as cells of a table."""
    formatter = parser._get_formatter()
    rows = {}
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
        value = action.metavar or choices
        metavar = value if isinstance(value, str) else " ".join(value)
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        shown = f"{names} `{metavar}`" if names and metavar and action.nargs != 0 else names or f"`{metavar}`"
        rows[shown.replace("|", "\\|")] = cell(formatter._expand_help(action))
    return rows


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def command_line() -> str:
    """Return the part of the page that is made from the parser."""
    parsers = commands()
    of_server = rows_of(parsers["serve"])
    return "\n".join(line for name, parser in parsers.items() for line in section(name, parser, of_server))


def section(name: str, parser: argparse.ArgumentParser, of_server: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a command. Flags that are those of `understudy serve` are named only."""
    rows = rows_of(parser)
    shared = [] if name == "serve" else [flag for flag, text in rows.items() if of_server.get(flag) == text]
    if len(shared) < 4:
        shared = []
    yield f"## understudy {name}\n"
    yield f"{' '.join((parser.description or '').split())}\n"
    own = {flag: text for flag, text in rows.items() if flag not in shared}
    if own:
        yield "| | |\n|---|---|"
        yield from (f"| {flag} | {text} |" for flag, text in own.items())
        yield ""
    if shared:
        names = ", ".join(flag.split(" ")[0] for flag in shared)
        yield f"As in [`understudy serve`](#understudy-serve): {names}.\n"


def test_page_of_commands_is_true(pytestconfig: pytest.Config) -> None:
    """The page lists every command and flag with its help; `pytest tests/docs --redraw` mends it."""
    mark = "<!-- commands -->\n"
    head, _, _ = COMMAND_LINE.read_text().partition(mark)
    redrawn = f"{head}{mark}\n{command_line()}".rstrip("\n") + "\n"
    if pytestconfig.getoption("redraw"):
        COMMAND_LINE.write_text(redrawn)
    assert COMMAND_LINE.read_text() == redrawn


# --- names


def summary(obj: object) -> str:
    """Return the first sentence of an object's docstring."""
    text = " ".join((inspect.getdoc(obj) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:])(?= [A-Z]|$)", text)[0].rstrip(".:")


def names_table() -> str:
    import understudy.aiohttp
    import understudy.testing

    only_testing = [name for name in understudy.testing.__all__ if name not in understudy.__all__]
    rows = [("understudy", name, getattr(understudy, name)) for name in understudy.__all__]
    rows += [("understudy.aiohttp", name, getattr(understudy.aiohttp, name)) for name in understudy.aiohttp.__all__]
    rows += [("understudy.testing", name, getattr(understudy.testing, name)) for name in only_testing]
    lines = [f"| `{module}` | [`{name}`](#{module}.{name}) | {cell(summary(obj))} |" for module, name, obj in rows]
    return "\n".join(["| from | name | |", "|---|---|---|", *lines])


def test_page_of_names_is_true(pytestconfig: pytest.Config) -> None:
    """The page lists every public name with its summary; `pytest tests/docs --redraw` mends it."""
    pytest.importorskip("grpc", reason="`Kubelet` needs the extra `kubelet`")
    table = r"(?s)<!-- names -->\n.*?(?=\nThe pytest plugin)"
    redrawn = re.sub(table, lambda _: f"<!-- names -->\n\n{names_table()}\n", PYTHON.read_text())
    if pytestconfig.getoption("redraw"):
        PYTHON.write_text(redrawn)
    assert PYTHON.read_text() == redrawn


def test_every_public_name_is_described() -> None:
    """The page of names has the docstring of each of them, once."""
    pytest.importorskip("grpc", reason="`Kubelet` needs the extra `kubelet`")
    import understudy.aiohttp
    import understudy.testing

    public = {f"understudy.{name}" for name in understudy.__all__}
    public |= {f"understudy.aiohttp.{name}" for name in understudy.aiohttp.__all__}
    public |= {f"understudy.testing.{name}" for name in set(understudy.testing.__all__) - set(understudy.__all__)}
    assert sorted(re.findall(r"^::: (\S+)$", PYTHON.read_text(), re.MULTILINE)) == sorted(public)


def exported(tree: ast.Module) -> dict[str, str]:
    """Return the names that a package imports for type checking, each with its module."""
    checking = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for part in checking for node in part.body if isinstance(node, ast.ImportFrom)]
    homes = {name.name: node.module or "" for node in imports for name in node.names}
    return {name: home for name, home in homes.items() if home.startswith("understudy")}


def test_public_names_are_typed_and_there() -> None:
    """Each public name is typed as what is imported for it."""
    pytest.importorskip("grpc", reason="`Kubelet` needs the extra `kubelet`")
    assert exported(ast.parse(inspect.getsource(understudy))) == understudy._HOMES
    assert sorted(understudy._HOMES) == sorted(understudy.__all__) == sorted(dir(understudy))
    assert all(getattr(understudy, name).__name__ == name for name in understudy.__all__)


def test_import_of_the_package_imports_nothing_else() -> None:
    """`import understudy` imports no other module: a name is imported when it is first used."""
    code = "import sys; before = set(sys.modules); import understudy; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout)[-1:] == ["understudy"]
    assert set(ast.literal_eval(done.stdout)) <= {"__future__", "understudy"}


def imported(code: str) -> Iterator[str]:
    """Yield the names that code imports from understudy, with their module: "understudy.testing:Kubelet"."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "understudy":
            yield from (f"{node.module}:{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (f"{name.name}:" for name in node.names if name.name.partition(".")[0] == "understudy")


def not_public(names: Iterable[str], modules: dict[str, ModuleType]) -> list[str]:
    public = {f"{module}:{name}" for module, package in modules.items() for name in ("", *package.__all__)}
    return [name for name in names if name not in public]


@pytest.mark.parametrize("block", [b for page in PAGES for b in blocks_of(page) if b.language == "python"], ids=str)
def test_examples_import_public_names_only(block: Block) -> None:
    """An example imports only what is public, so that moving a module breaks nobody who has copied it."""
    pytest.importorskip("grpc", reason="`understudy.testing` needs the extra `kubelet`")
    import understudy.aiohttp
    import understudy.testing

    modules = dict(zip(PUBLIC_MODULES, (understudy, understudy.aiohttp, understudy.testing), strict=True))
    assert not_public(imported(block.code), modules) == []


def test_pages_name_no_inner_module() -> None:
    """The README and the pages name modules that are public, and no others."""
    for page in PAGES:
        named = set(re.findall(r"(?<![\w/.])understudy\.[a-z_]+(?:\.\w+)*", page.read_text()))
        known = {*PUBLIC_MODULES, *(f"understudy.{name}" for name in understudy.__all__)}
        inner = {name for name in named if (ROOT / "src" / "/".join(name.split(".")[:2])).is_dir()}
        assert inner - known == set(), page
