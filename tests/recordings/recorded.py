"""Find the recordings, and read from the first line of each what server it was taken from.

A recording is JSON lines. The first one is its head:

    scenario      its name (of a kubectl session `session`)
    server        the version of the server, "v1.32.13": the release that it is replayed against
    namespace     made for the scenario before its first step
    about         what the server was started with: `feature-gates`, `runtime-config` ("A=true,B=false"), more `flags`
                  (["--authorization-mode=Node,RBAC"]), the content of its `token-file`; `compacted` is true where the
                  server must not know its first revisions any more. Other entries are for people

The folder of a recording is CORPUS/RELEASE or CORPUS/RELEASE-VARIANT.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from understudy.machinery.releases.version import Version

HERE = Path(__file__).parent
SUFFIX = ".jsonl"
TOKEN = "admintoken"
ONLY_ADMIN = f"{TOKEN},admin,admin,system:masters\n"


@dataclass(frozen=True)
class Started:
    """The flags of a server, and what else it is started with; equal ones of a folder share a server.

    flags   (name, value) of each flag of kube-apiserver, without dashes in front
    """

    folder: str
    release: str
    feature_gates: str
    flags: tuple[tuple[str, str], ...]
    tokens: str
    compacted: bool


@lru_cache
def _shared(started: Started) -> Started:
    """Return one object for all that are equal: pytest keeps a fixture for as long as its parameter is the same."""
    return started


def started(head: Mapping[str, Any], folder: str) -> Started:
    """Return the options of the server for a recording. Raises ValueError for a head without a version."""
    about = {name.replace("_", "-"): value for name, value in head.get("about", {}).items()}
    if not head.get("server"):
        raise ValueError("the first line says no `server`: it is the version of the recorded one, such as v1.32.13")
    pairs = (flag.removeprefix("--").partition("=") for flag in about.get("flags", ()))
    return _shared(
        Started(
            folder,
            str(Version.of_build(head["server"])),
            about.get("feature-gates") or about.get("gates", ""),
            tuple((name, value) for name, _, value in pairs),
            about.get("token-file", ONLY_ADMIN),
            about.get("compacted", False),
        )
    )


@dataclass(frozen=True)
class Recording:
    """A file of recorded steps. `name` is CORPUS/RELEASE/SCENARIO."""

    path: Path

    @cached_property
    def name(self) -> str:
        return self.path.relative_to(HERE).as_posix().removesuffix(SUFFIX)

    @property
    def corpus(self) -> str:
        return self.name.split("/")[0]

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @cached_property
    def head(self) -> dict[str, Any]:
        with self.path.open(encoding="utf-8") as lines:
            head: dict[str, Any] = json.loads(lines.readline())
        return head

    @cached_property
    def version(self) -> Version:
        """Return the release of the server."""
        return Version.parse(self.started.release)

    @cached_property
    def started(self) -> Started:
        return started(self.head, self.folder)

    def lines(self) -> list[Any]:
        """Return the head and every line after it."""
        return read(self.path)


@cache
def recordings() -> tuple[Recording, ...]:
    """Return every recording, in the order of folders."""
    return tuple(Recording(path) for path in sorted(HERE.glob(f"*/**/*{SUFFIX}")))


def read(path: Path) -> list[Any]:
    """Return the lines of a file of recorded steps."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def write(path: Path, lines: Iterable[Any]) -> None:
    """Write the lines of a file of recorded steps, each in the form that a later recording of the same has."""
    text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
