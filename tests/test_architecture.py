"""The shape of the code: who may import whom, and how large a folder may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

pytestmark = pytest.mark.maintenance

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "understudy"

# From the ground up: a module imports modules of its own floor and of those below.
FLOORS = [
    ["schemas"],
    ["machinery"],
    ["worlds"],
    ["cel"],
    ["kinds"],
    [
        *("admission.chain", "admission.metrics", "admission.objects", "admission.webhooks", "admission.matching"),
        "admission.generic_webhook",
        "admission.expressions",
        "admission.manifest",
        "admission.reloads",
        "admission.times",
        "admission.plugins",
    ],
    ["controlplane.allocator"],
    ["apiserver.storage", "apiserver.authentication", "apiserver.authorization"],
    ["apiserver.permissions"],
    ["apiserver.encoding"],
    ["apiserver.registry"],
    ["apiserver.serving", "apiserver.flowcontrol"],
    ["apiserver.extensions"],
    ["apiserver.endpoints"],
    ["apiserver.client", "apiserver.controllers"],
    ["apiserver.server"],
    ["offline"],
    ["languageserver"],
    ["controlplane.components"],
    ["controlplane.client"],
    ["controlplane.recorder"],
    ["controlplane.controllers"],
    ["ui"],
    ["controlplane.server"],
    [
        *("controlplane.resourceclaim", "controlplane.devicetainteviction"),
        *("controlplane.scheduler", "controlplane.kubelet"),
    ],
    ["controlplane.dev"],
    ["controlplane.drivers", "controlplane.simulation"],
    ["cli"],
]
# Packages whose module holds a docstring and nothing to import.
PACKAGES = {"admission", "apiserver", "controlplane"}
# May use an event loop or HTTP library. Everything else is plain functions (sans-IO).
EDGE = {
    *("machinery.util.timers", "machinery.util.server_clock"),
    *("apiserver.server", "apiserver.controllers", "apiserver.storage.waiting", "apiserver.storage.engines"),
    *(
        "controlplane.client",
        "controlplane.controllers",
        "controlplane.resourceclaim",
        "controlplane.devicetainteviction",
        "controlplane.scheduler",
    ),
    *("controlplane.kubelet", "controlplane.dev", "controlplane.drivers", "controlplane.simulation", "cli"),
    "languageserver.server",
}
LOOP = {"aiohttp", "asyncio", "uvloop"}

# Entries that a folder may have; those named here have one entry for each of a list that the field knows.
LARGEST_FOLDER = 13
ONE_ENTRY_EACH = {
    "cel/library": "CEL library",
    "cli/commands": "command",
    "kinds": "API group",
}


@cache
def imports(path: Path) -> frozenset[str]:
    """List every name that a source file imports, be it at the top, later, or for type checking only."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("understudy."):
            names.add(node.value)
    return frozenset(names)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


SOURCES = {module_name(path): path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE}


@cache
def imported_modules(module: str) -> frozenset[str]:
    """List the modules of this package that a module imports directly."""
    names = (name.removeprefix("understudy.") for name in imports(SOURCES[module]) if name.startswith("understudy."))
    modules = {name if name in SOURCES else name.rpartition(".")[0] for name in names}
    return frozenset(modules & SOURCES.keys() - {module})


