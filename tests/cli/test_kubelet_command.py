"""`understudy kubelet` from the command line."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.program import PROGRAM
from tests.releases import NEWEST
from tests.waiting import PATIENCE
from understudy import Server
from understudy.cli.main import main
from understudy.machinery.serializer.rpc.installation import install_command
from understudy.testing import FakeDriver


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, "kubelet", *argv], capture_output=True, text=True, timeout=PATIENCE, check=False)


async def test_drivers_register_with_it() -> None:
    """The command takes its release from the server, registers drivers and the node, and ends on a signal."""
    with Server() as server, tempfile.TemporaryDirectory(prefix="kubelet-") as folder:
        root = Path(folder)
        flags = ["--server", server.url, "--node", "n1", "--root", folder, "--register-node"]
        process = subprocess.Popen([*PROGRAM, "kubelet", *flags], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == f"understudy: kubelet {NEWEST} of node n1, plugins in {root}/plugins_registry\n"
            async with FakeDriver(root) as driver:
                assert (await driver.registered()).plugin_registered
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.communicate()


def test_server_that_does_not_answer(tmp_path: Path) -> None:
    """A server that is not there is one line, and exit code 2."""
    done = run("--server", "http://127.0.0.1:1", "--node", "n", "--root", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith("understudy: http://127.0.0.1:1: ")


def test_broken_file_of_claims(tmp_path: Path) -> None:
    """A broken file of prepared claims stops the start."""
    (tmp_path / "dra_manager_state").write_text("{")
    done = run("--server", "http://127.0.0.1:1", "--node", "n", "--root", str(tmp_path), "--emulated-version", "1.36")
    text = "failed to get checkpoint dra_manager_state: unexpected end of JSON input"
    assert (done.returncode, done.stderr.splitlines()[-1].endswith(text)) == (2, True)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--node", "n", "--root", "r"], "one of the arguments --server --kubeconfig is required"),
        (["--server", "u", "--root", "r"], "the following arguments are required: --node"),
    ],
)
def test_wrong_flags(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that is missing is one line, and exit code 2."""
    with pytest.raises(SystemExit, match="2"):
        main(["kubelet", *argv])
    assert capsys.readouterr().err == f"understudy kubelet: {message}\n"


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ("kubelet --server http://127.0.0.1:1 --node n --root {} --emulated-version 1.36", "kubelet"),
        ("dev --simulate 1h", "--simulate"),
        ("drivers test --driver-command true", "drivers test"),
    ],
)
def test_without_the_library(flags: str, what: str, tmp_path: Path) -> None:
    """Without the extra `kubelet` the commands that need it say in one line how to install it."""
    python, option, program = PROGRAM
    argv = [python, option, f"import sys; sys.modules['grpc'] = None; {program}", *flags.format(tmp_path).split()]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stderr == f"understudy: {what} needs grpcio: {install_command()}\n"
    assert done.returncode == 2
