"""The data about requests below /ui/data/: who is told of which, without what is secret, and what they have changed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.http import send
from tests.ui.test_report import data_of
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.serializer import protobuf
from understudy.machinery.typeinfo.go_types import Schemas

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
HIDDEN = "aGlkZGVu"
ADMIN = {"Authorization": "Bearer admin-token"}
LEFT_OUT = "(left out)"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text('admin-token,admin,1,"system:masters"\nann-token,ann,2\n')
    with Server(ui=True, token_auth_file=tokens, authorization_mode=["RBAC"], tls=False) as server:
        server.allow("ann", "get", "/ui/data/*")
        server.allow("ann", ["get", "list"], "configmaps", namespace="default")
        yield server


@pytest.fixture
def server(guarded: Server) -> Server:
    guarded.request_log.clear()
    send(guarded, "GET", "/ui/data/requests", headers=ADMIN)
    return guarded


def told(server: Server, token: str = "admin", after: int = 0) -> Any:
    answer = send(server, "GET", f"/ui/data/requests?after={after}", headers={"Authorization": f"Bearer {token}-token"})
    return answer.json()


def detail(server: Server, number: int, token: str = "admin") -> Any:
    headers = {"Authorization": f"Bearer {token}-token"}
    return send(server, "GET", f"/ui/data/request?number={number}", headers=headers)


def last(server: Server) -> Any:
    """Return the details of the last request, as an administrator sees them."""
    return detail(server, told(server)["last"]).json()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_requests_are_told_to_those_who_may_read_what_they_are_about(server: Server) -> None:
    """A reader is told of requests for objects and lists that the reader may get and list, and how many others are."""
    send(server, "POST", MAPS, config_map("told"), headers=ADMIN)
    send(server, "GET", f"{MAPS}/told", headers={"Authorization": "Bearer ann-token"})
    send(server, "GET", "/api/v1/configmaps", headers=ADMIN)
    send(server, "GET", SECRETS, headers=ADMIN)
    send(server, "POST", SECRETS, {"metadata": {"name": "s"}, "data": {"k": HIDDEN}}, headers=ADMIN)
    send(server, "GET", "/metrics", headers=ADMIN)
    send(server, "GET", "/version", headers=ADMIN)
    every, anns = told(server), told(server, "ann")
    assert [row["path"] for row in anns["rows"]] == [MAPS, f"{MAPS}/told", "/version"]
    assert (len(every["rows"]), every["withheld"], anns["withheld"]) == (7, 0, 4)
    shown = {row["number"] for row in anns["rows"]}
    for row in every["rows"]:
        assert detail(server, row["number"], "ann").status == (200 if row["number"] in shown else 404)
    assert told(server, "ann", after=every["last"])["rows"] == []
    assert send(server, "GET", "/ui/data/requests?after=x", headers=ADMIN).status == 400


def test_object_is_told_to_those_who_may_get_it(server: Server) -> None:
    """A request that is told, but has written an object that the reader may not get, is told without that object."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    send(server, "POST", "/api/v1/namespaces/default/pods", pod, headers=ADMIN)
    server.allow("ann", "get", "bindings")
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert send(server, "POST", "/api/v1/namespaces/default/bindings", binding, headers=ADMIN).status == 201
    number = told(server)["last"]
    change = detail(server, number).json()["change"]
    assert (change["before"]["spec"].get("nodeName"), change["after"]["spec"]["nodeName"]) == (None, "n")
    answer = detail(server, number, "ann")
    assert (answer.status, answer.json()["change"]) == (200, None)


def test_change_is_told(server: Server) -> None:
    """A request is told with the object before and after; one that has changed nothing, or was refused, with none."""
    send(server, "POST", MAPS, {**config_map("", a="1"), "metadata": {"generateName": "m-"}}, headers=ADMIN)
    row = told(server)["rows"][-1]
    change = last(server)["change"]
    assert (change["before"], change["after"]["data"], row["name"]) == (
        None,
        {"a": "1"},
        change["after"]["metadata"]["name"],
    )
    path = f"{MAPS}/{row['name']}"
    send(server, "PUT", path, {**config_map(row["name"], a="2")}, headers=ADMIN)
    change = last(server)["change"]
    assert (change["before"]["data"], change["after"]["data"]) == ({"a": "1"}, {"a": "2"})
    send(server, "PUT", path, {**config_map(row["name"], a="2")}, headers=ADMIN)
    assert last(server)["change"] is None
    send(server, "DELETE", f"{path}?dryRun=All", headers=ADMIN)
    assert last(server)["change"] is None
    send(server, "DELETE", path, headers=ADMIN)
    change = last(server)["change"]
    assert (change["before"]["data"], change["after"]) == ({"a": "2"}, None)
    send(server, "DELETE", path, headers=ADMIN)
    assert last(server)["change"] is None


def test_forgotten_change_is_told_so(server: Server) -> None:
    """Objects that the store has compacted away are not told, nor others in their place."""
    send(server, "POST", MAPS, config_map("forgotten"), headers=ADMIN)
    server.compact()
    assert last(server)["change"] == {"forgotten": True}


