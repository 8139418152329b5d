"""`understudy controllers` from the command line."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.program import PROGRAM
from tests.releases import NEWEST
from tests.waiting import PATIENCE, until
from understudy import Server
from understudy.cli.main import main
from understudy.controlplane.components import ComponentContext

TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "t"},
    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    },
}


@pytest.mark.parametrize("named", ["--server", "--kubeconfig"])
async def test_controllers_run_beside_a_server(named: str) -> None:
    """Controllers take their release from the server, work as the user of the kubeconfig, and end on a signal. With
    `--leader-elect` they hold a Lease while they work, and give it up."""
    async with Server(tls=named == "--kubeconfig") as server:
        flags = [named, str(server.kubeconfig) if named == "--kubeconfig" else server.url]
        is_elected = named == "--server"
        flags += ["--leader-elect"] if is_elected else []
        command = [*PROGRAM, "controllers", *flags, "--controllers", "resourceclaim,device-taint-eviction"]

        def holders() -> list[bool]:
            return [bool(lease["spec"]["holderIdentity"]) for lease in server.list("leases", "kube-system")]

        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = await asyncio.to_thread(process.stdout.readline)
            assert line == f"understudy: resourceclaim, device-taint-eviction of {NEWEST} at {server.url}\n"
            server.apply(TEMPLATE, POD)
            await until(lambda: server.get("Pod", "p")["status"], lambda status: "resourceClaimStatuses" in status)
            assert holders() == [True] * is_elected
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, PATIENCE) == 0
            assert holders() == [False] * is_elected
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--controllers", "resourceclaim"], "one of the arguments --server --kubeconfig is required"),
        (["--server", "http://127.0.0.1:1"], "the following arguments are required: --controllers"),
        (
            ["--server", "u", "--controllers", "namespace", "--emulated-version", "1.36"],
            "understudy: unknown controller 'namespace': known are device-taint-eviction, resourceclaim",
        ),
        (
            ["--server", "u", "--controllers", "device-taint-eviction", "--emulated-version", "1.31"],
            "understudy: controller 'device-taint-eviction' came with Kubernetes 1.33: 1.31 has none",
        ),
        (["--server", "http://127.0.0.1:1", "--controllers", "resourceclaim"], "understudy: http://127.0.0.1:1: "),
        (
            [
                *("--server", "http://127.0.0.1:1", "--controllers", "resourceclaim"),
                *("--leader-elect", "--leader-elect-lease-duration", "1s"),
            ],
            "understudy: leaseDuration must be greater than renewDeadline",
        ),
        (["--kubeconfig", "/none", "--controllers", "resourceclaim"], "understudy: /none: No such file or directory"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], argv: list[str], message: str) -> None:
    """A mistake is one line on stderr, and exit code 2."""
    try:
        code = main(["controllers", *argv])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    error = capsys.readouterr().err
    assert (code, len(error.splitlines())) == (2, 1)
    assert message in error


def test_failed_controller_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An error that ends a controller is one line, and exit code 1; the other controllers end as well."""
    ended: list[str] = []

    async def endless(context: ComponentContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def failing(context: ComponentContext) -> None:
        await asyncio.sleep(0)
        raise LookupError("no such thing")

    entries = [SimpleNamespace(name=each.__name__, load=lambda each=each: each) for each in (endless, failing)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: entries)
    argv = ["controllers", "--server", "u", "--controllers", "endless,failing", "--emulated-version", "1.36"]
    assert main(argv) == 1
    assert capsys.readouterr().err == "understudy: controller failing: LookupError('no such thing')\n"
    assert ended == ["endless"]


def test_controller_without_work_ends_alone(tmp_path: Path) -> None:
    """A controller whose feature gate is off says so, and the others go on."""
    with Server(emulated_version="1.34") as server:
        flags = ["--server", server.url, "--controllers", "device-taint-eviction,resourceclaim"]
        process = subprocess.Popen([*PROGRAM, "controllers", *flags], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            assert "the feature gate DRADeviceTaints is off" in process.stderr.readline()
            server.apply(TEMPLATE, POD)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.communicate()
