"""Warnings about files of one volume with overlapping paths (since 1.32)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import NamedTuple, Obj


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


def overlapping(volumes: Iterable[Obj], version: Version) -> Iterator[str]:
    """Warn of every two files that overlap in a volume, and of empty projected sources."""
    for volume in volumes:
        title = f"volume {go_quote(volume.get('name', ''))}"
        for kind, files in _kinds(volume):
            yield from (f"{title} ({kind}): overlapping paths: {text}" for text in _overlaps(files))
        if (projected := volume.get("projected")) is not None:
            sources = projected.get("sources") or ()
            yield from (f"{title} (Projected) has no sources provided" for source in sources if not source)
            yield from (
                f"{title} (Projected): overlapping paths: {text}" for text in _overlaps(_projected(sources, version))
            )


def _kinds(volume: Obj) -> Iterator[tuple[str, list[File]]]:
    if source := volume.get("configMap"):
        yield f"ConfigMap {go_quote(source.get('name', ''))}", _files(source)
    if source := volume.get("secret"):
        yield f"Secret {go_quote(source.get('secretName', ''))}", _files(source)
    if source := volume.get("downwardAPI"):
        yield "DownwardAPI", _files(source)


def _projected(sources: Iterable[Obj], version: Version) -> Iterator[File]:
    """List the files of projected sources. Before 1.34 a source without files repeats those before it."""
    files: list[File] = []
    for source in filter(None, sources):
        files = _of_source(source) or (files if version < V1_34 else [])
        yield from files


def _of_source(source: Obj) -> list[File]:
    for kind in ("configMap", "secret"):
        if (source.get(kind) or {}).get("items"):
            return _files(source[kind], f"{kind[:1].upper()}{kind[1:]} {go_quote(source[kind].get('name', ''))}")
    if (projection := source.get("downwardAPI")) and projection.get("items"):
        return _files(projection, "DownwardAPI")
    if (projection := source.get("serviceAccountToken")) is not None:
        return [File(projection.get("path", ""), "ServiceAccountToken")]
    if (projection := source.get("clusterTrustBundle")) is not None:
        name = projection["name"] if projection.get("name") is not None else projection.get("signerName", "")
        return [File(projection.get("path", ""), f"ClusterTrustBundle {go_quote(name)}")]
    if (projection := source.get("podCertificate")) is not None:
        return [File(projection[name], f"PodCertificate {what}") for name, what in _CREDENTIALS if projection.get(name)]
    return []


_CREDENTIALS = (("certificateChainPath", "chain"), ("keyPath", "key"), ("credentialBundlePath", "credential bundle"))


def _files(projection: Obj, source: str = "") -> list[File]:
    return [File(item.get("path", ""), source) for item in projection.get("items") or ()]


def _overlaps(files: Iterable[File]) -> Iterator[str]:
    before: list[File] = []
    for file in files:
        trimmed = file._replace(path=file.path.rstrip("/"))
        yield from (f"{trimmed} with {other}" for other in before if trimmed.meets(other))
        before.append(trimmed)
