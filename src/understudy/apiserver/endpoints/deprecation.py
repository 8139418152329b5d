"""Deprecated API versions, and the warnings that their answers carry (`APILifecycle*` methods of k8s.io/api)."""

from __future__ import annotations

from understudy.machinery.types import GroupVersionKind

_FLOW = "flowcontrol.apiserver.k8s.io"
# {kind: (deprecated since, removed in, replacement)}
_LIFE = {
    GroupVersionKind("", "v1", "ComponentStatus"): ("1.19", "", ""),
    **{
        GroupVersionKind(_FLOW, "v1beta3", kind): ("1.29", "1.32", f"{_FLOW}/v1 {kind}")
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
    },
}


def _text(kind: GroupVersionKind, since: str, removed: str, replacement: str) -> str:
    text = f"{kind.api_version} {kind.kind} is deprecated in v{since}+"
    return text + (f", unavailable in v{removed}+; use {replacement}" if removed else "")


_WARNINGS = {kind: _text(kind, *life) for kind, life in _LIFE.items()}


def warning(kind: GroupVersionKind) -> str:
    """Return the deprecation warning of a kind's API version, "" if it is not deprecated."""
    return _WARNINGS.get(kind, "")