def is_inside(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")


def floor_of(module: str) -> int | None:
    return next((i for i, floor in enumerate(FLOORS) if any(is_inside(module, folder) for folder in floor)), None)


def upward_imports() -> Iterator[str]:
    for module in sorted(SOURCES.keys() - PACKAGES):
        for name in sorted(imported_modules(module)):
            above, below = floor_of(name), floor_of(module)
            if above is not None and below is not None and above > below:
                yield f"{module} imports {name}"


def components(imported: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """List the strongly connected components of a graph of imports, those that are imported first (Tarjan)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for name in sorted(imported[module]):
            if name not in index:
                visit(name)
            if name in stack:
                lowest[module] = min(lowest[module], lowest[name])
        if lowest[module] == index[module]:
            start = stack.index(module)
            components.append(sorted(stack[start:]))
            del stack[start:]

    for module in sorted(imported):
        if module not in index:
            visit(module)
    return components


def circles() -> list[list[str]]:
    """List the sets of modules that import each other, directly or over others."""
    imported = {module: imported_modules(module) for module in SOURCES}
    return [component for component in components(imported) if len(component) > 1]


def knots(imported: Mapping[str, frozenset[str]]) -> list[tuple[str, list[str]]]:
    """List the folders with those of their entries, modules and folders, that import each other in a circle."""
    by_folder: dict[str, dict[str, set[str]]] = {}
    for module, names in imported.items():
        for name in names:
            folder = shared_folder(module, name)
            entry, other = entry_of(module, folder), entry_of(name, folder)
            entries = by_folder.setdefault(folder, {})
            entries.setdefault(other, set())
            entries.setdefault(entry, set()).add(other)
    return [
        (folder, [entry for entry in component if entry])
        for folder, entries in sorted(by_folder.items())
        for component in components({entry: frozenset(entries[entry]) for entry in entries if entry})
        if len(component) > 1
    ]


def shared_folder(module: str, other: str) -> str:
    """Return the innermost folder that holds two modules: `kinds` for `kinds.core.nodes` and `kinds.apps.strategy`."""
    parts = zip(module.split("."), other.split("."), strict=False)
    return ".".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], parts))


def entry_of(module: str, folder: str) -> str:
    """Return the entry of a folder that a module is, or is in, "" for the folder's own module."""
    return module.removeprefix(folder).removeprefix(".").partition(".")[0]


def room_of(module: str) -> str:
    """Return the folder that stands for a module in the drawing: `kinds`, `admission.chain`, `apiserver.registry`."""
    top, _, below = module.partition(".")
    return f"{top}.{below.partition('.')[0]}" if top in PACKAGES else top


def layers() -> list[list[str]]:
    """List the rooms in layers from the ground up: a room stands above all others that it imports."""
    imported: dict[str, frozenset[str]] = {}
    for module in SOURCES.keys() - PACKAGES:
        room = room_of(module)
        imported[room] = imported.get(room, frozenset()) | {room_of(name) for name in imported_modules(module)} - {room}
    height: dict[str, int] = {}
    for component in components(imported):
        below = {name for room in component for name in imported[room]} - set(component)
        height |= dict.fromkeys(component, 1 + max((height[name] for name in below), default=-1))
    return [sorted(room for room in height if height[room] == level) for level in range(1 + max(height.values()))]


def drawing() -> str:
    """Draw the layers as a house, the ground floor at the bottom."""
    rows = ["   ".join(rooms) for rooms in reversed(layers())]
    width = max(map(len, rows))
    line = f"+-{'-' * width}-+\n"
    return line + line.join(f"| {row:^{width}} |\n" for row in rows) + line


def test_every_module_has_a_floor() -> None:
    """Every module belongs to a floor, so that its imports are checked."""
    assert sorted(module for module in SOURCES.keys() - PACKAGES if floor_of(module) is None) == []


def test_imports_run_downwards() -> None:
    """No module imports one of a floor above, not even lazily or for type checking."""
    assert list(upward_imports()) == []


def test_modules_import_each_other_in_no_circle() -> None:
    """No two modules import each other, directly or over others."""
    assert circles() == []


def test_folders_import_each_other_in_no_circle() -> None:
    """In every folder, at every depth, the entries can be put in an order in which each imports only those before."""
    assert knots({module: imported_modules(module) for module in SOURCES}) == []


def test_a_circle_of_folders_is_noticed() -> None:
    """Two folders that import each other are found at their depth, although no two modules do."""
    imported = {
        "kinds.core.pods.spec": frozenset({"kinds.core.nodes.names", "machinery.types"}),
        "kinds.core.nodes.rules": frozenset({"kinds.core.pods.names", "kinds.core.nodes.names"}),
        "kinds.core.nodes.names": frozenset[str](),
        "kinds.core.pods.names": frozenset[str](),
        "machinery.types": frozenset[str](),
    }
    assert knots(imported) == [("kinds.core", ["nodes", "pods"])]


def test_only_the_edge_knows_event_loops() -> None:
    """Below the edge, no module imports an event loop or HTTP library."""
    inner = [module for module in SOURCES if not any(is_inside(module, folder) for folder in EDGE)]
    users = [module for module in inner if {name.split(".")[0] for name in imports(SOURCES[module])} & LOOP]
    assert users == []


FOLDERS = sorted({path.parent.relative_to(PACKAGE).as_posix() for path in SOURCES.values()})


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder not in ONE_ENTRY_EACH])
def test_folders_are_small(folder: str) -> None:
    """A folder has few enough entries to be read at a glance."""
    entries = {path.name for path in (PACKAGE / folder).iterdir() if path.suffix == ".py" or path.is_dir()}
    assert len(entries - {"__init__.py", "__pycache__"}) <= LARGEST_FOLDER


