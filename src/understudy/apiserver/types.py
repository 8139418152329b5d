"""Names that every module shares. Imports nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

# A decoded API object: JSON values only. What is stored is never edited in place.
Obj = dict[str, Any]


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionResource(NamedTuple):
    group: str
    version: str
    resource: str


def split_api_version(api_version: str) -> tuple[str, str]:
    """("resource.k8s.io", "v1beta1") of "resource.k8s.io/v1beta1", ("", "v1") of "v1"."""
    group, slash, version = api_version.partition("/")
    return (group, version) if slash else ("", group)
