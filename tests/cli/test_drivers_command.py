"""`understudy drivers test`: drivers as processes, flags, and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.releases import NEWEST
from understudy.cli.main import main
from understudy.controlplane.drivers.cases import CASES

DRIVER = """
import asyncio, os, sys
from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig
from understudy.testing import FakeDriver

async def run():
    server = read_kubeconfig(os.environ["KUBECONFIG"])
    async with FakeDriver(sys.argv[1], server=server, node=os.environ["NODE_NAME"], devices=["gpu-0"]):
        await asyncio.Event().wait()

asyncio.run(run())
"""
CLAIM = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: any}
spec: {spec: {devices: {requests: [{name: gpu, deviceClassName: drivers-test}]}}}
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    """Return the command of a driver with one device."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    return f"{sys.executable} {script} {{root}}"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `understudy drivers test` and returns its exit code, stdout and stderr."""

    def run(*flags: str) -> tuple[int, str, str]:
        code = main(["drivers", "test", *flags])
        return code, *capsys.readouterr()

    return run


def test_driver_passes(command: str, tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    """Each case is told of as it ends; a report for build servers and one for people say the same."""
    junit, markdown, claim = tmp_path / "report.xml", tmp_path / "report.md", tmp_path / "claim.yaml"
    claim.write_text(CLAIM)
    cases = ["--case", "runs-fifty-pods-at-once"]
    files = ["--junit", str(junit), "--markdown", str(markdown), "--claim", str(claim)]
    code, out, err = run("--driver-command", command, *cases, *files)
    assert (code, err) == (0, "")
    skipped = f"{NEWEST} runs-fifty-pods-at-once: skipped, the driver publishes one device only"
    assert [line.partition(" (")[0] for line in out.splitlines()] == [
        *(f"{NEWEST} {name}: passed" for name in ("registers", "publishes")),
        skipped,
        "2 passed, 0 failed, 1 skipped",
    ]
    [suite] = ElementTree.parse(junit).getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3", "failures": "0", "skipped": "1",
    }  # fmt: skip
    table = markdown.read_text()
    assert f"| case | {NEWEST} |\n|---|---|\n| registers | ✓ |" in table
    assert f"- **runs-fifty-pods-at-once** on {NEWEST} skipped: the driver publishes one device only" in table


def test_driver_ends(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    """The last lines of a driver that ended are in the report; nothing else is tested then."""
    junit = tmp_path / "report.xml"
    code, out, _ = run("--driver-command", "sh -c 'echo no GPU on {node}; exit 3'", "--junit", str(junit))
    assert code == 1
    assert "registers: failed" in out
    assert "\n    the driver ended with exit code 3\n    no GPU on node-1\n    Rule: A driver answers" in out
    assert out.endswith(f"0 passed, 1 failed, {len(CASES) - 1} skipped\n")
    [failure] = ElementTree.parse(junit).getroot().iter("failure")
    assert failure.get("message") == "the driver ended with exit code 3"


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ([], "--driver-command is missing: the command that starts the driver"),
        (["--driver-command", " "], "the driver's command is empty"),
        (["--driver-command", "driver --node {nod}"], "unknown placeholder {nod} in the driver's command, there are: "),
        (["--driver-command", "driver --node {nod}"], ", instance; did you mean 'node'?"),
        (["--driver-command", "driver 'a"], "No closing quotation"),
        (["--driver-command", "/no/such/driver"], "/no/such/driver: No such file or directory"),
        (["--driver-command", "true", "--case", "prepare"], "unknown case prepare, there are: registers, publishes, "),
        (["--driver-command", "true", "--skip", "prepare"], ", shows-health-of-pods; did you mean 'prepares'?"),
        (["--driver-command", "true", "--claim", "/no/file"], "/no/file: No such file or directory"),
        (["--driver-command", "true", "--feature-gates", "DRANothing=true"], "DRANothing"),
    ],
)
def test_wrong_flags(flags: list[str], error: str, run: Callable[..., tuple[int, str, str]]) -> None:
    """Flags with which nothing can be run are an error of one line."""
    code, out, err = run(*flags)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert error in err


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        ("[]", "the file has no object"),
        ("kind: Pod\napiVersion: v1", "a claim is a ResourceClaim or ResourceClaimTemplate, not Pod of v1"),
        ("kind: ResourceClaim\napiVersion: resource.k8s.io/v1", "the claim asks for no devices"),
        ("{", "while parsing a flow node"),
    ],
)
def test_wrong_claim(manifest: str, error: str, tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    """A file that has no claim for devices is told in one line, with its name."""
    path = tmp_path / "claim.yaml"
    path.write_text(manifest)
    code, _, err = run("--driver-command", "true", "--claim", str(path))
    assert (code, err.count("\n")) == (2, 1)
    assert str(path) in err
    assert error in err


def test_list(run: Callable[..., tuple[int, str, str]]) -> None:
    """Cases are listed with their rules."""
    code, out, _ = run("--list")
    assert code == 0
    assert "prepares-again: Preparing a claim again answers with the same devices, since the kubelet" in out
    assert len(out.splitlines()) == len(CASES)
