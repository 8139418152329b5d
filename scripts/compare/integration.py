"""Run Kubernetes' own integration tests with the real kube-apiserver and with understudy; compare what passes.

    python -m scripts.compare integration --kube-apiserver PROGRAM --etcd PROGRAM \\
        v1.37.2 ./test/integration/apiserver/apply ./test/integration/auth

These tests start a server in their own process. Here a build overlay (`overlay/`) replaces what starts it, so that a
program runs with the flags that stand for a test's options: the given kube-apiserver, which is the measure, then
understudy, both on an etcd. A test that hands the server a function is skipped; one that looks into the server's memory
(its metrics, caches or storage objects) fails with either, and so counts nowhere. Root lets all run on a machine of the
name that some tests give to the server in their process.

k8s.io/kubernetes of the version is fetched as `go` is configured and copied to --work, where tests are compiled once.
Exit code 0 if whatever passes with kube-apiserver passes with understudy. Each package has a line.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from scripts.common.etcd import running_etcd
from scripts.compare.envtest import Outcome, cpu_of_children, passed_tests, prepare, report

OVERLAY = Path(__file__).parent / "overlay"
REPLACED = {
    "cmd/kube-apiserver/app/testing/testserver.go": "testserver.go",
    "test/integration/framework/test_server.go": "framework.go",
}
HOSTNAME = "testAPIServerID"  # of `SetHostnameFuncForTests`
MAIN = "import sys; from scripts.common.kube_apiserver import main; sys.exit(main())"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--kube-apiserver", type=Path, required=True, metavar="PROGRAM", help="that of the version")
    parser.add_argument("--etcd", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--work", type=Path, default=Path("/tmp/understudy-integration"), help="(default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for a package (default: %(default)s)")
    parser.add_argument("--run", default="", metavar="REGEXP", help="which tests, as `go test -run` takes it")
    parser.add_argument("version", help="of k8s.io/kubernetes")
    parser.add_argument("packages", nargs="+", metavar="./test/integration/PACKAGE")


def run(args: argparse.Namespace) -> int:
    """Run the tests; return the exit code."""
    folder = prepare(f"k8s.io/kubernetes@{args.version}", args.work.absolute())
    _rename_machine()
    servers = {"real": args.kube_apiserver.absolute(), "understudy": write_understudy(args.work.absolute())}
    lost = 0
    for package in args.packages:
        program = compiled(folder, package)
        outcomes = {}
        for name, server in servers.items():
            with running_etcd(args.etcd, args.work / "data", 1, "--unsafe-no-fsync") as (etcd,):
                path = f"{args.etcd.absolute().parent}{os.pathsep}{os.environ['PATH']}"  # some tests start their own
                environment = {"KUBE_APISERVER": str(server), "KUBE_INTEGRATION_ETCD_URL": etcd.url, "PATH": path}
                log = program.with_name(f"{program.stem}.{name}.log")
                outcomes[name] = tested(folder / package, program, environment, log, args)
        lost += report(package, outcomes)
    return 1 if lost else 0


def _rename_machine() -> None:
    """Let this process and those that it starts see the name of a machine that upstream's tests make up, if allowed."""
    with suppress(AttributeError, PermissionError):
        if sys.version_info >= (3, 12):  # and on Linux
            os.unshare(os.CLONE_NEWUTS)
            socket.sethostname(HOSTNAME)


def write_understudy(work: Path) -> Path:
    """Write the program that stands in for kube-apiserver; return its path."""
    program, root = work / "understudy", OVERLAY.parents[2]
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(root))} exec {sys.executable} -c "{MAIN}" "$@"\n')
    program.chmod(0o755)
    return program


def compiled(folder: Path, package: str) -> Path:
    """Return the compiled tests of a package. Raises CalledProcessError.

    They have the name that `go test` gives them, which their clients tell servers as user agent.
    """
    overlay = folder / ".tests" / "overlay.json"
    overlay.parent.mkdir(exist_ok=True)
    overlay.write_text(json.dumps({"Replace": {str(folder / to): str(OVERLAY / by) for to, by in REPLACED.items()}}))
    name = package.removeprefix("./test/integration/").replace("/", "_")
    program = overlay.parent / name / f"{Path(package).name}.test"
    command = ["go", "test", "-mod=mod", f"-overlay={overlay}", "-c", f"-o={program}", package]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "GOWORK": "off"})
    return program


def tested(folder: Path, program: Path, environment: dict[str, str], log: Path, args: argparse.Namespace) -> Outcome:
    """Run compiled tests with a server. What they print is kept in a file."""
    command = [str(program), "-test.v", f"-test.run={args.run}", f"-test.timeout={args.timeout:.0f}s"]
    env = {**os.environ, **environment}
    before, begun = cpu_of_children(), time.monotonic()
    with log.open("w") as out:
        subprocess.run(command, cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT)
    text = log.read_text(errors="replace")
    return Outcome(passed_tests(text), time.monotonic() - begun, cpu_of_children() - before)