def test_secrets_are_told_to_nobody(server: Server) -> None:
    """Bodies and objects of Secrets have no values, in whatever form they were sent; nor do reviews of tokens."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sent"}, "data": {"key": HIDDEN}}
    bodies: list[tuple[str, str, Any, str]] = [
        ("POST", SECRETS, secret, "application/json"),
        ("PATCH", f"{SECRETS}/sent", {"stringData": {"key": HIDDEN}}, "application/merge-patch+json"),
        (
            "PATCH",
            f"{SECRETS}/sent",
            [{"op": "add", "path": "/data/a", "value": HIDDEN}],
            "application/json-patch+json",
        ),
        (
            "PATCH",
            f"{SECRETS}/sent?fieldManager=m&force=true",
            f"data: {{key: {HIDDEN}}}".encode(),
            "application/apply-patch+yaml",
        ),
        ("PUT", f"{SECRETS}/sent", _protobuf(secret), "application/vnd.kubernetes.protobuf"),
        ("PUT", f"{SECRETS}/sent", b"k8s\x00" + HIDDEN.encode(), "application/vnd.kubernetes.protobuf"),
    ]
    for method, path, body, media in bodies:
        send(server, method, path, body, media, headers=ADMIN)
    assert {row["status"] for row in told(server)["rows"][:3]} <= {200, 201}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": HIDDEN}}
    send(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review, headers=ADMIN)
    rows = told(server)["rows"]
    assert len(rows) == 7
    details = [detail(server, row["number"]).json() for row in rows]
    assert HIDDEN not in json.dumps(details)
    assert json.loads(details[0]["body"])["data"] == details[0]["change"]["after"]["data"] == {"key": LEFT_OUT}


def _protobuf(obj: dict[str, Any]) -> bytes:
    return protobuf.encode(obj, Schemas.of(Server().state.release.version).kind("", "v1", obj["kind"]))


def test_protobuf_is_told_as_json(server: Server) -> None:
    """The body of a client that speaks protobuf is told as an object; one that cannot be read by its size."""
    media = "application/vnd.kubernetes.protobuf"
    send(server, "POST", MAPS, _protobuf(config_map("from-go", a="1")), media, headers=ADMIN)
    found = last(server)
    assert (json.loads(found["body"])["data"], found["contentType"]) == ({"a": "1"}, "application/json")
    send(server, "POST", MAPS, b"k8s\x00\xff", media, headers=ADMIN)
    assert "5 bytes" in last(server)["body"]


def test_watches_are_told_with_what_waits_for_them(server: Server) -> None:
    """An open watch tells how many events its client has left unread, to those who may list what it watches."""
    address = urlsplit(server.url)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((address.hostname, address.port))
        head = (
            f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: {ADMIN['Authorization']}\r\n\r\n"
        )
        client.sendall(head.encode())
        path = f"{MAPS}?watch=1"
        wait_until(lambda: [row["path"] for row in watches(server)["rows"] if not row["isComponent"]] == [path])
        for number in range(15):  # more than the buffers of the system hold
            body = config_map(f"large-{number}", a="x" * 900_000)
            assert send(server, "POST", MAPS, body, headers=ADMIN).status == 201
        [row] = [row for row in watches(server)["rows"] if row["path"] == path]
        assert 0 < row["waiting"] < 15
        assert row["user"] == "admin"
        assert 0 < row["revision"] < server.state.registry.store.revision
        assert [row["path"] for row in watches(server, "ann")["rows"]] == [path]
    wait_until(lambda: not [row for row in watches(server)["rows"] if not row["isComponent"]])


def watches(server: Server, token: str = "admin") -> Any:
    return send(server, "GET", "/ui/data/watches", headers={"Authorization": f"Bearer {token}-token"}).json()


def test_requests_of_controllers_are_told_apart() -> None:
    """From the first visitor on, what the server's own controllers ask is told, but is not among `Server.requests`."""
    with Server(ui=True, controllers=["resourceclaim"]) as server:
        send(server, "GET", "/ui/data/requests")
        template = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}
        server.create(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": "t"},
                "spec": template,
            }
        )
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        }
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        server.wait_for("pods", "p", lambda pod: pod.get("status", {}).get("resourceClaimStatuses"))
        own = [row for row in told(server)["rows"] if row["isComponent"]]
        assert ("create", "resourceclaims") in [(row["verb"], row["resource"]) for row in own]
        assert server.requests.creates("resourceclaims") == []
        server.reset()
        assert "create" not in [row["verb"] for row in told(server)["rows"]]


def test_report_tells_the_last_requests(tmp_path: Any) -> None:
    """A report has the requests, the newest of them with bodies and objects as long as there is room."""
    with Server() as server:
        for number in range(4):
            server.create(config_map(f"m{number}", a="x" * 900_000))
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": HIDDEN}})
        data = data_of(server.report(tmp_path / "report.html"))
    rows, details = data["requests"]["rows"], data["requests"]["details"]
    assert [row["resource"] for row in rows] == ["configmaps"] * 4 + ["secrets"]
    assert [str(row["number"]) for row in rows][-2:] == sorted(details)
    assert HIDDEN not in json.dumps(data["requests"])
