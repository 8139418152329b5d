"""The logs of containers, which no container writes: annotations of the pod have them, line by line.

Upstream: `validateContainerLogStatus`, and `ReadLogs` of `pkg/kubelet/kuberuntime/logs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from understudy.controlplane.kubelet.server.refused import RefusedError
from understudy.kinds.core.pods.containers_of import with_paths
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.clock import parse_timestamp, timestamp
from understudy.machinery.validation.field import Path

LOG_ANNOTATION = "log.understudy.dev/"  # followed by the name of the container


class LogOptions(NamedTuple):
    """The part of a log that is asked for (`PodLogOptions`).

    since  lines from before this time, in seconds since 1970, are left out
    tail   how many of the last lines there are at the begin, None for all
    limit  bytes after which the log ends, None for no end
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: float | None = None
    tail: int | None = None
    limit: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], now: float) -> Self:
        """Return the options that the parameters of a URL say. Raises ValueError."""
        seconds, time = query.get("sinceSeconds"), query.get("sinceTime")
        since = now - int(seconds) if seconds else parse_timestamp(time) if time else None
        follow, previous, timestamps = (query.get(name) == "true" for name in ("follow", "previous", "timestamps"))
        tail, limit = (int(query[name]) if name in query else None for name in ("tailLines", "limitBytes"))
        return cls(follow, previous, timestamps, since, tail, limit)


def check_container(pod: Obj | None, namespace: str, name: str, container: str) -> Obj:
    """Return a pod that has a container. Raises RefusedError."""
    if pod is None:
        raise RefusedError(404, f"pod {go_quote(f'{namespace}/{name}')} does not exist\n")
    if container not in (each["name"] for each, _ in with_paths(pod["spec"], Path())):
        raise RefusedError(404, f"container {go_quote(container)} not found in pod {go_quote(name)}\n")
    return pod


def lines_of(pod: Obj, container: str) -> list[str]:
    """Return the lines of a container's log as they are now."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(f"{LOG_ANNOTATION}{container}", "")).splitlines()


class Log:
    """A log that is read from its begin: each call of `more` returns what has come since.

    started  time at which the container was started, in seconds since 1970, which all lines have
    """

    def __init__(self, options: LogOptions, started: float) -> None:
        self._left = options.limit
        self._tail = options.tail
        self._is_old = options.since is not None and started < options.since
        self._prefix = f"{timestamp(started)[:-1]}.000000000Z " if options.timestamps else ""
        self._read: Sequence[str] = ()

    @property
    def is_full(self) -> bool:
        """Report whether as many bytes as were asked for have been read."""
        return self._left == 0

    def more(self, lines: Sequence[str]) -> bytes:
        """Return the lines that have come since the last call; all of them if those of before have changed."""
        known = len(self._read) if list(lines[: len(self._read)]) == list(self._read) else 0
        fresh = lines[known:]
        if self._tail is not None and not self._read:
            fresh = fresh[max(len(fresh) - self._tail, 0) :]
        self._read = lines
        return b"" if self._is_old else self._limited(fresh)

    def _limited(self, lines: Iterable[str]) -> bytes:
        text = "".join(f"{self._prefix}{line}\n" for line in lines).encode("utf-8", "surrogateescape")[: self._left]
        if self._left is not None:
            self._left -= len(text)
        return text
