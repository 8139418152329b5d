"""Run a kube-apiserver with an etcd of its own, new and without objects of anybody, or with one that runs already."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from scripts.common.commands import UsageError
from scripts.common.etcd import running_etcd, urls_of
from scripts.common.ports import free_port
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

    @property
    def pid(self) -> int:
        return self._processes[-1].pid

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
def api_server(program: Path, etcd: Path | None, *flags: str, tokens: str = _TOKENS) -> Iterator[UpstreamServer]:
    """Run `program`, a kube-apiserver, with more flags until the block ends. Raises UsageError if it does not start.

    etcd     the program of its etcd, which is not needed if a flag names one that runs, `--etcd-servers=URL`
    tokens   the content of its token file, whose first token is that of an administrator
    """
    named = dict(flag.partition("=")[::2] for flag in flags)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kube-apiserver-")))
        if (url := named.get("--etcd-servers", "")) == "" and etcd is not None:
            url = urls_of(stack.enter_context(running_etcd(etcd, home)))
        processes = stack.enter_context(_stopped_at_the_end())
        key, token_file, port = home / "key.pem", home / "tokens.csv", free_port()
        key.write_bytes(new_key())
        token_file.write_text(tokens)
        own = {
            "etcd-servers": url,
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": home / "certificates",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            "token-auth-file": token_file,
            "disable-admission-plugins": "ServiceAccount",
        }
        own_flags = [f"--{name}={value}" for name, value in own.items() if f"--{name}" not in named]
        command = [str(program), *own_flags, *flags]
        token = tokens.partition(",")[0]
        yield UpstreamServer(command, f"https://127.0.0.1:{port}", token, home / "kube-apiserver.log", processes)


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


def new_key() -> bytes:
    """Return a new key in PEM, to sign tokens of service accounts."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


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
