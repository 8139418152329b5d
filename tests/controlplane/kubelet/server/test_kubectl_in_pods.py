"""Commands in pods and ports of pods, as kubectl uses them through the API server."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.host_node import HostNode, host_node
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

# How kubectl and the kubelet speak: through WebSockets that the server translates, through such that the kubelet knows
# itself, and through SPDY.
WAYS = [("1.32", True), ("1.37", True), ("1.37", False)]


class Client:
    """kubectl, which asks for WebSockets or for SPDY."""

    def __init__(self, node: HostNode, kubectl: str, websockets: bool) -> None:
        self.node = node
        self._argv = [kubectl, "--kubeconfig", str(node.server.kubeconfig)]
        switch = str(websockets).lower()
        gates = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": switch, "KUBECTL_PORT_FORWARD_WEBSOCKETS": switch}
        self._environment = {**os.environ, "GOGC": "off", **gates}

    def run(self, *args: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Return exit code and both outputs. Run it again if kubectl drops a message that came before its streams."""
        argv = [*self._argv, *args]
        done = None
        while done is None or b"Unknown stream id" in done.stderr:
            done = subprocess.run(argv, input=stdin, capture_output=True, env=self._environment, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def open(self, *args: str, **streams: int) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command that does not end by itself."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = subprocess.Popen([*self._argv, *args], env=self._environment, **streams)  # type: ignore[call-overload]
        with process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, HostNode]]:
    """Return a node of each release, with a pod `web`."""
    with ExitStack() as stack:
        nodes = {}
        for release in ("1.32", "1.37"):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="node-"))
            node = nodes[release] = stack.enter_context(host_node(Path(folder), release))
            node.create_pod("web", command=["sh", "-c", 'while read line; do echo "$0 $line"; done'], args=["has"])
        yield nodes


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{'websockets' if way[1] else 'spdy'}")
def client(nodes: dict[str, HostNode], kubectl: str, request: pytest.FixtureRequest) -> Client:
    release, websockets = request.param
    return Client(nodes[release], kubectl, websockets)


def is_running(pid: int) -> bool:
    """Report whether there is a process with a number, which is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_command_has_outputs_and_exit_code(client: Client) -> None:
    """Both outputs come as they are, and kubectl ends with the exit code of the command."""
    script = 'echo "$POD_NAMESPACE $POD_NAME $CONTAINER_NAME"; echo wrong >&2; exit 3'
    code, out, err = client.run("exec", "web", "--", "sh", "-c", script)
    assert (code, out) == (3, b"default web main\n")
    assert err == b"wrong\ncommand terminated with exit code 3\n"
    assert client.run("exec", "web", "--", "true") == (0, b"", b"")
    code, _, err = client.run("exec", "web", "--", "sh", "-c", "kill -9 $$")
    assert (code, err) == (137, b"command terminated with exit code 137\n")


def test_command_reads_input(client: Client) -> None:
    """Input comes as it is, more than fits anywhere, and its end; nobody minds a command that does not read it."""
    data = os.urandom(3_000_000)
    assert client.run("exec", "-i", "web", "--", "cat", stdin=data) == (0, data, b"")
    code, out, _ = client.run("exec", "-i", "web", "--", "true", stdin=data)  # kubectl may tell that nobody reads on
    assert (code, out) == (0, b"")


def test_files_are_copied(client: Client, tmp_path: Path) -> None:
    """`kubectl cp` packs and unpacks with `tar` in the pod, in both directions."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/file").write_bytes(b"\0\xff\n" * 1000)
    for source, target in ((tmp_path / "here", f"web:{tmp_path}/pod"), (f"web:{tmp_path}/pod", tmp_path / "back")):
        code, _, err = client.run("cp", str(source), str(target))
        assert code == 0, err
    assert (tmp_path / "back/file").read_bytes() == b"\0\xff\n" * 1000


def test_terminal_has_the_size_of_the_clients(client: Client) -> None:
    """A command has a terminal, whose size is that of the client's and changes with it."""
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    script = 'while stty size < /dev/tty; do sleep 0.1; done & read answer; kill $!; echo "[$answer]"; exit 5'
    with client.open("exec", "-it", "web", "--", "sh", "-c", script, stdin=theirs, stdout=theirs) as process:
        shown = ""

        def read_until(text: str) -> None:
            nonlocal shown
            while text not in shown:
                shown += os.read(own, 1000).decode()

        read_until("24 80")  # kubectl may tell the size when the command has begun already
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process.send_signal(signal.SIGWINCH)
        read_until("40 100")
        os.write(own, b"yes\r")
        read_until("[yes]")
        assert process.wait(PATIENCE) == 5
    os.close(own)
    os.close(theirs)


def test_attach_runs_the_command_of_the_container(client: Client) -> None:
    """A client that attaches to a container speaks with its command, which begins then."""
    code, out, _ = client.run("attach", "-i", "web", stdin=b"one\ntwo\n")
    assert (code, out) == (0, b"has one\nhas two\n")


