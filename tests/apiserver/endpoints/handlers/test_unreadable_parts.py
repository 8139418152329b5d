"""Protobuf bodies with raw parts that are no JSON: the connection is closed without an answer, as a panic ends it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.http import exchange, send
from tests.releases import NEWEST
from understudy import Server
from understudy.machinery.golang.json_writer import with_source
from understudy.machinery.serializer import protobuf
from understudy.machinery.serializer.protobuf_wire import make_envelope
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

PROTOBUF = "application/vnd.kubernetes.protobuf"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"


def revision(raw: bytes, name: str = "a") -> Obj:
    """Return a ControllerRevision with any bytes as data."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": "default"},
        "data": with_source({}, raw),
        "revision": 1,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version=str(NEWEST)) as running:
        yield running


def encoded(obj: Obj) -> bytes:
    group, _, version = obj["apiVersion"].partition("/")
    struct = Schemas.of(NEWEST).kind(group, version, obj["kind"])
    return make_envelope(obj["apiVersion"], obj["kind"], protobuf.encode_message(obj, struct))


def is_aborted(server: Server, method: str, path: str, body: bytes) -> bool:
    """Send a protobuf body; report whether the connection was closed without an answer."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    connection.request(method, path, body, {"Content-Type": PROTOBUF})
    try:
        connection.getresponse()
    except http.client.RemoteDisconnected:
        return True
    finally:
        connection.close()
    return False


@pytest.mark.parametrize("raw", [b"", b'"', b"{", b"[", b"1z", b"z", b"tru", b'{"a":1}x', b' {"a":1}', b"-", b"\xff"])
def test_unreadable_data_end_the_connection(server: Server, raw: bytes) -> None:
    """A POST, with a dry run as well, and a PUT of an object that is there are not answered, and store nothing."""
    assert is_aborted(server, "POST", REVISIONS, encoded(revision(raw)))
    assert is_aborted(server, "POST", f"{REVISIONS}?dryRun=All", encoded(revision(raw)))
    assert exchange(server, "GET", f"{REVISIONS}/a")[0] == 404
    stored = revision(b"{}", "b")
    assert exchange(server, "POST", REVISIONS, {**stored, "data": {}})[0] == 201
    assert is_aborted(server, "PUT", f"{REVISIONS}/b", encoded(revision(raw, "b")))
    assert exchange(server, "DELETE", f"{REVISIONS}/b")[0] == 200


def test_missing_object_precedes_unreadable_data(server: Server) -> None:
    """A PUT of an object that is not there is 404."""
    answer = send(server, "PUT", f"{REVISIONS}/a", encoded(revision(b"{")), PROTOBUF)
    assert answer.status == 404


@pytest.mark.parametrize("raw", [b"{}", b'{"a": 1} ', b'{"a":1,"a":2}'])
def test_readable_data_is_kept(server: Server, raw: bytes) -> None:
    """Data that are JSON are stored as they were sent."""
    answer = send(server, "POST", REVISIONS, encoded(revision(raw)), PROTOBUF, accept=PROTOBUF)
    assert (answer.status, raw in answer.body) == (201, True)
    assert exchange(server, "DELETE", f"{REVISIONS}/a")[0] == 200


def test_unreadable_parameters_of_a_claim(server: Server) -> None:
    """Opaque parameters of a driver are raw, too."""
    config = {"requests": ["r"], "opaque": {"driver": "a.example.com", "parameters": with_source({}, b"{zz")}}
    requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"devices": {"requests": requests, "config": [config]}},
    }
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    assert is_aborted(server, "POST", path, encoded(claim))
