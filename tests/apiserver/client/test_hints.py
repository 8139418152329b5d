"""What is said of kinds that are not served: the name, the version or the release that may be meant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import send
from tests.releases import since
from understudy import Server, StatusError
from understudy.machinery.releases.version import V1_33

SINCE_1_33 = ", ".join(map(str, since(V1_33)))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.32") as running:
        yield running


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("podz", "; did you mean 'Pod'?"),
        ("ResourceClam", "; did you mean 'ResourceClaim'?"),
        ("resourceslicess", "; did you mean 'resourceslices'?"),
        ("pods.apps", "; served is v1"),
        ("devicetaintrules", f"; it is served by {SINCE_1_33}"),
        ("clustertrustbundles", "; the feature gate ClusterTrustBundle turns it on"),
        ("pods.example.com", ""),
        ("nothing", ""),
    ],
)
def test_unknown_resource(server: Server, name: str, hint: str) -> None:
    """The text is kubectl's, with a hint."""
    with pytest.raises(StatusError) as refused:
        server.list(name)
    assert (refused.value.code, str(refused.value)) == (404, f'the server doesn\'t have a resource type "{name}"{hint}')


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        (
            "resource.k8s.io/v1",
            "DeviceClass",
            "; served is resource.k8s.io/v1beta1, resource.k8s.io/v1alpha3",
        ),
        ("v1", "ReplicaSet", "; served is apps/v1"),
        ("resource.k8s.io/v1alpha3", "DeviceTaintRule", f"; it is served by {SINCE_1_33}"),
        ("v1", "ConfigMaps", "; served is v1"),
        ("v1", "Podd", "; did you mean 'Pod'?"),
        ("example.com/v1", "Widget", ""),
    ],
)
def test_unknown_kind(server: Server, api_version: str, kind: str, hint: str) -> None:
    """An object of another release's version is told which versions this one serves."""
    with pytest.raises(StatusError) as refused:
        server.apply({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})
    assert str(refused.value) == f'no matches for kind "{kind}" in version "{api_version}"{hint}'


def test_answers_of_the_server_have_no_hints(server: Server) -> None:
    """Over HTTP the answer is that of kube-apiserver."""
    assert send(server, "GET", "/api/v1/podz").json()["message"] == "the server could not find the requested resource"
