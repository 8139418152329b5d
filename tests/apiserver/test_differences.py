"""What random comparisons with real servers have found: each row is a request and the real server's answer."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from understudy import Server

CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
MAPS = "/api/v1/namespaces/default/configmaps"
FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.32") as running:
        running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}})
        yield running


def ask(server: Server, method: str, target: str, body: Any = None, accept: str = "application/json") -> Any:
    """(status, headers, the answer's object)."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, target, sent, {"Accept": accept, "Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())
    finally:
        connection.close()


REFUSED = [
    pytest.param(
        "GET",
        f"{MAPS}?continue=missing",
        400,
        "invalid continue token: continue key is not valid: invalid character '\\u009a' looking for beginning of value",
        id="a byte that is no text is shown as a character",
    ),
    pytest.param(
        "GET",
        f"{MAPS}?continue=missing&resourceVersion=5",
        400,
        "invalid continue token: continue key is not valid: invalid character '\\u009a' looking for beginning of value",
        id="a token is read before the version beside it is refused",
    ),
    pytest.param(
        "GET",
        f"{CLAIMS}?fieldSelector=name~a&sendInitialEvents=true",
        400,
        "invalid selector: 'name~a'; can't understand 'name~a'",
        id="selectors are read before options are validated",
    ),
    pytest.param(
        "GET",
        f"{MAPS}?labelSelector=a!&resourceVersionMatch=Exact",
        400,
        "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
        id="label selectors too",
    ),
    pytest.param(
        "GET",
        f"{MAPS}?fieldSelector=metadata.name~x,metadata.namespace~",
        400,
        "invalid selector: 'metadata.name~x,metadata.namespace~'; can't understand 'metadata.namespace~'",
        id="terms of field selectors are read in their order as texts",
    ),
    pytest.param(
        "DELETE",
        f"{MAPS}?limit=x&dryRun=Some",
        400,
        'strconv.ParseInt: parsing "x": invalid syntax',
        id="a collection's list options come before its delete options",
    ),
    pytest.param(
        "DELETE",
        f"{MAPS}?resourceVersion=x",
        400,
        'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
        id="deletion of a collection reads it in pages",
    ),
    pytest.param(
        "GET",
        f"{MAPS}?watch=true&resourceVersion=x",
        500,
        'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
        id="a watch's version",
    ),
]


@pytest.mark.parametrize(("method", "target", "status", "message"), REFUSED)
def test_refusals(server: Server, method: str, target: str, status: int, message: str) -> None:
    """Of several things that are wrong with a request, the one that is told is the one the real server tells."""
    code, _, body = ask(server, method, target)
    assert (code, body["message"]) == (status, message)


def test_a_form_that_is_not_served_comes_before_a_missing_object(server: Server) -> None:
    """GET of an object that is not there in a form that is not served: 406, not 404."""
    code, _, body = ask(server, "GET", f"{MAPS}/nobody", accept="text/plain")
    assert (code, body["message"]) == (406, f"406: Not Acceptable\n\nAvailable representations: {FORMS}")


def test_deletion_of_a_collection_offers_no_streams(server: Server) -> None:
    """The forms of a deleted collection are those of an object: none for watches."""
    code, _, body = ask(server, "DELETE", MAPS, accept="text/plain")
    assert (code, body["message"]) == (406, f"406: Not Acceptable\n\nAvailable representations: {FORMS}")


def test_a_watch_that_is_refused_speaks_the_lists_forms(server: Server) -> None:
    """YAML is no form of a watch, but its refusal comes after that of the version, and in YAML."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    connection.request("GET", f"{MAPS}?watch=true&resourceVersion=x", headers={"Accept": "application/yaml"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    assert (answer.status, answer.headers["Content-Type"]) == (500, "application/yaml")
    assert "code: 500" in body


def test_generate_name_beside_a_name_that_is_taken(server: Server) -> None:
    """A name that is taken is told as one that the server has generated, if there is a generateName too."""
    sent = {"metadata": {"name": "there", "generateName": "gen-"}}
    code, headers, body = ask(server, "POST", MAPS, sent)
    assert (code, headers["Retry-After"], body["details"]["retryAfterSeconds"]) == (409, "1", 1)
    why = "the server was not able to generate a unique name for the object"
    assert body["message"] == f'configmaps "there" already exists, {why}'


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            "resourceVersion=1",
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
        ),
        ("uid=other", "the UID in the precondition (other) does not match the UID in record"),
    ],
)
def test_preconditions_in_the_query_of_a_deletion(server: Server, query: str, why: str) -> None:
    """Without a body, `uid` and `resourceVersion` of the query are preconditions."""
    code, _, body = ask(server, "DELETE", f"{MAPS}/there?{query}")
    assert code == 409
    assert why in body["message"]


def test_deletion_of_a_collection_at_version_zero(server: Server) -> None:
    """resourceVersion=0 lists whatever there is, and then is a precondition that no object meets."""
    code, _, body = ask(server, "DELETE", f"{MAPS}?resourceVersion=0")
    assert (code, body["reason"]) == (409, "Conflict")
