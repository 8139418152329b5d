"""Writes audit events to a file or to standard output.

Upstream: k8s.io/apiserver/plugin/pkg/audit/log; files are rotated as lumberjack does.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple, Obj

MEGABYTE = 1 << 20
STAMP = "%Y-%m-%dT%H-%M-%S.%f"


class Rotation(NamedTuple):
    """When a log becomes a new file, and what becomes of the old ones; 0 is no limit.

    max_size     megabytes
    max_backups  old files that are kept
    max_age      days for which they are
    """

    max_size: int = 0
    max_backups: int = 0
    max_age: int = 0
    compress: bool = False


def json_line(event: Obj) -> bytes:
    """Return an event as a line of JSON, escaped as Go does."""
    return encode(event) + b"\n"


def legacy_line(event: Obj) -> bytes:
    """Return an event as a line of text (`EventString`)."""
    user, asked = event.get("user", {}), event.get("impersonatedUser")
    status, reference = event.get("responseStatus"), event.get("objectRef", {})
    groups = user.get("groups") if user.get("username") else None
    as_groups = (asked or {}).get("groups")
    fields = {
        "id": event["auditID"],
        "stage": event["stage"],
        "ip": (event.get("sourceIPs") or ["<unknown>"])[0],
        "method": event.get("verb", ""),
        "user": user.get("username") or "<none>",
        "groups": _go_list(groups) if groups else "<none>",
        "as": "<self>" if asked is None else asked.get("username", ""),
        "asgroups": "<lookup>" if as_groups is None else _go_list(as_groups),
        "user-agent": event.get("userAgent", ""),
        "namespace": reference.get("namespace") or "<none>",
        "uri": event["requestURI"],
    }
    text = " ".join(f"{name}={go_quote(value)}" for name, value in fields.items())
    code = "<deferred>" if status is None else str(status["code"])
    return f'{_nano_time(event["requestReceivedTimestamp"])} AUDIT: {text} response="{code}"\n'.encode()


def _go_list(texts: Sequence[str]) -> str:
    return ",".join(map(go_quote, texts))


def _nano_time(time: str) -> str:
    """Return a time as Go's layout RFC3339Nano has it, without zeros at the end of the fraction."""
    return time[:-1].rstrip("0").rstrip(".") + "Z"


FORMATS: dict[str, Callable[[Obj], bytes]] = {"legacy": legacy_line, "json": json_line}


class RotatedFile:
    """A file that is moved away when it is large. Upstream: `lumberjack.Logger`. Raises OSError."""

    def __init__(self, path: Path, rotation: Rotation) -> None:
        self._path, self._rotation = path, rotation
        self._limit = rotation.max_size * MEGABYTE
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = os.fdopen(descriptor, "ab")
        self._size = os.fstat(descriptor).st_size

    def write(self, lines: Sequence[bytes]) -> None:
        """Write some lines, each to one file."""
        for line in lines:
            if self._limit and self._size and self._size + len(line) > self._limit:
                self._rotate()
            self._file.write(line)
            self._size += len(line)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        stem, suffix = self._path.stem, self._path.suffix
        stamp = datetime.now(UTC).strftime(STAMP)[:-3]
        old = self._path.with_name(f"{stem}-{stamp}{suffix}")
        self._path.rename(old)
        self._open()
        if self._rotation.compress:
            with old.open("rb") as plain, gzip.open(f"{old}.gz", "wb") as packed:
                shutil.copyfileobj(plain, packed)
            old.unlink()
        self._forget_old()

    def _forget_old(self) -> None:
        """Delete the old files that are too many or too old."""
        stem, suffix = self._path.stem, self._path.suffix
        names = [*self._path.parent.glob(f"{stem}-*{suffix}"), *self._path.parent.glob(f"{stem}-*{suffix}.gz")]
        old = sorted(names, key=lambda path: path.name, reverse=True)
        many, days = self._rotation.max_backups, self._rotation.max_age
        limit = f"{stem}-{(datetime.now(UTC) - timedelta(days=days)).strftime(STAMP)}"
        for number, path in enumerate(old):
            if (many and number >= many) or (days and path.name < limit):
                path.unlink(missing_ok=True)


class StandardOutput:
    """Standard output as a log."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Write some lines."""
        stream: BinaryIO = sys.stdout.buffer
        stream.write(b"".join(lines))
        stream.flush()

    def close(self) -> None:
        """Leave it open."""


class LogPlugin:
    """Writes events to a file, "-" for standard output. Raises OSError."""

    name = "log"

    def __init__(self, path: str, format_: str, rotation: Rotation) -> None:
        self._out = StandardOutput() if path == "-" else RotatedFile(Path(path), rotation)
        self._format = FORMATS[format_]

    def process(self, events: Sequence[Obj]) -> None:
        """Write events, one a line. Raises OSError."""
        self._out.write([self._format(event) for event in events])

    def close(self) -> None:
        """Close the file."""
        self._out.close()
