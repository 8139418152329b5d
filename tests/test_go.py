"""The Go clients that people use against a running server: `tests/go`, a module with its own pinned dependencies.

Building them takes minutes with an empty module cache and a quarter of a minute with a full one, so these tests run
only when they are asked for:

    pytest -m go tests/test_go.py                 with Go on PATH; modules are fetched as `go` is configured
    UNDERSTUDY_GO_TESTS=FILE pytest -m go …       with a program built before, for several Pythons only once:

        (cd tests/go && go vet . && go test -c -o FILE .)

Where there is neither Go nor such a program they are skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from understudy import Server

MODULE = Path(__file__).parent / "go"
GATES = {"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True}
pytestmark = pytest.mark.go


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled tests."""
    built = os.environ.get("UNDERSTUDY_GO_TESTS")
    if built:
        return str(Path(built).resolve())
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go 1.23 or later on PATH, or its compiled tests, named by UNDERSTUDY_GO_TESTS")
    out = str(tmp_path_factory.mktemp("go") / "clients.test")
    run(go, "vet", ".")
    run(go, "test", "-c", "-o", out, ".")
    return out


def run(*argv: str, **env: str) -> str:
    """Both outputs. A command that fails fails the test, with what it said."""
    done = subprocess.run(
        argv, cwd=MODULE, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900
    )
    if done.returncode:
        pytest.fail(f"{' '.join(argv)}\n{done.stdout}", pytrace=False)
    return done.stdout


def test_clients(program: str) -> None:
    """client-go, controller-runtime and the helpers of DRA drivers get from understudy what they get from
    kube-apiserver, in JSON and in protobuf."""
    with Server(emulated_version="1.32", feature_gates=GATES) as server:
        run(program, "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="")


def test_clients_over_tls(program: str) -> None:
    """The same over TLS, for those that a connection is cut under, and for streams."""
    with Server(emulated_version="1.32", feature_gates=GATES, tls=True) as server:
        some = "-test.run=Informers|Watch|Manager|Leader"
        run(program, some, "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="")


def test_formatted() -> None:
    """The Go files are as gofmt wants them."""
    gofmt = shutil.which("gofmt")
    if not gofmt:
        pytest.skip("needs gofmt on PATH")
    assert run(gofmt, "-l", ".") == ""
