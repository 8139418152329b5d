"""Which function answers a path."""

from __future__ import annotations

import pytest

from tests.releases import NEWEST
from understudy.apiserver.endpoints.handlers import delete, get, reviews, write
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.apiserver.endpoints.routing import Handler, Route, find
from understudy.apiserver.endpoints.subresources import binding, connect, scale
from understudy.apiserver.kinds.release import Release
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query

PODS = "/api/v1/namespaces/ns/pods"
NODES = "/api/v1/nodes"
SCALE = "/apis/apps/v1/namespaces/ns/deployments/x/scale"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def route(method: str, path: str) -> Route | None:
    path, _, query = path.partition("?")
    return find(Release.of(NEWEST), method, request_info(method, path, Query(query)))


@pytest.mark.parametrize(
    ("method", "path", "handler"),
    [
        ("GET", PODS, get.list_),
        ("GET", "/api/v1/pods", get.list_),
        ("GET", f"{PODS}?watch=1", get.watch),
        ("GET", f"{PODS}/x", get.get),
        ("POST", PODS, write.create),
        ("PUT", f"{PODS}/x", write.update),
        ("PATCH", f"{PODS}/x/status", write.patch),
        ("DELETE", f"{PODS}/x", delete.delete),
        ("DELETE", PODS, delete.delete_collection),
        ("POST", f"{PODS}/x/binding", binding.of_pod),
        ("POST", f"{PODS}/x/exec", connect.run),
        ("OPTIONS", f"{NODES}/x/proxy/some/path", connect.proxy),
        ("GET", SCALE, scale.get_scale),
        ("POST", REVIEWS, reviews.HANDLERS["tokenreviews"]["create"]),
    ],
)
def test_handlers(method: str, path: str, handler: Handler) -> None:
    """The verb decides, on parts that are no objects of their own the part, on what is not stored the resource."""
    found = route(method, path)
    assert found is not None
    assert found.handler is handler


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1beta1/pods", 404),
        ("GET", "/api/v1/pods/x", 404),
        ("GET", f"{PODS}/x/nothing", 404),
        ("GET", f"{PODS}/x/log/more", 404),
        ("GET", "/api/v1/namespaces/ns/nodes/x", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", PODS, 405),
        ("POST", f"{PODS}/x", 405),
        ("HEAD", PODS, 405),
        ("DELETE", f"{PODS}/x/status", 405),
        ("DELETE", REVIEWS, 405),
    ],
)
def test_paths_without_a_route(method: str, path: str, code: int) -> None:
    """What there is not is 404 to every method; the rest is 405."""
    with pytest.raises(StatusError) as refused:
        route(method, path)
    assert refused.value.code == code


@pytest.mark.parametrize("path", ["/apis/example.com/v1/things", "/apis/v1/pods/x"])
def test_groups_that_there_are_not(path: str) -> None:
    """They are no business of resources."""
    assert route("GET", path) is None


def test_targets() -> None:
    """What is in no namespace has none, whatever the path says; of a list only what its field selector names."""
    namespace, nodes, named = (
        route("GET", "/api/v1/namespaces/ns"),
        route("GET", NODES),
        route("GET", f"{PODS}?fieldSelector=metadata.name=x"),
    )
    assert namespace is not None
    assert nodes is not None
    assert named is not None
    assert (namespace.scope.namespace, namespace.scope.name) == ("", "ns")
    assert (nodes.scope.namespace, nodes.scope.name) == ("", "")
    assert (named.scope.namespace, named.scope.name) == ("ns", "x")
