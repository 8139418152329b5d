"""Go clients against a running server: `tests/go`, a module with its own pinned dependencies.

Building them takes minutes with an empty module cache and a quarter of a minute with a full one, so these tests run
only when they are asked for:

    pytest -m go tests/test_go.py                 with Go on PATH; modules are fetched as `go` is configured
    UNDERSTUDY_GO_TESTS=FILE pytest -m go …       with a program built before, for several Pythons only once:

        (cd tests/go && go vet . && go test -c -o FILE .)

Where there is neither Go nor such a program they are skipped, with the reason. The test of cluster-api finds its
definitions with `go list`, and that of v1alpha3 is built with an older client, so these need Go in either case.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.releases import NEWEST
from understudy import Server
from understudy.cli.main import main
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, Version

MODULE = Path(__file__).parent / "go"
GATES = {"DRAAdminAccess": True, "DRAResourceClaimDeviceStatus": True}
RELEASES = [V1_32, V1_34, NEWEST]  # the first one with what the clients ask for, and later ones
# The tests of what the clients of 1.32 were the last to know, and the arguments with which Go builds them.
OLDER = ["-modfile=go032.mod", "setup_test.go", "crud_test.go", "v1alpha3_test.go"]
pytestmark = pytest.mark.go


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the compiled tests."""
    built = os.environ.get("UNDERSTUDY_GO_TESTS")
    if built:
        return str(Path(built).resolve())
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go 1.26 or later on PATH, or its compiled tests, named by UNDERSTUDY_GO_TESTS")
    return build(go, tmp_path_factory.mktemp("go") / "clients.test", ".")


@pytest.fixture(scope="session")
def older_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the compiled tests of the client of 1.32."""
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go 1.26 or later on PATH")
    return build(go, tmp_path_factory.mktemp("go") / "older.test", *OLDER)


def build(go: str, out: Path, *arguments: str) -> str:
    """Compile tests, and return the path of the program."""
    run(go, "vet", *arguments)
    run(go, "test", "-c", "-o", str(out), *arguments)
    return str(out)


def run(*argv: str, **env: str) -> str:
    """Return the output of a command, for which `understudy` is that of the tests; fail the test if it fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        argv,
        cwd=MODULE,
        env={**os.environ, "PATH": path, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    if done.returncode:
        pytest.fail(f"{' '.join(argv)}\n{done.stdout}", pytrace=False)
    return done.stdout


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_go_clients(program: str, release: Version) -> None:
    """client-go, controller-runtime, cluster-api and the DRA helpers get what kube-apiserver gives them."""
    with Server(emulated_version=str(release), feature_gates=GATES) as server:
        run(program, "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="")


def test_go_clients_over_tls(program: str) -> None:
    """Watches, informers and leader election work over TLS and survive dropped connections."""
    with Server(emulated_version=str(NEWEST), feature_gates=GATES, tls=True) as server:
        some = "-test.run=Informers|Watch|Manager|Leader"
        run(program, some, "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="")


def test_envtest_drop_in(program: str, kubectl: str, tmp_path: Path) -> None:
    """envtest starts the programs of `understudy envtest-assets` as it starts the real ones."""
    assert main(["envtest-assets", str(tmp_path), "--kubectl", kubectl]) == 0
    env = {"KUBEBUILDER_ASSETS": str(tmp_path), "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "120s"}
    out = run(program, "-test.run=^TestEnvtest", "-test.v", "-test.timeout=5m", UNDERSTUDY_URL="-", **env)
    assert out.count("--- PASS: ") == 2


def test_go_caches_survive_faults(program: str) -> None:
    """Caches of client-go and controller-runtime lose no event, whatever their requests meet."""
    with Server(emulated_version=str(NEWEST), control=True) as server:
        run(program, "-test.run=Faults", "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="")


def test_go_caches_survive_a_day(program: str) -> None:
    """Caches lose no event in a day of the server's clock, in which a tenth of their requests fails."""
    with Server(emulated_version=str(NEWEST), control=True) as server:
        some = "-test.run=TestCachesOverADay"
        run(program, some, "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="", UNDERSTUDY_DAY="1")


@pytest.mark.parametrize("release", [V1_31, V1_32], ids=str)
def test_older_go_client(older_program: str, release: Version) -> None:
    """The client of 1.32 gets the same answers about `resource.k8s.io/v1alpha3` in protobuf as in JSON."""
    gates = {"DRAAdminAccess": True} if release >= V1_32 else {}
    with Server(emulated_version=str(release), feature_gates=gates) as server:
        out = run(older_program, "-test.v", "-test.timeout=5m", UNDERSTUDY_URL=server.url, UNDERSTUDY_TOKEN="")
    assert "--- PASS: TestKinds/resourceslices.v1alpha3" in out


def test_go_files_are_formatted() -> None:
    """gofmt finds nothing to change."""
    gofmt = shutil.which("gofmt")
    if not gofmt:
        pytest.skip("needs gofmt on PATH")
    assert run(gofmt, "-l", ".") == ""
