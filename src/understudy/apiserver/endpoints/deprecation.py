"""API versions that go: what their answers warn of (the generated APILifecycle methods of k8s.io/api)."""

from __future__ import annotations

from understudy.machinery.types import GroupVersionKind

_FLOW = "flowcontrol.apiserver.k8s.io"
# {kind: since when, until when, what to use instead}
_LIFE = {
    GroupVersionKind("", "v1", "ComponentStatus"): ("1.19", "", ""),
    **{
        GroupVersionKind(_FLOW, "v1beta3", kind): ("1.29", "1.32", f"{_FLOW}/v1 {kind}")
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
    },
}


def _text(kind: GroupVersionKind, since: str, until: str, instead: str) -> str:
    text = f"{kind.api_version} {kind.kind} is deprecated in v{since}+"
    return text + (f", unavailable in v{until}+; use {instead}" if until else "")


_WARNINGS = {kind: _text(kind, *life) for kind, life in _LIFE.items()}


def warning(kind: GroupVersionKind) -> str:
    """ "" for a version that stays."""
    return _WARNINGS.get(kind, "")