def test_exceptions_are_needed() -> None:
    """A folder that is small enough is not on the list of exceptions."""
    sizes = {folder: len(list((PACKAGE / folder).glob("[!_]*"))) for folder in ONE_ENTRY_EACH}
    assert {folder for folder, size in sizes.items() if size <= LARGEST_FOLDER} == set()


RELEASES = "machinery.releases"  # the only folder that turns texts into releases
RELEASE_TEXT = re.compile(r"v?1\.\d{1,2}")


def releases_compared_with_texts() -> Iterator[str]:
    """List the places that compare, or look up, something by the text of a release such as "1.32"."""
    for module, path in SOURCES.items():
        if is_inside(module, RELEASES):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            compared: list[ast.expr | None] = []
            if isinstance(node, ast.Compare):
                compared = [node.left, *node.comparators]
            elif isinstance(node, ast.Dict):
                compared = node.keys
            elif isinstance(node, ast.MatchValue):
                compared = [node.value]
            elif isinstance(node, ast.Subscript):
                compared = [node.slice]
            if any(is_release_text(part) for operand in compared if operand for part in ast.walk(operand)):
                yield f"{module}:{getattr(node, 'lineno', 0)}"


ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def is_release_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(RELEASE_TEXT.fullmatch(node.value))


def release_texts_put_in_order(folder: Path) -> Iterator[str]:
    """List the places below a folder that ask whether something is before or after the text of a release."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and any(isinstance(op, ORDERS) for op in node.ops):
                if any(is_release_text(operand) for operand in (node.left, *node.comparators)):
                    yield f"{path}:{node.lineno}"


def test_releases_are_compared_as_values() -> None:
    """A rule that names a release asks a Version, ByRelease, since or until: texts have no order."""
    assert list(releases_compared_with_texts()) == []


@pytest.mark.parametrize("folder", ["scripts", "tests"])
def test_texts_of_releases_have_no_order(folder: str) -> None:
    """Scripts and tests may name a release, but do not ask which one is newer by its text."""
    assert list(release_texts_put_in_order(ROOT / folder)) == []


# Ask the machine for the time and wait by the event loop, for one of these reasons; all else has a clock.
REAL_TIME = {
    "clocks": {"machinery.util.clock", "machinery.util.timers", "machinery.util.server_clock"},
    "limits of what protects the process: requests, webhooks, calls of drivers, expressions": {
        "apiserver.endpoints.request",
        "apiserver.server.filters.request_deadline",
        "apiserver.server.filters.limits.fair_queuing",
        "apiserver.server.director",
        "apiserver.server.worker.worker",
        "apiserver.server.webhooks",
        "apiserver.storage.waiting",
        "cel.limits.interrupts",
        "controlplane.allocator.allocator",
    },
    "a simulation, whose event loop has the time": {"controlplane.client.inside", "controlplane.simulation"},
    "connections": {
        "apiserver.server.http",
        "apiserver.server.http1",
        "apiserver.server.http2",
        "apiserver.authentication.oidc.distributed_claims",
        "apiserver.server.bootstrap.issuers",
        "controlplane.kubelet.server.command_streams",
        "apiserver.storage.engines.etcd",
    },
    "files that somebody changes, and sockets of drivers": {
        "apiserver.authentication.certificates.authorities",
        "apiserver.server.filters.audit",
        "apiserver.server.lifecycle",
        "apiserver.server.options.tls.key_pair",
        "controlplane.kubelet.pluginmanager",
    },
    "keys that etcd deletes after a time": {"apiserver.controllers.replicas"},
    "measuring of the process": {
        "admission.chain",
        "machinery.util.metrics",
        "apiserver.extensions.conversion",
        "kinds.apiextensions.schema_rules",
        "kinds.apiextensions.structural_schema.rules",
        "kinds.apiextensions.structural_schema.schema",
        "kinds.core.services.ip_allocators",
        "apiserver.registry.list",
        "apiserver.registry.store",
        "apiserver.storage.metrics",
        "admission.expressions.evaluation",
        "admission.generic_webhook",
        "apiserver.authentication.oidc.jwt_authenticator",
        "admission.matching.conditions",
        "admission.plugins.policy.mutator",
        "apiserver.authorization.webhook.match_conditions",
        "apiserver.permissions.audit.latencies",
        "apiserver.authentication.counted.token_cache",
        "apiserver.authentication.tokens",
        "apiserver.server.filters.authentication",
        "apiserver.server.filters.authorization",
        "apiserver.server.filters.impersonation.filter",
        "apiserver.server.filters.monitoring",
        "apiserver.server.pages.loop_pauses",
        "apiserver.storage.turns",
    },
    "what people and tests wait for": {
        "apiserver.client",
        "apiserver.controllers.framework.informer",
        "apiserver.server.filters.hints",
        "apiserver.server.server",
        "machinery.util.server_clock",
        "cli",
        "controlplane.drivers",
        "controlplane.kubelet.fake.driver",
        "languageserver.server",
    },
    "defaults of functions that are given a clock": {
        "apiserver.controllers.framework.backoff",
        "controlplane.resourceclaim.created_claims",
        "controlplane.scheduler.plugins.dynamicresources.dynamic_resources",
    },
    "names of documents": {"apiserver.endpoints.openapi.v3"},
}
CLOCKS = {
    "time": {"time", "monotonic", "perf_counter", "sleep", "time_ns", "monotonic_ns"},
    "datetime": {"now", "utcnow"},
}
WAITS = {"sleep", "wait_for", "timeout", "timeout_at", "call_later", "call_at"}


def asks_for_real_time(path: Path) -> bool:
    """Report whether a source file reads the machine's clock or waits by the event loop's."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            if CLOCKS["time"] & {name.name for name in node.names}:
                return True
        if not isinstance(node, ast.Attribute):
            continue
        owner = ast.unparse(node.value)
        if node.attr in CLOCKS.get(owner.rpartition(".")[2], ()):
            return True
        is_loop = owner in ("asyncio", "loop", "self._loop", "asyncio.get_running_loop()")
        if is_loop and node.attr in {*WAITS, "time"} and not gives_a_turn(node, tree):
            return True
    return False


