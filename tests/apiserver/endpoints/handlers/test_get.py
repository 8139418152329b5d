"""Reads of objects and lists: options, forms and errors that random comparisons with real servers brought up."""

from __future__ import annotations

import pytest

from tests.http import exchange, send
from understudy import Server

CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
MAPS = "/api/v1/namespaces/default/configmaps"
FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

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
        "GET",
        f"{MAPS}?fieldSelector=metadata.name%3Da%5C",
        400,
        "invalid field selector: invalid escape sequence: \\",
        id="a backslash at the end belongs to the last term",
    ),
    pytest.param(
        "GET",
        f"{MAPS}?limit=%00",
        400,
        'strconv.ParseInt: parsing "\\x00": invalid syntax',
        id="numbers are quoted as Go does",
    ),
    pytest.param(
        "GET",
        "/apis/apps/v1/replicasets?fieldSelector=status.replicas%3D0",
        400,
        '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        id="replica sets cannot be selected by what replication controllers can",
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
    pytest.param(
        "GET",
        "/api/v1/watch/namespaces/default/configmaps/there?fieldSelector=metadata.namespace=default",
        400,
        "fieldSelector metadata.name doesn't match requested name",
        id="a field selector beside the name in the path of a watch",
    ),
]


@pytest.mark.parametrize(("method", "target", "status", "message"), REFUSED)
def test_first_error_of_a_request_is_reported(
    server: Server, method: str, target: str, status: int, message: str
) -> None:
    """A request with several errors is answered with the one that the real server reports."""
    code, body = exchange(server, method, target)
    assert (code, body["message"]) == (status, message)


def test_unacceptable_form_precedes_a_missing_object(server: Server) -> None:
    """A GET of a missing object in a form that is not served is 406, not 404."""
    code, body = exchange(server, "GET", f"{MAPS}/nobody", accept="text/plain")
    assert (code, body["message"]) == (406, f"406: Not Acceptable\n\nAvailable representations: {FORMS}")


PODS, DEPLOYMENTS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments"


@pytest.mark.parametrize(
    "path",
    [
        f"{MAPS}/nobody?export=true",
        f"{MAPS}/nobody?export",
        f"{MAPS}/nobody?export=1&resourceVersion=x",
        f"{PODS}/nobody/status?export=true",
        f"{DEPLOYMENTS}/nobody/scale?export=true",
        "/api/v1/componentstatuses/nobody?export=true",
        "/api/v1/namespaces/default?export=true",
    ],
)
def test_objects_are_not_exported(server: Server, path: str) -> None:
    """A GET of one object with the parameter `export` is refused, whatever else is wrong with it."""
    code, body = exchange(server, "GET", path)
    assert (code, body["message"]) == (400, "the export parameter, deprecated since v1.14, is no longer supported")


@pytest.mark.parametrize("query", ["export=false", "export=0", "export=False&export=true", "exact=true"])
def test_parameters_that_ask_for_no_export(server: Server, query: str) -> None:
    """`export=false` is no parameter that counts; of several values the first one counts. Lists are never exported."""
    assert exchange(server, "GET", f"/api/v1/namespaces/default?{query}")[0] == 200
    assert exchange(server, "GET", f"{MAPS}?{query}&export=true")[0] == 200


@pytest.mark.parametrize(
    ("query", "accept", "status"),
    [
        ("limit=x", "application/json;as=Table", 400),
        ("limit=1", "application/json;as=Table", 406),
        ("limit=x", "text/plain", 406),
        ("fieldSelector=x%3Dy", "application/json;as=Table", 406),
        ("resourceVersionMatch=x", "application/json;as=Scale;v=v1;g=autoscaling", 422),
    ],
)
def test_list_forms_are_checked_before_and_after_options(query: str, accept: str, status: int) -> None:
    """Media types are checked before the options are read, the transformation (`as=`) from 1.32 to 1.35 after them."""
    with Server(emulated_version="1.35") as server:
        assert send(server, "GET", f"{MAPS}?{query}", accept=accept).status == status


@pytest.mark.parametrize("release", ["1.31", "1.36"])
def test_list_forms_precede_options(release: str) -> None:
    """1.31 and releases since 1.36 check the transformation (`as=`) before they read the options."""
    with Server(emulated_version=release) as server:
        assert send(server, "GET", f"{MAPS}?limit=x", accept="application/json;as=Table").status == 406
        assert send(server, "GET", f"{MAPS}?limit=x").status == 400


@pytest.mark.parametrize(
    ("accept", "indented"), [("application/json", False), ("application/json;sv=v1", True), ("text/plain", True)]
)
def test_errors_are_not_served_with_a_server_version(server: Server, accept: str, indented: bool) -> None:
    """A list takes `sv=v1`; an error does not, and is indented as for clients that accept nothing."""
    answer = send(server, "GET", f"{MAPS}?limit=x", accept=accept)
    assert answer.body.startswith(b"{\n  ") == indented
    assert send(server, "GET", MAPS, accept="application/json;sv=v1").status == 200


def test_indented_json_escapes_html(server: Server) -> None:
    """Indented JSON escapes the characters of HTML, as compact JSON does."""
    body = send(server, "GET", f"{MAPS}?labelSelector=A_-/x&pretty=1").body
    assert b'"message": "unable to parse requirement: \\u003cnil\\u003e: ' in body


def test_empty_terms_of_field_selectors_are_ignored(server: Server) -> None:
    """A term of a field selector with neither a label nor a value is ignored."""
    assert len(send(server, "GET", f"{MAPS}?fieldSelector=%3D,metadata.name%3Dthere,!%3D").json()["items"]) == 1
    assert send(server, "GET", f"{MAPS}?fieldSelector=%3Dx").status == 400
