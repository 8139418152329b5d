"""`understudy serve` as a program: what it prints, how it ends, and which options it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPConnection
from importlib import metadata
from pathlib import Path

import pytest

from tests.http import send, watch
from tests.program import PATIENCE, PROGRAM, serving
from understudy import Server
from understudy.apiserver.serving.release import Release
from understudy.cli import process, program
from understudy.cli.main import main
from understudy.machinery.util import caches, memory


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.fspath(path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_server(number: signal.Signals) -> None:
    """On SIGINT and SIGTERM open watches end cleanly, and the server exits with 0 at once."""
    with serving() as (process, url):
        with watch(url, "/api/v1/namespaces") as events:
            assert next(events)["type"] == "ADDED"
            process.send_signal(number)
            assert [event["type"] for event in events] == ["ADDED"] * 3
        assert process.wait(PATIENCE) == 0


def test_a_signal_lets_what_runs_be_answered() -> None:
    """On SIGTERM nobody can connect any more, and the server ends when the request that runs has been answered."""
    with serving() as (process, url), closing(HTTPConnection(url.partition("//")[2], timeout=PATIENCE)) as connection:
        connection.putrequest("POST", "/api/v1/namespaces")
        connection.putheader("Content-Length", "7")
        connection.putheader("Expect", "100-continue")
        connection.endheaders()
        assert connection.sock.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionError):  # noqa: PT012 - until it does
            while True:
                socket.create_connection(connection.sock.getpeername(), timeout=PATIENCE).close()
        connection.send(b"garbage")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (400, "close")
        assert process.wait(PATIENCE) == 0


OTHER_THREAD = """
import signal, sys, threading
from understudy.cli.main import main