def gives_a_turn(node: ast.Attribute, tree: ast.Module) -> bool:
    """Report whether an attribute is that of `asyncio.sleep(0)`, which waits for no time."""
    calls = (call for call in ast.walk(tree) if isinstance(call, ast.Call) and call.func is node)
    return any([ast.unparse(argument) for argument in call.args] == ["0"] for call in calls)


def test_kubernetes_time_is_that_of_a_clock() -> None:
    """No module reads the machine's clock or waits by it but for a reason that is listed; each listed one does."""
    real = {module for module, path in SOURCES.items() if asks_for_real_time(path)}
    listed = [folder for folders in REAL_TIME.values() for folder in folders]
    assert sorted(module for module in real if not any(is_inside(module, folder) for folder in listed)) == []
    assert sorted(folder for folder in listed if not any(is_inside(module, folder) for module in real)) == []


def test_contributing_draws_the_layers(pytestconfig: pytest.Config) -> None:
    """CONTRIBUTING.md shows the layers that the imports make; `pytest tests/test_architecture.py --redraw` mends it."""
    guide = ROOT / "CONTRIBUTING.md"
    text = guide.read_text()
    redrawn = re.sub(r"(?<=```layers\n).*?(?=```)", lambda _: drawing(), text, flags=re.DOTALL)
    if pytestconfig.getoption("redraw"):
        guide.write_text(redrawn)
    assert "```layers\n" in text
    assert guide.read_text() == redrawn
