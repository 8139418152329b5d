"""Warnings about deprecated API versions."""

from __future__ import annotations

import pytest

from tests.http import send
from understudy import Server
from understudy.apiserver.endpoints.responsewriters.deprecation import warning
from understudy.apiserver.serving.release import Release
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


RESOURCE = "resource.k8s.io"
SINCE_1_35 = "is deprecated in v1.35+, unavailable in v1.38+"
SINCE_1_36 = "is deprecated in v1.36+, unavailable in v1.39+"


@pytest.mark.apiserver(emulated_version="1.36")
@pytest.mark.parametrize(
    ("path", "warnings"),
    [
        ("/v1/resourceslices", []),
        ("/v1beta2/resourceslices", [f"{RESOURCE}/v1beta2 ResourceSlice {SINCE_1_36}"]),
        ("/v1beta1/resourceslices/missing", [f"{RESOURCE}/v1beta1 ResourceSlice {SINCE_1_35}"]),
        ("/v1beta2/devicetaintrules", []),
        ("/v1alpha3/devicetaintrules", [f"{RESOURCE}/v1alpha3 DeviceTaintRule {SINCE_1_36}"]),
        ("/v1alpha3/resourcepoolstatusrequests", []),
    ],
)
def test_versions_of_resource_allocation_warn(apiserver: Server, path: str, warnings: list[str]) -> None:
    """1.36 deprecates the beta versions and the older of two versions of taint rules."""
    assert send(apiserver, "GET", f"/apis/{RESOURCE}{path}").warnings == warnings


def test_replaced_kind_names_its_replacement() -> None:
    """Endpoints warn of EndpointSlice, which is of another group."""
    text = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert warning(GroupVersionKind("", "v1", "Endpoints"), Release.of(Version(1, 33))) == text


def test_version_warns_from_its_deprecation_on() -> None:
    """A version is not deprecated in releases before that of its deprecation."""
    kind = GroupVersionKind("resource.k8s.io", "v1beta1", "ResourceSlice")
    text = "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"
    assert [warning(kind, Release.of(Version(1, minor))) for minor in (32, 34, 35, 36)] == ["", "", text, text]
