"""Run suites in Go that use envtest, unmodified, with several folders of programs; compare what passes and how fast.

    python -m scripts.compare envtest --assets real=DIR --assets understudy=DIR \\
        sigs.k8s.io/controller-runtime@v0.25.2 ./pkg/builder ./pkg/client

The first folder is the measure: it has the real etcd, kube-apiserver and kubectl. The others say of how many tests that
pass with it, it is as well with them. Packages are those of one module, by default all whose tests name envtest. The
module is fetched as `go` is configured and copied to --work, where its tests are compiled once and its shell scripts
made executable, which modules do not keep. A part of the module that is a module itself, and not in it, is replaced by
the published one.

A spec of Ginkgo may fail twice: some wait too shortly for a busy machine, or for a fast server.

Exit code 0 if whatever passes with the first folder passes with all. Each package has a line: tests that passed,
seconds by the clock, and seconds of CPU of the tests and of all programs that they started.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.common.commands import UsageError

GINKGO = "github.com/onsi/ginkgo/v2"
# Tests of envtest itself name its types without their package.
USES_ENVTEST = re.compile(r"\benvtest\.Environment\b|\bNewEnvironment\(|&(Environment|APIServer)\{")
PASSED = re.compile(r"^\s*--- PASS: (\S+)", re.MULTILINE)
# A busy machine starts programs late: the seconds that envtest waits for them.
PATIENCE = {"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "180s", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": "120s"}


@dataclass
class Outcome:
    """The tests of a package that passed, and the seconds that they took."""

    passed: set[str] = field(default_factory=set)
    clock: float = 0.0
    cpu: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--assets", action="append", required=True, metavar="NAME=DIR", help="once for each folder")
    parser.add_argument("--work", type=Path, default=Path("/tmp/understudy-envtest"), help="(default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for a package (default: %(default)s)")
    parser.add_argument("module", metavar="MODULE@VERSION")
    parser.add_argument("packages", nargs="*", metavar="./PACKAGE")


def run(args: argparse.Namespace) -> int:
    """Run the suites; return the exit code."""
    assets = dict(_named(each) for each in args.assets)
    folder = prepare(args.module, args.work)
    packages = args.packages or [f"./{path}" for path in packages_with_envtest(folder)]
    sums = {name: Outcome() for name in assets}
    lost = 0
    for package in packages:
        program = compiled(folder, package)
        outcomes = {name: tested(folder / package, program, each, args.timeout) for name, each in assets.items()}
        lost += report(package, outcomes)
        for name, outcome in outcomes.items():
            sums[name].passed |= {f"{package} {test}" for test in outcome.passed}
            sums[name].clock += outcome.clock
            sums[name].cpu += outcome.cpu
    report(args.module, sums, tell_lost=False)
    return 1 if lost else 0


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or not (Path(folder) / "kube-apiserver").exists():
        raise UsageError(f"want NAME=DIR with a kube-apiserver in it, not {text}")
    return name, Path(folder).absolute()


def report(what: str, outcomes: dict[str, Outcome], *, tell_lost: bool = True) -> int:
    """Print a line for a package, and the tests that only the first folder's programs pass; return their number."""
    measure = next(iter(outcomes.values()))
    cells = [
        f"{name} {len(outcome.passed & measure.passed)} of {len(measure.passed)}"
        f" in {outcome.clock:.1f} s (CPU {outcome.cpu:.1f} s)"
        for name, outcome in outcomes.items()
    ]
    print(f"{what}: {'; '.join(cells)}", flush=True)
    lost = [(name, test) for name, each in outcomes.items() for test in sorted(measure.passed - each.passed)]
    for name, test in lost if tell_lost else ():
        print(f"    {name} does not pass: {test}", flush=True)
    return len(lost)


# --- modules and packages


def prepare(module: str, work: Path) -> Path:
    """Copy the sources of a module to a folder; return it."""
    answer = subprocess.run(["go", "mod", "download", "-json", module], stdout=subprocess.PIPE, cwd="/", text=True)
    source = json.loads(answer.stdout)
    if "Dir" not in source:
        raise UsageError(source.get("Error", f"{module} cannot be fetched"))
    folder = work / Path(source["Dir"]).name
    if not folder.exists():
        shutil.copytree(source["Dir"], folder)
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() or path.suffix == ".sh" else 0o644))
        _replace_missing_parts(folder, source["Version"])
    return folder


def _replace_missing_parts(folder: Path, version: str) -> None:
    """Let the module use the published version of its parts that are modules themselves."""
    mod = json.loads(subprocess.check_output(["go", "mod", "edit", "-json"], cwd=folder))
    if mod["Module"]["Path"] == "k8s.io/kubernetes":
        version = version.replace("v1.", "v0.", 1)  # of all that is published from its folder `staging`
    for each in mod.get("Replace") or ():
        if each["New"]["Path"].startswith(".") and not (folder / each["New"]["Path"]).exists():
            part = each["Old"]["Path"]
            subprocess.run(["go", "mod", "edit", f"-replace={part}={part}@{version}"], cwd=folder, check=True)


def packages_with_envtest(folder: Path) -> Iterator[str]:
    """Yield the folders, below that of the module, whose tests start an environment of envtest."""
    files = [path for path in folder.rglob("*_test.go") if USES_ENVTEST.search(path.read_text())]
    yield from sorted({path.parent.relative_to(folder).as_posix() for path in files})


def compiled(folder: Path, package: str) -> Path:
    """Return the compiled tests of a package. Raises CalledProcessError."""
    program = folder / ".tests" / f"{package.removeprefix('./').replace('/', '_')}.test"
    if not program.exists():
        command = ["go", "test", "-mod=mod", "-c", "-o", str(program), package]
        subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return program


# --- one run


def tested(folder: Path, program: Path, assets: Path, timeout: float) -> Outcome:
    """Run compiled tests with some programs. What they print is kept beside them."""
    specs = program.with_suffix(".json")
    specs.unlink(missing_ok=True)
    command = [str(program), "-test.v", f"-test.timeout={timeout:.0f}s"]
    if any(GINKGO in path.read_text() for path in folder.glob("*_test.go")):
        command += [f"--ginkgo.json-report={specs}", "--ginkgo.no-color", "--ginkgo.flake-attempts=3"]
    env = {**os.environ, **PATIENCE, "KUBEBUILDER_ASSETS": str(assets)}
    before, begun = cpu_of_children(), time.monotonic()
    log = program.with_name(f"{program.stem}.{assets.name}.log")
    with log.open("w") as out:
        subprocess.run(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
    clock, cpu = time.monotonic() - begun, cpu_of_children() - before
    return Outcome({*passed_tests(log.read_text(errors="replace")), *passed_specs(specs)}, clock, cpu)


def passed_tests(log: str) -> set[str]:
    """Return the names of the tests that passed, subtests too, by what `go test -v` prints."""
    return set(PASSED.findall(log))


def cpu_of_children() -> float:
    """Return the seconds of CPU of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def passed_specs(report: Path) -> Iterator[str]:
    """Yield the names of the specs that passed, by a report of Ginkgo in JSON."""
    for suite in json.loads(report.read_text()) if report.exists() else ():
        for spec in suite["SpecReports"] or ():
            if spec["State"] == "passed" and spec["LeafNodeType"] == "It":
                yield _full_name([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def _full_name(texts: Sequence[str]) -> str:
    return " ".join(text.strip() for text in texts)
