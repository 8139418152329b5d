"""Reviews: who a client is, whom it impersonates, and what it may do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from understudy import Server
from understudy.machinery.releases.version import V1_32

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
ACCOUNT = "system:serviceaccount:shop:robot"
OF_SHOP = ["system:serviceaccounts", "system:serviceaccounts:shop"]
KNOWN, UNKNOWN = "system:authenticated", "system:unauthenticated"
GET, READ = {"verb": "get"}, {"path": "/x"}


@pytest.fixture(scope="module", params=[V1_32], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        yield running


def review(server: Server, kind: str, spec: Any, metadata: Any = None, namespace: str = "") -> Any:
    """Create a review; return (status, object)."""
    group = AUTHENTICATION if kind in ("SelfSubjectReview", "TokenReview") else AUTHORIZATION
    place = f"/namespaces/{namespace}" if namespace else ""
    body = {"apiVersion": group, "kind": kind, "metadata": metadata or {}, "spec": spec}
    status, answer = exchange(server, "POST", f"/apis/{group}{place}/{kind.lower()}s", body)
    return status, answer


@pytest.mark.parametrize(
    ("user", "more", "groups"),
    [
        ("jane", {}, [KNOWN]),
        ("jane", {"Impersonate-Group": "dev"}, ["dev", KNOWN]),
        ("jane", {"Impersonate-Group": ""}, ["", KNOWN]),
        ("jane", {"Impersonate-Group": KNOWN}, [KNOWN]),
        ("jane", {"Impersonate-Group": UNKNOWN}, [UNKNOWN]),
        ("system:anonymous", {}, [UNKNOWN]),
        ("system:anonymous", {"Impersonate-Group": "dev"}, ["dev", UNKNOWN]),
        (ACCOUNT, {}, [*OF_SHOP, KNOWN]),
        (ACCOUNT, {"Impersonate-Group": "dev"}, ["dev", KNOWN]),
        (f"{ACCOUNT}:x", {}, [KNOWN]),
        ("system:serviceaccount:Shop:robot", {}, [KNOWN]),
    ],
)
def test_groups_of_an_impersonated_user(server: Server, user: str, more: dict[str, str], groups: list[str]) -> None:
    """Impersonated groups replace those of a service account; one of them says whether the user is authenticated."""
    body = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    headers = {"Impersonate-User": user, **more}
    answer = send(server, "POST", f"/apis/{AUTHENTICATION}/selfsubjectreviews", body, headers=headers).json()
    assert answer["status"]["userInfo"] == {"username": user, "groups": groups}


def test_uid_and_extras_of_an_impersonated_user(server: Server) -> None:
    """Names of extras are lower-cased and unescaped."""
    body = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    headers = {"Impersonate-User": "jane", "Impersonate-Uid": "7", "Impersonate-Extra-A%2FB": "c"}
    answer = send(server, "POST", f"/apis/{AUTHENTICATION}/selfsubjectreviews", body, headers=headers).json()
    known = {"username": "jane", "uid": "7", "groups": [KNOWN], "extra": {"a/b": ["c"]}}
    assert answer["status"]["userInfo"] == known


@pytest.mark.parametrize(
    ("header", "value", "shown"),
    [
        ("Impersonate-Group", "a<b", "{Group  a&lt;b    }"),
        ("Impersonate-Uid", "7", "{UID  7  authentication.k8s.io/v1  }"),
        ("Impersonate-Extra-Scope", "a", "{UserExtra  a  authentication.k8s.io/v1  scope}"),
    ],
)
def test_impersonation_needs_a_user(server: Server, header: str, value: str, shown: str) -> None:
    """Impersonated groups, a uid or extras without a user are an error."""
    answer = send(server, "GET", "/api/v1/nodes", headers={header: value})
    text = f'Internal Server Error: "/api/v1/nodes": requested [{shown}] without impersonating a user\n'
    assert (answer.status, answer.body.decode()) == (500, text)


def test_self_reviews_drop_what_was_sent(server: Server) -> None:
    """A SelfSubjectReview and a SelfSubjectRulesReview are answered without the metadata and spec that were sent."""
    status, answer = review(server, "SelfSubjectReview", None, {"name": "a"})
    assert (status, list(answer["metadata"])) == (201, ["creationTimestamp"])
    status, answer = review(server, "SelfSubjectRulesReview", {"namespace": "a"}, {"name": "a"})
    assert (status, answer["metadata"], answer["spec"]) == (201, {"creationTimestamp": None}, {})


def test_rules_review_needs_a_namespace(server: Server) -> None:
    """A SelfSubjectRulesReview without a namespace is refused."""
    status, answer = review(server, "SelfSubjectRulesReview", {})
    assert (status, answer["message"]) == (400, "no namespace on request")


REQUIREMENTS = [
    {"key": "a b", "operator": "In"},
    {"key": "a", "operator": "Exists", "values": ["x"]},
    {"key": "a", "operator": "Near", "values": ["x"]},
]
ASKS = "spec.resourceAttributes"


@pytest.mark.parametrize(
    ("kind", "spec", "metadata", "fields"),
    [
        ("SelfSubjectAccessReview", {"resourceAttributes": GET}, {"namespace": "forgotten"}, []),
        ("SelfSubjectAccessReview", {}, {}, [ASKS]),
        ("SubjectAccessReview", {}, {}, [ASKS, "spec.user"]),
        ("SubjectAccessReview", {"groups": ["a"], "nonResourceAttributes": READ}, {}, []),
        (
            "SubjectAccessReview",
            {"user": "a", "resourceAttributes": GET, "nonResourceAttributes": READ},
            {"labels": {"a": "b"}},
            ["spec.nonResourceAttributes", "metadata"],
        ),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"fieldSelector": {}, "labelSelector": {"requirements": REQUIREMENTS}}},
            {},
            [
                f"{ASKS}.fieldSelector.requirements",
                f"{ASKS}.labelSelector.requirements[0].values",
                f"{ASKS}.labelSelector.requirements[0].key",
                f"{ASKS}.labelSelector.requirements[1].values",
            ],
        ),
        (
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"fieldSelector": {"rawSelector": "a", "requirements": [{"operator": "In"}]}}},
            {},
            [
                f"{ASKS}.fieldSelector.rawSelector",
                f"{ASKS}.fieldSelector.requirements[0].key",
                f"{ASKS}.fieldSelector.requirements[0].values",
            ],
        ),
    ],
)
def test_access_review_names_one_question(
    server: Server, kind: str, spec: Any, metadata: Any, fields: list[str]
) -> None:
    """An access review names a resource or a path, and a user or groups, and has no metadata."""
    status, answer = review(server, kind, spec, metadata)
    assert status == (422 if fields else 201)
    if not fields:
        assert answer["status"] == {"allowed": True}
        assert "namespace" not in answer["metadata"]
    else:
        assert [cause["field"] for cause in answer["details"]["causes"]] == fields
        assert answer["message"].startswith('.authorization.k8s.io "" is invalid: ')


@pytest.mark.parametrize(
    ("attributes", "metadata", "fields"),
    [
        ({"resourceAttributes": {"namespace": "shop"}}, {}, []),
        ({"resourceAttributes": GET}, {}, ["spec.resourceAttributes.namespace"]),
        ({"nonResourceAttributes": READ}, {"name": "a"}, ["metadata", "spec.nonResourceAttributes"]),
    ],
)
def test_local_access_review_names_its_namespace(
    server: Server, attributes: Any, metadata: Any, fields: list[str]
) -> None:
    """A LocalSubjectAccessReview asks about its own namespace, which need not exist."""
    status, answer = review(server, "LocalSubjectAccessReview", {"user": "a", **attributes}, metadata, "shop")
    assert status == (422 if fields else 201)
    assert [cause["field"] for cause in answer.get("details", {}).get("causes", [])] == fields


IGNORED = "ignored due to parse error"


@pytest.mark.parametrize(
    ("selectors", "ignored"),
    [
        ({"labelSelector": {"rawSelector": "a=b"}, "fieldSelector": {"rawSelector": "a=b"}}, None),
        (
            {"labelSelector": {"rawSelector": "a b"}, "fieldSelector": {"rawSelector": "a"}},
            f"{ASKS}.fieldSelector {IGNORED}; {ASKS}.labelSelector {IGNORED}",
        ),
        (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Near"}]}},
            f"{ASKS}.labelSelector partially {IGNORED}",
        ),
        (
            {"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}},
            f"{ASKS}.fieldSelector {IGNORED}",
        ),
    ],
)
def test_unreadable_selectors_are_ignored(server: Server, selectors: Any, ignored: str | None) -> None:
    """Selectors of an access review that cannot be read are ignored and reported in evaluationError."""
    _, answer = review(server, "SelfSubjectAccessReview", {"resourceAttributes": selectors})
    assert answer["status"].get("evaluationError") == ignored


@pytest.mark.apiserver(emulated_version="1.31")
def test_selectors_are_unknown_in_1_31(apiserver: Server) -> None:
    """Access reviews of 1.31 have no selectors: the fields are dropped."""
    selectors = {"labelSelector": {}, "fieldSelector": {"rawSelector": "a"}}
    status, answer = review(apiserver, "SelfSubjectAccessReview", {"resourceAttributes": {**GET, **selectors}})
    assert (status, answer["spec"], answer["status"]) == (201, {"resourceAttributes": GET}, {"allowed": True})


def test_metadata_of_a_review(server: Server) -> None:
    """A review is answered as metadata to a client that asks for it; it is no list, and no table."""
    body = {"apiVersion": AUTHORIZATION, "kind": "SelfSubjectRulesReview", "spec": {"namespace": "shop"}}
    answers = {}
    for form in ("PartialObjectMetadata", "PartialObjectMetadataList", "Table"):
        accept = f"application/json;as={form};g=meta.k8s.io;v=v1"
        answers[form] = send(server, "POST", f"/apis/{AUTHORIZATION}/selfsubjectrulesreviews", body, accept=accept)
    assert [answer.status for answer in answers.values()] == [201, 406, 406]
    assert answers["PartialObjectMetadata"].json()["kind"] == "PartialObjectMetadata"
    text = "the requested object is not a list (*authorization.SelfSubjectRulesReview)"
    assert text in answers["PartialObjectMetadataList"].json()["message"]
