"""The programs that `understudy envtest-assets` lays down, used as envtest uses them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import pytest
from cryptography.x509 import IPAddress, SubjectAlternativeName

from tests.certificates import CN, SERVER, O, issue, new_authority
from tests.ports import free_port
from tests.waiting import PATIENCE, until
from understudy.apiserver.client.connection import Connection
from understudy.cli.envtest import keeper
from understudy.cli.envtest.keeper import Keeper
from understudy.cli.main import main
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NAMESPACES

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay down the programs, and move the folder."""
    folder = tmp_path_factory.mktemp("assets")
    assert main(["envtest-assets", str(folder / "first"), "--emulated-version", "1.36"]) == 0
    return (folder / "first").rename(folder / "moved")


@asynccontextmanager
async def etcd(folder: Path) -> AsyncIterator[str]:
    """Run what `etcd` runs, in this process; yield the URL of its clients."""
    kept = Keeper(folder)
    server = await asyncio.start_server(kept.answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        await kept.close()
        server.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the certificates that envtest writes, and those of a user."""
    folder, authority = tmp_path_factory.mktemp("certificates"), new_authority()
    names = SubjectAlternativeName([IPAddress(ip_address("127.0.0.1"))])
    serving = issue([(CN, "s")], authority, usages=[SERVER], extensions=[(names, False)])
    admin = issue([(O, "system:masters"), (CN, "admin")], authority)
    for name, holder in {"ca": authority, "apiserver": serving, "admin": admin}.items():
        (folder / f"{name}.crt").write_bytes(holder.pem)
        (folder / f"{name}.key").write_bytes(holder.key_pem)
    return folder


class ApiServer:
    """The program `kube-apiserver`, which runs or has refused to; `log` has the first lines that it printed."""

    def __init__(self, process: Process, connection: Connection, log: list[str]) -> None:
        self.process = process
        self.connection = connection
        self.log = log

    async def end(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return await self.exit_code()

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


@asynccontextmanager
async def api_server(assets: Path, certificates: Path, url: str, *flags: str) -> AsyncIterator[ApiServer]:
    """Run `kube-apiserver` as envtest does; begin the block once it has told its address, or has ended."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(
            assets / "kube-apiserver",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--bind-address=127.0.0.1",
        ),
        *("--cert-dir=.", "--client-ca-file=ca.crt", "--disable-admission-plugins=ServiceAccount"),
        *(f"--etcd-servers={url}", f"--secure-port={port}", "--service-cluster-ip-range=10.0.0.0/24", *flags),
        stderr=asyncio.subprocess.PIPE,
        cwd=certificates,
    )
    assert process.stderr is not None
    log: list[str] = []
    while not (log and " API at " in log[-1]):
        line = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
        if not line:
            break
        log.append(line.decode().strip())
    ca, cert, key = [(certificates / name).read_bytes() for name in ("ca.crt", "admin.crt", "admin.key")]
    address = f"https://127.0.0.1:{port}"
    try:
        yield ApiServer(
            process,
            Connection(url=address, certificate_authority=ca, client_certificate=cert, client_key=key),
            log,
        )
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_data_outlive_the_api_server(assets: Path, certificates: Path, tmp_path: Path) -> None:
    """Objects are there after kube-apiserver was killed, and after etcd was started anew on its folder."""
    async with etcd(tmp_path) as url:
        async with api_server(assets, certificates, url, "--profiling=false") as server:
            assert server.log == [
                "understudy: --profiling has no effect",
                f"understudy: Kubernetes 1.36 API at {server.connection.url}",
            ]
            async with APIClient(server.connection, "test") as client:
                made = await client.create(NAMESPACES, {"metadata": {"name": "a"}})
            assert await server.end(signal.SIGKILL) == -signal.SIGKILL
        async with api_server(assets, certificates, url) as server:
            async with APIClient(server.connection, "test") as client:
                assert (await client.get(NAMESPACES, "a"))["metadata"]["uid"] == made["metadata"]["uid"]
            assert await server.end(signal.SIGTERM) == 0
    async with (
        etcd(tmp_path) as url,
        api_server(assets, certificates, url) as server,
        APIClient(server.connection, "test") as client,
    ):
        assert await client.get(NAMESPACES, "a") == made
        await client.delete(NAMESPACES, "a")
        assert "a" in await names(client)  # for a second: a suite may want to finalize it
        await until(lambda: names(client), lambda left: "a" not in left)  # the namespace controller runs


