"""Run a kube-apiserver with an etcd of its own, new and without objects of anybody."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from scripts.common.commands import UsageError
from scripts.record.api_server import ApiServer

Processes = list[subprocess.Popen[bytes]]
TOKEN = "admintoken"
_TOKENS = f"{TOKEN},admin,admin,system:masters\n"
_START_SECONDS = 180.0
_KEPT = 3000  # characters of a log that an error shows


class UpstreamServer(ApiServer):
    """A kube-apiserver that runs here, and can be started again on what its etcd stores.

    processes   those that run until the end, of which its own is the last
    """

    def __init__(self, command: Sequence[str], url: str, token: str, log: Path, processes: Processes) -> None:
        super().__init__(url, token)
        self._command, self._log, self._processes = command, log, processes
        self._gates: dict[str, bool] = {}
        self._start()

    def set_gates(self, changes: Mapping[str, bool]) -> str:
        """Start the server again with feature gates turned on or off; return its address, which is the same.

        Raises UsageError if it does not start with these.
        """
        if changes:
            self._gates |= changes
            self._restart()
        return self.url

    def reset_gates(self) -> None:
        """Start the server again with the feature gates that it had at first."""
        self._gates.clear()
        self._restart()

    def _restart(self) -> None:
        _end(self._processes.pop())
        self._start()

    def _start(self) -> None:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in self._gates.items())
        self._processes.append(_started(self._log, *self._command, *([f"--feature-gates={gates}"] if gates else ())))
        _wait_until_ready(self, "/readyz", self._processes[-1], self._log)


@contextmanager
def api_server(program: Path, etcd: Path, *flags: str, tokens: str = _TOKENS) -> Iterator[UpstreamServer]:
    """Run `program`, a kube-apiserver, with more flags until the block ends. Raises UsageError if it does not start.

    tokens   the content of its token file, whose first token is that of an administrator
    """
    with tempfile.TemporaryDirectory(prefix="kube-apiserver-") as folder, _stopped_at_the_end() as processes:
        home = Path(folder)
        client, peer, port = (free_port() for _ in range(3))
        processes.append(_started(home / "etcd.log", str(etcd), *_etcd_flags(home, client, peer)))
        _wait_until_ready(ApiServer(f"http://127.0.0.1:{client}", ""), "/health", processes[-1], home / "etcd.log")
        key, token_file = home / "key.pem", home / "tokens.csv"
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
        token_file.write_text(tokens)
        own = {
            "etcd-servers": f"http://127.0.0.1:{client}",
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": home / "certificates",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            "token-auth-file": token_file,
        }
        named = {flag.partition("=")[0] for flag in flags}
        defaults = ["--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount"]
        more = [flag for flag in defaults if flag.partition("=")[0] not in named]
        own_flags = [f"--{name}={value}" for name, value in own.items()]
        command = [str(program), *own_flags, *more, *flags]
        token = tokens.partition(",")[0]
        yield UpstreamServer(command, f"https://127.0.0.1:{port}", token, home / "kube-apiserver.log", processes)


def _etcd_flags(home: Path, client: int, peer: int) -> list[str]:
    """Return the flags of an etcd on two ports."""
    own, others = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    names = {
        "data-dir": home / "etcd",
        "listen-client-urls": own,
        "advertise-client-urls": own,
        "listen-peer-urls": others,
        "initial-advertise-peer-urls": others,
        "initial-cluster": f"default={others}",
    }
    return [f"--{name}={value}" for name, value in names.items()]


def free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _started(log: Path, *command: str) -> subprocess.Popen[bytes]:
    """Return a program that has been started, and writes its log to a file."""
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def _wait_until_ready(server: ApiServer, path: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a page is answered with 200. Raises UsageError, with the end of the log, if it never is."""
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            server.text(path)
        except (URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise UsageError(f"{log.stem} did not start:\n{log.read_text()[-_KEPT:].strip()}")


@contextmanager
def _stopped_at_the_end() -> Iterator[Processes]:
    """Give a list of processes, which are ended with the block, the newest first."""
    processes: Processes = []
    try:
        yield processes
    finally:
        for process in reversed(processes):
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with SIGTERM, or SIGKILL if it does not listen to that."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