def end(pipe):
    with open(pipe):
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=end, args=(sys.argv.pop(),), daemon=True).start()
sys.exit(main())
"""


def test_signals_that_another_thread_gets_end_the_server(tmp_path: Path) -> None:
    """The system may give a signal to any thread: the server ends as well if it is not the main one."""
    os.mkfifo(pipe := tmp_path / "pipe")
    with serving(str(pipe), program=[sys.executable, "-c", OTHER_THREAD]) as (process, _):
        pipe.write_bytes(b"")  # is opened once the thread reads
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_server_that_loads(number: signal.Signals, tmp_path: Path) -> None:
    """A server that waits for what it begins with ends at once on SIGINT and SIGTERM."""
    os.mkfifo(tmp_path / "x.yaml")
    argv = [*PROGRAM, "serve", "--port", "0", "--load", str(tmp_path / "x.yaml")]
    # the pipe is open to write as soon as the server has opened it to read
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process, open(tmp_path / "x.yaml", "w"):
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number


def test_objects_are_not_freed_at_the_end() -> None:
    """A server that ends leaves its objects to the system: freeing tens of thousands takes seconds."""
    run = "import gc, sys; from understudy.cli.main import main; main(); "
    frozen = f"{run}sys.exit(gc.get_freeze_count() > 1000)"
    with serving("--load", "demo", program=[sys.executable, "-c", frozen]) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1


def test_manifests_through_a_pipe(tmp_path: Path) -> None:
    """A named pipe that is given by name is read, and a link that leads to no file is written to."""
    pipe = tmp_path / "x.yaml"
    os.mkfifo(pipe)
    manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: piped}\n"
    writer = threading.Thread(target=pipe.write_text, args=(manifest,))
    writer.start()
    reading, writing = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"/proc/{os.getpid()}/fd/{writing}")
    with serving("--load", str(pipe), "--kubeconfig", str(link)) as (_, url):
        assert send(url, "GET", "/api/v1/namespaces/piped").status == 200
        assert json.loads(os.read(reading, 1 << 16))["clusters"][0]["cluster"]["server"] == url
    writer.join()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("command", [["serve", "--port", "0", "--load"], ["validate"]], ids=["serve", "validate"])
@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "a named pipe"), (_socket, "a socket")], ids=["pipe", "socket"])
def test_pipe_in_a_folder_is_refused(
    make: Callable[[Path], None], kind: str, command: list[str], tmp_path: Path
) -> None:
    """A pipe or socket in a folder, which might never end, is not read: one line says so, and the exit status is 2."""
    (tmp_path / "dir" / "c.yaml").mkdir(parents=True)  # a folder by the name of a file is a folder
    (tmp_path / "dir" / "c.yaml" / "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    make(tmp_path / "dir" / "x.yaml")
    done = subprocess.run([*PROGRAM, *command, "dir"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert f"dir/x.yaml: {kind}, not a file: in a folder only files are read\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_kubeconfig_names_the_server(tmp_path: Path) -> None:
    """The kubeconfig points at the server, trusts its certificate, and only its owner can read it."""
    path = tmp_path / "kubeconfig"
    with serving("--kubeconfig", str(path), "--tls") as (_, url):
        cluster = json.loads(path.read_text())["clusters"][0]["cluster"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (cluster["server"], url[:5]) == (url, "https")
        assert cluster["certificate-authority-data"]


def test_unknown_token_is_refused(tmp_path: Path) -> None:
    """With a token file, only the tokens in it are accepted."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('secret,ann,1,"dev,ops"\n')
    with serving("--token-auth-file", str(tokens), "--tls=false") as (_, url):
        for token, status in (("secret", 200), ("wrong", 401)):
            headers = {"Authorization": f"Bearer {token}"}
            assert send(url, "GET", "/api/v1/nodes", headers=headers).status == status


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--tls=maybe"], "argument --tls: want true or false, not 'maybe'"),
        (["--port", "99999"], "want a port from 0 to 65535"),
        (["--emulated-version", "1.40"], "unknown release '1.40'"),
        (["--feature-gates", "NoSuchGate=true"], "unrecognized feature gate: NoSuchGate"),
        (["--feature-gates", "DRAAdminAccess=maybe"], "want NAME=true or NAME=false"),
        (["--runtime-config", "resource.k8s.io/v9=false"], "has not been registered"),
        (["--load", "missing.yaml"], "missing.yaml: No such file or directory"),
        (["--load", "broken.yaml"], "broken.yaml, document 2 (line 6): "),
        (["--load", "syntax.yaml"], "understudy: syntax.yaml:3: yaml: "),
        (
            ["--load", "empty"],
            "understudy: empty: no manifests there: recognized file extensions are .yaml, .yml, .json",
        ),
        (["--token-auth-file", "missing.csv"], "missing.csv: No such file or directory"),
        (["--tls-cert-file", "missing.pem"], "go together"),
        (["--controllers", "podgc"], "unknown controller 'podgc'"),
        (["--enable-admission-plugins", "Nope"], 'enable-admission-plugins plugin "Nope" is unknown'),
        (["--disable-admission-plugins", "Nope"], 'disable-admission-plugins plugin "Nope" is unknown'),
        (
            ["--enable-admission-plugins=Priority,RuntimeClass", "--disable-admission-plugins=RuntimeClass,Priority"],
            "[Priority RuntimeClass] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (
            ["--admission-control-config-file=none.yaml"],
            "understudy: failed to apply admission: failed to read plugin config: unable to read admission control "
            'configuration from "none.yaml" [open none.yaml: no such file or directory]',
        ),
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
    ],
)
def test_wrong_options_are_refused(argv: list[str], message: str, tmp_path: Path) -> None:
    """A wrong option prints one clear line on stderr and exits with 2."""
    good = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n---\n"
    (tmp_path / "broken.yaml").write_text(f"{good}apiVersion: v1\nkind: Namespace\nmetadata:\n  name: A b\n")
    (tmp_path / "syntax.yaml").write_text("a: b\nc:\n- [\n")
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [*PROGRAM, "serve", "--port", "0", *argv], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints name and version."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"understudy {metadata.version('understudy')}\n"


