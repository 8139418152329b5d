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
