"""Run a kube-apiserver with an etcd of its own, new and without objects of anybody."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from scripts.common.commands import UsageError
from scripts.record.api_server import ApiServer

TOKEN = "admintoken"
_TOKENS = f"{TOKEN},admin,admin,system:masters\n"
_START_SECONDS = 180.0
_KEPT = 3000  # characters of a log that an error shows


@contextmanager
def api_server(program: Path, etcd: Path, *flags: str, tokens: str = _TOKENS) -> Iterator[ApiServer]:
    """Run `program`, a kube-apiserver, with more flags until the block ends. Raises UsageError if it does not start.

    tokens   the content of its token file, whose first token is that of an administrator
    """
    with tempfile.TemporaryDirectory(prefix="kube-apiserver-") as folder, _stopped_at_the_end() as processes:
        home = Path(folder)
        client, peer, port = (free_port() for _ in range(3))
        processes.append(_started(home / "etcd.log", etcd, *_etcd_flags(home, client, peer)))
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
        log = home / "kube-apiserver.log"
        processes.append(_started(log, program, *own_flags, *more, *flags))
        server = ApiServer(f"https://127.0.0.1:{port}", tokens.partition(",")[0])
        _wait_until_ready(server, "/readyz", processes[-1], log)
        yield server


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


def _started(log: Path, program: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Return a program that has been started, and writes its log to a file."""
    with log.open("wb") as output:
        return subprocess.Popen([program, *arguments], stdout=output, stderr=output)


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
    raise UsageError(f"{log.stem} did not start:\n{log.read_text()[-_KEPT:]}")


@contextmanager
def _stopped_at_the_end() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Give a list of processes, which are ended with the block, the newest first."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
