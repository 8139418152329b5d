"""What passes between the HTTP edge and everything below it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from understudy.apiserver.watching import EventSource

JSON = "application/json"
MALFORMED = re.compile("%(?![0-9A-Fa-f]{2})")  # no escape of a URL


class Query(dict[str, str]):
    """A query string's parameters, as Go reads them: of a repeated one the first counts, and one with a semicolon or a
    wrong escape does not. `get` answers "" for a missing one."""

    __slots__ = ("_all",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self._all: dict[str, list[str]] = {}
        if text and (";" in text or MALFORMED.search(text)):
            text = "&".join(part for part in text.split("&") if ";" not in part and not MALFORMED.search(part))
        if text:
            for name, value in parse_qsl(text, keep_blank_values=True, errors="surrogateescape"):
                self.setdefault(name, value)
                self._all.setdefault(name, []).append(value)

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        return super().get(name, default)

    def all(self, name: str) -> list[str]:
        return self._all.get(name, [])


@dataclass(slots=True)
class User:
    """Who asks. `extra` as in UserInfo."""

    name: str
    groups: list[str]
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """As in UserInfo: without what is empty."""
        every = {"username": self.name, "uid": self.uid, "groups": self.groups, "extra": self.extra}
        return {name: value for name, value in every.items() if value}


@dataclass(slots=True)
class Call:
    """A request. `headers` looks names up in any case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: Query
    warnings: list[str] = field(default_factory=list)
    user: User | None = None
    release: str = ""


@dataclass(slots=True)
class Reply:
    """An answer. `compressible`: whether a large body is sent compressed to who accepts that."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    compressible: bool = True


@dataclass(slots=True)
class Stream:
    """A watch: the edge sends what `source` yields until it ends."""

    source: EventSource
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
