"""Routing: which function answers a path."""

from __future__ import annotations

import pytest

from tests.releases import NEWEST
from understudy.apiserver.endpoints.handlers import create, delete, get, patch, reviews, update
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.apiserver.endpoints.routing import Handler, Route, find
from understudy.apiserver.endpoints.subresources import binding, connect, proxy, scale
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.serving.release import Release
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query

PODS = "/api/v1/namespaces/ns/pods"
NODES = "/api/v1/nodes"
SCALE = "/apis/apps/v1/namespaces/ns/deployments/x/scale"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def route(method: str, path: str) -> Route | None:
    path, _, query = path.partition("?")
    return find(Serving(Release.of(NEWEST)), method, request_info(method, path, Query(query)))


@pytest.mark.parametrize(
    ("method", "path", "handler"),
    [
        ("GET", PODS, get.list_),
        ("GET", "/api/v1/pods", get.list_),
        ("GET", f"{PODS}?watch=1", get.watch),
        ("GET", f"{PODS}/x", get.get),
        ("POST", PODS, create.create),
        ("PUT", f"{PODS}/x", update.update),
        ("PATCH", f"{PODS}/x/status", patch.patch),
        ("DELETE", f"{PODS}/x", delete.delete),
        ("DELETE", PODS, delete.delete_collection),
        ("POST", f"{PODS}/x/binding", binding.of_pod),
        ("POST", f"{PODS}/x/exec", connect.run),
        ("OPTIONS", f"{NODES}/x/proxy/some/path", proxy.proxy),
        ("GET", SCALE, scale.get_scale),
        ("POST", REVIEWS, reviews.HANDLERS["tokenreviews"]["create"]),
    ],
)
def test_verb_chooses_the_handler(method: str, path: str, handler: Handler) -> None:
    """The verb chooses the handler; subresources and virtual resources have handlers of their own."""
    result = route(method, path)
    assert result is not None
    assert result.handler is handler


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
def test_unknown_resource_is_404_and_wrong_method_405(method: str, path: str, code: int) -> None:
    """An unknown resource is 404 for every method; a known one without the method is 405."""
    with pytest.raises(StatusError) as refused:
        route(method, path)
    assert refused.value.code == code


@pytest.mark.parametrize("path", ["/apis/example.com/v1/things", "/apis/v1/pods/x"])
def test_unknown_group_has_no_route(path: str) -> None:
    """The paths of a group that is not served are left to other pages."""
    assert route("GET", path) is None


def test_scope_of_a_route() -> None:
    """A cluster-scoped resource has no namespace, whatever the path says; a list has the name of its field selector."""
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
