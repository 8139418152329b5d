"""Warnings about files of one volume with overlapping paths (since 1.32)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj


class File(NamedTuple):
    """The path of a file, and its source if a volume has several sources."""

    path: str
    source: str = ""

    def __str__(self) -> str:
        return f"{go_quote(self.path)} ({self.source})" if self.source else go_quote(self.path)

    def meets(self, other: File) -> bool:
        """Report whether both have the same path, or one is inside the other."""
        mine, its = f"{self.path}/", f"{other.path}/"
        return bool(self.path and other.path) and (mine.startswith(its) or its.startswith(mine))


def overlapping(volumes: Iterable[Obj]) -> Iterator[str]:
    """Warn of every two files that overlap in a volume, and of empty projected sources."""
    for volume in volumes:
        shown = f"volume {go_quote(volume.get('name', ''))}"
        for kind, found in _kinds(volume):
            yield from (f"{shown} ({kind}): overlapping paths: {text}" for text in _overlaps(found))
        if (projected := volume.get("projected")) is not None:
            sources = projected.get("sources") or ()
            yield from (f"{shown} (Projected) has no sources provided" for source in sources if not source)
            yield from (f"{shown} (Projected): overlapping paths: {text}" for text in _overlaps(_projected(sources)))


def _kinds(volume: Obj) -> Iterator[tuple[str, list[File]]]:
    if found := volume.get("configMap"):
        yield f"ConfigMap {go_quote(found.get('name', ''))}", _files(found)
    if found := volume.get("secret"):
        yield f"Secret {go_quote(found.get('secretName', ''))}", _files(found)
    if found := volume.get("downwardAPI"):
        yield "DownwardAPI", _files(found)


def _projected(sources: Iterable[Obj]) -> Iterator[File]:
    """List the files of projected sources. A source without files repeats those before it, as in the real server."""
    files: list[File] = []
    for source in filter(None, sources):
        files = _of_source(source) or files
        yield from files


def _of_source(source: Obj) -> list[File]:
    for kind in ("configMap", "secret"):
        if (source.get(kind) or {}).get("items"):
            return _files(source[kind], f"{kind[:1].upper()}{kind[1:]} {go_quote(source[kind].get('name', ''))}")
    if (found := source.get("downwardAPI")) and found.get("items"):
        return _files(found, "DownwardAPI")
    if (found := source.get("serviceAccountToken")) is not None:
        return [File(found.get("path", ""), "ServiceAccountToken")]
    if (found := source.get("clusterTrustBundle")) is not None:
        name = found["name"] if found.get("name") is not None else found.get("signerName", "")
        return [File(found.get("path", ""), f"ClusterTrustBundle {go_quote(name)}")]
    return []


def _files(projection: Obj, source: str = "") -> list[File]:
    return [File(item.get("path", ""), source) for item in projection.get("items") or ()]


def _overlaps(files: Iterable[File]) -> Iterator[str]:
    before: list[File] = []
    for file in files:
        trimmed = file._replace(path=file.path.rstrip("/"))
        yield from (f"{trimmed} with {other}" for other in before if trimmed.meets(other))
        before.append(trimmed)
