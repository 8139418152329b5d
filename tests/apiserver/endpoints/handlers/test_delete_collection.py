"""Deletions of collections, preconditions in the query, and objects of the system that cannot be deleted."""

from __future__ import annotations

import pytest

from tests.http import exchange, send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"
FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
NAMESPACES, CLASSES = "/api/v1/namespaces", "/apis/scheduling.k8s.io/v1/priorityclasses"


def test_delete_collection_offers_no_watch_forms(server: Server) -> None:
    """The 406 of a deleted collection lists the forms of objects, none of watches."""
    code, body = exchange(server, "DELETE", MAPS, accept="text/plain")
    assert (code, body["message"]) == (406, f"406: Not Acceptable\n\nAvailable representations: {FORMS}")


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


def test_delete_collection_at_version_zero_conflicts(server: Server) -> None:
    """resourceVersion=0 lists any state, and is then a precondition that no object meets."""
    code, body = exchange(server, "DELETE", f"{MAPS}?resourceVersion=0")
    assert (code, body["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    ("path", "preconditions"),
    [
        (f"{NAMESPACES}/default", {}),
        (f"{NAMESPACES}/kube-public", {}),
        (f"{CLASSES}/system-node-critical", {}),
        (f"{CLASSES}/system-node-critical", {"uid": "other"}),
    ],
)
def test_system_objects_cannot_be_deleted(server: Server, path: str, preconditions: dict[str, str]) -> None:
    """Namespaces and priority classes of the system cannot be deleted; classes whatever the preconditions."""
    status, answer = exchange(server, "DELETE", path, {"preconditions": preconditions})
    assert (status, answer["reason"], answer["details"]["name"]) == (403, "Forbidden", path.rpartition("/")[2])
    assert send(server, "GET", path).status == 200


def test_system_priority_class_goes_with_its_collection(server: Server) -> None:
    """A priority class of the system is protected from deletion by name only."""
    query = "?fieldSelector=metadata.name=system-cluster-critical"
    assert send(server, "DELETE", CLASSES + query).status == 200
    assert send(server, "GET", f"{CLASSES}/system-cluster-critical").status == 404
