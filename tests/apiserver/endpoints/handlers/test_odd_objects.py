"""Stored objects that validation lets through, and that later requests cannot handle; as recorded from 1.37."""

from __future__ import annotations

from typing import Any

from tests.http import exchange, send
from understudy import Server
from understudy.machinery.types import Obj

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
OMITTED = (
    "(default/o; /v1, Kind=ServiceAccount){}: .secrets: element 0: associative list with keys has an element that omits"
    ' all key fields ["name"] (and doesn\'t have default values for any key fields)'
)


def apply(apiserver: Server) -> tuple[int, Any]:
    patch: Obj = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "o"}, "secrets": [{"name": "s"}]}
    path = f"{ACCOUNTS}/o?fieldManager=m&force=true"
    answer = send(apiserver, "PATCH", path, patch, "application/apply-patch+yaml").json()
    return answer.get("code", 200), answer.get("message")


def test_apply_to_an_element_without_its_key(apiserver: Server) -> None:
    """An element that lacks the key of its list cannot be merged, whether the object has owners or not."""
    account: Obj = {"metadata": {"name": "o"}, "secrets": [{"namespace": "q"}]}
    assert exchange(apiserver, "POST", ACCOUNTS, account)[0] == 201
    first = "failed to create manager for existing fields: failed to convert new object "
    assert apply(apiserver) == (500, first + OMITTED.format(" to smd typed"))
    assert exchange(apiserver, "PUT", f"{ACCOUNTS}/o", {**account, "secrets": [{"name": "s"}]})[0] == 200
    assert apply(apiserver) == (200, None)
    assert exchange(apiserver, "PUT", f"{ACCOUNTS}/o", account)[0] == 200
    assert apply(apiserver) == (500, "failed to create typed live object " + OMITTED.format(""))


def test_change_of_data_that_are_no_utf8(apiserver: Server) -> None:
    """An error that prints raw JSON says U+FFFD for each byte that is no UTF-8, in an escape."""
    revision: Obj = {"metadata": {"name": "o"}, "revision": 1, "data": {"a": "b"}}
    assert exchange(apiserver, "POST", REVISIONS, revision)[0] == 201
    body = b'{"metadata":{"name":"o"},"revision":1,"data":{"a":"\xff\xe2\x82"}}'
    answer = send(apiserver, "PUT", f"{REVISIONS}/o", body)
    assert answer.status == 422
    assert rb"data: Invalid value: {\"a\":\"\ufffd\ufffd\ufffd\"}: field is immutable" in answer.body