async def names(client: APIClient) -> set[str]:
    return {each["metadata"]["name"] for each in (await client.list(NAMESPACES))["items"]}


async def test_one_api_server_at_a_time(
    assets: Path, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second kube-apiserver is refused while the first one runs; that one ends with its etcd, and says so."""
    monkeypatch.setattr(keeper, "TURN_SECONDS", 0.1)
    async with AsyncExitStack() as first_runs:
        async with etcd(tmp_path) as url:
            first = await first_runs.enter_async_context(api_server(assets, certificates, url))
            async with api_server(assets, certificates, url) as second:
                assert await second.exit_code() == 1
                assert "one at a time" in second.log[-1]
            assert first.process.returncode is None
        assert await first.exit_code() == 1


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("--feature-gates=Nonsense=true", "unrecognized feature gate: Nonsense"),
        ("--authorization-mode=Webhook", "Webhook"),
        ("--client-ca-file=missing", "missing"),
        ("--load=nothing.yaml", "nothing.yaml"),
    ],
)
async def test_options_that_the_server_refuses(
    flag: str, error: str, assets: Path, certificates: Path, tmp_path: Path
) -> None:
    """The error of the server is a line of kube-apiserver, which exits with 1; etcd goes on."""
    async with etcd(tmp_path) as url, api_server(assets, certificates, url, flag) as server:
        assert await server.exit_code() == 1
        assert error in server.log[-1]
        assert server.log[-1].startswith("kube-apiserver: ")


def test_etcd_ends_while_it_imports(tmp_path: Path) -> None:
    """A signal ends etcd even if the server, which it imports meanwhile, is not there for long."""
    code = (
        "import sys, time\n"
        "from understudy.cli.envtest import etcd, keeper\n"
        "keeper._import_server = lambda: (print('imports', flush=True), time.sleep(1000))\n"
        "sys.exit(etcd.main())\n"
    )
    argv = [
        sys.executable,
        "-c",
        code,
        f"--data-dir={tmp_path}",
        f"--listen-client-urls=http://127.0.0.1:{free_port()}",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"imports\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


async def test_pages_of_etcd(tmp_path: Path) -> None:
    """`/health` and `/version` answer as etcd does; another HTTP server is no etcd that kube-apiserver can use."""
    async with etcd(tmp_path) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/health") as answer:
            assert (answer.status, await answer.json()) == (200, {"health": "true", "reason": ""})
        async with session.get(f"{url}/understudy/kube-apiserver") as answer:  # as a web page might
            assert (answer.status, await answer.text()) == (404, "404 page not found\n")


def test_moved_python(assets: Path, tmp_path: Path) -> None:
    """A program whose Python is gone says what to do."""
    script = tmp_path / "etcd"
    script.write_text((assets / "etcd").read_text().replace(sys.executable, "/nowhere/python"))
    script.chmod(0o755)
    done = subprocess.run([script, "--help"], capture_output=True, text=True)
    error = "etcd: /nowhere/python is gone, and understudy with it: run `understudy envtest-assets` again\n"
    assert (done.returncode, done.stderr) == (1, error)


def test_compiled_modules_are_kept(assets: Path, tmp_path: Path) -> None:
    """A program keeps the modules that Python has compiled, though the environment says not to, as images do."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    subprocess.run([assets / "etcd", "--version"], env=environment, check=True, stdout=subprocess.DEVNULL)
    assert list(tmp_path.rglob("command_line.*.pyc"))


def test_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kubectl` is a link to the one on PATH, or says that there is none; writing it again replaces it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert main(["envtest-assets", str(tmp_path)]) == 0
    done = subprocess.run(["/bin/sh", tmp_path / "kubectl"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("kubectl: there was none on PATH")
    installed = tmp_path / "bin" / "kubectl"
    installed.write_text("")
    installed.chmod(0o755)
    for _ in range(2):
        assert main(["envtest-assets", str(tmp_path)]) == 0
        assert (tmp_path / "kubectl").readlink() == installed


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("--controllers=namespaces", "unknown controller 'namespaces'"),
        ("--emulated-version=1.20", "1.20"),
        ("--kubectl=/nowhere/kubectl", "--kubectl: /nowhere/kubectl is no program"),
    ],
)
def test_refused_assets(flag: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag is one line and exit code 2, and writes nothing."""
    assert main(["envtest-assets", str(tmp_path / "new"), flag]) == 2
    assert error in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