def test_ports_are_forwarded(client: Client) -> None:
    """A port of a pod is that of this machine, for several connections; one that nobody has is an error."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as closed:
        port, unused = listener.getsockname()[1], closed.getsockname()[1]
        closed.close()
        threading.Thread(target=echo, args=(listener, 3), daemon=True).start()
        with client.open("port-forward", "pod/web", f":{port}", f":{unused}") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            lines = [process.stdout.readline().decode() for _ in range(4)]
            local = {int(words[4]): int(words[2].rpartition(":")[2]) for words in map(str.split, lines)}
            assert [exchange(local[port], text) for text in (b"one", b"two", b"x" * 1_000_000)] == [
                b"ONE",
                b"TWO",
                b"X" * 1_000_000,
            ]
            with suppress(ConnectionError):
                exchange(local[unused], b"none")
            uid = client.node.server.get("pods", "web")["metadata"]["uid"]
            text = process.stderr.readline().decode()
            assert f"error forwarding port {unused} to pod {uid}, uid : failed to execute portforward in" in text
            assert f"dial tcp4 127.0.0.1:{unused}: connect: connection refused" in text


def echo(listener: socket.socket, times: int) -> None:
    """Answer connections with what they say in capitals, once they have said all."""
    for _ in range(times):
        connection, _ = listener.accept()
        with connection:
            data = b""
            while part := connection.recv(1 << 16):
                data += part
            connection.sendall(data.upper())


def exchange(port: int, text: bytes) -> bytes:
    """Say something at a port of this machine, and return the answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    return answer


BACKGROUND = "sleep 1000 & echo $! $$; wait"


def started(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the numbers of the processes that BACKGROUND is."""
    assert process.stdout is not None
    numbers = [int(text) for text in process.stdout.readline().split()]
    assert all(map(is_running, numbers))
    return numbers


def test_command_ends_with_its_client(client: Client) -> None:
    """A client that leaves takes its command along, and what that has started."""
    with client.open("exec", "web", "--", "sh", "-c", BACKGROUND) as process:
        numbers = started(process)
        process.kill()
        wait_until(lambda: not any(map(is_running, numbers)))


def test_command_ends_with_its_pod(client: Client) -> None:
    """A pod that is deleted takes commands and forwarded ports along."""
    client.node.create_pod("short")
    with (
        client.open("exec", "short", "--", "sh", "-c", BACKGROUND) as process,
        client.open("port-forward", "pod/short", ":80") as forward,
    ):
        numbers = started(process)
        assert forward.stdout is not None
        assert forward.stdout.readline().startswith(b"Forwarding from")
        client.node.server.delete("pods", "short")
        _, err = process.communicate(timeout=PATIENCE)  # kubectl may log, before, that it drops what came last
        assert (process.returncode, err.splitlines()[-1:]) == (137, [b"command terminated with exit code 137"])
        wait_until(lambda: not any(map(is_running, numbers)))
        assert b"lost connection to pod" in forward.communicate(timeout=PATIENCE)[1]


@contextmanager
def one_node(*options: Any) -> Iterator[HostNode]:
    """Run a node with a pod `web`, for a test that needs its own."""
    with tempfile.TemporaryDirectory(prefix="node-") as folder, host_node(Path(folder), "1.37", *options) as node:
        node.create_pod("web")
        yield node


def test_command_ends_with_the_kubelet(kubectl: str) -> None:
    """A kubelet that stops leaves no process."""
    with ExitStack() as stack:
        with one_node() as node:
            client = Client(node, kubectl, websockets=True)
            process = stack.enter_context(client.open("exec", "web", "--", "sh", "-c", BACKGROUND))
            numbers = started(process)
        wait_until(lambda: not any(map(is_running, numbers)))


def test_ports_of_pods_have_addresses(kubectl: str) -> None:
    """A port of one pod may be elsewhere than the same one of another pod."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        addresses = {"default/web:80": f"127.0.0.1:{listener.getsockname()[1]}"}
        threading.Thread(target=echo, args=(listener, 1), daemon=True).start()
        with (
            one_node(("env",), addresses) as node,
            Client(node, kubectl, websockets=True).open("port-forward", "pod/web", ":80") as process,
        ):
            assert process.stdout is not None
            port = int(process.stdout.readline().split()[2].rpartition(b":")[2])
            assert exchange(port, b"here") == b"HERE"


def test_host_command_runs_what_is_asked_for(kubectl: str) -> None:
    """The command of the kubelet decides what a command in a pod is; one that cannot be started is an error."""
    with one_node(["sh", "-c", 'echo "$POD_NAME runs $*"', "--"]) as node:
        client = Client(node, kubectl, websockets=True)
        assert client.run("exec", "web", "--", "ls", "-l") == (0, b"web runs ls -l\n", b"")
    with one_node(["/no/such"]) as node:
        code, _, err = Client(node, kubectl, websockets=True).run("exec", "web", "--", "ls")
        text = 'error executing command in container: exec: "/no/such": executable file not found in $PATH'
        assert (code, text in err.decode()) == (1, True)
