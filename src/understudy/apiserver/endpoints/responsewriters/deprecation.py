"""The warnings of deprecated API versions (k8s.io/apiserver/pkg/endpoints/deprecation)."""

from __future__ import annotations

from understudy.apiserver.permissions.audit.event import RequestEvents
from understudy.apiserver.serving.release import Release
from understudy.machinery.types import GroupVersionKind


def warning(kind: GroupVersionKind, release: Release) -> str:
    """Return the warning of a kind's version that is deprecated in a release, "" for any other (`WarningMessage`)."""
    lifecycle = release.deprecated.get(kind)
    if lifecycle is None:
        return ""
    text = f"{kind.api_version} {kind.kind} is deprecated in v{lifecycle.deprecated}+"
    if lifecycle.removed:
        text += f", unavailable in v{lifecycle.removed}+"
    if lifecycle.replacement:
        text += f"; use {lifecycle.replacement.api_version} {lifecycle.replacement.kind}"
    return text


def annotate(events: RequestEvents, kind: GroupVersionKind, release: Release) -> None:
    """Note in the audit log that a request is for a deprecated version, and which release has it no longer."""
    events.annotate("k8s.io/deprecated", "true")
    lifecycle = release.deprecated.get(kind)
    if lifecycle is not None and lifecycle.removed:
        events.annotate("k8s.io/removed-release", str(lifecycle.removed))
