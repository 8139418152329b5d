"""Paths: which ones exist, and the answers where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import exchange, send
from tests.releases import RELEASES
from understudy import Server
from understudy.machinery.releases.version import V1_33, V1_37

NS = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
NOT_FOUND = "the server could not find the requested resource"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        running.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}},
        )
        yield running


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "path",
    [
        f"{NS}/pods/a/status/x",
        f"{NS}/pods/a/log/x",
        f"{NS}/finalize/x",
        f"{NS}/bindings/a",
        "/api/v1/bindings",
        "/api/v1/proxy/nodes/n",
        "/api/v1/watch/namespaces/default/pods/a/status",
        "/api/v1/watch/componentstatuses",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
        "/version/x",
        "/openid/v1/jwks/x",
    ],
)
def test_path_without_a_route_is_a_status(server: Server, method: str, path: str) -> None:
    """A path below a known group that has no route is 404 with a Status for every method."""
    status, body = exchange(server, method, path)
    assert (status, body["message"], body["details"]) == (404, NOT_FOUND, {})


@pytest.mark.parametrize("path", ["//api/v1/pods", "//", "/apis//", "/apis//v1", "/apis//v1/x", "/nothing"])
def test_path_outside_every_group_is_plain_text(server: Server, path: str) -> None:
    """A path outside every API group is 404 in plain text."""
    answer = send(server, "GET", path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_slashes_after_a_group(server: Server) -> None:
    """With one slash after it, the page of a group takes every method; with two, only GET."""
    assert [send(server, "POST", f"/apis/apps{end}").status for end in ("", "/", "//")] == [200, 200, 405]


@pytest.mark.parametrize(
    ("path", "newer", "older"),
    [
        (f"{APPS}/deployments", "deployments.apps", "deployments/scale.apps"),
        (f"{APPS}/statefulsets", "statefulsets.apps", "statefulsets.apps"),
        (f"{NS}/replicationcontrollers", "replicationcontrollers", "replicationcontrollers/scale.autoscaling"),
    ],
)
def test_missing_scales(server: Server, path: str, newer: str, older: str) -> None:
    """The scale of a missing object is not found under the name of the object, before 1.33 often of the scale."""
    code, body = exchange(server, "GET", f"{path}/a/scale")
    what = newer if server.state.release.version >= V1_33 else older
    assert (code, body["message"]) == (404, f'{what} "a" not found')


def test_missing_component_status(server: Server) -> None:
    """A part that is not known is not found, under the name of the kind; before 1.33 that is a 500."""
    code, body = exchange(server, "GET", "/api/v1/componentstatuses/x")
    newer = (404, "NotFound", 'componentstatus "x" not found', {"name": "x", "kind": "componentstatus"})
    older = (500, None, "Component not found: x", None)
    answer = (code, body.get("reason"), body["message"], body.get("details"))
    assert answer == (newer if server.state.release.version >= V1_33 else older)


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", f"{NS}/pods/..", 400, "Name parameter invalid: \"..\": may not be '..'"),
        ("DELETE", f"{NS}/pods/a%25b", 400, "Name parameter invalid: \"a%b\": may not contain '%'"),
        ("GET", "/api/v1/nodes/%2E", 400, "Name parameter invalid: \".\": may not be '.'"),
        ("GET", f"{NS}/pods/%E9", 404, 'pods "\\xe9" not found'),
        ("GET", f"{NS}/pods/b/proxy/x/y", 404, 'pods "b" not found'),
        ("OPTIONS", f"{NS}/pods/a/proxy", 400, "address not allowed"),
        ("TRACE", f"{NS}/pods/a/proxy", 405, NOT_ALLOWED),
        ("GET", f"{NS}/services/https:a:80/proxy/", 404, 'services "a" not found'),
        ("GET", f"{NS}/services/s:81/proxy/", 503, 'no service port 81 found for service "s"'),
        ("GET", "/api/v1/nodes/n:10250/proxy/", 500, "no preferred addresses found; known addresses: []"),
        (
            "GET",
            "/api/v1/componentstatuses?watch=1",
            405,
            'watch is not supported on resources of kind "componentstatuses"',
        ),
    ],
)
def test_invalid_and_missing_names(server: Server, method: str, path: str, status: int, message: str) -> None:
    """Names that cannot be, objects that do not exist, and backends without an address have errors of their own."""
    code, body = exchange(server, method, path)
    assert (code, body["message"]) == (status, message)


@pytest.mark.parametrize("name", ["https:a:b", "s", "s:80"])
def test_services_without_endpoints(server: Server, name: str) -> None:
    """Since 1.37 the proxy looks for slices of endpoints only, before for the Endpoints of the service."""
    code, body = exchange(server, "GET", f"{NS}/services/{name}/proxy")
    plain = "a" if "a" in name else "s"
    newer = (503, f'no endpoints available for service "{plain}"')
    older = (404, f'services "{plain}" not found')
    assert (code, body["message"]) == (newer if server.state.release.version >= V1_37 else older)


def test_malformed_escapes(server: Server) -> None:
    """A malformed escape spoils the request in a path, but only the parameter in a query."""
    answer = send(server, "GET", f"{NS}/pods/%ZZ")
    assert (answer.status, answer.body, answer.headers["Connection"]) == (400, b"400 Bad Request", "close")
    assert "Server" not in answer.headers
    assert send(server, "GET", f"{NS}/pods?limit=%ZZ&limit=a;b").status == 200
    assert send(server, "GET", f"{NS}/pods?limit=ab").status == 400


def test_component_statuses_are_deprecated(server: Server) -> None:
    """etcd is healthy, the scheduler and controller manager are not, and the answer warns of its deprecation."""
    response = send(server, "GET", "/api/v1/componentstatuses")
    status, headers, body = response.status, response.headers, response.json()
    assert (status, body["metadata"]) == (200, {})
    healthy = {item["metadata"]["name"]: item["conditions"][0]["status"] for item in body["items"]}
    assert healthy == {"controller-manager": "False", "scheduler": "False", "etcd-0": "True"}
    assert headers["Warning"] == '299 - "v1 ComponentStatus is deprecated in v1.19+"'
    chosen = send(server, "GET", "/api/v1/componentstatuses?fieldSelector=metadata.name%3Detcd-0").json()
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["etcd-0"]


def test_timeout_is_ignored_by_watches_and_logs(server: Server) -> None:
    """The `timeout` parameter is not read for a watch or a log."""
    assert send(server, "GET", f"{NS}/pods?timeout=5").status == 400
    assert send(server, "GET", f"{NS}/pods?timeout=5&watch=1&timeoutSeconds=-1").status == 200
    assert send(server, "GET", f"{NS}/pods/a/log?timeout=5").status == 204


def test_metrics_do_not_grow_with_unknown_names(server: Server) -> None:
    """Requests for unknown groups, resources and subresources, which no route answers, are not counted."""
    sizes = set()
    for i in range(3):
        for path in (
            f"/api/v1/zz{i}",
            f"/apis/zz{i}/v1/pods",
            f"/apis/apps/zz{i}/pods",
            f"{NS}/pods/a/zz{i}",
            f"/zz{i}",
        ):
            assert send(server, "GET", path).status == 404
        text = send(server, "GET", "/metrics").body.decode()
        assert "zz" not in text
        sizes.add(text.count("apiserver_request_total{"))
    assert len(sizes) == 1
