"""Names that clients, servers and kubelets share about commands that run elsewhere, and the Status at their end.

Upstream: `k8s.io/apimachinery/pkg/util/remotecommand`, and the constants of streams of `k8s.io/api/core/v1`.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from understudy.machinery.errors import internal_error
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import NamedTuple, Obj

PROTOCOL_VERSION = "X-Stream-Protocol-Version"
ACCEPTED_VERSIONS = "X-Accepted-Stream-Protocol-Versions"
STREAM_TYPE = "streamtype"
STDIN, STDOUT, STDERR, ERROR, RESIZE = "stdin", "stdout", "stderr", "error", "resize"
V1, V2, V3, V4, V5 = (f"{version}channel.k8s.io" for version in ("", "v2.", "v3.", "v4.", "v5."))
CREATION_TIMEOUT = 30.0  # seconds in which a client has to open its streams
_NON_ZERO, _EXIT_CODE = "NonZeroExitCode", "ExitCode"


class StreamOptions(NamedTuple):
    """The streams that a client asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @property
    def outputs(self) -> list[str]:
        """Return the names of the streams that are read; a terminal has one."""
        streams = {STDOUT: self.stdout, STDERR: self.stderr and not self.tty}
        return [name for name, is_asked_for in streams.items() if is_asked_for]

    @property
    def first(self) -> str:
        """Return the name of the stream on which the client of a WebSocket is told that the connection is there."""
        return STDOUT if self.stdout else STDERR if self.stderr else ERROR

    def inputs(self, protocol: str = V5) -> list[str]:
        """Return the names of the streams that are written: sizes of terminals are known from version 3 on."""
        streams = {STDIN: self.stdin, RESIZE: self.tty and protocol not in (V1, V2)}
        return [name for name, is_asked_for in streams.items() if is_asked_for]


class CommandError(Exception):
    """A command that ended with another exit code than 0."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class StatusOfKubelet(Exception):  # noqa: N818 - it may be no error
    """A Status that a kubelet answers instead of running a command."""

    def __init__(self, status: Obj) -> None:
        super().__init__(status.get("message", ""))
        self.status = status


def success() -> bytes:
    """Return the Status of a command that ended with exit code 0."""
    return encode({"metadata": {}, "status": "Success"})


def failure(error: Exception) -> bytes:
    """Return the Status of a command that failed: an exit code, a Status of the kubelet, or any other error."""
    if isinstance(error, CommandError):
        details = {"causes": [{"reason": _EXIT_CODE, "message": str(error.code)}]}
        status = {"metadata": {}, "status": "Failure", "message": message_of(error), "reason": _NON_ZERO}
        return encode(status | {"details": details})
    if isinstance(error, StatusOfKubelet):
        return encode({"metadata": {}, **error.status})
    status = internal_error(str(error)).status()
    return encode({name: value for name, value in status.items() if name not in ("kind", "apiVersion")})


def message_of(error: Exception) -> str:
    """Return the message of the Status of a command that failed."""
    if isinstance(error, CommandError):
        return f"command terminated with non-zero exit code: {error}"
    return str(internal_error(str(error)))


def check_status(text: bytes, protocol: str) -> None:
    """Raise the error that the stream of errors of a command tells (`errorDecoderV4`). Without text there is none.

    Raises CommandError, and ValueError for every other error.
    """
    if not text:
        return
    if protocol not in (V4, V5):
        raise ValueError(f"error executing remote command: {text.decode('utf-8', 'replace')}")
    try:
        status: Obj = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"error stream protocol error: {error}") from None
    if status.get("status") == "Success":
        return
    if status.get("status") != "Failure":
        raise ValueError("error stream protocol error: unknown error")
    if status.get("reason") != _NON_ZERO:
        raise ValueError(status.get("message", ""))
    code = _exit_code((status.get("details") or {}).get("causes") or ())
    raise CommandError(code, f"command terminated with exit code {code}")


def _exit_code(causes: Iterable[Obj]) -> int:
    """Return the exit code among causes. Raises ValueError."""
    for cause in causes:
        if cause.get("reason") == _EXIT_CODE:
            return int(cause["message"])
    raise ValueError(f"error stream protocol error: no {_EXIT_CODE} cause given")
