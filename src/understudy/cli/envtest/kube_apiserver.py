"""The program `kube-apiserver`: it lets the `etcd` beside it run a server for as long as it lives.

Exit code 0: stopped by SIGINT or SIGTERM, or printed what was asked for; 1: wrong flags, or an etcd that cannot be
used. It imports little: a test waits for it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from understudy.cli.envtest.command_line import FlagError, Flags, last, parse_pflags, recorded_flags

ATTACH = b"GET /understudy/kube-apiserver HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: understudy\r\n\r\n"
ATTACHED = b"HTTP/1.1 101 "
ETCD_SECONDS = 20.0  # until an etcd that does not answer is given up
# Flags of `understudy serve` that kube-apiserver does not have, or does not list: `--apiserver-count` is deprecated.
OWN_FLAGS = {
    "accept-hosts": "strings",
    "apiserver-count": "int",
    "chaos": "mapStringString",
    "control": "bool",
    "controllers": "strings",
    "faults": "string",
    "leader-elect": "bool",
    "leader-elect-lease-duration": "duration",
    "leader-elect-renew-deadline": "duration",
    "leader-elect-retry-period": "duration",
    "load": "strings",
    "permission-report": "string",
    "service-addresses": "mapStringString",
    "ui": "bool",
}


class ServerError(Exception):
    """A server that does not run, or not any more."""


def main(argv: list[str] | None = None) -> int:
    """Run a server until a signal comes; return the exit code."""
    types = {**recorded_flags("kube-apiserver"), **OWN_FLAGS}
    try:
        flags, others = parse_pflags(sys.argv[1:] if argv is None else argv, types)
    except FlagError as why:
        print("Error:", why, file=sys.stderr)
        return 1
    if "help" in flags:
        print(_help(types))
        return 0
    if others:
        got = " ".join(map(json.dumps, others))
        print(f'Error: "kube-apiserver" does not take any arguments, got [{got}]', file=sys.stderr)
        return 1
    if last(flags, "version", "false") != "false":
        return _print_version(flags)
    try:
        _serve(flags)
    except ServerError as why:
        print("kube-apiserver:", why, file=sys.stderr)
        return 1
    return 0


def _help(types: dict[str, str]) -> str:
    """Return the usage, a line for each flag. envtest looks there for flags that it may pass."""
    lines = [f"      --{name}{'' if type_ == 'bool' else f' {type_}'}" for name, type_ in sorted(types.items())]
    about = "understudy in place of kube-apiserver. Flags that mean nothing to it are accepted."
    return "\n".join([about, "", "Usage:", "  kube-apiserver [flags]", "", "Flags:", "", *lines])


def _print_version(flags: Flags) -> int:
    """Print the version of the emulated release as kube-apiserver does; return the exit code."""
    from understudy.apiserver.serving.release import Release, UnknownReleaseError
    from understudy.cli.envtest.options import emulated_version

    try:
        info = Release.named(emulated_version(flags)).version_info
    except UnknownReleaseError as why:
        print("Error:", why, file=sys.stderr)
        return 1
    print("Kubernetes", info["gitVersion"])
    return 0


def _serve(flags: Flags) -> None:
    """Hand the flags to the etcd, and hold the connection until a signal comes. Raises ServerError."""
    stops = (signal.SIGINT, signal.SIGTERM)
    with _connect(last(flags, "etcd-servers").partition(",")[0]) as connection, connection.makefile("rb") as answers:
        for number in stops:
            signal.signal(number, lambda *_: _let_go(connection))
        _send(connection, {"flags": flags, "cwd": os.getcwd()})
        for line in answers:
            answer = json.loads(line)
            if "error" in answer:
                raise ServerError(answer["error"])
            if "stopped" in answer:
                return
            print(answer["log"], file=sys.stderr, flush=True)
    raise ServerError("etcd has ended, and with it the server")


def _connect(url: str) -> socket.socket:
    """Return a connection to the etcd at a URL, which is ready to be told the flags. Raises ServerError."""
    if not url:
        raise ServerError("--etcd-servers must be specified")
    address, end = urlsplit(url), time.monotonic() + ETCD_SECONDS
    if address.scheme != "http" or not address.hostname or not address.port:
        raise ServerError(f"--etcd-servers: want http://HOST:PORT, not {url}")
    while True:
        try:
            connection = socket.create_connection((address.hostname, address.port), timeout=ETCD_SECONDS)
            break
        except OSError as why:
            if time.monotonic() > end:
                raise ServerError(f"--etcd-servers: nothing answers at {url}: {why}") from None
            time.sleep(0.05)
    connection.sendall(ATTACH)
    if not _head(connection).startswith(ATTACHED):
        connection.close()
        raise ServerError(f"--etcd-servers: {url} is not the etcd of understudy, which this kube-apiserver needs")
    connection.settimeout(None)
    return connection


def _head(connection: socket.socket) -> bytes:
    """Read the head of an HTTP response and nothing behind it; return it, as much as there is."""
    head = b""
    with suppress(OSError):
        while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
            head += byte
    return head


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _let_go(connection: socket.socket) -> None:
    """Tell the etcd that the server is to end; it answers when that is done."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main())