def test_program_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help is printed."""
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: understudy ")


@pytest.mark.parametrize("name", ["v1.32", "1.32.2", "v1.32.11"])
def test_release_may_be_named_by_its_patches(name: str) -> None:
    """A release is named with or without v and patch number."""
    assert str(Release.named(name).version) == "1.32"


@pytest.mark.parametrize("name", ["1.32.", "v", "1.32-rc1", "1.320", "\u0661.32", ""])
def test_other_names_of_releases_are_refused(name: str) -> None:
    """Names that are no release are refused with those that are."""
    with pytest.raises(ValueError, match=r"unknown release .*: there are 1\.31, 1\.32"):
        Release.named(name)


def test_used_port_is_refused() -> None:
    """A port that another program listens on is an error that names it."""
    with serving() as (_, url):
        port = url.rpartition(":")[2]
        argv = [*PROGRAM, "serve", "--port", port]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, env=os.environ)
        assert done.returncode == 2
        assert re.search(rf"cannot listen on 127.0.0.1:{port}: .*[Aa]ddress already in use", done.stderr)


def test_nothing_of_a_server_stays_in_force() -> None:
    """Signals and turns of threads are as they were when a server has ended, for who has run it in a process."""

    async def use(server: Server, stopped: Future[None]) -> None:
        assert sys.getswitchinterval() == process.SWITCH_INTERVAL
        assert signal.getsignal(signal.SIGTERM) not in handlers

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    before = handlers, sys.getswitchinterval()
    assert program.run_server(dict, use) == 0
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert (after, sys.getswitchinterval()) == before


async def test_caches_are_emptied_after_large_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches, holders and unused objects are asked after a quarter of all was freed, then once more, and not else."""
    blocks = iter((100, 80, 74, 80, 80, 61, 59, 59, 59))
    forgotten = []

    async def sleep(seconds: float) -> None:
        forgotten.append(len(emptied))

    async def renew() -> None:
        emptied.append(None)

    emptied: list[None] = []
    monkeypatch.setattr(process, "_renew_unused_objects", renew)
    monkeypatch.setattr(caches, "forget_results", lambda: emptied.append(None))
    monkeypatch.setattr(memory, "give_back", lambda: emptied.append(None))
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: next(blocks))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await process._give_back_memory_periodically(None)
    assert forgotten == [0, 0, 3, 6, 6, 6, 9, 12, 12]  # of all three kinds


LARGE_BLOCKS = """
import resource
from understudy.cli import process

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20

async def use(stopped, waits):
    b"x" * (16 << 20)  # when it is freed, glibc keeps the next ones up to its size for later, unless it was told not to
    before = resident()
    large, small = [], []
    for _ in range(64):
        large.append(b"x" * (1 << 20))
        small.append(b"x" * 1000)
    most = resident()
    large.clear()
    print(before, most, resident())

process.run_until_signal(use)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator than that of glibc")
def test_large_memory_goes_back_at_once() -> None:
    """Large blocks between small ones go back to the system when they are freed, from the start of a server on."""
    # in a process of its own, since what the allocator is told stays
    done = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True, check=True)
    before, most, after = map(int, done.stdout.split())
    assert most > before + 60
    assert after < before + 10


ARENAS = """
import asyncio, re, sys
import uvloop
from understudy.cli import process

async def use():
    loop = asyncio.get_running_loop()
    crowd, handles = [], []
    sys._debugmallocstats()
    for _ in range(250):
        crowd.append([bytes(size) for size in range(0, 480, 16) for _ in range(10)])
        handles.append(loop.call_soon(str))
        handles.append(loop.call_later(60, str))
    for handle in handles[1::2]:
        handle.cancel()
    await asyncio.sleep(0)
    handles.clear()
    crowd.clear()
    sys._debugmallocstats()
    await process._renew_unused_objects()
    await asyncio.sleep(0)
    sys._debugmallocstats()

uvloop.run(use())
"""


def test_unused_objects_hold_no_memory() -> None:
    """Unused objects of the event loop, each between many that are gone, are exchanged, and memory becomes free."""
    pytest.importorskip("uvloop")
    # in a process of its own, which has no memory to spare
    done = subprocess.run([sys.executable, "-c", ARENAS], capture_output=True, text=True, check=True)
    arenas = [int(number) for number in re.findall(r"arenas allocated current += +([0-9]+)", done.stderr)]
    if not arenas:
        pytest.skip("another allocator than Python's")
    before, held, after = arenas
    assert held - before > 10
    assert after - before < 0.75 * (held - before)
