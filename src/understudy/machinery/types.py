"""Names that every module shares. Imports nothing."""

from __future__ import annotations

from collections.abc import Sequence
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


def set_empty(obj: Obj, defaults: dict[str, Any]) -> None:
    """Sets what is absent, empty or zero."""
    for key, value in defaults.items():
        if obj.get(key) in (None, "", 0) and obj.get(key) is not False:
            obj[key] = value


def set_absent(obj: Obj, key: str, value: Any) -> None:
    """Sets what is absent or null; an empty value that was given stays."""
    if obj.get(key) is None:
        obj[key] = value


def at(obj: Any, *path: str, default: Any = None) -> Any:
    """The value at `path`, `default` where a field on the way (or the value) is absent or null."""
    for key in path:
        if not isinstance(obj, dict):
            return default
        obj = obj.get(key)
    return default if obj is None else obj


def with_condition(conditions: Sequence[Obj], new: Obj, now: str) -> list[Obj]:
    """Return conditions with a new one, in the place of the one of its type. Upstream: `meta.SetStatusCondition`.

    Its lastTransitionTime is `now` (RFC 3339), or that of the one it replaces if that has the same status.
    """
    old = next((c for c in conditions if c["type"] == new["type"]), None)
    since = old.get("lastTransitionTime") if old and old["status"] == new["status"] else now
    timed = {**new, "lastTransitionTime": since}
    return [timed if c is old else c for c in conditions] if old else [*conditions, timed]
