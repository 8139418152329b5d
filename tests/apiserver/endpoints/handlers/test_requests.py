"""Requests that random comparisons with real servers brought up: options, forms and errors of lists, watches and
deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from tests.releases import since
from understudy import Server
from understudy.machinery.releases.version import V1_32

CLAIMS = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
MAPS = "/api/v1/namespaces/default/configmaps"
FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module", params=since(V1_32), ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        running.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}})
        yield running


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
    """Of several errors in a request, the real server's first one is reported."""
    code, body = exchange(server, method, target)
    assert (code, body["message"]) == (status, message)


def test_unacceptable_form_precedes_a_missing_object(server: Server) -> None:
    """A GET of a missing object in a form that is not served is 406, not 404."""
    code, body = exchange(server, "GET", f"{MAPS}/nobody", accept="text/plain")
    assert (code, body["message"]) == (406, f"406: Not Acceptable\n\nAvailable representations: {FORMS}")


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
def test_list_forms_are_checked_before_and_after_options(server: Server, query: str, accept: str, status: int) -> None:
    """Media types are checked before the options are read, the transformation (`as=`) after them."""
    assert send(server, "GET", f"{MAPS}?{query}", accept=accept).status == status


def test_list_forms_precede_options_in_1_31() -> None:
    """1.31 checks the transformation (`as=`) before it reads the options."""
    with Server(emulated_version="1.31") as server:
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


def test_delete_collection_offers_no_watch_forms(server: Server) -> None:
    """The 406 of a deleted collection lists the forms of objects, none of watches."""
    code, body = exchange(server, "DELETE", MAPS, accept="text/plain")
    assert (code, body["message"]) == (406, f"406: Not Acceptable\n\nAvailable representations: {FORMS}")


def test_refused_watch_is_answered_in_yaml(server: Server) -> None:
    """A watch with a wrong version is refused in YAML if that is accepted, though no watch is served in YAML."""
    answer = send(server, "GET", f"{MAPS}?watch=true&resourceVersion=x", accept="application/yaml")
    assert (answer.status, answer.headers["Content-Type"]) == (500, "application/yaml")
    assert b"code: 500" in answer.body


def test_taken_name_beside_generate_name(server: Server) -> None:
    """A name that exists is reported as a failed generation if the object has a generateName too."""
    sent = {"metadata": {"name": "there", "generateName": "gen-"}}
    response = send(server, "POST", MAPS, sent)
    code, headers, body = response.status, response.headers, response.json()
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
def test_delete_takes_preconditions_from_the_query(server: Server, query: str, why: str) -> None:
    """Without a body, `uid` and `resourceVersion` of the query are preconditions of a deletion."""
    code, body = exchange(server, "DELETE", f"{MAPS}/there?{query}")
    assert code == 409
    assert why in body["message"]


def watched(server: Server, query: str, form: str) -> tuple[int, list[Any]]:
    """Return the status and the events of a watch that ends by itself."""
    answer = send(server, "GET", f"{MAPS}?watch=true{query}", accept=form)
    lines = answer.body.splitlines() if answer.status == 200 else []
    return answer.status, [json.loads(line) for line in lines]


TABLE, METADATA_LIST = (
    f"application/json;as={name};g=meta.k8s.io;v=v1" for name in ("Table", "PartialObjectMetadataList")
)
ENDED = "&timeoutSeconds=-1"  # after what is there


def test_table_watch_with_initial_events_is_refused(server: Server) -> None:
    """A watch from the start with bookmarks cannot be a table: the next accepted form is taken, or 406."""
    assert watched(server, ENDED, TABLE)[1][0]["object"]["kind"] == "Table"
    assert watched(server, "&allowWatchBookmarks=true", TABLE)[0] == 406
    events = watched(server, f"{ENDED}&allowWatchBookmarks=true", f"{TABLE},application/json")[1]
    assert [(event["type"], event["object"]["kind"]) for event in events][:2] == [
        ("ADDED", "ConfigMap"),
        ("BOOKMARK", "ConfigMap"),
    ]


def test_watch_of_metadata_lists_is_empty(server: Server) -> None:
    """An event cannot be a PartialObjectMetadataList, so such a watch ends before its first event."""
    assert watched(server, "", METADATA_LIST) == (200, [])


@pytest.mark.parametrize(("metadata", "name"), [({}, "Unknown"), ({"generateName": "g-"}, "g-")])
def test_refusal_without_a_name(server: Server, metadata: Any, name: str) -> None:
    """Admission refuses an object without a name under its generateName, or as "Unknown"."""
    send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "going", "finalizers": ["e.io/x"]}})
    send(server, "DELETE", "/api/v1/namespaces/going")
    code, body = exchange(server, "POST", "/api/v1/namespaces/going/configmaps", {"metadata": metadata})
    why = "unable to create new content in namespace going because it is being terminated"
    assert (code, body["message"]) == (403, f'configmaps "{name}" is forbidden: {why}')


def test_delete_collection_at_version_zero_conflicts(server: Server) -> None:
    """resourceVersion=0 lists any state, and is then a precondition that no object meets."""
    code, body = exchange(server, "DELETE", f"{MAPS}?resourceVersion=0")
    assert (code, body["reason"]) == (409, "Conflict")
