"""The order in which a binding is judged: the answers of kube-apiserver 1.32.5."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from understudy import Server

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
PROTOBUF = "application/vnd.kubernetes.protobuf"
OTHER_NAME = "name in URL does not match name in Binding object"
NO_TARGET = "target.name: Required value"
NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\n"
    "Available representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
)
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        assert exchange(running, "POST", PODS, POD)[0] == 201
        yield running


def protobuf(name: str) -> bytes:
    """Return a Binding of that name without a target; without metadata if the name is empty."""
    metadata = b"\x0a" + bytes([len(name)]) + name.encode()
    binding = b"\x0a" + bytes([len(metadata)]) + metadata if name else b""
    return b"k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Binding\x12" + bytes([len(binding)]) + binding


REFUSED = [
    ("p", {"name": "p"}, 500, NO_TARGET),
    ("p", {"name": "q"}, 400, OTHER_NAME),
    ("p", {}, 400, OTHER_NAME),
    ("absent", {"name": "absent"}, 500, NO_TARGET),
    ("p", {"name": "q", "namespace": "other"}, 400, OTHER_NAMESPACE),
    ("", {"name": "p"}, 500, NO_TARGET),
    ("", {}, 500, NO_TARGET),
    ("", {"name": "p", "namespace": "other"}, 400, OTHER_NAMESPACE),
]


@pytest.mark.parametrize(("pod", "metadata", "status", "message"), REFUSED)
def test_target_is_judged_last(server: Server, pod: str, metadata: Any, status: int, message: str) -> None:
    """Namespace and name of a binding are compared with the path before its target is looked at."""
    path = f"{PODS}/{pod}/binding" if pod else "/api/v1/namespaces/default/bindings"
    code, answer = exchange(server, "POST", path, {"metadata": metadata})
    assert (code, answer["message"]) == (status, message)


@pytest.mark.parametrize(
    ("name", "status", "message"), [("p", 500, NO_TARGET), ("q", 400, OTHER_NAME), ("", 400, OTHER_NAME)]
)
def test_protobuf_is_judged_as_json(server: Server, name: str, status: int, message: str) -> None:
    """A binding in protobuf is refused for the same reasons, in the same order."""
    code, answer = exchange(server, "POST", f"{PODS}/p/binding", protobuf(name), PROTOBUF, accept="application/json")
    assert (code, answer["message"]) == (status, message)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/bindings",
        f"{PODS}/p/binding",
        f"{PODS}/p/eviction",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
    ],
)
def test_accepted_form_is_judged_first(server: Server, path: str) -> None:
    """A client that accepts no form of the answer is refused before the body is read."""
    answer = send(server, "POST", path, {"metadata": {"name": "q"}}, accept="text/html")
    assert (answer.status, json.loads(answer.body)["message"]) == (406, NOT_ACCEPTABLE)
