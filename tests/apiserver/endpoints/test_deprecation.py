"""Warnings about deprecated API versions."""

from __future__ import annotations

import pytest

from tests.http import send
from understudy import Server
from understudy.apiserver.endpoints.deprecation import warning
from understudy.machinery.releases.version import Version
from understudy.machinery.types import GroupVersionKind

FLOWS = "/apis/flowcontrol.apiserver.k8s.io"
TEXT = (
    "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+, unavailable in v1.32+; "
    "use flowcontrol.apiserver.k8s.io/v1 FlowSchema"
)


@pytest.mark.apiserver(emulated_version="1.31")
@pytest.mark.parametrize(
    ("path", "warnings"),
    [
        ("/api/v1/componentstatuses", ["v1 ComponentStatus is deprecated in v1.19+"]),
        (f"{FLOWS}/v1beta3/flowschemas", [TEXT]),
        (f"{FLOWS}/v1beta3/flowschemas/missing", [TEXT]),
        (f"{FLOWS}/v1/flowschemas", []),
        ("/api/v1/pods", []),
    ],
)
def test_deprecated_versions_warn(apiserver: Server, path: str, warnings: list[str]) -> None:
    """Every answer of a deprecated version warns, errors included; other versions do not."""
    for _ in range(2):
        assert send(apiserver, "GET", path).warnings == warnings


def test_version_warns_from_its_deprecation_on() -> None:
    """A version is not deprecated in releases before that of its deprecation."""
    kind = GroupVersionKind("flowcontrol.apiserver.k8s.io", "v1beta3", "FlowSchema")
    assert [warning(kind, Version(1, minor)) for minor in (28, 29, 31)] == ["", TEXT, TEXT]
