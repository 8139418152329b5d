"""The scale subresource: in which form it is answered."""

from __future__ import annotations

import pytest

from tests.http import exchange, send
from understudy import Server

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SPEC = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
}


@pytest.mark.parametrize(("method", "body"), [("PUT", {}), ("PATCH", {"spec": {"replicas": 2}})])
def test_unacceptable_form_is_refused_first(apiserver: Server, method: str, body: object) -> None:
    """A write that no form of the answer suits is 406, even if the object does not exist."""
    assert send(apiserver, method, f"{DEPLOYMENTS}/none/scale", body, accept="text/plain").status == 406


@pytest.mark.parametrize(("release", "kind"), [("1.32", "deployments/scale"), ("1.33", "deployments")])
def test_missing_workload_has_no_scale(release: str, kind: str) -> None:
    """The 404 of a missing scale is about the scale until 1.32, then about the workload."""
    with Server(emulated_version=release) as server:
        assert exchange(server, "GET", f"{DEPLOYMENTS}/none/scale")[1]["details"]["kind"] == kind


def test_a_scale_is_no_list(apiserver: Server) -> None:
    """A client that asks for the metadata of a list gets 406, after the write."""
    send(apiserver, "POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": SPEC})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    path, body = f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}
    status, answer = exchange(apiserver, "PATCH", path, body, accept=accept)
    message = "you requested PartialObjectMetadataList, but the requested object is not a list (*autoscaling.Scale)"
    assert (status, answer["message"]) == (406, message)
    assert exchange(apiserver, "GET", path)[1]["spec"] == {"replicas": 5}


@pytest.mark.parametrize("version", ["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"])
def test_version_that_is_not_served_any_more(apiserver: Server, version: str) -> None:
    """Types of old versions are known still: a body in one of them is refused for its version."""
    send(apiserver, "POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": SPEC})
    scale = {"apiVersion": version, "kind": "Scale", "metadata": {"name": "d"}}
    text = f"the API version in the data ({version}) does not match the expected API version"
    status, answer = exchange(apiserver, "PUT", f"{DEPLOYMENTS}/d/scale", scale)
    assert (status, answer["message"]) == (400, f"{text} (autoscaling/v1)")
    other = {"apiVersion": version, "kind": "Deployment", "metadata": {"name": "e"}, "spec": SPEC}
    status, answer = exchange(apiserver, "POST", DEPLOYMENTS, other)
    assert (status, answer["message"]) == (400, f"{text} (apps/v1)")
    assert send(apiserver, "PATCH", f"{DEPLOYMENTS}/d", {"apiVersion": version}).status == 200


@pytest.mark.parametrize(("release", "is_known"), [("1.35", True), ("1.36", False)])
def test_types_that_are_gone(release: str, is_known: bool) -> None:
    """A body in a version whose types are gone is of no registered kind."""
    path, version = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "autoscaling/v2beta2"
    body = {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}}
    with Server(emulated_version=release) as server:
        status, answer = exchange(server, "POST", path, body)
    assert (status, "does not match the expected API version" in answer["message"]) == (400, is_known)
