"""Request info: the cases of upstream's own table of paths, and the ways to ask for a watch."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.apiserver.endpoints.requestinfo import RequestInfo, RequestInfoError, request_info
from understudy.machinery.options import Query

NS = "/api/v1/namespaces/other"

RESOURCES: list[tuple[str, str, tuple[str, ...]]] = [
    # method, path, (verb, prefix, group, version, namespace, resource, subresource, name)
    ("GET", "/api/v1/namespaces", ("list", "api", "", "v1", "", "namespaces", "", "")),
    ("GET", NS, ("get", "api", "", "v1", "other", "namespaces", "", "other")),
    ("GET", f"{NS}/pods", ("list", "api", "", "v1", "other", "pods", "", "")),
    ("GET", f"{NS}/pods/foo", ("get", "api", "", "v1", "other", "pods", "", "foo")),
    ("HEAD", f"{NS}/pods/foo/", ("get", "api", "", "v1", "other", "pods", "", "foo")),
    ("GET", "/api/v1/pods", ("list", "api", "", "v1", "", "pods", "", "")),
    ("PUT", f"{NS}/finalize", ("update", "api", "", "v1", "other", "namespaces", "finalize", "other")),
    ("PUT", f"{NS}/status", ("update", "api", "", "v1", "other", "namespaces", "status", "other")),
    ("GET", f"{NS}/pods/foo/log", ("get", "api", "", "v1", "other", "pods", "log", "foo")),
    ("GET", f"{NS}/pods/foo/proxy/a/b", ("get", "api", "", "v1", "other", "pods", "proxy", "foo")),
    ("POST", f"{NS}/pods", ("create", "api", "", "v1", "other", "pods", "", "")),
    ("PATCH", f"{NS}/pods/foo", ("patch", "api", "", "v1", "other", "pods", "", "foo")),
    ("DELETE", f"{NS}/pods/foo", ("delete", "api", "", "v1", "other", "pods", "", "foo")),
    ("DELETE", f"{NS}/pods", ("deletecollection", "api", "", "v1", "other", "pods", "", "")),
    ("TRACE", f"{NS}/pods", ("", "api", "", "v1", "other", "pods", "", "")),
    ("GET", "/api/v1/watch/pods", ("watch", "api", "", "v1", "", "pods", "", "")),
    ("GET", "/api/v1/watch/namespaces/other/pods", ("watch", "api", "", "v1", "other", "pods", "", "")),
    ("GET", "/api/v1/watch/namespaces/other/pods/foo", ("watch", "api", "", "v1", "other", "pods", "", "foo")),
    ("GET", "/api/v1/proxy/nodes/foo/x/y", ("proxy", "api", "", "v1", "", "nodes", "", "foo")),
    ("GET", "/apis/apps/v1/deployments", ("list", "apis", "apps", "v1", "", "deployments", "", "")),
    ("GET", "/apis/b.io/v1/nodes/foo", ("get", "apis", "b.io", "v1", "", "nodes", "", "foo")),
]


@pytest.mark.parametrize(("method", "path", "expected"), RESOURCES)
def test_paths_of_resources(method: str, path: str, expected: tuple[str, ...]) -> None:
    """Prefix, group, version, namespace, resource, subresource, name and verb are read from the path."""
    info = request_info(method, path, Query(""))
    assert info.is_resource
    assert (
        info.verb,
        info.prefix,
        info.group,
        info.version,
        info.namespace,
        info.resource,
        info.subresource,
        info.name,
    ) == expected


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1/", "/healthz", "/a/b"])
def test_other_paths_have_the_method_as_verb(path: str) -> None:
    """A path that names no resource has its method as the verb, and nothing else."""
    assert request_info("POST", path, Query("watch=")) == RequestInfo(path, "post")


@pytest.mark.parametrize(
    ("query", "verb", "name"),
    [
        ("", "list", ""),
        ("watch=true", "watch", ""),
        ("watch", "watch", ""),
        ("watch=notabool", "watch", ""),
        ("watch=False", "list", ""),
        ("watch=0", "list", ""),
        ("limit=5", "list", ""),
        ("fieldSelector=metadata.name%3Dfoo", "list", "foo"),
        ("fieldSelector=spec.x%3Dy%2Cmetadata.name%3D%3Dfoo&watch=1", "watch", "foo"),
        ("fieldSelector=metadata.name!%3Dfoo", "list", ""),
        ("fieldSelector=metadata.name%3Da%2Fb", "list", ""),
    ],
)
def test_watch_parameter(query: str, verb: str, name: str) -> None:
    """A collection is watched unless `watch` is absent, false or 0; a field selector on the name gives the name."""
    info = request_info("GET", "/api/v1/namespaces/other/pods", Query(query))
    assert (info.verb, info.name) == (verb, name)


def test_watch_of_one_object_is_a_get() -> None:
    """`?watch=true` on an object is a get; only the deprecated /watch/ path watches one."""
    assert request_info("GET", f"{NS}/pods/foo", Query("watch=true")).verb == "get"
    assert request_info("GET", "/api/v1/watch/namespaces/other/pods/foo", Query("")).watch_path


def test_parts_keep_what_follows_the_subresource() -> None:
    """The path behind a subresource is kept for those who proxy it."""
    info: Any = request_info("GET", f"{NS}/pods/foo/proxy/a/b", Query(""))
    assert info.parts == ("pods", "foo", "proxy", "a", "b")


def test_watch_path_without_a_resource_is_an_error() -> None:
    """/api/v1/watch without a resource cannot be parsed."""
    with pytest.raises(RequestInfoError, match="unable to determine kind and namespace from url, /api/v1/watch"):
        request_info("GET", "/api/v1/watch", Query(""))
