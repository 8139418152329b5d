"""Deprecated API versions, and the warnings that their answers carry. A server tells them nowhere else."""

from __future__ import annotations

from typing import NamedTuple

from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind


class Lifecycle(NamedTuple):
    """The releases that deprecated and removed a kind's version (`APILifecycleDeprecated`, `APILifecycleRemoved`).

    `removed` is None if no release is announced. `replacement` is the kind to use instead, None if there is none.
    """

    deprecated: Version
    removed: Version | None = None
    replacement: GroupVersionKind | None = None


_FLOW = "flowcontrol.apiserver.k8s.io"
_LIFECYCLES = {
    GroupVersionKind("", "v1", "ComponentStatus"): Lifecycle(Version(1, 19)),
    **{
        GroupVersionKind(_FLOW, "v1beta3", kind): Lifecycle(
            Version(1, 29), Version(1, 32), GroupVersionKind(_FLOW, "v1", kind)
        )
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
    },
}


def warning(kind: GroupVersionKind, release: Version) -> str:
    """Return the warning of a kind's version that is deprecated in a release, "" for any other (`WarningMessage`)."""
    lifecycle = _LIFECYCLES.get(kind)
    if lifecycle is None or release < lifecycle.deprecated:
        return ""
    text = f"{kind.api_version} {kind.kind} is deprecated in v{lifecycle.deprecated}+"
    if lifecycle.removed:
        text += f", unavailable in v{lifecycle.removed}+"
    if lifecycle.replacement:
        text += f"; use {lifecycle.replacement.api_version} {lifecycle.replacement.kind}"
    return text
